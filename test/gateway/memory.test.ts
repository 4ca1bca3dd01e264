import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { SessionId, TenantId } from '../../src/core/vocabulary.ts'
import { bitsOf, meet } from '../../src/gateway/bits.ts'
import { createFrequent } from '../../src/gateway/frequent.ts'
import { createRevocations, NARROWED_KEPT_SECONDS } from '../../src/gateway/revocations.ts'

test('bit sets meet exactly when the sets of numbers do', () => {
  const numbers = fc.array(fc.nat({ max: 300 }), { maxLength: 20 })
  fc.assert(
    fc.property(numbers, numbers, (a, b) => {
      expect(meet(bitsOf(a), bitsOf(b))).toBe(a.some((one) => b.includes(one)))
    }),
    { numRuns: 5000 },
  )
})

test('a bounded map stays bounded, and what is asked for often survives a flood', () => {
  const kept = createFrequent<number>(200)
  const ask = (key: string) => kept.get(key) ?? kept.set(key, 1)
  for (let round = 0; round < 20; round++) for (let i = 0; i < 50; i++) ask(`hot ${i}`)
  for (let i = 0; i < 20_000; i++) {
    ask(`once ${i}`)
    if (i % 10 === 0) ask(`hot ${(i / 10) % 50}`)
  }
  expect(kept.size()).toBeLessThanOrEqual(200)
  const hot = Array.from({ length: 50 }, (_, i) => kept.get(`hot ${i}`)).filter((v) => v === 1)
  expect(hot.length).toBeGreaterThan(45)
})

test('a bounded map forgets what it is told to', () => {
  const kept = createFrequent<number>(100)
  kept.set('a', 1)
  kept.set('b', 2)
  kept.set('b', 3)
  kept.delete('a')
  expect([kept.get('a'), kept.get('b')]).toEqual([undefined, 3])
  kept.clear()
  expect([kept.get('b'), kept.size()]).toEqual([undefined, 0])
})

const token = (version: number, issuedAt = 1000) => ({
  tenantId: 'ten_a' as TenantId,
  sid: 'ses_1',
  ...{ version, issuedAt },
  userId: 'usr_1',
  agentId: 'agt_1',
  templates: ['drafter', 'briefs'],
})
const narrowed = (version: number, active = true) => ({
  sid: 'ses_1' as SessionId,
  version,
  active,
})

test('a narrowing kills lower versions, an end kills all, in whichever order they come', () => {
  const one = createRevocations()
  one.narrowed(narrowed(3), 0)
  one.narrowed(narrowed(2), 0)
  expect([2, 3, 4].map((v) => one.whyDead(token(v)))).toEqual(['stale', null, null])
  one.narrowed(narrowed(4, false), 0)
  one.narrowed(narrowed(3), 0)
  expect(one.whyDead(token(9))).toBe('over')
})

test('a token from before a restore is dead, whatever is known of its session', () => {
  const one = createRevocations()
  one.restored(1000.4)
  expect([999, 1000, 1001].map((at) => one.whyDead(token(1, at)))).toEqual(['over', 'over', null])
})

test('what no living token can carry is forgotten', () => {
  const one = createRevocations()
  one.narrowed(narrowed(2), 100)
  one.narrowed({ ...narrowed(2), sid: 'ses_2' as SessionId }, 200)
  one.forget(100 + NARROWED_KEPT_SECONDS)
  expect(one.size()).toBe(1)
  one.forget(200 + NARROWED_KEPT_SECONDS)
  expect(one.size()).toBe(0)
})

test.each([
  ['tenant', 'ten_a', 'frozen'],
  ['user', 'usr_1', 'frozen'],
  ['agent', 'agt_1', 'frozen'],
  ['template', 'drafter', 'frozen'],
  ['template', 'briefs', 'frozen'],
  ['template', 'other', null],
  ['user', 'usr_2', null],
] as const)('a frozen %s %s: %s', (scope, target, dead) => {
  const one = createRevocations()
  one.frozen([{ tenantId: 'ten_a' as TenantId, scope, target }])
  expect(one.whyDead(token(1))).toBe(dead)
  one.frozen([{ tenantId: 'ten_b' as TenantId, scope, target }])
  expect(one.whyDead(token(1))).toBeNull()
})
