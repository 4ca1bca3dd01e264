import { createHash } from 'node:crypto'
import { canonicalJson } from '../core/canonical-json.ts'
import { filterProblem } from '../core/filter.ts'
import { itemKey } from '../core/item.ts'
import { canonicalResource } from '../core/resource.ts'
import type { Item } from '../core/vocabulary.ts'
import { itemData } from '../db/endings.ts'
import type { CatalogRow } from '../db/tree.ts'
import { type FieldError, fail, ok, type Result } from '../fault.ts'

/** An item as it came in: its shape has been checked, its meaning has not. */
export type RawItem = {
  readonly permission: string
  readonly resource?: string | undefined
  readonly narrow?: { readonly [key: string]: unknown } | undefined
}

type Known = {
  readonly catalog: ReadonlyMap<string, CatalogRow>
  /** Fields of an entity that the user's restrictions mask; `*` masks all. */
  readonly masked?: ReadonlyMap<string, readonly string[]>
}

/**
 * Brings an item into canonical form or says which member is wrong. A permission that the catalog lacks passes: the
 * decision refuses it by name.
 */
export function canonicalItem(
  raw: RawItem,
  known: Known,
  path: string,
): { readonly item: Item } | { readonly error: FieldError } {
  const permission = known.catalog.get(raw.permission)
  let resource: string | undefined
  if (raw.resource !== undefined) {
    const canonical = canonicalResource(raw.resource)
    if (!canonical.ok) return { error: { path: `${path}.resource`, message: canonical.why } }
    resource = canonical.value
  }
  if (permission !== undefined) {
    if (permission.takesResource && resource === undefined)
      return {
        error: {
          path: `${path}.resource`,
          message: `${permission.id} needs a resource, as in ${hintOf(permission)}`,
        },
      }
    if (!permission.takesResource && resource !== undefined)
      return { error: { path: `${path}.resource`, message: `${permission.id} takes no resource` } }
  }
  if (raw.narrow !== undefined) {
    if (permission !== undefined && permission.kind !== 'data')
      return { error: { path: `${path}.narrow`, message: 'only data permissions can be narrowed' } }
    const hidden = known.masked?.get(permission?.data?.entity ?? '') ?? []
    const fields = permission?.data?.fields.filter((f) => !hidden.includes(f))
    const problem = filterProblem(
      raw.narrow,
      { userVariables: false, ...(fields === undefined ? {} : { fields }) },
      `${path}.narrow`,
    )
    if (problem) return { error: problem }
  }
  return {
    item: {
      permission: raw.permission,
      ...(resource === undefined ? {} : { resource }),
      ...(raw.narrow === undefined ? {} : { narrow: raw.narrow }),
    },
  }
}

export const hintOf = (permission: CatalogRow): string =>
  permission.kind === 'asset' ? 'dashboard/q3-pipeline' : 'domain/customer.example'

/** Every item in canonical form, or every problem with its path. */
export function canonicalItems(raw: readonly RawItem[], known: Known): Result<readonly Item[]> {
  const read = raw.map((item, i) => canonicalItem(item, known, `items.${i}`))
  const errors = read.flatMap((r) => ('error' in r ? [r.error] : []))
  if (errors.length > 0) return fail('item_invalid', { errors })
  return ok(read.flatMap((r) => ('item' in r ? [r.item] : [])))
}

/** Drops repeats: the same item twice in one call is one question. */
export const distinct = (items: readonly Item[]): readonly Item[] => [
  ...new Map(items.map((item) => [itemKey(item), item])).values(),
]

/**
 * Names what a decision is about: SHA-256 over the canonical items. The reason's text is not in it, so an approval cannot
 * be made unspendable by it (USER-ASKS 21, 22).
 */
export const digestOf = (items: readonly Item[]): string =>
  createHash('sha256')
    .update(canonicalJson(items.map(itemData)))
    .digest('base64url')
