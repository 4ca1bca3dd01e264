import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decide, type Facts } from '../../src/core/decide.ts'
import { explainLayers, LAYERS } from '../../src/core/layers.ts'
import { ENDS, REASONS } from '../../src/core/reason.ts'
import { MODES, RISKS, type RuleId } from '../../src/core/vocabulary.ts'

/** Every layer's own answer, by the one decision. */
const rule = (id: string) => id as RuleId
const factsOf: fc.Arbitrary<Facts> = fc
  .record({
    permission: fc.option(fc.record({ delegable: fc.boolean(), risk: fc.constantFrom(...RISKS) }), {
      nil: null,
    }),
    inCeiling: fc.boolean(),
    userHasItNow: fc.boolean(),
    deny: fc.boolean(),
    ask: fc.boolean(),
    allow: fc.constantFrom('none', 'active', 'suspended'),
    alreadyHeld: fc.boolean(),
    deniedThisSession: fc.boolean(),
    sensitive: fc.boolean(),
    mode: fc.constantFrom(...MODES),
  })
  .map(({ deny, ask, allow, ...rest }) => ({
    ...rest,
    rules: {
      ...(deny ? { deny: rule('rul_deny') } : {}),
      ...(ask ? { ask: rule('rul_ask') } : {}),
      ...(allow === 'none'
        ? {}
        : { allow: { id: rule('rul_allow'), suspended: allow === 'suspended' } }),
    },
  }))

test('people are told of each reason as people who look on, and the agent as the agent', () => {
  const told = Object.values({ ...REASONS, ...ENDS }).map((row) => row.tells)
  expect(new Set(told).size).toBe(told.length)
  for (const sentence of told) {
    expect(sentence).toMatch(/^[A-Z].*\.$/)
    expect(sentence).not.toMatch(/iam\.|\byour?\b|\buser\b|Go on|Look it up|may be asked again/i)
  }
})

/** Said anew: whether a fact speaks for its layer, whatever the others say. */
const speaks = (f: Facts): Record<string, boolean> => ({
  catalog: f.permission === null,
  ceiling: !f.inCeiling,
  never_delegable: f.permission !== null && !f.permission.delegable,
  user_access: !f.userHasItNow,
  deny_rule: f.rules.deny !== undefined,
  held: f.alreadyHeld,
  denied: f.deniedThisSession,
  sensitive: f.sensitive,
  ask_rule: f.rules.ask !== undefined,
  reconsent: f.rules.allow?.suspended === true,
  allow_rule: f.rules.allow?.suspended === false,
  mode: true,
})

describe('the layers of a decision', () => {
  test('have every reason in exactly one of them, strongest first', () => {
    expect(LAYERS.flatMap((one) => [...one.reasons]).sort()).toEqual(Object.keys(REASONS).sort())
    const order = Object.keys(REASONS)
    const ranks = LAYERS.map((one) => order.indexOf(one.reasons[0]))
    expect(ranks).toEqual([...ranks].sort((a, b) => a - b))
  })

  test('give the decision itself, and name the layer that made it', () => {
    fc.assert(
      fc.property(factsOf, (facts) => {
        const { verdict, layers } = explainLayers(facts)
        expect(verdict).toEqual(decide(facts))
        const deciding = layers.filter((one) => one.decides)
        expect(deciding.map((one) => one.verdict)).toEqual([verdict])
        expect(layers.find((one) => one.verdict !== null)).toBe(deciding[0])
      }),
      { numRuns: 5000 },
    )
  })

  test('each say what their own fact says, whatever stronger layers said', () => {
    fc.assert(
      fc.property(factsOf, (facts) => {
        const said = Object.fromEntries(
          explainLayers(facts).layers.map((one) => [one.layer, one.verdict !== null]),
        )
        expect(said).toEqual(speaks(facts))
      }),
      { numRuns: 5000 },
    )
  })
})
