import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../src/core/canonical-json.ts'
import { filterProblem } from '../../src/core/filter.ts'
import { LIMITS, lowered } from '../../src/core/limits.ts'
import { SESSION_END_REASONS, SESSION_TRANSITIONS } from '../../src/core/session.ts'

const narrow = { userVariables: false, fields: ['region', 'days'] }

describe('filters', () => {
  const good: object[] = [
    { region: 'emea' },
    { days: { $lte: 90 } },
    { days: { $gt: 0, $lt: 90 } },
    { region: { $in: ['emea', 'amer'] } },
    { $and: [{ region: 'emea' }, { $or: [{ days: 1 }, { days: { $not: { $gt: 3 } } }] }] },
    { $not: { region: 'emea' } },
  ]
  for (const filter of good)
    it(`takes ${JSON.stringify(filter)}`, () => {
      expect(filterProblem(filter, narrow)).toBeNull()
    })

  const bad: [string, unknown, string][] = [
    ['an empty clause', {}, ''],
    ['an empty field clause', { region: {} }, 'region'],
    ['an unknown operator', { days: { $regex: '.*' } }, 'days.$regex'],
    ['an unknown top operator', { $where: 'true' }, '$where'],
    ['an empty $and', { $and: [] }, '$and'],
    ['an empty clause inside $or', { $or: [{ region: 'x' }, {}] }, '$or.1'],
    ['an empty $in', { region: { $in: [] } }, 'region.$in'],
    ['a field that the user cannot see', { phone: '1' }, 'phone'],
    ['$user in a narrow', { region: { $user: 'region' } }, 'region'],
    ['$user inside an operator', { region: { $eq: { $user: 'region' } } }, 'region.$eq'],
    ['a null operand', { region: null }, 'region'],
    ['a list as a value', { region: ['emea'] }, 'region'],
    ['a number that is none', { days: Number.NaN }, 'days'],
    ['a list as a filter', [{ region: 'emea' }], ''],
    ['five levels', { $not: { $not: { $not: { $not: { days: 1 } } } } }, '$not.$not.$not.$not'],
  ]
  for (const [name, filter, path] of bad)
    it(`refuses ${name} and says where`, () => {
      expect(filterProblem(filter, narrow)?.path).toBe(path)
    })

  it('takes $user where the catalog writes it', () => {
    const catalog = { userVariables: true }
    expect(filterProblem({ region: { $user: 'region' } }, catalog)).toBeNull()
    expect(filterProblem({ region: { $in: { $user: 'regions' } } }, catalog)).toBeNull()
  })

  it('never throws, whatever it is given', () => {
    fc.assert(fc.property(fc.anything(), (value) => void filterProblem(value, narrow)))
  })
})

describe('canonical JSON', () => {
  it('USER-ASKS 44: agrees with the canonicalize library (RFC 8785) and survives a database round trip', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(canonicalJson(value)).toBe(canonicalize(value))
        expect(canonicalJson(JSON.parse(JSON.stringify(value)))).toBe(canonicalJson(value))
      }),
    )
  })
})

describe('limits', () => {
  const field = fc.constantFrom(...(Object.keys(LIMITS) as (keyof typeof LIMITS)[]))
  it('I15: lowering never raises, whatever is asked', () => {
    fc.assert(
      fc.property(field, fc.integer({ min: 0, max: 1e6 }), (name, value) => {
        const after = lowered(LIMITS, { [name]: value })
        expect(after[name]).toBe(Math.min(value, LIMITS[name] ?? value))
      }),
    )
  })
})

describe('the life of a session', () => {
  it('ends only once, and every end reason leads to an end', () => {
    expect(SESSION_TRANSITIONS.active).toEqual(['ended', 'revoked', 'expired'])
    for (const over of ['ended', 'revoked', 'expired'] as const)
      expect(SESSION_TRANSITIONS[over]).toEqual([])
    for (const status of Object.values(SESSION_END_REASONS))
      expect(SESSION_TRANSITIONS.active).toContain(status)
  })
})
