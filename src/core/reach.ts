import { itemKey, overlappedBy } from './item.ts'
import type { Item, Permission } from './vocabulary.ts'

/** The combined reach of a template and all below it (SPEC section 3): what the whole tree can ever ask for. Pure. */
export type ReachMember = {
  /** As in `email-drafter@1`. */
  readonly template: string
  readonly ceiling: readonly Item[]
  readonly sensitive: readonly Item[]
}

export type Reached = {
  readonly item: Item
  /** Templates that contribute it, sorted. */
  readonly by: readonly string[]
  /** Marked by the catalog, or by any of those that contribute it. */
  readonly sensitive: boolean
}

/** Reads what is sensitive, and can send it out: what one reads, another or the same may carry away. */
export type ReachPair = { readonly reads: Reached; readonly sends: Reached }

export type Reach = { readonly items: readonly Reached[]; readonly pairs: readonly ReachPair[] }

type Catalog = ReadonlyMap<
  string,
  Pick<Permission, 'kind' | 'access' | 'sensitive' | 'takesResource'>
>

const readsSensitive = (one: Reached, catalog: Catalog): boolean => {
  const permission = catalog.get(one.item.permission)
  return (
    one.sensitive &&
    permission !== undefined &&
    permission.kind !== 'tool' &&
    permission.access === 'read'
  )
}

/** A tool that names a destination, and whatever writes: data leaves by either. */
const canSendOut = (one: Reached, catalog: Catalog): boolean => {
  const permission = catalog.get(one.item.permission)
  if (permission === undefined) return false
  return (permission.kind === 'tool' && permission.takesResource) || permission.access !== 'read'
}

const byKey = (a: Reached, b: Reached): number =>
  itemKey(a.item) < itemKey(b.item) ? -1 : itemKey(a.item) > itemKey(b.item) ? 1 : 0

/** The order of the members does not matter, nor how often one is in the tree. */
export function reachOf(members: readonly ReachMember[], catalog: Catalog): Reach {
  const found = new Map<string, { item: Item; by: Set<string>; sensitive: boolean }>()
  for (const member of members)
    for (const item of member.ceiling) {
      const key = itemKey(item)
      const one = found.get(key) ?? { item, by: new Set<string>(), sensitive: false }
      one.by.add(member.template)
      one.sensitive ||=
        catalog.get(item.permission)?.sensitive === true || overlappedBy(member.sensitive, item)
      found.set(key, one)
    }
  const items = [...found.values()]
    .map(({ item, by, sensitive }): Reached => ({ item, by: [...by].sort(), sensitive }))
    .sort(byKey)
  const reads = items.filter((one) => readsSensitive(one, catalog))
  const sends = items.filter((one) => canSendOut(one, catalog))
  return {
    items,
    pairs: reads.flatMap((read) => sends.map((send) => ({ reads: read, sends: send }))),
  }
}
