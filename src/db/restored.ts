import type { Item, RuleId, SessionId, TenantId, UserId } from '../core/vocabulary.ts'
import { type ItemJson, itemOf } from './tree.ts'
import { json, type Tx } from './tx.ts'

/**
 * A database that was brought back from a backup (I19). Whoever follows its feed compares `at`: where it is another than
 * before, every place in the feed is of a past that is gone, and tokens from before it may have been taken back since.
 */
export type Restored = {
  /** When it was restored, in milliseconds. */
  readonly at: number
  /** What was changed after it is gone, in milliseconds. */
  readonly backupAt: number
}

/** The name under which `installation` keeps it. */
export const RESTORED = 'restored'

export const saveRestored = async (tx: Tx, restored: Restored): Promise<void> => {
  await tx.sql`
    insert into installation (name, value) values (${RESTORED}, ${json(restored)}::text::jsonb)
    on conflict (name) do update set value = excluded.value`
}

/**
 * Transactions of the server that was backed up have numbers of their own. Where they are beyond this server's, no row of
 * theirs would count as settled, and no new one as later: they become this transaction's, in the order they had. Places in
 * the feeds are forgotten with their rows, since whatever they told of is done by the restore itself.
 */
export async function forgetPlaces(tx: Tx): Promise<void> {
  await tx.sql`truncate feed, feed_cursor, gateway_feed, gateway_feed_trimmed, rate_count, instance_report`
  const [ahead] = await tx.sql`
    select 1 from activity where xid >= pg_current_xact_id() limit 1`
  if (ahead === undefined) return
  await tx.sql`alter table activity disable trigger activity_is_append_only`
  await tx.sql`update activity set xid = pg_current_xact_id() where xid >= pg_current_xact_id()`
  await tx.sql`alter table activity enable trigger activity_is_append_only`
}

/** Browsers that have signed out since the backup would be signed in again. Returns how many are to sign in anew. */
export async function deleteSignIns(tx: Tx): Promise<number> {
  const gone = await tx.sql`delete from browser_session returning 1`
  await tx.sql`delete from sign_in`
  return gone.length
}

/** More than any account can have been narrowed between two backups. */
const VERSIONS_AHEAD = 1_000_000

/** Tokens of service accounts carry their account's version: those of any version until now are dead. */
export async function outdateServiceTokens(tx: Tx): Promise<void> {
  await tx.sql`update service_account set version = version + ${VERSIONS_AHEAD}::integer`
}

export type WaitingRule = {
  readonly id: RuleId
  readonly tenantId: TenantId
  readonly userId: UserId
  readonly template: string
  readonly item: Item
}

/** Allow rules of all people wait until each has looked at them again: one that was taken away is back (SPEC section 3). */
export async function suspendAllAllowRules(tx: Tx): Promise<readonly WaitingRule[]> {
  const rows = await tx.sql<Omit<WaitingRule, 'item'> & ItemJson>`
    with suspended as (
      update consent_rule set status = 'suspended' where effect = 'allow' and status = 'active'
      returning id, tenant_id, user_id, template_id, permission_id, resource, narrow)
    select s.id, s.tenant_id as "tenantId", s.user_id as "userId", t.name as template,
      s.permission_id as permission, s.resource, s.narrow
    from suspended s join template t on t.id = s.template_id order by s.tenant_id, s.user_id, s.id`
  return rows.map((row) => ({
    ...{ id: row.id, tenantId: row.tenantId, userId: row.userId, template: row.template },
    item: itemOf(row),
  }))
}

export const allTenants = (tx: Tx): Promise<readonly { id: TenantId; slug: string }[]> =>
  tx.sql<{ id: TenantId; slug: string }>`select id, slug from tenant order by slug`

/** Roots of live session trees. */
export const liveRoots = (
  tx: Tx,
  limit: number,
): Promise<readonly { id: SessionId; tenantId: TenantId }[]> =>
  tx.sql<{ id: SessionId; tenantId: TenantId }>`
    select id, tenant_id as "tenantId" from session
    where parent_id is null and status = 'active' order by id limit ${limit}`
