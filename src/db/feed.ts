import type { TenantId, UserId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

/** Rows that say what others must hear of. Each is written in the transaction of its change, so none is missed. */
export const ACCESS_CHANGED = 'access_changed'

/** A place in the feed: by transaction, then by row. Both are 64-bit numbers as decimal text. */
export type FeedPlace = { readonly xid: string; readonly id: string }

export const FEED_START: FeedPlace = { xid: '0', id: '0' }

export type FeedRow = FeedPlace & {
  readonly tenantId: TenantId
  /** Null: everyone in the tenant. */
  readonly userId: UserId | null
  readonly topic: string
}

/**
 * Tells the re-evaluation that somebody's access may have shrunk. `users` null: everyone in the tenant. `now` in seconds.
 * Written in the same transaction as the change, or it could be lost.
 */
export async function tellAccessChanged(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly users: readonly UserId[] | null
    readonly what: string
    readonly now: number
  },
): Promise<void> {
  const data = json({ what: of.what })
  if (of.users === null) {
    await tx.sql`
      insert into feed (tenant_id, user_id, topic, data, at)
      values (${of.tenantId}, null, ${ACCESS_CHANGED}, ${data}::text::jsonb,
        to_timestamp(${of.now}::float8))`
    return
  }
  if (of.users.length === 0) return
  await tx.sql`
    insert into feed (tenant_id, user_id, topic, data, at)
    select ${of.tenantId}, u, ${ACCESS_CHANGED}, ${data}::text::jsonb, to_timestamp(${of.now}::float8)
    from unnest(${of.users}::text[]) as u`
}

/**
 * What stands after a place, in an order that no late commit can slip behind: only rows of transactions older than every
 * one that still runs, sorted by transaction. A sequence alone would skip the row of a slow transaction.
 */
export const readFeed = (
  tx: Tx,
  of: { readonly after: FeedPlace; readonly limit: number },
): Promise<readonly FeedRow[]> => tx.sql<FeedRow>`
  select id::text, xid::text, tenant_id as "tenantId", user_id as "userId", topic
  from feed
  where xid < (select settled_before())
    and (xid, id) > (${of.after.xid}::text::xid8, ${of.after.id}::text::bigint)
  order by feed.xid, feed.id limit ${of.limit}`

/** How far a job has come. The first call makes the row, so that from then on nothing is deleted that it has not passed. */
export async function readCursor(tx: Tx, job: string): Promise<FeedPlace> {
  const [place] = await tx.sql<FeedPlace>`
    select xid::text, id::text from feed_cursor where job = ${job}`
  if (place !== undefined) return place
  await tx.sql`
    insert into feed_cursor (job, xid, id) values (${job}, '0', 0) on conflict do nothing`
  return FEED_START
}

/** Moves a job's place forward, never back: of two instances that did the same work, the slower one changes nothing. */
export async function moveCursor(tx: Tx, job: string, to: FeedPlace): Promise<void> {
  await tx.sql`
    update feed_cursor set xid = ${to.xid}::text::xid8, id = ${to.id}::text::bigint
    where job = ${job} and (xid, id) < (${to.xid}::text::xid8, ${to.id}::text::bigint)`
}
