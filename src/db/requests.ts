import type { DecisionReason } from '../core/reason.ts'
import type { ItemOutcome } from '../core/session.ts'
import type {
  Item,
  ItemId,
  RequestId,
  RuleId,
  SessionId,
  TenantId,
  UserId,
} from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

export type NewItem = {
  readonly id: ItemId
  readonly item: Item
  readonly sensitive: boolean
  readonly outcome: ItemOutcome
  /** The row of the decision; for a pending item the reason it was asked. */
  readonly reason: DecisionReason
  readonly ruleId?: RuleId | undefined
}

export type NewRequest = {
  readonly id: RequestId
  readonly tenantId: TenantId
  readonly sessionId: SessionId
  readonly rootId: SessionId
  readonly userId: UserId
  readonly reason: string
  readonly digest: string
  readonly now: number
  readonly expiresAt: number
  readonly items: readonly NewItem[]
}

/** One statement for any number of requests with all their items. */
export function insertRequests(tx: Tx, requests: readonly NewRequest[]): void {
  if (requests.length === 0) return
  const rows = requests.map(({ items, ...request }) => ({
    ...request,
    status: items.some((i) => i.outcome === 'pending') ? 'pending' : 'settled',
  }))
  const items = requests.flatMap((request) =>
    request.items.map((i, position) => ({
      id: i.id,
      request_id: request.id,
      position,
      permission_id: i.item.permission,
      resource: i.item.resource ?? null,
      narrow: i.item.narrow ?? null,
      sensitive: i.sensitive,
      asked_reason: i.outcome === 'pending' ? i.reason : null,
      outcome: i.outcome,
      decision_reason: i.reason,
      rule_id: i.ruleId ?? null,
    })),
  )
  tx.later`
    with request as (
      insert into access_request (id, tenant_id, session_id, root_id, user_id, reason, digest, status,
        created_at, expires_at, settled_at)
      select id, "tenantId", "sessionId", "rootId", "userId", reason, digest, status,
        to_timestamp(now), to_timestamp("expiresAt"), case when status = 'pending' then null else to_timestamp(now) end
      from jsonb_to_recordset(${json(rows)}::text::jsonb) as q (id text, "tenantId" text, "sessionId" text,
        "rootId" text, "userId" text, reason text, digest text, status text, now float8, "expiresAt" float8)
      returning id, session_id, created_at)
    insert into request_item (id, request_id, session_id, position, permission_id, resource, narrow,
      sensitive, asked_reason, outcome, decision_reason, rule_id, decided_at)
    select r.id, request.id, request.session_id, r.position, r.permission_id, r.resource,
      nullif(r.narrow, 'null'::jsonb), r.sensitive, r.asked_reason, r.outcome, r.decision_reason, r.rule_id,
      case when r.outcome = 'pending' then null else request.created_at end
    from request join jsonb_to_recordset(${json(items)}::text::jsonb) as r (id text, request_id text, position integer,
      permission_id text, resource text, narrow jsonb, sensitive boolean, asked_reason text, outcome text,
      decision_reason text, rule_id text) on r.request_id = request.id`
}

export type Settled = {
  readonly id: ItemId
  readonly outcome: 'granted' | 'refused'
  readonly reason: DecisionReason
  readonly ruleId?: RuleId | undefined
}

/**
 * Gives pending items their end, and settles the requests that have none pending left. Postgres refuses a second end
 * (I16). `answeredBy` only when a user answered (I6).
 */
export function settleItems(
  tx: Tx,
  of: { readonly now: number; readonly answeredBy?: UserId; readonly note?: string | undefined },
  items: readonly Settled[],
): void {
  if (items.length === 0) return
  const rows = items.map((i) => ({ ...i, ruleId: i.ruleId ?? null }))
  const ids = items.map((i) => i.id)
  tx.later`
    update request_item i set outcome = r.outcome, decision_reason = r.reason,
      rule_id = coalesce(r."ruleId", i.rule_id), answered_by = ${of.answeredBy ?? null},
      decided_at = to_timestamp(${of.now}::float8)
    from jsonb_to_recordset(${json(rows)}::text::jsonb) as r (id text, outcome text, reason text, "ruleId" text)
    where i.id = r.id and i.id = any(${ids}::text[])`
  tx.later`
    update access_request q set status = 'settled', settled_at = to_timestamp(${of.now}::float8),
      note = coalesce(${of.note ?? null}, q.note)
    where q.status = 'pending'
      and q.id in (select request_id from request_item where id = any(${ids}::text[]))
      and not exists (select from request_item i where i.request_id = q.id and i.outcome = 'pending')`
}
