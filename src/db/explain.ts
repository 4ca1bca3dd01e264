import type { Rule } from '../core/facts.ts'
import type { DecisionReason } from '../core/reason.ts'
import type { Item, SessionId, TemplateId, TenantId, UserId } from '../core/vocabulary.ts'
import { type ItemJson, itemOf } from './tree.ts'
import type { Tx } from './tx.ts'

/** What the decision rests on outside any session, for those who ask what it would be. */
export type PersonRow = {
  readonly id: UserId
  readonly login: string
  readonly active: boolean
}

/** A person of the tenant, by id or login. */
export async function selectPerson(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly ref: string },
): Promise<PersonRow | null> {
  const [row] = await tx.sql<PersonRow>`
    select id, login, status = 'active' as active from app_user
    where tenant_id = ${of.tenantId} and (id = ${of.ref} or login = ${of.ref})
    order by id = ${of.ref} desc limit 1`
  return row ?? null
}

export async function personAccess(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId },
): Promise<readonly Item[]> {
  const rows = await tx.sql<ItemJson>`
    select distinct permission_id as permission, resource, null::jsonb as narrow from user_access
    where user_id = ${of.userId} and tenant_id = ${of.tenantId}`
  return rows.map(itemOf)
}

/** Unexpired rules of a person for a template, in the order in which a session's decision reads them. */
export async function personRules(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly userId: UserId
    readonly templateId: TemplateId
    /** Seconds. */
    readonly now: number
  },
): Promise<readonly Rule[]> {
  const rows = await tx.sql<
    ItemJson & { id: Rule['id']; effect: Rule['effect']; suspended: boolean }
  >`
    select id, effect, status = 'suspended' as suspended, permission_id as permission, resource, narrow
    from consent_rule
    where tenant_id = ${of.tenantId} and user_id = ${of.userId} and template_id = ${of.templateId}
      and (expires_at is null or expires_at > to_timestamp(${of.now}::float8))
    order by created_at, id`
  return rows.map(({ id, effect, suspended, ...item }) => ({
    id,
    effect,
    suspended,
    item: itemOf(item),
  }))
}

/** Whether a freeze keeps this person's sessions of the template from getting anything. Agents are not asked about. */
export async function isFrozenFor(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId; readonly templateId: TemplateId },
): Promise<boolean> {
  const rows = await tx.sql`
    select from frozen where tenant_id = ${of.tenantId}
      and (scope = 'tenant' or (scope = 'user' and target_id = ${of.userId})
        or (scope = 'template' and target_id = ${of.templateId})) limit 1`
  return rows.length > 0
}

/** An item as it was asked and decided. */
export type RecordedItem = {
  readonly sessionId: SessionId
  readonly userId: UserId
  readonly item: Item
  readonly outcome: 'pending' | 'granted' | 'refused'
  readonly reason: DecisionReason
  /** Why the person was asked, when they were. */
  readonly askedReason: DecisionReason | null
  readonly ruleId: string | null
  /** Seconds. */
  readonly decidedAt: number | null
}

export async function selectRecordedItem(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly requestId: string; readonly itemId: string },
): Promise<RecordedItem | null> {
  const [row] = await tx.sql<Omit<RecordedItem, 'item'> & ItemJson>`
    select i.session_id as "sessionId", r.user_id as "userId", i.permission_id as permission, i.resource,
      i.narrow, i.outcome, i.decision_reason as reason, i.asked_reason as "askedReason",
      i.rule_id as "ruleId", extract(epoch from i.decided_at)::float8 as "decidedAt"
    from request_item i join access_request r on r.id = i.request_id
    where r.tenant_id = ${of.tenantId} and r.id = ${of.requestId} and i.id = ${of.itemId}`
  return row === undefined ? null : { ...row, item: itemOf(row) }
}
