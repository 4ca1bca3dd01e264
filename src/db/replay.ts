import { REASONS, type Reason } from '../core/reason.ts'
import type { Recorded } from '../core/replay.ts'
import type { TemplateId, TenantId } from '../core/vocabulary.ts'
import { type ItemJson, itemOf } from './tree.ts'
import type { Tx } from './tx.ts'

/** An item that a session of a template asked for. Whose it is is for its own tenant only (I17). */
export type ReplayRow = Recorded & {
  readonly tenantId: TenantId
  readonly requestId: string
  readonly itemId: string
  readonly sessionId: string
  readonly userId: string
  /** Seconds. */
  readonly at: number
}

const SESSIONS_MAX = 5000

/**
 * What sessions of a template asked for, newest first, by the index on template and time; never more than `limit` items of
 * the newest sessions. `tenantId`: one tenant's only. `since` in seconds, of the sessions' start.
 */
export async function selectReplay(
  tx: Tx,
  of: {
    readonly templateId: TemplateId
    readonly tenantId?: TenantId
    readonly since: number
    readonly limit: number
  },
): Promise<readonly ReplayRow[]> {
  const rows = await tx.sql<Omit<ReplayRow, 'item'> & ItemJson>`
    with recent as materialized (
      select id, tenant_id, user_id, mode from session
      where template_id = ${of.templateId} and created_at >= to_timestamp(${of.since}::float8)
        and (${of.tenantId ?? null}::text is null or tenant_id = ${of.tenantId ?? null})
      order by created_at desc limit ${SESSIONS_MAX})
    select s.tenant_id as "tenantId", s.user_id as "userId", s.id as "sessionId", s.mode,
      i.id as "itemId", i.request_id as "requestId", i.permission_id as permission, i.resource, i.narrow,
      coalesce(i.asked_reason, i.decision_reason) as reason, i.rule_id as "ruleId",
      extract(epoch from r.created_at)::float8 as at
    from recent s
    join request_item i on i.session_id = s.id
    join access_request r on r.id = i.request_id
    order by r.created_at desc, i.id limit ${of.limit}`
  return rows
    .filter((row) => Object.hasOwn(REASONS, row.reason))
    .map(({ permission, resource, narrow, ...row }) => ({
      ...row,
      reason: row.reason as Reason,
      item: itemOf({ permission, resource, narrow }),
    }))
}
