import type { SessionId, TenantId, UserId } from '../core/vocabulary.ts'
import type { Tx } from './tx.ts'

/** What time alone makes due. Every statement is bounded; `now` is in seconds. */
export type DueTree = {
  readonly rootId: SessionId
  readonly tenantId: TenantId
  readonly userId: UserId
}

/**
 * Session trees with a session past its end or a question past its own. Only a hint: whoever acts on it looks again under
 * the root's lock.
 */
export const dueTrees = (
  tx: Tx,
  of: { readonly now: number; readonly limit: number },
): Promise<readonly DueTree[]> => tx.sql<DueTree>`
  with over as (
    select root_id from session
    where status = 'active' and expires_at <= to_timestamp(${of.now}::float8)
    order by expires_at limit ${of.limit}),
  unanswered as (
    select root_id from access_request
    where status = 'pending' and expires_at <= to_timestamp(${of.now}::float8)
    order by expires_at limit ${of.limit})
  select s.id as "rootId", s.tenant_id as "tenantId", s.user_id as "userId" from session s
  where s.id in (select root_id from over union select root_id from unanswered)
  order by s.id`

/** People of a tenant who have live sessions, by id, after one of them. */
export async function liveUsersOf(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly after: string; readonly limit: number },
): Promise<readonly UserId[]> {
  const rows = await tx.sql<{ userId: UserId }>`
    select distinct user_id as "userId" from session
    where tenant_id = ${of.tenantId} and status = 'active' and user_id > ${of.after}
    order by user_id limit ${of.limit}`
  return rows.map((row) => row.userId)
}

/** Rows that another instance is deleting are left to it. Returns how many went. */
export async function deleteOldKeys(
  tx: Tx,
  of: { readonly before: number; readonly limit: number },
): Promise<number> {
  const gone = await tx.sql`
    delete from idempotency_key where ctid = any(array(
      select ctid from idempotency_key where created_at < to_timestamp(${of.before}::float8)
      order by created_at limit ${of.limit} for update skip locked))
    returning 1`
  return gone.length
}

export async function deleteOldAssertions(
  tx: Tx,
  of: { readonly before: number; readonly limit: number },
): Promise<number> {
  const gone = await tx.sql`
    delete from client_assertion where ctid = any(array(
      select ctid from client_assertion where expires_at < to_timestamp(${of.before}::float8)
      order by expires_at limit ${of.limit} for update skip locked))
    returning 1`
  return gone.length
}

/** Old rows of the feed that every job has passed. While no job has a place yet, nothing goes. */
export async function deletePassedFeed(
  tx: Tx,
  of: { readonly before: number; readonly limit: number },
): Promise<number> {
  const gone = await tx.sql`
    delete from feed where ctid = any(array(
      select f.ctid from feed f
      where f.at < to_timestamp(${of.before}::float8)
        and exists (select from feed_cursor)
        and not exists (select from feed_cursor c where (c.xid, c.id) < (f.xid, f.id))
      order by f.at limit ${of.limit} for update skip locked))
    returning 1`
  return gone.length
}
