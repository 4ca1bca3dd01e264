import { canonicalJson } from './canonical-json.ts'
import { patternCovers, patternsOverlap } from './resource.ts'
import type { Filter, Item } from './vocabulary.ts'

const sameFilter = (a: Filter | undefined, b: Filter | undefined): boolean =>
  a === undefined || b === undefined ? a === b : canonicalJson(a) === canonicalJson(b)

/**
 * A covers B (SPEC section 2): same permission, A's pattern matches all that B's does, and A has no narrow or exactly
 * B's. Used by ceiling, user access, allow rules and held: the questions where a wrong yes widens.
 */
export function covers(a: Item, b: Item): boolean {
  return (
    a.permission === b.permission &&
    patternCovers(a.resource, b.resource) &&
    (a.narrow === undefined || sameFilter(a.narrow, b.narrow))
  )
}

/**
 * A overlaps B: same permission and a resource both match, whatever the narrow. Used by deny and ask rules, denials
 * and sensitive marks: the questions where a wrong no widens.
 */
export function overlaps(a: Item, b: Item): boolean {
  return a.permission === b.permission && patternsOverlap(a.resource, b.resource)
}

/** One string per item, equal exactly when the items are the same in every respect. */
export function itemKey(item: Item): string {
  return canonicalJson({
    permission: item.permission,
    ...(item.resource === undefined ? {} : { resource: item.resource }),
    ...(item.narrow === undefined ? {} : { narrow: item.narrow }),
  })
}

export const coveredBy = (list: readonly Item[], item: Item): boolean =>
  list.some((one) => covers(one, item))

export const overlappedBy = (list: readonly Item[], item: Item): boolean =>
  list.some((one) => overlaps(one, item))
