import type { AnchoredHead } from './checkpoints.ts'
import type { Tx } from './tx.ts'

/** One part of the record: a calendar month (UTC), or all that was there before months were. Times in seconds. */
export type ActivityPart = { readonly part: string; readonly ends: number }

/** Makes the parts of `count` months from the one of `now` (seconds) on, where they are missing. Safe for several at once. */
export async function makeMonths(
  tx: Tx,
  of: { readonly now: number; readonly count: number },
): Promise<void> {
  await tx.sql`
    select make_activity_month((date_trunc('month', to_timestamp(${of.now}::float8) at time zone 'UTC')
      + interval '1 month' * m)::date)
    from generate_series(0, ${of.count - 1}::int) as m`
}

/** The oldest part that is over since `keptMonths` whole months before the month of `now` (seconds); null: none. */
export async function partToCut(
  tx: Tx,
  of: { readonly now: number; readonly keptMonths: number },
): Promise<ActivityPart | null> {
  const [row] = await tx.sql<ActivityPart>`
    select part, extract(epoch from ends)::float8 as ends from activity_months
    where ends <= (date_trunc('month', to_timestamp(${of.now}::float8) at time zone 'UTC')
      - interval '1 month' * ${of.keptMonths}::int) at time zone 'UTC'
    order by ends limit 1`
  return row ?? null
}

/** A head is anchored within a minute or so of a checkpoint job that runs; held back by a long transaction, within its life. */
const ANCHORED_WITHIN_SECONDS = 24 * 3600

/**
 * Heads of what goes with a part, of the chains that went on or were anchored after its end, until a day after the first
 * checkpoint that was made then (nothing may have run for a while): the last of each, by chain. What goes on later still
 * stood unchanged for longer than that, so an earlier checkpoint anchors its head.
 */
export const headsOfPart = (
  tx: Tx,
  { part, ends }: ActivityPart,
): Promise<readonly AnchoredHead[]> => tx.sql<AnchoredHead>`
  with near as (
    select coalesce(min(at), to_timestamp(${ends}::float8)) + interval '1 second' * ${ANCHORED_WITHIN_SECONDS}::int as until
    from activity_checkpoint where at >= to_timestamp(${ends}::float8)),
  staying as (
    select chain from activity
    where at >= to_timestamp(${ends}::float8) and at < (select until from near)
    union
    select head ->> 'chain' from activity_checkpoint c, jsonb_array_elements(c.heads) head
    where c.at >= to_timestamp(${ends}::float8) and c.at < (select until from near))
  select distinct on (a.chain) a.tenant_id, a.chain, a.seq, a.hash from activity a
  where a.tableoid = ${part}::text::regclass and a.chain in (select chain from staying)
  order by a.chain, a.seq desc`

/** Whether a part holds what is later than the end it is said to have: somebody moved the one or the other. */
export async function holdsLater(tx: Tx, { part, ends }: ActivityPart): Promise<boolean> {
  const rows = await tx.sql`
    select from activity a
    where a.tableoid = ${part}::text::regclass and a.at >= to_timestamp(${ends}::float8) limit 1`
  return rows.length > 0
}

/** How long a lock may be waited for that holds up everybody else's writes. The next run tries again. */
const LOCK_WAIT = '5s'

/**
 * Takes a part out of the record for good, with what says which permissions its records name. In the transaction of the
 * checkpoint that vouches for it, or not at all.
 */
export async function dropPart(tx: Tx, { part }: ActivityPart): Promise<void> {
  await tx.sql`select set_config('lock_timeout', ${LOCK_WAIT}, true)`
  await tx.sql`select drop_activity_part(${part})`
}
