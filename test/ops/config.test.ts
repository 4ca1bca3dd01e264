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
