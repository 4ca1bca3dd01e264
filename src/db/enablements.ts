import { lowered } from '../core/limits.ts'
import { ceilingWithin, type Terms } from '../core/terms.ts'
import type { Item, Limits, Mode, TemplateId, TenantId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

/** What a tenant made of a template: which version, and what it kept of it (I15). */
export type EnablementRow = {
  readonly templateId: TemplateId
  readonly template: string
  readonly title: string
  readonly status: 'on' | 'off'
  readonly adoptedVersion: number
  readonly kept: readonly Item[]
  readonly modes: readonly Mode[]
  readonly limits: Partial<Limits>
  /** Seconds. */
  readonly updatedAt: number
}

/** Null: not turned on here, or no such template, or it is private to another tenant. */
export async function selectEnablement(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly template: string },
): Promise<EnablementRow | null> {
  const [row] = await tx.sql<EnablementRow>`
    select t.id as "templateId", t.name as template, t.title, e.status,
      e.adopted_version as "adoptedVersion", e.kept, e.modes, e.limits,
      extract(epoch from e.updated_at)::float8 as "updatedAt"
    from enablement e join template t on t.id = e.template_id
    where e.tenant_id = ${of.tenantId} and t.name = ${of.template}
      and (t.visibility = 'public' or t.tenant_id = ${of.tenantId})`
  return row ?? null
}

/** The terms of a version. Null: there is none, it is a draft, or it is retired and `retired` ones do not do. */
export async function versionTerms(
  tx: Tx,
  of: {
    readonly templateId: TemplateId
    readonly version: number
    /** What was adopted once may have been retired since. */
    readonly retired: boolean
  },
): Promise<Terms | null> {
  const [row] = await tx.sql<Terms>`
    select ceiling, modes, limits, children, sensitive, context from template_version
    where template_id = ${of.templateId} and version = ${of.version}
      and (status = 'published' or (${of.retired} and status = 'retired'))`
  return row ?? null
}

/** A version as the tenant runs it: what counts for its people. */
export const termsWithin = (
  { ceiling, modes, limits, children, sensitive, context }: Terms,
  own: Pick<EnablementRow, 'kept' | 'modes' | 'limits'>,
): Terms => ({
  ceiling: ceilingWithin(ceiling, own.kept),
  modes: modes.filter((mode) => own.modes.includes(mode)),
  limits: lowered(limits, own.limits),
  children,
  sensitive,
  context,
})

/** Inserts it, or takes the place of what was. */
export async function saveEnablement(
  tx: Tx,
  tenantId: TenantId,
  e: Omit<EnablementRow, 'template' | 'title'>,
): Promise<void> {
  await tx.sql`
    insert into enablement (tenant_id, template_id, status, adopted_version, kept, modes, limits, updated_at)
    values (${tenantId}, ${e.templateId}, ${e.status}, ${e.adoptedVersion}, ${json(e.kept)}::text::jsonb,
      ${[...e.modes]}::text[], ${json(e.limits)}::text::jsonb, to_timestamp(${e.updatedAt}::float8))
    on conflict (tenant_id, template_id) do update set status = excluded.status,
      adopted_version = excluded.adopted_version, kept = excluded.kept, modes = excluded.modes,
      limits = excluded.limits, updated_at = excluded.updated_at`
}

/** A published template that a tenant may turn on, and what it made of it. */
export type Offer = {
  readonly templateId: TemplateId
  readonly template: string
  readonly title: string
  readonly purpose: string
  /** The newest published one. */
  readonly latestVersion: number
  readonly enablement: EnablementRow | null
}

type OfferSql = Omit<Offer, 'enablement'> & {
  status: 'on' | 'off' | null
  adoptedVersion: number
  kept: Item[]
  modes: Mode[]
  limits: Partial<Limits>
  updatedAt: number
}

const offerOf = (row: OfferSql): Offer => {
  const { templateId, template, title, purpose, latestVersion, status, ...own } = row
  const offer = { templateId, template, title, purpose, latestVersion }
  return {
    ...offer,
    enablement: status === null ? null : { templateId, template, title, status, ...own },
  }
}

/** Every published template that the tenant may see, by name; those that it turned on first. */
export async function selectOffers(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly template?: string },
): Promise<readonly Offer[]> {
  const rows = await tx.sql<OfferSql>`
    select t.id as "templateId", t.name as template, t.title, v.purpose, v.version as "latestVersion",
      e.status, e.adopted_version as "adoptedVersion", e.kept, e.modes, e.limits,
      extract(epoch from e.updated_at)::float8 as "updatedAt"
    from template t
    join lateral (
      select purpose, version from template_version
      where template_id = t.id and (status = 'published' or status = 'retired')
      order by status = 'published' desc, version desc limit 1) v on true
    left join enablement e on e.template_id = t.id and e.tenant_id = ${of.tenantId}
    where (t.visibility = 'public' or t.tenant_id = ${of.tenantId})
      and (${of.template ?? null}::text is null or t.name = ${of.template ?? null})
      and (e.status is not null or exists (
        select from template_version p where p.template_id = t.id and p.status = 'published'))
    order by e.status = 'on' desc nulls last, t.name`
  return rows.map(offerOf)
}

/** Null: no such template, none of its versions is published, or it is private to another tenant. */
export const selectOffer = async (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly template: string },
): Promise<Offer | null> => (await selectOffers(tx, of))[0] ?? null

/** Root sessions of the live trees in which a template runs. */
export async function templateRoots(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly templateId: TemplateId },
): Promise<readonly string[]> {
  const rows = await tx.sql<{ root: string }>`
    select distinct root_id as root from session
    where tenant_id = ${of.tenantId} and template_id = ${of.templateId} and status = 'active'
    order by root_id`
  return rows.map((row) => row.root)
}
