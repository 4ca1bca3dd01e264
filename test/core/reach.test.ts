import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ReachMember, reachOf } from '../../src/core/reach.ts'
import type { Item } from '../../src/core/vocabulary.ts'

/** The combined reach: what a template and all below it can ask for, and what could carry it out (SPEC section 3). */
type Row = {
  kind: 'api' | 'data' | 'asset' | 'tool'
  access: 'read' | 'write' | 'admin'
  sensitive: boolean
  takesResource: boolean
}
const CATALOG = new Map<string, Row>([
  ['plain:read', { kind: 'api', access: 'read', sensitive: false, takesResource: false }],
  ['price:read', { kind: 'data', access: 'read', sensitive: true, takesResource: false }],
  ['board:view', { kind: 'asset', access: 'read', sensitive: false, takesResource: true }],
  ['mail:send', { kind: 'tool', access: 'write', sensitive: false, takesResource: true }],
  ['search:run', { kind: 'tool', access: 'read', sensitive: false, takesResource: false }],
  ['secret:run', { kind: 'tool', access: 'read', sensitive: true, takesResource: false }],
  ['fetch:get', { kind: 'tool', access: 'read', sensitive: false, takesResource: true }],
  ['note:write', { kind: 'api', access: 'write', sensitive: false, takesResource: false }],
  ['price:write', { kind: 'data', access: 'write', sensitive: true, takesResource: false }],
])
const member = (
  template: string,
  ceiling: readonly string[],
  sensitive: readonly string[] = [],
): ReachMember => {
  const item = (text: string): Item => {
    const [permission = '', resource] = text.split(' ')
    return resource === undefined ? { permission } : { permission, resource }
  }
  return { template, ceiling: ceiling.map(item), sensitive: sensitive.map(item) }
}
const pairs = (...members: ReachMember[]) =>
  reachOf(members, CATALOG).pairs.map(
    (p) => `${p.reads.item.permission} > ${p.sends.item.permission}`,
  )

describe('what can carry out what', () => {
  test.each<[string, ReachMember[], string[]]>([
    ['nothing sensitive is read', [member('a@1', ['plain:read', 'mail:send domain/*'])], []],
    [
      'a tool with a destination',
      [member('a@1', ['price:read', 'mail:send domain/*'])],
      ['price:read > mail:send'],
    ],
    [
      'a tool that only fetches still names where it goes',
      [member('a@1', ['price:read', 'fetch:get domain/*'])],
      ['price:read > fetch:get'],
    ],
    ['a tool that goes nowhere', [member('a@1', ['price:read', 'search:run'])], []],
    ['a write', [member('a@1', ['price:read', 'note:write'])], ['price:read > note:write']],
    [
      'a sensitive tool reads nothing out',
      [member('a@1', ['secret:run', 'mail:send domain/*'])],
      [],
    ],
    ['a sensitive write is no read', [member('a@1', ['price:write'])], []],
    [
      'one reads, its subagent sends',
      [member('a@1', ['price:read']), member('b@2', ['mail:send domain/*'])],
      ['price:read > mail:send'],
    ],
    [
      'the template’s own mark counts',
      [member('a@1', ['board:view board/*', 'note:write'], ['board:view board/q3'])],
      ['board:view > note:write'],
    ],
    [
      'an unknown permission is in no pair',
      [member('a@1', ['gone:read', 'mail:send domain/*'])],
      [],
    ],
  ])('%s', (_, members, expected) => {
    expect(pairs(...members)).toEqual(expected)
  })
})

test('the reach is the union, each item with all who contribute it, in any order', () => {
  const memberOf = fc.record({
    template: fc.constantFrom('a@1', 'b@1', 'c@2'),
    ceiling: fc
      .subarray([...CATALOG.keys()])
      .map((ids) => ids.map((permission) => ({ permission }))),
    sensitive: fc
      .subarray([...CATALOG.keys()])
      .map((ids) => ids.map((permission) => ({ permission }))),
  })
  fc.assert(
    fc.property(fc.array(memberOf, { maxLength: 6 }), (members) => {
      const reach = reachOf(members, CATALOG)
      for (const id of CATALOG.keys()) {
        const by = [
          ...new Set(
            members
              .filter((m) => m.ceiling.some((i) => i.permission === id))
              .map((m) => m.template),
          ),
        ].sort()
        expect(reach.items.find((one) => one.item.permission === id)?.by ?? []).toEqual(by)
      }
      expect(reachOf([...members].reverse(), CATALOG)).toEqual(reach)
      expect(reachOf([...members, ...members], CATALOG)).toEqual(reach)
    }),
  )
})
