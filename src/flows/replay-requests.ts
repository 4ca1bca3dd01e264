import type { Verdict } from '../core/decide.ts'
import { type Outcome, REASONS } from '../core/reason.ts'
import { replay } from '../core/replay.ts'
import type { Terms } from '../core/terms.ts'
import type { TemplateId, TenantId } from '../core/vocabulary.ts'
import { catalogEntries } from '../db/catalog.ts'
import { type ReplayRow, selectReplay } from '../db/replay.ts'
import type { Tx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'

/** How many items are looked at, and how many of those that differ are shown one by one. */
const ITEMS_MAX = 5000
const SHOWN_MAX = 200
const DAY_SECONDS = 86_400

export type Replayed = { readonly row: ReplayRow; readonly now: Verdict }

export type Replay = {
  /** Items looked at. */
  readonly items: number
  /** Whether there was more than is looked at. */
  readonly truncated: boolean
  /** How many would now be refused, asked or granted that were not. */
  readonly changed: Readonly<Record<Outcome, number>>
  /** The caller's own tenant's, newest first. */
  readonly own: readonly Replayed[]
  /** Every other tenant's, as counts and nothing else (I17). */
  readonly others: readonly {
    readonly permission: string
    readonly now: Verdict
    readonly count: number
  }[]
}

/**
 * Recorded requests of a template, decided again under other terms: "these 12 would now be refused". Only what would come out
 * differently is told. `onlyOwn`: other tenants' requests are not even read.
 */
export async function replayRequests(
  ctx: Ctx,
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly onlyOwn: boolean
    readonly templateId: TemplateId
    readonly terms: Terms
    readonly days: number
  },
): Promise<Replay> {
  const { tenantId, templateId, terms } = of
  const rows = await selectReplay(tx, {
    templateId,
    since: secondsNow(ctx.clock) - of.days * DAY_SECONDS,
    limit: ITEMS_MAX + 1,
    ...(of.onlyOwn ? { tenantId } : {}),
  })
  const looked = rows.slice(0, ITEMS_MAX)
  const ids = new Set(looked.map((row) => row.item.permission))
  const catalog = await catalogEntries(tx, [...ids])
  const different = looked
    .map((row): Replayed => ({ row, now: replay(row, terms, catalog) }))
    .filter(({ row, now }) => now.outcome !== REASONS[row.reason].outcome)
  const changed: Record<Outcome, number> = { granted: 0, refused: 0, asked: 0 }
  const others = new Map<string, { permission: string; now: Verdict; count: number }>()
  for (const { row, now } of different) {
    changed[now.outcome]++
    if (row.tenantId === tenantId) continue
    const { permission } = row.item
    const key = `${permission} ${now.reason}`
    const one = others.get(key) ?? { permission, now, count: 0 }
    one.count++
    others.set(key, one)
  }
  return {
    items: looked.length,
    truncated: rows.length > ITEMS_MAX,
    changed,
    own: different.filter(({ row }) => row.tenantId === tenantId).slice(0, SHOWN_MAX),
    others: [...others.values()].sort((a, b) => b.count - a.count),
  }
}
