import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { covers, itemKey, overlaps } from '../../src/core/item.ts'
import { canonicalResource, patternCovers, patternsOverlap } from '../../src/core/resource.ts'

describe('canonical resources', () => {
  const good: [string, string][] = [
    ['dashboard/q3-pipeline', 'dashboard/q3-pipeline'],
    ['dashboard/*', 'dashboard/*'],
    ['domain/Customer.Example', 'domain/customer.example'],
    ['domain/customer.example.', 'domain/customer.example'],
    ['domain/münchen.example', 'domain/xn--mnchen-3ya.example'],
    ['domain/MÜNCHEN.example', 'domain/xn--mnchen-3ya.example'],
    ['domain/*', 'domain/*'],
    ['dashboard/cafe\u0301', 'dashboard/café'],
    ['a/b/c/*', 'a/b/c/*'],
  ]
  for (const [text, canonical] of good)
    it(`${JSON.stringify(text)} is ${canonical}`, () => {
      expect(canonicalResource(text)).toEqual({ ok: true, value: canonical })
    })

  const bad: [string, string][] = [
    ['empty', ''],
    ['no name', 'dashboard'],
    ['an empty segment', 'dashboard//x'],
    ['a trailing slash', 'dashboard/'],
    ['star inside a segment', 'dashboard/q*'],
    ['star in the middle', 'dashboard/*/x'],
    ['star first', '*/x'],
    ['double star', 'dashboard/**'],
    ['dot-dot', 'dashboard/../x'],
    ['dot', 'dashboard/./x'],
    ['NUL', 'dashboard/q3\u0000'],
    ['newline', 'dashboard/q3\n'],
    ['space', 'dashboard/q 3'],
    ['right-to-left override', 'dashboard/\u202eq3'],
    ['zero width space', 'dashboard/q\u200b3'],
    ['byte order mark', 'dashboard/\ufeffq3'],
    ['lone surrogate', 'dashboard/\ud800'],
    ['backslash', 'dashboard\\q3/x'],
    ['percent', 'dashboard/%2e%2e'],
    ['too long', `dashboard/${'x'.repeat(300)}`],
    ['a domain with a port', 'domain/customer.example:25'],
    ['a domain with credentials', 'domain/a@customer.example'],
    ['a domain with a path', 'domain/customer.example/x'],
    ['half a domain pattern', 'domain/*.example'],
    ['a domain with a query', 'domain/customer.example?x'],
    ['a domain of nothing', 'domain/.'],
    ['a domain that starts with a hyphen', 'domain/-x.example'],
    ['an IPv6 literal', 'domain/[::1]'],
  ]
  for (const [name, text] of bad)
    it(`refuses ${name}`, () => {
      expect(canonicalResource(text).ok).toBe(false)
    })

  it('is idempotent', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), fc.boolean(), (name, domain) => {
        const once = canonicalResource(`${domain ? 'domain' : 'dashboard'}/${name}`)
        if (once.ok) expect(canonicalResource(once.value)).toEqual(once)
      }),
    )
  })
})

/** Names of up to three letters a, b below one or two levels: small enough that every match can be listed. */
const NAMES = ['t/a', 't/b', 't/ab', 't/a/b', 't/a/a', 'u/a']
const PATTERNS = [...NAMES, 't/*', 't/a/*', 'u/*']

/** What a pattern matches, said without the code under test. */
const matches = (pattern: string, name: string): boolean => {
  const regex = pattern
    .split('/')
    .map((s) => (s === '*' ? '[^/]+' : s))
    .join('/')
  return new RegExp(`^${regex}$`).test(name)
}

describe('cover and overlap', () => {
  const universe = [...NAMES, 't/zz', 't/a/zz', 'u/zz', 't/*', 't/a/*', 'u/*']

  it('A covers B exactly when everything B matches is matched by A', () => {
    for (const a of PATTERNS)
      for (const b of PATTERNS) {
        const all = universe.filter((n) => matches(b, n)).every((n) => matches(a, n))
        expect([a, b, patternCovers(a, b)]).toEqual([a, b, all])
      }
  })

  it('A overlaps B exactly when something is matched by both', () => {
    for (const a of PATTERNS)
      for (const b of PATTERNS) {
        const any = universe.some((n) => matches(a, n) && matches(b, n))
        expect([a, b, patternsOverlap(a, b)]).toEqual([a, b, any])
      }
  })

  it('an absent resource covers only an absent one: absent is not "any"', () => {
    expect(patternCovers(undefined, 't/a')).toBe(false)
    expect(patternCovers('t/*', undefined)).toBe(false)
    expect(patternCovers(undefined, undefined)).toBe(true)
  })

  it('a prefix is not a segment: dashboard/* does not match dashboards/q3 or dashboard/', () => {
    expect(patternCovers('dashboard/*', 'dashboards/q3')).toBe(false)
    expect(patternCovers('dashboard/*', 'dashboard/')).toBe(false)
  })

  it('narrow: none covers any, one covers only itself in any key order', () => {
    const wide = { permission: 'p:r' }
    const narrow = { permission: 'p:r', narrow: { a: 1, b: { $lt: 2, $gt: 0 } } }
    const same = { permission: 'p:r', narrow: { b: { $gt: 0, $lt: 2 }, a: 1 } }
    const other = { permission: 'p:r', narrow: { a: 2 } }
    expect([covers(wide, narrow), covers(narrow, wide)]).toEqual([true, false])
    expect([covers(narrow, same), covers(narrow, other)]).toEqual([true, false])
    expect([overlaps(narrow, other), overlaps(wide, other)]).toEqual([true, true])
    expect(itemKey(narrow)).toBe(itemKey(same))
  })

  it('USER-ASKS 21: an empty narrow and none are different items', () => {
    expect(itemKey({ permission: 'p:r' })).not.toBe(itemKey({ permission: 'p:r', narrow: {} }))
  })
})
