import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalJson } from '../../src/core/canonical-json.ts'
import { coveredBy, itemKey } from '../../src/core/item.ts'
import { LIMITS, lowered } from '../../src/core/limits.ts'
import { ceilingWithin, diffTerms, keptAtAdoption, type Terms } from '../../src/core/terms.ts'
import { type Item, type Limits, MODES, type Mode } from '../../src/core/vocabulary.ts'

/**
 * Versions of a template against an independent model: a small world in which everything that could ever be asked for is
 * listed, one by one. What is possible under some terms is a plain set; widening is a member that was not there.
 */
const PERMISSIONS = ['a:read', 'b:write']
/** `new` is written in no pattern: it stands for all the rest. */
const PLACES = ['d/x', 'd/y', 'd/new', 'd/s/x', 'd/s/new']
const PATTERNS = [undefined, 'd/x', 'd/y', 'd/*', 'd/s/x', 'd/s/*']
const NARROWS = [undefined, { region: 'emea' }, { region: 'amer' }]
const VERSIONS = [1, 2, 3]
const LEAST = [1, 2, 3]

type Asked = { permission: string; place: string | undefined; narrow: object | undefined }
const ASKED: readonly Asked[] = PERMISSIONS.flatMap((permission) =>
  [undefined, ...PLACES].flatMap((place) =>
    [...NARROWS, { region: 'new' }].map((narrow) => ({ permission, place, narrow })),
  ),
)

/** Said anew, without `patternCovers`. */
function matches(pattern: string | undefined, place: string | undefined): boolean {
  if (pattern === undefined || place === undefined) return pattern === place
  const [p, q] = [pattern.split('/'), place.split('/')]
  return p.length === q.length && p.every((segment, i) => segment === '*' || segment === q[i])
}
const allowedBy = (item: Item, asked: Asked): boolean =>
  item.permission === asked.permission &&
  matches(item.resource, asked.place) &&
  (item.narrow === undefined ||
    (asked.narrow !== undefined && canonicalJson(item.narrow) === canonicalJson(asked.narrow)))
const allows = (list: readonly Item[], asked: Asked) => list.some((one) => allowedBy(one, asked))
const marked = (list: readonly Item[], asked: Asked) =>
  list.some((m) => m.permission === asked.permission && matches(m.resource, asked.place))

/** All that is possible under some terms, as words. A child that names no version may be any. */
function possible(terms: Terms): ReadonlySet<string> {
  const words = new Set<string>()
  for (const asked of ASKED) {
    if (!allows(terms.ceiling, asked)) continue
    words.add(`ask ${JSON.stringify(asked)}`)
    if (!marked(terms.sensitive, asked)) words.add(`unmarked ${JSON.stringify(asked)}`)
  }
  for (const mode of terms.modes) words.add(`mode ${mode}`)
  for (const child of terms.children)
    for (const version of child.version === undefined ? [...VERSIONS, 0] : [child.version])
      words.add(`child ${child.template}@${version}`)
  for (const n of LEAST) {
    if (terms.limits.openRequests >= n) words.add(`open ${n}`)
    if ((terms.limits.requestWaitSeconds ?? 99) >= n) words.add(`wait ${n}`)
  }
  if (terms.limits.requestWaitSeconds === undefined) words.add('wait for ever')
  return words
}
const newlyPossible = (from: Terms, to: Terms): boolean => {
  const before = possible(from)
  return [...possible(to)].some((word) => !before.has(word))
}

const itemOf = fc
  .record({
    permission: fc.constantFrom(...PERMISSIONS),
    resource: fc.constantFrom(...PATTERNS),
    narrow: fc.constantFrom(...NARROWS),
  })
  .map(
    ({ permission, resource, narrow }): Item => ({
      permission,
      ...(resource === undefined ? {} : { resource }),
      ...(narrow === undefined ? {} : { narrow }),
    }),
  )
const ceilingOf = fc.array(itemOf, { maxLength: 5 })
const limitsOf = fc
  .record({ open: fc.integer({ min: 1, max: 3 }), wait: fc.constantFrom(undefined, 1, 2, 3) })
  .map(
    ({ open, wait }): Limits => ({
      ...LIMITS,
      openRequests: open,
      ...(wait === undefined ? {} : { requestWaitSeconds: wait }),
    }),
  )
const childrenOf = fc
  .uniqueArray(
    fc.record({
      template: fc.constantFrom('p', 'q'),
      version: fc.constantFrom(undefined, ...VERSIONS),
    }),
    { selector: (child) => child.template },
  )
  .map((list) =>
    list.map(({ template, version }) =>
      version === undefined ? { template } : { template, version },
    ),
  )
const modesOf = fc.subarray([...MODES]).map((list): Mode[] => [...new Set<Mode>(['ask', ...list])])
const termsOf: fc.Arbitrary<Terms> = fc.record({
  ceiling: ceilingOf,
  modes: modesOf,
  limits: limitsOf,
  children: childrenOf,
  sensitive: ceilingOf,
  context: fc.constantFrom('', 'Be brief.'),
})
const shuffled = <T>(list: readonly T[]) =>
  fc.shuffledSubarray([...list], { minLength: list.length, maxLength: list.length })
/** Two versions of which the second is mostly the first: independent ones differ in everything. */
const pair = fc
  .tuple(
    termsOf,
    termsOf,
    fc.subarray(['ceiling', 'modes', 'limits', 'children', 'sensitive'] as const),
  )
  .map(
    ([from, other, keys]) =>
      [from, { ...from, ...Object.fromEntries(keys.map((key) => [key, other[key]])) }] as const,
  )
const RUNS = { numRuns: 3000 }

describe('widens', () => {
  test('is false exactly when nothing is possible that was not', () => {
    fc.assert(
      fc.property(pair, ([from, to]) => {
        expect(diffTerms(from, to).widens).toBe(newlyPossible(from, to))
      }),
      RUNS,
    )
  })

  test('does not depend on the order of anything', () => {
    const both = pair.chain(([from, to]) =>
      fc.tuple(
        fc.constant([from, to] as const),
        shuffled(from.ceiling),
        shuffled(to.ceiling),
        shuffled(to.children),
        shuffled(to.sensitive),
      ),
    )
    fc.assert(
      fc.property(both, ([[from, to], before, ceiling, children, sensitive]) => {
        const other = diffTerms(
          { ...from, ceiling: before },
          { ...to, ceiling, children, sensitive },
        )
        expect(other.widens).toBe(diffTerms(from, to).widens)
      }),
      RUNS,
    )
  })

  test('never says that a thing is wider than itself', () => {
    fc.assert(fc.property(termsOf, (one) => !diffTerms(one, one).widens))
  })
})

const set = (list: readonly Item[]) =>
  new Set(ASKED.filter((asked) => allows(list, asked)).map((asked) => JSON.stringify(asked)))

describe('a narrowing', () => {
  test('allows exactly what the version and the tenant both do, and never more', () => {
    fc.assert(
      fc.property(ceilingOf, ceilingOf, (ceiling, kept) => {
        const [version, own] = [set(ceiling), set(kept)]
        expect(set(ceilingWithin(ceiling, kept))).toEqual(
          new Set([...version].filter((asked) => own.has(asked))),
        )
      }),
      RUNS,
    )
  })

  test('of a narrowing is both, in whatever order', () => {
    fc.assert(
      fc.property(ceilingOf, ceilingOf, ceilingOf, (ceiling, one, two) => {
        const there = ceilingWithin(ceilingWithin(ceiling, one), two)
        const back = ceilingWithin(ceilingWithin(ceiling, two), one)
        expect(set(there)).toEqual(set(back))
        expect(new Set(there.map(itemKey))).toEqual(new Set(back.map(itemKey)))
      }),
      RUNS,
    )
  })

  test('never widens the version, and neither do lowered limits', () => {
    fc.assert(
      fc.property(termsOf, ceilingOf, limitsOf, (terms, kept, limits) => {
        const own = {
          ...terms,
          ceiling: ceilingWithin(terms.ceiling, kept),
          limits: lowered(terms.limits, limits),
        }
        expect(diffTerms(terms, own).widens).toBe(false)
        expect(newlyPossible(terms, own)).toBe(false)
      }),
      RUNS,
    )
  })

  test('survives an adoption: what was removed does not come back, and a narrower version brings nothing', () => {
    fc.assert(
      fc.property(ceilingOf, ceilingOf, ceilingOf, (before, wish, after) => {
        const kept = ceilingWithin(before, wish)
        const next = keptAtAdoption({ before, kept, after })
        for (const asked of ASKED) {
          if (!allows(next, asked)) continue
          expect(allows(after, asked)).toBe(true)
          const removed = allows(before, asked) && !allows(kept, asked)
          expect(removed, JSON.stringify({ asked, next })).toBe(false)
        }
        if (after.every((item) => coveredBy(before, item)))
          for (const asked of ASKED) if (allows(next, asked)) expect(allows(kept, asked)).toBe(true)
      }),
      RUNS,
    )
  })
})
