import type { ItemChange, TermsDiff } from '../core/terms.ts'
import type { Item, TenantId } from '../core/vocabulary.ts'
import { type CatalogEntry, catalogEntries } from './catalog.ts'
import { templateTitles } from './template-changes.ts'
import type { Tx } from './tx.ts'

/** Where an item applies, without its permission. */
const placeOf = ({ resource, narrow }: Item) => ({
  ...(resource === undefined ? {} : { resource }),
  ...(narrow === undefined ? {} : { narrow: { ...narrow } }),
})

/** What people are told of a permission, in the catalog's words of today. */
export function ratedView(permission: string, catalog: ReadonlyMap<string, CatalogEntry>) {
  const entry = catalog.get(permission)
  return {
    title: entry?.title ?? permission,
    unlocks: entry?.description ?? 'The catalog has no permission of this id.',
    ...(entry === undefined
      ? {}
      : {
          kind: entry.kind,
          access: entry.access,
          risk: entry.risk,
          enforced_at: entry.enforcedAt,
        }),
  }
}

const itemView = (row: ItemChange, catalog: ReadonlyMap<string, CatalogEntry>) => {
  const entry = catalog.get(row.permission)
  return {
    change: row.change,
    permission: row.permission,
    ...ratedView(row.permission, catalog),
    ...(entry === undefined ? {} : { sensitive: entry.sensitive }),
    from: row.from.map(placeOf),
    to: row.to.map(placeOf),
  }
}

/** A diff as people read it, with the catalog's titles and risks of today. */
export async function diffView(tx: Tx, tenantId: TenantId, diff: TermsDiff) {
  const rows = [...diff.items, ...diff.sensitive]
  const catalog = await catalogEntries(tx, [...new Set(rows.map((row) => row.permission))])
  const names = diff.children.map((child) => child.template)
  const titles = await templateTitles(tx, { tenantId, names })
  return {
    widens: diff.widens,
    items: diff.items.map((row) => itemView(row, catalog)),
    modes: { added: [...diff.modes.added], removed: [...diff.modes.removed] },
    limits: diff.limits.map((one) => ({ ...one })),
    children: diff.children.map(({ change, template, from, to }) => ({
      change,
      template,
      title: titles.get(template) ?? template,
      ...(from === null ? {} : { from_version: from }),
      ...(to === null ? {} : { to_version: to }),
    })),
    sensitive: diff.sensitive.map((row) => itemView(row, catalog)),
    ...(diff.context === null ? {} : { context: { ...diff.context } }),
  }
}
