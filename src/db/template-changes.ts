import type { Terms } from '../core/terms.ts'
import type { Item, RuleId, TemplateId, TenantId, UserId } from '../core/vocabulary.ts'
import { type ItemJson, itemOf } from './tree.ts'
import { json, type Tx } from './tx.ts'

export type TouchedRule = { readonly id: RuleId; readonly userId: UserId; readonly item: Item }
type RuleSql = ItemJson & { id: RuleId; userId: UserId }

const ruleOf = (row: RuleSql): TouchedRule => ({
  id: row.id,
  userId: row.userId,
  item: itemOf(row),
})

/**
 * Suspends every allow rule of the tenant's people for a template, and keeps for each of them what they knew of it: the
 * terms until now, or still older ones if a rule of theirs has been waiting since then.
 */
export async function suspendRules(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly templateId: TemplateId
    readonly from: { readonly version: number; readonly terms: Terms }
    readonly now: number
  },
): Promise<readonly TouchedRule[]> {
  const rows = await tx.sql<RuleSql>`
    with suspended as (
      update consent_rule set status = 'suspended'
      where tenant_id = ${of.tenantId} and template_id = ${of.templateId} and effect = 'allow'
        and status = 'active' and (expires_at is null or expires_at > to_timestamp(${of.now}::float8))
      returning id, user_id, permission_id, resource, narrow),
    told as (
      insert into template_change (tenant_id, user_id, template_id, from_version, from_terms, created_at)
      select distinct ${of.tenantId}::text, s.user_id, ${of.templateId}::text, ${of.from.version}::integer,
        ${json(of.from.terms)}::text::jsonb, to_timestamp(${of.now}::float8)
      from suspended s
      on conflict (user_id, template_id) do update
        set from_version = excluded.from_version, from_terms = excluded.from_terms,
          created_at = excluded.created_at
        where not exists (
          select from consent_rule r
          where r.user_id = template_change.user_id and r.template_id = template_change.template_id
            and r.effect = 'allow' and r.created_at <= template_change.created_at
            and (r.expires_at is null or r.expires_at > to_timestamp(${of.now}::float8))))
    select id, user_id as "userId", permission_id as permission, resource, narrow
    from suspended order by user_id, id`
  return rows.map(ruleOf)
}

export type ChangeRow = {
  readonly templateId: TemplateId
  readonly template: string
  /** What the person knew. Null when that was not kept: then all of it is new to them. */
  readonly fromVersion: number | null
  readonly fromTerms: Terms | null
  /** Seconds: since when their rules wait. */
  readonly since: number | null
  readonly rules: number
}

/** Templates, turned on, of which rules of one person wait, in the order of their names. Rules that ran out do not. */
export const selectChanges = (
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly userId: UserId
    /** By name. */
    readonly template?: string
    readonly now: number
    readonly limit: number
  },
): Promise<readonly ChangeRow[]> => tx.sql<ChangeRow>`
  select t.id as "templateId", t.name as template, c.from_version as "fromVersion",
    c.from_terms as "fromTerms", extract(epoch from c.created_at)::float8 as since,
    count(*)::integer as rules
  from consent_rule r
  join template t on t.id = r.template_id
  join enablement e on e.tenant_id = r.tenant_id and e.template_id = r.template_id and e.status = 'on'
  left join template_change c on c.user_id = r.user_id and c.template_id = r.template_id
  where r.tenant_id = ${of.tenantId} and r.user_id = ${of.userId} and r.status = 'suspended'
    and (r.expires_at is null or r.expires_at > to_timestamp(${of.now}::float8))
    and (${of.template ?? null}::text is null or t.name = ${of.template ?? null})
  group by t.id, t.name, c.from_version, c.from_terms, c.created_at
  order by t.name limit ${of.limit}`

/** Puts one person's suspended rules for a template in force again, and forgets what they waited for. */
export async function confirmRules(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly userId: UserId
    readonly templateId: TemplateId
    readonly now: number
  },
): Promise<readonly TouchedRule[]> {
  const rows = await tx.sql<RuleSql>`
    with told as (
      delete from template_change
      where tenant_id = ${of.tenantId} and user_id = ${of.userId} and template_id = ${of.templateId}),
    confirmed as (
      update consent_rule set status = 'active'
      where tenant_id = ${of.tenantId} and user_id = ${of.userId} and template_id = ${of.templateId}
        and status = 'suspended'
        and (expires_at is null or expires_at > to_timestamp(${of.now}::float8))
      returning id, user_id, permission_id, resource, narrow)
    select id, user_id as "userId", permission_id as permission, resource, narrow
    from confirmed order by id`
  return rows.map(ruleOf)
}

/** Titles of templates, by name; those that the tenant may not see are not among them. */
export async function templateTitles(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly names: readonly string[] },
): Promise<ReadonlyMap<string, string>> {
  const rows = await tx.sql<{ name: string; title: string }>`
    select name, title from template
    where name = any(${[...of.names]}::text[]) and (visibility = 'public' or tenant_id = ${of.tenantId})`
  return new Map(rows.map((row) => [row.name, row.title]))
}
