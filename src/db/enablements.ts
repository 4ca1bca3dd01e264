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

export async function updateEnablement(
  tx: Tx,
  tenantId: TenantId,
  e: Omit<EnablementRow, 'template' | 'title'>,
): Promise<void> {
  await tx.sql`
    update enablement set status = ${e.status}, adopted_version = ${e.adoptedVersion},
      kept = ${json(e.kept)}::text::jsonb, modes = ${[...e.modes]}::text[],
      limits = ${json(e.limits)}::text::jsonb, updated_at = to_timestamp(${e.updatedAt}::float8)
    where tenant_id = ${tenantId} and template_id = ${e.templateId}`
}
