import { describe, expect, test } from 'vitest'
import { configFrom } from '../../src/config.ts'

describe('LEND_METRICS_PORT and LEND_METRICS_HOST', () => {
  const metricsOf = (env: NodeJS.ProcessEnv) => configFrom(env, '/srv').metrics

  test('off unless set', () => {
    expect(metricsOf({})).toBeNull()
    expect(metricsOf({ LEND_METRICS_PORT: '' })).toBeNull()
  })
  test('this machine only, unless an address is named', () => {
    expect(metricsOf({ LEND_METRICS_PORT: '9464' })).toEqual({ host: '127.0.0.1', port: 9464 })
    const named = { LEND_METRICS_PORT: '9464', LEND_METRICS_HOST: '10.0.0.7' }
    expect(metricsOf(named)).toEqual({ host: '10.0.0.7', port: 9464 })
  })
  test.each(['0', '65536', '9.5', 'x', '4000'])('%s is no port for it', (port) => {
    expect(() => metricsOf({ LEND_METRICS_PORT: port })).toThrow('LEND_METRICS_PORT')
  })
  test('a name is no address', () => {
    const env = { LEND_METRICS_PORT: '9464', LEND_METRICS_HOST: 'example' }
    expect(() => metricsOf(env)).toThrow('LEND_METRICS_HOST')
  })
})

describe('LEND_ACTIVITY_MONTHS', () => {
  const monthsOf = (text: string) =>
    configFrom({ LEND_ACTIVITY_MONTHS: text }, '/srv').activityMonths

  test('the record is kept for ever unless it says how long', () => {
    expect(configFrom({}, '/srv').activityMonths).toBeNull()
    expect(monthsOf('')).toBeNull()
    expect(monthsOf('13')).toBe(13)
  })
  test.each(['0', '-1', '1.5', 'a year', '99999'])('%s is no number of months', (text) => {
    expect(() => monthsOf(text)).toThrow('LEND_ACTIVITY_MONTHS')
  })
})

describe('LEND_RATE_LIMITS and LEND_TRUSTED_PROXIES', () => {
  const of = (env: NodeJS.ProcessEnv) => configFrom(env, '/srv')

  test('what is named changes, and nothing else', () => {
    const all = of({}).rates
    const some = of({ LEND_RATE_LIMITS: 'session:30, person:5' }).rates
    expect(some).toEqual({ ...all, session: 30, person: 5 })
  })
  test.each(['session', 'session:0', 'session:-1', 'session:1.5', 'nobody:5', 'session:5,'])(
    '%s is refused by name',
    (text) => expect(() => of({ LEND_RATE_LIMITS: text })).toThrow('LEND_RATE_LIMITS'),
  )
  test('addresses and networks', () => {
    const text = '10.0.0.7, 10.1.0.0/16,fd00::/8'
    const read = of({ LEND_TRUSTED_PROXIES: text }).trustedProxies
    expect(read).toEqual(['10.0.0.7', '10.1.0.0/16', 'fd00::/8'])
  })
  test.each(['proxy.example', '10.0.0.0/33', '10.0.0.0/', '10.0.0.7/8/8', '::1/129'])(
    '%s is refused by name',
    (text) => expect(() => of({ LEND_TRUSTED_PROXIES: text })).toThrow('LEND_TRUSTED_PROXIES'),
  )
})

describe('what operators name', () => {
  const of = (env: NodeJS.ProcessEnv) => configFrom(env, '/srv')
  const secret = `whsec_${Buffer.alloc(32).toString('base64')}`

  test('nothing by default but the deployment’s name', () => {
    const { alerts, otlpEndpoint, deployment } = of({})
    expect([alerts, otlpEndpoint, deployment]).toEqual([null, null, 'localhost'])
  })
  test('a webhook, with and without a secret', () => {
    const webhook = 'http://10.0.0.7/hook'
    expect(of({ LEND_ALERT_WEBHOOK: webhook }).alerts).toEqual({ webhook, secret: null })
    const signed = of({ LEND_ALERT_WEBHOOK: webhook, LEND_ALERT_SECRET: secret }).alerts
    expect(signed).toEqual({ webhook, secret })
  })
  test.each([
    ['LEND_ALERT_WEBHOOK', { LEND_ALERT_WEBHOOK: 'ftp://x' }],
    ['LEND_ALERT_WEBHOOK', { LEND_ALERT_WEBHOOK: 'https://me:pw@alerts.example' }],
    ['LEND_ALERT_SECRET', { LEND_ALERT_WEBHOOK: 'https://alerts.example', LEND_ALERT_SECRET: 'x' }],
    ['LEND_ALERT_SECRET', { LEND_ALERT_SECRET: secret }],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }],
    ['LEND_DEPLOYMENT', { LEND_DEPLOYMENT: 'production eu' }],
  ])('%s that is wrong is refused by name, and not shown', (name, env) => {
    expect(() => of(env)).toThrow(name)
    expect(() => of(env)).not.toThrow(/me:pw/)
  })
})
