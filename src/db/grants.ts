import type { GrantId, Item, RequestId, RuleId, SessionId, TenantId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

export type NewGrant = {
  readonly id: GrantId
  readonly sessionId: SessionId
  readonly item: Item
  readonly readOnly: boolean
  readonly sensitive: boolean
  readonly source: 'user' | 'rule' | 'mode' | 'inherited'
  readonly ruleId?: RuleId | undefined
  readonly requestId?: RequestId | undefined
  readonly inheritedFrom?: GrantId | undefined
  readonly parentSessionId?: SessionId | undefined
}

/** One statement for any number of grants. Postgres refuses what may not be held (see the table's constraints). */
export function insertGrants(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly now: number },
  grants: readonly NewGrant[],
): void {
  if (grants.length === 0) return
  const rows = grants.map((g) => ({
    id: g.id,
    session_id: g.sessionId,
    permission_id: g.item.permission,
    resource: g.item.resource ?? null,
    narrow: g.item.narrow ?? null,
    read_only: g.readOnly,
    sensitive: g.sensitive,
    source: g.source,
    rule_id: g.ruleId ?? null,
    request_id: g.requestId ?? null,
    inherited_from: g.inheritedFrom ?? null,
    parent_session_id: g.parentSessionId ?? null,
  }))
  tx.later`
    insert into access_grant (id, tenant_id, session_id, permission_id, resource, narrow, read_only,
      sensitive, source, rule_id, request_id, inherited_from, parent_session_id, created_at)
    select id, ${of.tenantId}::text, session_id, permission_id, resource, nullif(narrow, 'null'::jsonb),
      read_only, sensitive, source, rule_id, request_id, inherited_from, parent_session_id,
      to_timestamp(${of.now}::float8)
    from jsonb_to_recordset(${json(rows)}::text::jsonb) as r (id text, session_id text,
      permission_id text, resource text, narrow jsonb, read_only boolean, sensitive boolean, source text,
      rule_id text, request_id text, inherited_from text, parent_session_id text)`
}

/** Deletes grants and raises the version of every session that lost one, so its tokens die (SPEC section 5). */
export function deleteGrants(
  tx: Tx,
  grants: readonly GrantId[],
  sessions: readonly SessionId[],
): void {
  if (grants.length === 0) return
  tx.later`delete from access_grant where id = any(${grants}::text[])`
  tx.later`update session set version = version + 1 where id = any(${sessions}::text[])`
}
