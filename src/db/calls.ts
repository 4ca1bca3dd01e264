import type { GrantId, SessionId, TenantId } from '../core/vocabulary.ts'
import type { Subject } from './activity.ts'
import { json, type Tx } from './tx.ts'

/** Where the record of a call goes. */
export type CalledSession = { readonly id: SessionId; readonly rootId: SessionId }

/** Those of the sessions that are the tenant's, live or over: a record may arrive after the end. */
export const calledSessions = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly ids: readonly string[] },
): Promise<readonly CalledSession[]> => tx.sql<CalledSession>`
  select id, root_id as "rootId" from session
  where tenant_id = ${of.tenantId} and id = any(${of.ids}::text[])`

/** Which service owns each permission; retired ones too, since a call may have come before. */
export async function servicesOf(
  tx: Tx,
  permissions: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await tx.sql<{ id: string; service: string }>`
    select id, service_id as service from permission where id = any(${permissions}::text[])`
  return new Map(rows.map((row) => [row.id, row.service]))
}

type SubjectSql = Omit<Subject, 'head'> & { seq: number; hash: string }

/** Locks a root session and reads the heads of those chains of its tree that are about to move. */
export async function lockSubjects(
  tx: Tx,
  of: { readonly rootId: SessionId; readonly ids: readonly SessionId[] },
): Promise<ReadonlyMap<string, Subject>> {
  await tx.sql`select id from session where id = ${of.rootId} for update`
  const rows = await tx.sql<SubjectSql>`
    select s.id, s.root_id as "rootId", s.agent_id as "agentId", s.user_id as "userId",
      t.name || '@' || s.template_version as template, s.chain_seq as seq, s.chain_hash as hash
    from session s join template t on t.id = s.template_id
    where s.root_id = ${of.rootId} and s.id = any(${of.ids}::text[])`
  return new Map(rows.map(({ seq, hash, ...row }) => [row.id, { ...row, head: { seq, hash } }]))
}

export type GrantUse = {
  readonly grantId: GrantId
  readonly sessionId: SessionId
  readonly permission: string
  readonly uses: number
  /** Seconds. */
  readonly lastAt: number
}

/**
 * Counts uses of grants that are still held. A grant that is gone, or is another session's, is
 * passed over.
 */
export async function countUses(tx: Tx, uses: readonly GrantUse[]): Promise<void> {
  if (uses.length === 0) return
  await tx.sql`
    update access_grant g set uses = g.uses + u.uses,
      last_used_at = greatest(g.last_used_at, to_timestamp(u."lastAt"))
    from jsonb_to_recordset(${json(uses)}::text::jsonb) as u ("grantId" text, "sessionId" text,
      permission text, uses integer, "lastAt" float8)
    where g.id = u."grantId" and g.session_id = u."sessionId" and g.permission_id = u.permission`
}

/**
 * False when this part of a batch has been recorded before. In the transaction of the records it
 * guards.
 */
export async function firstTime(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly caller: string
    readonly key: string
    readonly bodyHash: string
    readonly now: number
  },
): Promise<boolean> {
  const [row] = await tx.sql`
    insert into idempotency_key (tenant_id, caller, route, key, body_hash, created_at)
    values (${of.tenantId}, ${of.caller}, 'enforce/calls', ${of.key}, ${of.bodyHash},
      to_timestamp(${of.now}::float8))
    on conflict do nothing returning key`
  return row !== undefined
}

/** Adds to a counter of the tenant's day: what is not chained is at least counted. */
export async function count(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly name: string; readonly by: number; now: number },
): Promise<void> {
  await tx.sql`
    insert into counter (tenant_id, name, day, count)
    values (${of.tenantId}, ${of.name}, (to_timestamp(${of.now}::float8) at time zone 'utc')::date,
      ${of.by})
    on conflict (tenant_id, name, day) do update set count = counter.count + excluded.count`
}
