import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { coveredBy } from '../../src/core/item.ts'
import { LIMITS } from '../../src/core/limits.ts'
import { ceilingWithin, diffTerms, keptAtAdoption, type Terms } from '../../src/core/terms.ts'
import type { Item } from '../../src/core/vocabulary.ts'

/** `a:read`, `dash:view on dash/q3`, `rows:mine if emea`: an item as a table can hold it. */
function item(text: string): Item {
  const [, permission = '', resource, region] =
    /^(\S+)(?: on (\S+))?(?: if (\S+))?$/.exec(text) ?? []
  return {
    permission,
    ...(resource === undefined ? {} : { resource }),
    ...(region === undefined ? {} : { narrow: { region } }),
  }
}
const items = (text: string): readonly Item[] =>
  text.trim() === '-' ? [] : text.split(',').map((one) => item(one.trim()))

const terms = (more: Partial<Terms> = {}): Terms => ({
  ceiling: [],
  modes: ['ask'],
  limits: LIMITS,
  children: [],
  sensitive: [],
  context: '',
  ...more,
})

// before | after -> what it is called, and whether anybody is asked again
const CEILINGS = `
a:read                       | a:read                     -> -
a:read, b:read               | b:read, a:read             -> -
-                            | a:read                     -> added a:read              widens
a:read                       | -                          -> removed a:read
a:read                       | b:read                     -> removed a:read, added b:read widens
dash:view on dash/q3         | dash:view on dash/*        -> widened dash:view         widens
dash:view on dash/*          | dash:view on dash/q3       -> narrowed dash:view
dash:view on dash/q3         | dash:view on dash/q4       -> replaced dash:view        widens
dash:view on dash/q3         | dash:view on dash/q3, dash:view on dash/q4 -> widened dash:view widens
dash:view on dash/*          | dash:view on dash/*, dash:view on dash/q3  -> -
dash:view on dash/*          | dash:view on dash/*/x      -> replaced dash:view        widens
rows:mine if emea            | rows:mine                  -> widened rows:mine         widens
rows:mine                    | rows:mine if emea          -> narrowed rows:mine
rows:mine if emea            | rows:mine if amer          -> replaced rows:mine        widens
`
const rows = (table: string) =>
  table
    .trim()
    .split('\n')
    .map((line) => {
      const [, from = '', to = '', said = ''] = /^(.*?)\|(.*?)->(.*)$/.exec(line) ?? []
      return [line.replace(/\s+/g, ' '), from.trim(), to.trim(), said.trim()] as const
    })

describe('what changed of a ceiling', () => {
  test.each(rows(CEILINGS))('%s', (_, from, to, said) => {
    const diff = diffTerms(terms({ ceiling: items(from) }), terms({ ceiling: items(to) }))
    const called = diff.items.map((one) => `${one.change} ${one.permission}`).join(', ') || '-'
    expect(`${called}${diff.widens ? ' widens' : ''}`).toBe(said.replace(/\s+/g, ' '))
  })

  test('one row a permission holds what was and what is (U20)', () => {
    const [row, ...more] = diffTerms(
      terms({ ceiling: items('dash:view on dash/q3, a:read') }),
      terms({ ceiling: items('dash:view on dash/*, a:read') }),
    ).items
    expect(more).toEqual([])
    expect(row).toEqual({
      change: 'widened',
      permission: 'dash:view',
      from: items('dash:view on dash/q3'),
      to: items('dash:view on dash/*'),
    })
  })
})

describe('what else changed', () => {
  const child = (template: string, version?: number) =>
    version === undefined ? { template } : { template, version }
  const longer = { ...LIMITS, sessionLifeSeconds: LIMITS.sessionLifeSeconds + 1 }
  const waits = { ...LIMITS, requestWaitSeconds: 60 }
  const cases: readonly (readonly [string, Partial<Terms>, Partial<Terms>, boolean])[] = [
    ['nothing', {}, {}, false],
    ['a looser mode', {}, { modes: ['ask', 'auto'] }, true],
    ['a mode less', { modes: ['ask', 'bypass'] }, {}, false],
    ['a limit raised', {}, { limits: longer }, true],
    ['a limit lowered', { limits: longer }, {}, false],
    ['a wait that ends', {}, { limits: waits }, false],
    ['a wait that ends no more', { limits: waits }, {}, true],
    ['another child', {}, { children: [child('drafter', 1)] }, true],
    ['a child less', { children: [child('drafter', 1)] }, {}, false],
    [
      'a child of another version',
      { children: [child('d', 1)] },
      { children: [child('d', 2)] },
      true,
    ],
    [
      'a child now of one version',
      { children: [child('d')] },
      { children: [child('d', 2)] },
      false,
    ],
    ['a child of any version now', { children: [child('d', 2)] }, { children: [child('d')] }, true],
    ['other instructions', { context: 'a' }, { context: 'b' }, false],
    [
      'a sensitive mark removed',
      { ceiling: items('a:read'), sensitive: items('a:read') },
      { ceiling: items('a:read') },
      true,
    ],
    [
      'a sensitive mark narrowed',
      { ceiling: items('dash:view on dash/*'), sensitive: items('dash:view on dash/*') },
      { ceiling: items('dash:view on dash/*'), sensitive: items('dash:view on dash/q3') },
      true,
    ],
    [
      'a sensitive mark that went with its item',
      { ceiling: items('a:read, b:read'), sensitive: items('a:read') },
      { ceiling: items('b:read') },
      false,
    ],
    [
      'a sensitive mark more',
      { ceiling: items('a:read') },
      { ceiling: items('a:read'), sensitive: items('a:read') },
      false,
    ],
    [
      'a mark whose narrow changed: marks hold whatever the narrow',
      { ceiling: items('rows:mine'), sensitive: items('rows:mine if emea') },
      { ceiling: items('rows:mine'), sensitive: items('rows:mine if amer') },
      false,
    ],
  ]
  test.each(cases)('%s', (_, from, to, widens) => {
    expect(diffTerms(terms(from), terms(to)).widens).toBe(widens)
  })

  test('is said member by member', () => {
    const diff = diffTerms(
      terms({ modes: ['ask', 'bypass'], children: [child('a', 1), child('b', 1)], context: 'x' }),
      terms({ modes: ['ask', 'auto'], children: [child('b', 2), child('c')], limits: waits }),
    )
    expect(diff).toMatchObject({
      items: [],
      modes: { added: ['auto'], removed: ['bypass'] },
      limits: [{ limit: 'requestWaitSeconds', change: 'lowered', from: null, to: 60 }],
      children: [
        { change: 'removed', template: 'a', from: 1, to: null },
        { change: 'pinned', template: 'b', from: 1, to: 2 },
        { change: 'added', template: 'c', from: null, to: null },
      ],
      context: { from: 'x', to: '' },
    })
  })
})

// ceiling | kept -> both
const WITHIN = `
a:read, b:read               | b:read                     -> b:read
a:read                       | -                          -> -
-                            | a:read                     -> -
dash:view on dash/*          | dash:view on dash/q3       -> dash:view on dash/q3
dash:view on dash/q3         | dash:view on dash/*        -> dash:view on dash/q3
dash:view on dash/q3         | dash:view on dash/q4       -> -
rows:mine                    | rows:mine if emea          -> rows:mine if emea
rows:mine if amer            | rows:mine if emea          -> -
x:do on d/* if emea          | x:do on d/one              -> x:do on d/one if emea
dash:view on dash/*, dash:view on dash/q3 | dash:view on dash/* -> dash:view on dash/*
`

const UNIVERSE = items(
  'a:read, b:read, d:v on d/*, d:v on d/1, d:v on d/2, d:v on d/*/x, d:v on d/1/x, r:m, r:m if emea, r:m if amer',
)
const lists = fc.subarray([...UNIVERSE])

describe('a ceiling within what the tenant kept', () => {
  test.each(rows(WITHIN))('%s', (_, ceiling, kept, both) => {
    expect(ceilingWithin(items(ceiling), items(kept))).toEqual(items(both))
  })

  test('covers an item exactly when both do (I15)', () => {
    fc.assert(
      fc.property(lists, lists, fc.constantFrom(...UNIVERSE), (ceiling, kept, one) => {
        const both = coveredBy(ceiling, one) && coveredBy(kept, one)
        expect(coveredBy(ceilingWithin(ceiling, kept), one)).toBe(both)
      }),
    )
  })
})

describe('a diff and what can be asked for', () => {
  test('widens exactly when something is covered that was not', () => {
    fc.assert(
      fc.property(lists, lists, (from, to) => {
        const more = UNIVERSE.some((one) => coveredBy(to, one) && !coveredBy(from, one))
        expect(diffTerms(terms({ ceiling: from }), terms({ ceiling: to })).widens).toBe(more)
      }),
    )
  })
})

// before | kept | after -> kept now
const ADOPTIONS = `
a:read                   | a:read                 | a:read, b:read        -> a:read, b:read
a:read, b:read           | a:read                 | a:read, b:read        -> a:read
a:read, b:read           | a:read                 | a:read, b:read, c:do  -> a:read, c:do
a:read                   | a:read                 | b:read                -> b:read
d:v on d/1               | d:v on d/1             | d:v on d/*            -> d:v on d/*
d:v on d/*               | d:v on d/1             | d:v on d/*            -> d:v on d/1
d:v on d/*               | d:v on d/1             | d:v on d/1, d:v on d/2 -> d:v on d/1
d:v on d/1               | -                      | d:v on d/*            -> -
`

describe('what is kept of a version that is adopted', () => {
  const quads = ADOPTIONS.trim()
    .split('\n')
    .map((line) => {
      const [lists = '', now = ''] = line.split('->')
      const [before = '', kept = '', after = ''] = lists.split('|')
      return [
        line.replace(/\s+/g, ' '),
        before.trim(),
        kept.trim(),
        after.trim(),
        now.trim(),
      ] as const
    })
  test.each(quads)('%s', (_, before, kept, after, now) => {
    expect(
      keptAtAdoption({ before: items(before), kept: items(kept), after: items(after) }),
    ).toEqual(items(now))
  })

  test('brings nothing back that was removed (I15)', () => {
    fc.assert(
      fc.property(lists, lists, lists, fc.constantFrom(...UNIVERSE), (before, all, after, one) => {
        const kept = before.filter((item) => coveredBy(all, item))
        const now = keptAtAdoption({ before, kept, after })
        const removed = coveredBy(before, one) && !coveredBy(kept, one)
        if (removed) expect(coveredBy(now, one)).toBe(false)
        if (coveredBy(now, one)) expect(coveredBy(after, one)).toBe(true)
      }),
    )
  })
})
