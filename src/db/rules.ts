import type { Item, RuleEffect, RuleId, TemplateId, TenantId, UserId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

export type NewRule = {
  readonly id: RuleId
  readonly tenantId: TenantId
  readonly userId: UserId
  readonly templateId: TemplateId
  readonly effect: RuleEffect
  readonly item: Item
  readonly createdFrom?: string | undefined
  readonly expiresAt?: number | undefined
  readonly now: number
}

/**
 * Saves an answer. The same rule saved again is the same rule: it is put in force and takes the new expiry. Answers the
 * id of the rule that stands.
 */
export async function saveRule(tx: Tx, rule: NewRule): Promise<RuleId> {
  const narrow = rule.item.narrow === undefined ? null : json(rule.item.narrow)
  const [saved] = await tx.sql<{ id: RuleId }>`
    insert into consent_rule (id, tenant_id, user_id, template_id, permission_id, resource, narrow, effect,
      created_from, expires_at, created_at)
    values (${rule.id}, ${rule.tenantId}, ${rule.userId}, ${rule.templateId}, ${rule.item.permission},
      ${rule.item.resource ?? null}, ${narrow}::text::jsonb, ${rule.effect}, ${rule.createdFrom ?? null},
      to_timestamp(${rule.expiresAt ?? null}::float8), to_timestamp(${rule.now}::float8))
    on conflict (user_id, template_id, effect, permission_id, resource, digest_of(narrow))
      do update set status = 'active', expires_at = excluded.expires_at
    returning id`
  return saved?.id ?? rule.id
}

/** A suspended allow rule that its user has confirmed by answering its prompt with Always (SPEC section 3). */
export async function renewRule(tx: Tx, id: RuleId): Promise<void> {
  await tx.sql`update consent_rule set status = 'active' where id = ${id}`
}

/** Roots of the user's live sessions that hold something a deny rule for this template could end. */
export async function liveRootsOf(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId; readonly templateId?: TemplateId },
): Promise<readonly string[]> {
  const rows = await tx.sql<{ root: string }>`
    select distinct root_id as root from session
    where tenant_id = ${of.tenantId} and user_id = ${of.userId} and status = 'active'
      and (${of.templateId ?? null}::text is null or template_id = ${of.templateId ?? null})
    order by root_id`
  return rows.map((r) => r.root)
}
