import { canonicalJson } from './canonical-json.ts'
import {
  endpointKey,
  endpointsMeet,
  goesBefore,
  isLooserEndpoint,
  type Slice,
  type SliceEndpoint,
  type SlicePermission,
} from './slice.ts'
import { type Filter, RISKS } from './vocabulary.ts'

/** What a change does to those who may be asked or let in. Whatever is not known to tighten, loosens. */
export type Effect = 'tightens' | 'loosens' | 'neutral'

export type SliceChange = {
  readonly of: 'permission' | 'endpoint'
  /** `accounts:read`, or `GET /accounts/{id}`. */
  readonly id: string
  /** What of it: a member of the file as in `data.rows`, or that it was `added`, `removed` or has `returned`. */
  readonly what: string
  readonly effect: Effect
  readonly from?: unknown
  readonly to?: unknown
  /** Of the permission, as it would be. */
  readonly risk?: SlicePermission['risk']
}

/** A slice in force, with what it no longer has: what comes back is measured by how it left. */
export type SliceBefore = Slice & {
  readonly retired: readonly SlicePermission[]
  readonly gone: readonly SliceEndpoint[]
}

const same = (a: unknown, b: unknown): boolean =>
  canonicalJson({ value: a ?? null }) === canonicalJson({ value: b ?? null })

/** Whether one filter surely shows no row that another does not: the other's clauses are all in it. */
function narrows(after: Filter, before: Filter): boolean {
  const clauses = Array.isArray(after.$and) ? after.$and : []
  return (
    clauses.some((clause) => same(clause, before)) ||
    Object.entries(before).every(([key, clause]) => key in after && same(after[key], clause))
  )
}

type Fact = {
  readonly what: string
  readonly effect: Effect
  readonly from: unknown
  readonly to: unknown
}

/** A list that opens more with each entry. */
function listFacts(what: string, from: readonly string[], to: readonly string[]): readonly Fact[] {
  const added = to.filter((one) => !from.includes(one))
  const removed = from.filter((one) => !to.includes(one))
  return [
    ...(added.length > 0 ? [{ what, effect: 'loosens' as const, from, to }] : []),
    ...(removed.length > 0 ? [{ what, effect: 'tightens' as const, from, to }] : []),
  ]
}

function dataFacts(a: SlicePermission, b: SlicePermission): readonly Fact[] {
  if (a.data === undefined || b.data === undefined) return []
  // Fields and rows mean something of one entity only.
  if (a.data.entity !== b.data.entity)
    return [{ what: 'data.entity', effect: 'loosens', from: a.data.entity, to: b.data.entity }]
  const [from, to] = [a.data.rows, b.data.rows]
  const effect = narrows(to, from) ? 'tightens' : 'loosens'
  return [
    ...(same(from, to) ? [] : [{ what: 'data.rows', effect, from, to } as const]),
    ...listFacts('data.fields', a.data.fields, b.data.fields),
  ]
}

function toolFacts(a: SlicePermission, b: SlicePermission): readonly Fact[] {
  if (a.tool === undefined || b.tool === undefined) return []
  const [from, to] = [a.tool.destination, b.tool.destination]
  const effect = from === undefined ? 'tightens' : 'loosens'
  return [
    ...(from === to ? [] : [{ what: 'tool.destination', effect, from, to } as const]),
    ...listFacts('tool.tools', a.tool.tools, b.tool.tools),
  ]
}

const flag = (what: string, from: boolean, to: boolean, strict: boolean): readonly Fact[] =>
  from === to ? [] : [{ what, effect: to === strict ? 'tightens' : 'loosens', from, to }]

function factsBetween(a: SlicePermission, b: SlicePermission): readonly Fact[] {
  if (a.kind !== b.kind) return [{ what: 'kind', effect: 'loosens', from: a.kind, to: b.kind }]
  const words = (['title', 'description', 'keywords'] as const).flatMap((what): Fact[] =>
    a[what] === b[what] ? [] : [{ what, effect: 'neutral', from: a[what], to: b[what] }],
  )
  const raised = RISKS.indexOf(b.risk) > RISKS.indexOf(a.risk)
  const risk: Fact = {
    what: 'risk',
    effect: raised ? 'tightens' : 'loosens',
    from: a.risk,
    to: b.risk,
  }
  // Either way: what reads is inherited by readers, and what writes reaches further.
  const access: Fact = { what: 'access', effect: 'loosens', from: a.access, to: b.access }
  const asset: Fact = {
    what: 'asset.type',
    effect: 'loosens',
    from: a.asset?.type,
    to: b.asset?.type,
  }
  return [
    ...words,
    ...(a.risk === b.risk ? [] : [risk]),
    ...(a.access === b.access ? [] : [access]),
    ...flag('sensitive', a.sensitive, b.sensitive, true),
    ...flag('delegable', a.delegable, b.delegable, false),
    ...dataFacts(a, b),
    ...(a.asset?.type === b.asset?.type ? [] : [asset]),
    ...toolFacts(a, b),
  ]
}

const byId = <T>(list: readonly T[], key: (one: T) => string) =>
  new Map(list.map((one) => [key(one), one]))

function permissionChanges(before: SliceBefore, after: Slice): readonly SliceChange[] {
  const live = byId(before.permissions, (p) => p.id)
  const retired = byId(before.retired, (p) => p.id)
  const stays = byId(after.permissions, (p) => p.id)
  const changes = after.permissions.flatMap((to): SliceChange[] => {
    const about = { of: 'permission', id: to.id, risk: to.risk } as const
    const from = live.get(to.id) ?? retired.get(to.id)
    if (from === undefined) return [{ ...about, what: 'added', effect: 'neutral' }]
    const facts = factsBetween(from, to).map((fact) => ({ ...about, ...fact }))
    return live.has(to.id) ? facts : [{ ...about, what: 'returned', effect: 'neutral' }, ...facts]
  })
  const removed = before.permissions.flatMap((p): SliceChange[] =>
    stays.has(p.id)
      ? []
      : [{ of: 'permission', id: p.id, what: 'removed', effect: 'tightens', risk: p.risk }],
  )
  return [...changes, ...removed]
}

const asked = ({ access, permissions }: SliceEndpoint) => ({ access, permissions })
const nameOf = ({ method, pattern }: SliceEndpoint) => `${method} ${pattern}`

type Ways = {
  /** In force. */
  readonly now: readonly SliceEndpoint[]
  /** And those that were once. */
  readonly before: readonly SliceEndpoint[]
  readonly after: readonly SliceEndpoint[]
}

/** How the requests that `to` is asked for fare, against each endpoint that they were or had been asked by. */
function endpointEffect(to: SliceEndpoint, { now, before, after }: Ways): Effect {
  const stands = (old: SliceEndpoint) =>
    after.some((one) => endpointKey(one) === endpointKey(old) && !isLooserEndpoint(one, old))
  const live = now.find((old) => endpointKey(old) === endpointKey(to))
  const hit = before.filter(
    (old) =>
      endpointsMeet(old, to) &&
      // Where both match, the other goes on being asked for, or its own place asked before it already.
      !(stands(old) && goesBefore(old, to)) &&
      !(live !== undefined && goesBefore(live, old)),
  )
  if (hit.some((old) => isLooserEndpoint(to, old))) return 'loosens'
  const own = before.find((old) => endpointKey(old) === endpointKey(to))
  return own !== undefined && isLooserEndpoint(own, to) ? 'tightens' : 'neutral'
}

function endpointChanges(before: SliceBefore, after: Slice): readonly SliceChange[] {
  const live = byId(before.endpoints, endpointKey)
  const known = [...before.endpoints, ...before.gone]
  const stays = new Set(after.endpoints.map(endpointKey))
  const changes = after.endpoints.flatMap((to): SliceChange[] => {
    const from = live.get(endpointKey(to))
    const about = { of: 'endpoint', id: nameOf(to) } as const
    const effect = endpointEffect(to, {
      now: before.endpoints,
      before: known,
      after: after.endpoints,
    })
    if (from === undefined) return [{ ...about, what: 'added', effect, to: asked(to) }]
    const sameAsked = same(asked({ ...from, permissions: from.permissions.toSorted() }), {
      ...asked({ ...to, permissions: to.permissions.toSorted() }),
    })
    if (sameAsked)
      return from.pattern === to.pattern
        ? []
        : [{ ...about, what: 'pattern', effect: 'neutral', from: from.pattern, to: to.pattern }]
    return [{ ...about, what: 'access', effect, from: asked(from), to: asked(to) }]
  })
  const removed = before.endpoints.flatMap((from): SliceChange[] => {
    if (stays.has(endpointKey(from))) return []
    // What it kept stricter falls to another that matches the same requests.
    const falls = after.endpoints.some(
      (to) => endpointsMeet(from, to) && isLooserEndpoint(to, from),
    )
    const effect = falls ? 'loosens' : 'tightens'
    return [{ of: 'endpoint', id: nameOf(from), what: 'removed', effect, from: asked(from) }]
  })
  return [...changes, ...removed]
}

/** Every difference, permissions first, each with what it does. Nothing different: an empty list. Pure. */
export const diffSlices = (before: SliceBefore, after: Slice): readonly SliceChange[] => [
  ...permissionChanges(before, after),
  ...endpointChanges(before, after),
]

export const loosens = (changes: readonly SliceChange[]): readonly SliceChange[] =>
  changes.filter((change) => change.effect === 'loosens')

/** What is in both, unless that is nothing: an empty list would mean something else. */
function kept(from: readonly string[], to: readonly string[]): readonly string[] {
  const both = from.filter((one) => to.includes(one))
  return both.length > 0 ? both : from
}

function tightenedData(
  from: SlicePermission['data'],
  to: SlicePermission['data'],
  waits: ReadonlySet<string>,
): SlicePermission['data'] {
  if (from === undefined || to === undefined || waits.has('data.entity')) return from
  return {
    entity: from.entity,
    rows: waits.has('data.rows') ? from.rows : to.rows,
    fields: waits.has('data.fields') ? kept(from.fields, to.fields) : to.fields,
  }
}

function tightenedTool(
  from: SlicePermission['tool'],
  to: SlicePermission['tool'],
  waits: ReadonlySet<string>,
): SlicePermission['tool'] {
  if (from === undefined || to === undefined) return from
  const destination = waits.has('tool.destination') ? from.destination : to.destination
  return {
    tools: waits.has('tool.tools') ? kept(from.tools, to.tools) : to.tools,
    ...(destination === undefined ? {} : { destination }),
  }
}

/** `to` with every member that loosens left as it is in `from`. */
function tightened(from: SlicePermission, to: SlicePermission): SlicePermission {
  const waits = new Set(
    factsBetween(from, to)
      .filter((fact) => fact.effect === 'loosens')
      .map((fact) => fact.what),
  )
  if (waits.size === 0) return to
  if (waits.has('kind')) return from
  const pick = <K extends keyof SlicePermission>(what: K) => (waits.has(what) ? from : to)[what]
  const { data: _, asset: __, tool: ___, ...rest } = to
  const data = tightenedData(from.data, to.data, waits)
  const tool = tightenedTool(from.tool, to.tool, waits)
  const asset = waits.has('asset.type') ? from.asset : to.asset
  return {
    ...rest,
    risk: pick('risk'),
    access: pick('access'),
    sensitive: pick('sensitive'),
    delegable: pick('delegable'),
    ...(data === undefined ? {} : { data }),
    ...(asset === undefined ? {} : { asset }),
    ...(tool === undefined ? {} : { tool }),
  }
}

/** The endpoints with each change that loosens undone, and again until none is left: undoing one can bare another. */
function tightenedEndpoints(before: SliceBefore, after: Slice): readonly SliceEndpoint[] {
  const live = byId(before.endpoints, endpointKey)
  let endpoints = after.endpoints
  for (;;) {
    const looser = loosens(endpointChanges(before, { permissions: [], endpoints }))
    if (looser.length === 0) return endpoints
    const wrong = new Set(looser.map((change) => endpointKeyOf(change.id)))
    const undone = endpoints.flatMap((to) => {
      if (!wrong.has(endpointKey(to))) return [to]
      const from = live.get(endpointKey(to))
      return from === undefined ? [] : [from]
    })
    const there = new Set(undone.map(endpointKey))
    const put = before.endpoints.filter((from) => {
      const key = endpointKey(from)
      return wrong.has(key) && !there.has(key)
    })
    const next = [...undone, ...put]
    // What was in force is no looser than itself; only a slice that met itself badly could come here.
    if (same(next, endpoints)) return before.endpoints
    endpoints = next
  }
}

const endpointKeyOf = (name: string): string => {
  const space = name.indexOf(' ')
  return endpointKey({ method: name.slice(0, space), pattern: name.slice(space + 1) })
}

/** As much of `after` as loosens nothing: what takes effect while the rest waits for security. Pure. */
export function tighterPart(before: SliceBefore, after: Slice): Slice {
  const known = new Map([
    ...before.retired.map((p) => [p.id, p] as const),
    ...before.permissions.map((p) => [p.id, p] as const),
  ])
  const permissions = after.permissions.map((to) => {
    const from = known.get(to.id)
    return from === undefined ? to : tightened(from, to)
  })
  return { permissions, endpoints: tightenedEndpoints(before, after) }
}
