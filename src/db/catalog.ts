import type { Access, EnforcedAt, Kind, Risk } from '../core/vocabulary.ts'
import type { CatalogRow } from './tree.ts'
import type { Tx } from './tx.ts'

/** A row of the catalog as people and agents read it. Retired rows are never among them. */
export type CatalogEntry = CatalogRow & {
  readonly kind: Kind
  readonly access: Access
  readonly risk: Risk
  readonly enforcedAt: EnforcedAt
  readonly bit: number
  /** The type of object that an asset permission is about, as in `dashboard`. */
  readonly assetType: string | null
}

export type CatalogMatch = CatalogEntry & {
  /** Words of the task, as written there, for which this row was found. */
  readonly matched: readonly string[]
}

const WORDS_MAX = 100

/** The words of a text, each once, in order. Done here: what a letter is differs between databases' locales. */
const wordsOf = (text: string): readonly string[] => [
  ...new Map(
    [...text.matchAll(/[\p{L}\p{N}]+/gu)].slice(0, WORDS_MAX).map(([w]) => [w.toLowerCase(), w]),
  ).values(),
]

/**
 * Finds what a task may need: rows that share any word with it, stemmed as English, best first. `limit` in rows. A task
 * of nothing but stop words finds nothing.
 */
export const searchCatalog = (
  tx: Tx,
  of: { readonly task: string; readonly kind?: Kind | undefined; readonly limit: number },
): Promise<readonly CatalogMatch[]> => tx.sql<CatalogMatch>`
  with asked as (
    select replace(plainto_tsquery('english', ${of.task})::text, '&', '|')::tsquery as any_word),
  words as (
    select w.word, w.i, plainto_tsquery('english', w.word) as lexemes
    from unnest(${wordsOf(of.task)}::text[]) with ordinality as w (word, i))
  select p.id, p.title, p.description, p.kind, p.service_id as service, p.access, p.risk, p.sensitive,
    p.delegable, p.enforced_at as "enforcedAt", p.bit, p.asset ->> 'type' as "assetType", p.data,
    p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource",
    array(select w.word from words w where numnode(w.lexemes) > 0 and p.search @@ w.lexemes
      order by w.i) as matched
  from permission p, asked
  where not p.retired and numnode(asked.any_word) > 0 and p.search @@ asked.any_word
    and (${of.kind ?? null}::text is null or p.kind = ${of.kind ?? null})
  order by ts_rank_cd(p.search, asked.any_word) desc, p.id
  limit ${of.limit}`

/** The whole catalog by id, after one of them. */
export const listCatalog = (
  tx: Tx,
  of: { readonly kind?: Kind | undefined; readonly after: string; readonly limit: number },
): Promise<readonly CatalogEntry[]> => tx.sql<CatalogEntry>`
  select p.id, p.title, p.description, p.kind, p.service_id as service, p.access, p.risk, p.sensitive,
    p.delegable, p.enforced_at as "enforcedAt", p.bit, p.asset ->> 'type' as "assetType", p.data,
    p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource"
  from permission p
  where not p.retired and p.id > ${of.after}
    and (${of.kind ?? null}::text is null or p.kind = ${of.kind ?? null})
  order by p.id limit ${of.limit}`

export async function catalogEntries(
  tx: Tx,
  ids: readonly string[],
): Promise<ReadonlyMap<string, CatalogEntry>> {
  const rows = await tx.sql<CatalogEntry>`
    select p.id, p.title, p.description, p.kind, p.service_id as service, p.access, p.risk, p.sensitive,
      p.delegable, p.enforced_at as "enforcedAt", p.bit, p.asset ->> 'type' as "assetType", p.data,
      p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource"
    from permission p where not p.retired and p.id = any(${ids}::text[])`
  return new Map(rows.map((row) => [row.id, row]))
}

/** An example of the resource that items of it must name; null when they take none. */
export function resourceHintOf(of: {
  readonly kind: Kind
  readonly assetType: string | null
  readonly takesResource: boolean
}): string | null {
  if (!of.takesResource) return null
  return of.kind === 'asset' ? `${of.assetType ?? 'type'}/<name>` : 'domain/customer.example'
}
