import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  endpointKey,
  PROTECTIONS,
  type Slice,
  type SliceEndpoint,
  type SlicePermission,
} from '../../src/core/slice.ts'
import { diffSlices, loosens, type SliceBefore, tighterPart } from '../../src/core/slice-diff.ts'

const api: SlicePermission = {
  ...{ id: 'a:read', kind: 'api', title: 'A', description: 'Reads A.', keywords: '' },
  ...{ access: 'read', risk: 'medium', sensitive: false, delegable: true, enforced_at: 'gateway' },
}
const data: SlicePermission = {
  ...{ ...api, id: 'a:rows', kind: 'data', enforced_at: 'data' },
  data: { entity: 'a', rows: { x: 1 }, fields: ['p', 'q'] },
}
const asset: SlicePermission = {
  ...{ ...api, id: 'a:view', kind: 'asset', enforced_at: 'asset', asset: { type: 'a' } },
}
const tool: SlicePermission = {
  ...{ ...api, id: 'a:send', kind: 'tool', enforced_at: 'tool_gateway' },
  tool: { tools: ['a/send', 'a/post'], destination: '/to' },
}
const inForce = (of: Partial<SliceBefore>): SliceBefore => ({
  ...{ permissions: [], endpoints: [], retired: [], gone: [] },
  ...of,
})
const dataOf = (of: Partial<NonNullable<SlicePermission['data']>>) => ({
  data: { entity: 'a', rows: { x: 1 }, fields: ['p', 'q'], ...of },
})

describe('each change of a permission, and what it does', () => {
  const CASES: [SlicePermission, Partial<SlicePermission>, string][] = [
    [api, { title: 'B' }, 'title neutral'],
    [api, { description: 'B.' }, 'description neutral'],
    [api, { keywords: 'b' }, 'keywords neutral'],
    [api, { risk: 'high' }, 'risk tightens'],
    [api, { risk: 'low' }, 'risk loosens'],
    [api, { sensitive: true }, 'sensitive tightens'],
    [{ ...api, sensitive: true }, { sensitive: false }, 'sensitive loosens'],
    [api, { delegable: false }, 'delegable tightens'],
    [{ ...api, delegable: false }, { delegable: true }, 'delegable loosens'],
    [api, { access: 'write' }, 'access loosens'],
    [{ ...api, access: 'write' }, { access: 'read' }, 'access loosens'],
    [data, dataOf({ entity: 'b' }), 'data.entity loosens'],
    [data, dataOf({ rows: { x: 2 } }), 'data.rows loosens'],
    [data, dataOf({ rows: { y: 1 } }), 'data.rows loosens'],
    [data, dataOf({ rows: { $or: [{ x: 1 }, { y: 1 }] } }), 'data.rows loosens'],
    [data, dataOf({ rows: { x: 1, y: 1 } }), 'data.rows tightens'],
    [data, dataOf({ rows: { $and: [{ x: 1 }, { y: 1 }] } }), 'data.rows tightens'],
    [data, dataOf({ fields: ['p'] }), 'data.fields tightens'],
    [data, dataOf({ fields: ['p', 'q', 'r'] }), 'data.fields loosens'],
    [data, dataOf({ fields: ['p', 'r'] }), 'data.fields loosens, data.fields tightens'],
    [data, dataOf({ fields: ['q', 'p'] }), ''],
    [asset, { asset: { type: 'b' } }, 'asset.type loosens'],
    [tool, { tool: { tools: ['a/send', 'a/post'] } }, 'tool.destination loosens'],
    [
      { ...tool, tool: { tools: ['a/send'] } },
      { tool: { tools: ['a/send'], destination: '/to' } },
      'tool.destination tightens',
    ],
    [
      tool,
      { tool: { tools: ['a/send', 'a/post'], destination: '/cc' } },
      'tool.destination loosens',
    ],
    [tool, { tool: { tools: ['a/send'], destination: '/to' } }, 'tool.tools tightens'],
    [
      tool,
      { tool: { tools: ['a/send', 'a/post', 'a/b'], destination: '/to' } },
      'tool.tools loosens',
    ],
    [api, { kind: 'asset', asset: { type: 'a' } }, 'kind loosens'],
  ]
  test.each(CASES)('%o with %o: %s', (from, change, said) => {
    const to = { ...from, ...change }
    const changes = diffSlices(inForce({ permissions: [from] }), {
      permissions: [to],
      endpoints: [],
    })
    expect(changes.map((c) => `${c.what} ${c.effect}`).join(', ')).toBe(said)
  })

  test('a new one is neutral, one that goes tightens, one that comes back as it left is neutral', () => {
    const none: Slice = { permissions: [], endpoints: [] }
    const one: Slice = { ...none, permissions: [api] }
    expect(diffSlices(inForce({}), one)).toMatchObject([{ what: 'added', effect: 'neutral' }])
    expect(diffSlices(inForce(one), none)).toMatchObject([{ what: 'removed', effect: 'tightens' }])
    expect(diffSlices(inForce({ retired: [api] }), one)).toMatchObject([
      { what: 'returned', effect: 'neutral' },
    ])
  })

  test('taking a never-delegable permission away and putting it back delegable loosens', () => {
    const retired = [{ ...api, delegable: false }]
    const after: Slice = { permissions: [api], endpoints: [] }
    expect(loosens(diffSlices(inForce({ retired }), after))).toMatchObject([{ what: 'delegable' }])
    expect(tighterPart(inForce({ retired }), after).permissions[0]?.delegable).toBe(false)
  })
})

const end = (pattern: string, access: SliceEndpoint['access'], ...permissions: string[]) => ({
  ...{ method: 'GET', pattern, access, permissions },
})
const P = 'a:read'
describe('each change of an endpoint, and what it does', () => {
  const CASES: [string, SliceEndpoint[], SliceEndpoint[], string, SliceEndpoint[]?][] = [
    ['new', [], [end('/x', 'OPEN')], 'added neutral'],
    ['lowered', [end('/x', 'AUTHENTICATED')], [end('/x', 'OPEN')], 'access loosens'],
    [
      'lowered',
      [end('/x', 'ACCESS_CONTROLLED', P)],
      [end('/x', 'AUTHENTICATED')],
      'access loosens',
    ],
    ['raised', [end('/x', 'OPEN')], [end('/x', 'ACCESS_CONTROLLED', P)], 'access tightens'],
    [
      'another permission',
      [end('/x', 'ACCESS_CONTROLLED', P)],
      [end('/x', 'ACCESS_CONTROLLED', 'b:b')],
      'access loosens',
    ],
    [
      'one more is enough',
      [end('/x', 'ACCESS_CONTROLLED', P)],
      [end('/x', 'ACCESS_CONTROLLED', P, 'b:b')],
      'access loosens',
    ],
    [
      'one less is enough',
      [end('/x', 'ACCESS_CONTROLLED', P, 'b:b')],
      [end('/x', 'ACCESS_CONTROLLED', P)],
      'access tightens',
    ],
    ['gone', [end('/x', 'OPEN')], [], 'removed tightens'],
    ['renamed segment', [end('/x/{a}', 'OPEN')], [end('/x/{b}', 'OPEN')], 'pattern neutral'],
    [
      'an exact one before a stricter one',
      [end('/x/{a}', 'ACCESS_CONTROLLED', P)],
      [end('/x/{a}', 'ACCESS_CONTROLLED', P), end('/x/mine', 'AUTHENTICATED')],
      'added loosens',
    ],
    [
      'a stricter one goes and a looser one is left',
      [end('/x/{a}', 'AUTHENTICATED'), end('/x/all', 'ACCESS_CONTROLLED', P)],
      [end('/x/{a}', 'AUTHENTICATED')],
      'removed loosens',
    ],
    [
      'a looser one behind one that stands',
      [end('/x/all', 'ACCESS_CONTROLLED', P)],
      [end('/x/all', 'ACCESS_CONTROLLED', P), end('/x/{a}', 'OPEN')],
      'added neutral',
    ],
    ['back as it was', [], [end('/x', 'OPEN')], 'added neutral', [end('/x', 'OPEN')]],
    ['back, looser', [], [end('/x', 'OPEN')], 'added loosens', [end('/x', 'AUTHENTICATED')]],
  ]
  test.each(CASES)('%s: %j to %j: %s', (_, from, to, said, gone = []) => {
    const changes = diffSlices(inForce({ endpoints: from, gone }), {
      permissions: [],
      endpoints: to,
    })
    expect(changes.map((c) => `${c.what} ${c.effect}`).join(', ')).toBe(said)
  })
})

/** Another way of saying what is looser: by what can be had, over every request and row of a small world. */
const SEGMENTS = ['x', 'y', '{a}'] as const
const PATHS = ['x', 'y', 'z'].flatMap((a) => [`/${a}`, ...['x', 'y', 'z'].map((b) => `/${a}/${b}`)])
const ROWS = [0, 1].flatMap((x) => [0, 1].map((y) => ({ x, y })))

/** Who gets in: a number, more is looser; and by which permissions. The most exact pattern from the left answers. */
function letsIn(endpoints: readonly SliceEndpoint[], path: string) {
  const wanted = path.split('/')
  const hits = endpoints.filter((e) => {
    const have = e.pattern.split('/')
    return have.length === wanted.length && have.every((s, i) => s === wanted[i] || s === '{a}')
  })
  const [best] = hits.toSorted((a, b) => {
    const score = (e: SliceEndpoint) =>
      e.pattern
        .split('/')
        .map((s) => (s === '{a}' ? 0 : 1))
        .join('')
    return score(b).localeCompare(score(a))
  })
  if (best === undefined) return null
  return { by: new Set(best.permissions), rank: PROTECTIONS.indexOf(best.access) }
}

const shows = (p: SlicePermission, row: { x: number; y: number }): boolean => {
  const all = (f: Record<string, unknown>): boolean =>
    Object.entries(f).every(([k, v]) =>
      k === '$and' && Array.isArray(v) ? v.every((one) => all(one)) : Reflect.get(row, k) === v,
    )
  return all(p.data?.rows ?? {})
}

function isNoLooser(now: SlicePermission, was: SlicePermission): boolean {
  const RISK = { low: 0, medium: 1, high: 2 }
  const toolsOk = (now.tool?.tools ?? []).every((t) => was.tool?.tools.includes(t))
  const goesOk =
    was.tool?.destination === undefined || now.tool?.destination === was.tool.destination
  const fieldsOk = (now.data?.fields ?? []).every((f) => was.data?.fields.includes(f))
  const rowsOk = ROWS.every((row) => !shows(now, row) || shows(was, row))
  return [
    RISK[now.risk] >= RISK[was.risk],
    now.sensitive || !was.sensitive,
    !now.delegable || was.delegable,
    now.access === was.access,
    now.data?.entity === was.data?.entity,
    toolsOk && goesOk && fieldsOk && rowsOk,
  ].every(Boolean)
}

const pattern = fc
  .array(fc.constantFrom(...SEGMENTS), { minLength: 1, maxLength: 2 })
  .map((s) => `/${s.join('/')}`)
const endpoint: fc.Arbitrary<SliceEndpoint> = fc
  .record({
    method: fc.constant('GET'),
    pattern,
    access: fc.constantFrom(...PROTECTIONS),
    permissions: fc.uniqueArray(fc.constantFrom('p:p', 'q:q'), { minLength: 1 }),
  })
  .map((e) => (e.access === 'ACCESS_CONTROLLED' ? e : { ...e, permissions: [] }))
const endpoints = fc.uniqueArray(endpoint, { selector: endpointKey, maxLength: 5 })
const rows = fc.oneof(
  fc.dictionary(fc.constantFrom('x', 'y'), fc.constantFrom(0, 1), { minKeys: 1 }),
  fc
    .array(fc.dictionary(fc.constantFrom('x', 'y'), fc.constantFrom(0, 1), { minKeys: 1 }), {
      minLength: 1,
      maxLength: 2,
    })
    .map(($and) => ({ $and })),
)
const some = (...of: string[]) => fc.subarray(of, { minLength: 1 })
const shared = {
  access: fc.constantFrom('read' as const, 'write' as const),
  risk: fc.constantFrom('low' as const, 'medium' as const, 'high' as const),
  sensitive: fc.boolean(),
  delegable: fc.boolean(),
}
const permissions = fc
  .tuple(
    fc.record({
      ...shared,
      data: fc.record({ entity: fc.constantFrom('e', 'f'), rows, fields: some('p', 'q', 'r') }),
    }),
    fc.record({
      ...shared,
      tool: fc.record(
        { tools: some('a/s', 'a/t'), destination: fc.constantFrom('/to', '/cc') },
        { requiredKeys: ['tools'] },
      ),
    }),
    fc.subarray([0, 1]),
  )
  .map(([d, t, which]): SlicePermission[] =>
    [
      { ...data, ...d },
      { ...tool, ...t },
    ].filter((_, i) => which.includes(i)),
  )
const slice: fc.Arbitrary<Slice> = fc.record({ permissions, endpoints })

describe('the part that loosens nothing', () => {
  test('never lets anybody have what they could not have before', () => {
    fc.assert(
      fc.property(slice, slice, permissions, (was, asked, once) => {
        const retired = once.filter((p) => !was.permissions.some((o) => o.id === p.id))
        const now = tighterPart(inForce({ ...was, retired }), asked)
        for (const p of now.permissions) {
          const old = [...was.permissions, ...retired].find((o) => o.id === p.id)
          if (old !== undefined) expect([p, old, isNoLooser(p, old)]).toEqual([p, old, true])
        }
        for (const path of PATHS) {
          const [a, b] = [letsIn(was.endpoints, path), letsIn(now.endpoints, path)]
          if (a === null || b === null) continue
          const ok = b.rank > a.rank || (b.rank === a.rank && [...b.by].every((p) => a.by.has(p)))
          expect([path, ok]).toEqual([path, true])
        }
        // And nothing of it would have to wait.
        expect(loosens(diffSlices(inForce({ ...was, retired }), now))).toEqual([])
      }),
      { numRuns: 3000 },
    )
  })

  test('is all of it when nothing loosens', () => {
    fc.assert(
      fc.property(slice, slice, (was, asked) => {
        fc.pre(loosens(diffSlices(inForce(was), asked)).length === 0)
        expect(tighterPart(inForce(was), asked)).toEqual(asked)
      }),
      { numRuns: 2000 },
    )
  })

  test('is in force what it was when the same is asked again', () => {
    fc.assert(
      fc.property(slice, (was) => {
        expect(diffSlices(inForce(was), was)).toEqual([])
        expect(tighterPart(inForce(was), was)).toEqual(was)
      }),
    )
  })
})
