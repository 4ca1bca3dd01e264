import { coveredBy, covers, itemKey, overlappedBy } from './item.ts'
import { patternCovers } from './resource.ts'
import { type Item, type Limits, MODES, type Mode } from './vocabulary.ts'

/** What a template may be and do, as one version says it or as one tenant runs it. */
export type Terms = {
  readonly ceiling: readonly Item[]
  readonly modes: readonly Mode[]
  readonly limits: Limits
  readonly children: readonly { readonly template: string; readonly version?: number }[]
  /** Items that are always asked for, whatever the catalog says of them. */
  readonly sensitive: readonly Item[]
  readonly context: string
}

export const ITEM_CHANGES = ['added', 'removed', 'widened', 'narrowed', 'replaced'] as const

/** All that changed of one permission, before and after in one row (UX U20). `replaced`: wider here, narrower there. */
export type ItemChange = {
  readonly change: (typeof ITEM_CHANGES)[number]
  readonly permission: string
  readonly from: readonly Item[]
  readonly to: readonly Item[]
}

/** Null: unbounded. */
export type LimitChange = {
  readonly limit: keyof Limits
  readonly change: 'raised' | 'lowered'
  readonly from: number | null
  readonly to: number | null
}

/** A version of null: none is named. */
export type ChildChange = {
  readonly change: 'added' | 'removed' | 'pinned'
  readonly template: string
  readonly from: number | null
  readonly to: number | null
}

export type TermsDiff = {
  readonly items: readonly ItemChange[]
  readonly modes: { readonly added: readonly Mode[]; readonly removed: readonly Mode[] }
  readonly limits: readonly LimitChange[]
  readonly children: readonly ChildChange[]
  readonly sensitive: readonly ItemChange[]
  readonly context: { readonly from: string; readonly to: string } | null
  /** Whether anything is possible now that was not before (SPEC section 3). */
  readonly widens: boolean
}

const permissionsIn = (...lists: readonly (readonly Item[])[]): readonly string[] => [
  ...new Set(lists.flat().map((item) => item.permission)),
]

function changeOf(from: readonly Item[], to: readonly Item[]): ItemChange['change'] | null {
  if (from.length === 0) return 'added'
  if (to.length === 0) return 'removed'
  const wider = to.some((item) => !coveredBy(from, item))
  const narrower = from.some((item) => !coveredBy(to, item))
  if (wider) return narrower ? 'replaced' : 'widened'
  return narrower ? 'narrowed' : null
}

/** A list that says the same in other words has not changed. */
function itemChanges(from: readonly Item[], to: readonly Item[]): readonly ItemChange[] {
  return permissionsIn(from, to).flatMap((permission) => {
    const of = (list: readonly Item[]) => list.filter((item) => item.permission === permission)
    const change = changeOf(of(from), of(to))
    return change === null ? [] : [{ change, permission, from: of(from), to: of(to) }]
  })
}

const LIMIT_NAMES = [
  'sessionLifeSeconds',
  'subagentDepth',
  'liveChildren',
  'liveRootsPerUser',
  'itemsPerRequest',
  'requestsPerMinute',
  'openRequests',
  'requestWaitSeconds',
] as const satisfies readonly (keyof Limits)[]

const limitChanges = (from: Limits, to: Limits): readonly LimitChange[] =>
  LIMIT_NAMES.flatMap((limit) => {
    const [before, after] = [from[limit] ?? null, to[limit] ?? null]
    if (before === after) return []
    const unbounded = Number.POSITIVE_INFINITY
    const change = (after ?? unbounded) > (before ?? unbounded) ? 'raised' : 'lowered'
    return [{ limit, change, from: before, to: after }]
  })

function childChanges(from: Terms['children'], to: Terms['children']): readonly ChildChange[] {
  const names = [...new Set([...from, ...to].map((child) => child.template))]
  return names.flatMap((template): readonly ChildChange[] => {
    const before = from.find((child) => child.template === template)
    const after = to.find((child) => child.template === template)
    const versions = { from: before?.version ?? null, to: after?.version ?? null }
    if (before === undefined) return [{ change: 'added', template, ...versions }]
    if (after === undefined) return [{ change: 'removed', template, ...versions }]
    return versions.from === versions.to ? [] : [{ change: 'pinned', template, ...versions }]
  })
}

/** A mark holds whatever the narrow (`overlaps`), so it is compared without. */
const markOf = ({ permission, resource }: Item): Item =>
  resource === undefined ? { permission } : { permission, resource }

/**
 * Whether something that both allow is asked for under one mark less. Only what a mark and the ceiling share counts: a mark
 * that went with its item, or that shrank to what is left of it, makes nothing possible.
 */
const lostMarks = (from: Terms, to: Terms): boolean =>
  to.ceiling.some((item) =>
    from.sensitive.some((mark) => {
      const shared = meet(markOf(item), markOf(mark))
      return shared !== null && !to.sensitive.some((one) => covers(markOf(one), shared))
    }),
  )

const WIDER: ReadonlySet<ItemChange['change']> = new Set(['added', 'widened', 'replaced'])

/**
 * What is different under `to`, for whoever knew `from`: people who said always, and reviewers. Pure. A child's version
 * that is another may be a wider one, so it counts as widening unless it is named where none was; instructions never do.
 */
export function diffTerms(from: Terms, to: Terms): TermsDiff {
  const items = itemChanges(from.ceiling, to.ceiling)
  const limits = limitChanges(from.limits, to.limits)
  const children = childChanges(from.children, to.children)
  const modes = {
    added: MODES.filter((mode) => to.modes.includes(mode) && !from.modes.includes(mode)),
    removed: MODES.filter((mode) => from.modes.includes(mode) && !to.modes.includes(mode)),
  }
  const widerChild = (one: ChildChange) =>
    one.change === 'added' || (one.change === 'pinned' && one.from !== null)
  return {
    items,
    modes,
    limits,
    children,
    sensitive: itemChanges(from.sensitive.map(markOf), to.sensitive.map(markOf)),
    context: from.context === to.context ? null : { from: from.context, to: to.context },
    widens:
      items.some(({ change }) => WIDER.has(change)) ||
      modes.added.length > 0 ||
      limits.some(({ change }) => change === 'raised') ||
      children.some(widerChild) ||
      lostMarks(from, to),
  }
}

/** What two items both cover; null when nothing. Of two patterns that share a match, one covers the other. */
function meet(a: Item, b: Item): Item | null {
  const smaller = patternCovers(a.resource, b.resource) ? b : a
  const other = smaller === a ? b : a
  if (a.permission !== b.permission || !patternCovers(other.resource, smaller.resource)) return null
  if (a.narrow !== undefined && b.narrow !== undefined && !covers(narrowOnly(a), narrowOnly(b)))
    return null
  const narrow = a.narrow ?? b.narrow
  return { ...markOf(smaller), ...(narrow === undefined ? {} : { narrow }) }
}

/** The item without its resource, so that only its narrow is compared. */
const narrowOnly = ({ permission, narrow }: Item): Item =>
  narrow === undefined ? { permission } : { permission, narrow }

/** A ceiling cut by what a tenant kept: what both lists cover, and nothing twice. */
export function ceilingWithin(ceiling: readonly Item[], kept: readonly Item[]): readonly Item[] {
  const all = ceiling.flatMap((a) => kept.flatMap((b) => meet(a, b) ?? []))
  const distinct = [...new Map(all.map((item) => [itemKey(item), item])).values()]
  return distinct.filter((item) => !distinct.some((one) => one !== item && covers(one, item)))
}

/**
 * What a tenant keeps of a version that it adopts (SPEC section 3): what it kept before, and newcomers. What it had
 * removed stays out, and so does a newcomer that would bring any of it back.
 */
export function keptAtAdoption(of: {
  readonly before: readonly Item[]
  readonly kept: readonly Item[]
  readonly after: readonly Item[]
}): readonly Item[] {
  const removed = of.before.filter((item) => !coveredBy(of.kept, item))
  const stays = ceilingWithin(of.after, of.kept)
  const comes = of.after.filter((item) => !coveredBy(stays, item) && !overlappedBy(removed, item))
  return [...stays.filter((item) => !coveredBy(comes, item)), ...comes]
}
