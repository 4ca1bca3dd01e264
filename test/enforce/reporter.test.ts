import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Call, createEnforcer, type Enforcer } from '../../src/enforce/index.ts'
import { CREDENTIALS, type Issuer, startIssuer } from './support/issuer.ts'

/** Every call leaves a record, in batches, in bounded memory; what is lost is counted (I12). */
let lend: Issuer
let enforcer: Enforcer
beforeEach(async () => {
  lend = await startIssuer()
  enforcer = createEnforcer({
    issuer: lend.issuer,
    audience: lend.audience,
    introspect: CREDENTIALS,
  })
})
afterEach(async () => {
  await enforcer.close()
  await lend.close()
})

const CALL: Call = {
  session: 'ses_1',
  permission: 'accounts:read',
  grant: 'grt_1',
  outcome: 'allowed',
  target: 'GET /accounts',
  at: Date.parse('2026-11-30T12:00:00Z'),
}
const report = (times: number) => {
  for (let i = 0; i < times; i++) enforcer.report(CALL)
}
const sizes = () => lend.reports.map(({ body }) => body.calls.length)

test('a call is sent in the background, in the words of the endpoint', async () => {
  enforcer.report(CALL)
  enforcer.report({ session: 'ses_1', permission: 'x:y', outcome: 'denied', reason: 'not_granted' })
  await enforcer.flush()
  expect(lend.reports[0]?.body.calls).toEqual([
    {
      at: '2026-11-30T12:00:00.000Z',
      session_id: 'ses_1',
      permission: 'accounts:read',
      grant_id: 'grt_1',
      outcome: 'allowed',
      target: 'GET /accounts',
    },
    {
      at: expect.any(String),
      session_id: 'ses_1',
      permission: 'x:y',
      outcome: 'denied',
      reason: 'not_granted',
    },
  ])
})

test('without anybody asking, it is sent within two seconds', async () => {
  enforcer.report(CALL)
  await expect.poll(sizes, { timeout: 2000 }).toEqual([1])
})

test('at most a hundred go in one batch', async () => {
  report(250)
  await enforcer.flush()
  await enforcer.flush()
  expect(sizes()).toEqual([100, 100, 50])
})

test('a batch that may not have arrived goes again under the same key, and nothing is lost', async () => {
  lend.calls = 503
  report(3)
  await enforcer.flush()
  await enforcer.flush()
  lend.calls = 200
  enforcer.report(CALL)
  await enforcer.flush()
  const [first, second, third, fourth] = lend.reports
  expect(second).toEqual(first)
  expect(third).toEqual(first)
  expect(fourth?.key).not.toBe(first?.key)
  expect(sizes()).toEqual([3, 3, 3, 1])
  expect(enforcer.lost()).toBe(0)
})

test('an outage costs no more than the queue: the oldest go, and are counted in the next batch', async () => {
  lend.calls = 'cut'
  report(100)
  await enforcer.flush()
  report(5020)
  expect(enforcer.lost()).toBe(20)
  lend.calls = 200
  await enforcer.flush()
  await enforcer.flush()
  expect(sizes().reduce((sum, n) => sum + n, 0)).toBe(5100)
  expect(lend.reports.reduce((sum, { body }) => sum + (body.lost ?? 0), 0)).toBe(20)
  expect(enforcer.lost()).toBe(0)
})

test('what is refused for good is not sent for ever, and is counted', async () => {
  lend.calls = 403
  report(5)
  await enforcer.flush()
  expect(sizes()[0]).toBe(5)
  expect(enforcer.lost()).toBe(5)
  lend.calls = 200
  await enforcer.flush()
  expect(lend.reports.at(-1)?.body).toEqual({ calls: [], lost: 5 })
  expect(enforcer.lost()).toBe(0)
})

test('closing sends what there is', async () => {
  report(2)
  await enforcer.close()
  expect(sizes()).toEqual([2])
})

test('without credentials a report is a mistake that shows at once', () => {
  const bare = createEnforcer({ issuer: lend.issuer, audience: lend.audience })
  expect(() => bare.report(CALL)).toThrow('credentials')
})
