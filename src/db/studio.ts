import type { Item, Limits, Mode, TemplateId, TenantId } from '../core/vocabulary.ts'
import { guardCatalogShared } from './guard.ts'
import type { Child } from './tree.ts'
import { json, type Tx } from './tx.ts'

/** Templates as those who build and review them see them (SPEC section 3). */
export type VersionStatus = 'draft' | 'in_review' | 'published' | 'retired'

export type TemplateRow = {
  readonly id: TemplateId
  readonly name: string
  readonly title: string
  readonly tenantId: TenantId
  readonly visibility: 'private' | 'public'
  /** Seconds. */
  readonly createdAt: number
}

export type Sponsor = {
  readonly id: string
  readonly login: string | null
  readonly name: string | null
  /** `gone`: no such person in the tenant that owns the template. */
  readonly status: 'active' | 'disabled' | 'gone'
}

/** Why the job needs one item of the ceiling, in its builders' words. It decides nothing. */
export type Justification = { readonly item: Item; readonly why: string }

export type VersionRow = {
  readonly version: number
  readonly status: VersionStatus
  readonly revision: number
  readonly baseVersion: number | null
  readonly purpose: string
  readonly ceiling: readonly Item[]
  readonly justifications: readonly Justification[]
  readonly context: string
  readonly modes: readonly Mode[]
  readonly limits: Limits
  readonly children: readonly Child[]
  readonly sensitive: readonly Item[]
  /** Whoever answers for it now. */
  readonly sponsor: Sponsor | null
  readonly author: string
  readonly authors: readonly string[]
  readonly reviewer: string | null
  /** Seconds. */
  readonly updatedAt: number | null
  readonly submittedAt: number | null
  readonly publishedAt: number | null
  readonly retiredAt: number | null
}

/** By id or name; null when the tenant may not know of it: private to another, or without a published version. */
export async function selectTemplate(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly ref: string },
): Promise<TemplateRow | null> {
  const [row] = await tx.sql<TemplateRow>`
    select t.id, t.name, t.title, t.tenant_id as "tenantId", t.visibility,
      extract(epoch from t.created_at)::float8 as "createdAt"
    from template t
    where (t.id = ${of.ref} or t.name = ${of.ref})
      and (t.tenant_id = ${of.tenantId} or (t.visibility = 'public' and exists (
        select from template_version v where v.template_id = t.id and v.status in ('published', 'retired'))))`
  return row ?? null
}

const templateKey = (name: string): string => `lend:template:${name}`

/**
 * Holds a template that the tenant owns until the commit: its versions change only under it, and nobody turns it on or
 * adopts meanwhile. Taken before any tenant's guard, and like those a lock in memory: it gives the transaction no place in
 * the order of commits before it has its guards.
 */
export async function lockTemplate(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly ref: string },
): Promise<TemplateRow | null> {
  const [row] = await tx.sql<TemplateRow>`
    select id, name, title, tenant_id as "tenantId", visibility,
      extract(epoch from created_at)::float8 as "createdAt"
    from template where tenant_id = ${of.tenantId} and (id = ${of.ref} or name = ${of.ref})`
  if (row === undefined) return null
  await tx.sql`select pg_advisory_xact_lock(hashtextextended(${templateKey(row.name)}::text, 0))`
  return row
}

/**
 * What an enablement rests on stays as it is: a version cannot be published meanwhile. Before the tenant's guard, and behind
 * the catalog's, like every other lock: an approval comes to both in that order.
 */
export async function holdTemplate(tx: Tx, name: string): Promise<void> {
  await guardCatalogShared(tx)
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${templateKey(name)}::text, 0))`
}

/** One publication at a time on the deployment, so that no two make a cycle of children together. */
export async function guardPublishing(tx: Tx): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock(hashtextextended('lend:publish', 0))`
}

export const selectTemplates = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly after: string; readonly limit: number },
): Promise<readonly TemplateRow[]> => tx.sql<TemplateRow>`
  select t.id, t.name, t.title, t.tenant_id as "tenantId", t.visibility,
    extract(epoch from t.created_at)::float8 as "createdAt"
  from template t
  where t.name > ${of.after}
    and (t.tenant_id = ${of.tenantId} or (t.visibility = 'public' and exists (
      select from template_version v where v.template_id = t.id and v.status in ('published', 'retired'))))
  order by t.name limit ${of.limit}`

/** Versions of templates, newest first. `open`: with drafts and what is in review, which only their owner sees. */
export async function selectVersions(
  tx: Tx,
  of: {
    readonly templates: readonly TemplateRow[]
    readonly open: boolean
    readonly version?: number
  },
): Promise<ReadonlyMap<TemplateId, readonly VersionRow[]>> {
  const rows = await tx.sql<VersionRow & { templateId: TemplateId }>`
    select v.template_id as "templateId", v.version, v.status, v.revision, v.base_version as "baseVersion",
      v.purpose, v.ceiling, v.justifications, v.context, v.modes, v.limits, v.children, v.sensitive, v.author, v.reviewer,
      case when coalesce(v.current_sponsor, v.sponsor) is null then null else jsonb_build_object(
        'id', coalesce(v.current_sponsor, v.sponsor), 'login', u.login, 'name', u.name,
        'status', coalesce(u.status, 'gone')) end as sponsor,
      array(select a.user_id from template_author a
        where a.template_id = v.template_id and a.version = v.version order by 1) as authors,
      extract(epoch from v.updated_at)::float8 as "updatedAt",
      extract(epoch from v.submitted_at)::float8 as "submittedAt",
      extract(epoch from v.published_at)::float8 as "publishedAt",
      extract(epoch from v.retired_at)::float8 as "retiredAt"
    from template_version v
    join template t on t.id = v.template_id
    left join app_user u on u.tenant_id = t.tenant_id and u.id = coalesce(v.current_sponsor, v.sponsor)
    where v.template_id = any(${of.templates.map((t) => t.id)}::text[])
      and (${of.open} or v.status in ('published', 'retired'))
      and (${of.version ?? null}::integer is null or v.version = ${of.version ?? null}::integer)
    order by v.template_id, v.version desc`
  const found = new Map<TemplateId, VersionRow[]>()
  for (const { templateId, ...row } of rows)
    found.set(templateId, [...(found.get(templateId) ?? []), row])
  return found
}

export const versionsOf = async (
  tx: Tx,
  template: TemplateRow,
  of: { readonly open: boolean; readonly version?: number },
): Promise<readonly VersionRow[]> =>
  (await selectVersions(tx, { ...of, templates: [template] })).get(template.id) ?? []

/** False: the name is taken on the deployment. */
export async function insertTemplate(tx: Tx, t: TemplateRow): Promise<boolean> {
  const made = await tx.sql`
    insert into template (id, name, title, tenant_id, visibility, created_at)
    values (${t.id}, ${t.name}, ${t.title}, ${t.tenantId}, ${t.visibility},
      to_timestamp(${t.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

/** What a draft says. */
export type DraftTerms = Pick<
  VersionRow,
  | 'purpose'
  | 'ceiling'
  | 'justifications'
  | 'context'
  | 'modes'
  | 'limits'
  | 'children'
  | 'sensitive'
> & { readonly sponsor: string | null }

/** Writes a draft over what was, and names who wrote it. Under the template's lock. */
export async function saveDraft(
  tx: Tx,
  of: {
    readonly template: TemplateRow
    readonly version: number
    readonly revision: number
    readonly baseVersion: number | null
    readonly terms: DraftTerms
    readonly by: string
    readonly now: number
  },
): Promise<void> {
  const { template, version, terms } = of
  await tx.sql`
    insert into template_version (template_id, version, status, revision, base_version, purpose, ceiling,
      justifications, context, modes, limits, children, sensitive, sponsor, author, updated_at)
    values (${template.id}, ${version}, 'draft', ${of.revision}, ${of.baseVersion}, ${terms.purpose},
      ${json(terms.ceiling)}::text::jsonb, ${json(terms.justifications)}::text::jsonb, ${terms.context}, ${[...terms.modes]}::text[],
      ${json(terms.limits)}::text::jsonb, ${json(terms.children)}::text::jsonb,
      ${json(terms.sensitive)}::text::jsonb, ${terms.sponsor}, ${of.by}, to_timestamp(${of.now}::float8))
    on conflict (template_id, version) do update set revision = excluded.revision,
      purpose = excluded.purpose, ceiling = excluded.ceiling,
      justifications = excluded.justifications, context = excluded.context,
      modes = excluded.modes, limits = excluded.limits, children = excluded.children,
      sensitive = excluded.sensitive, sponsor = excluded.sponsor, updated_at = excluded.updated_at`
  await tx.sql`
    insert into template_author (tenant_id, template_id, version, user_id)
    values (${template.tenantId}, ${template.id}, ${version}, ${of.by}) on conflict do nothing`
}

/** Moves a version on. Which moves are legal is the trigger's to say too. Under the template's lock. */
export async function moveVersion(
  tx: Tx,
  of: {
    readonly template: TemplateRow
    readonly version: number
    readonly to: VersionStatus
    readonly reviewer?: string
    readonly now: number
  },
): Promise<void> {
  const { template, version, to, now } = of
  await tx.sql`
    update template_version set status = ${to},
      reviewer = case when ${to} = 'published' then ${of.reviewer ?? null} else reviewer end,
      published_at = case when ${to} = 'published' then to_timestamp(${now}::float8) else published_at end,
      submitted_at = case when ${to} = 'in_review' then to_timestamp(${now}::float8) else submitted_at end,
      retired_at = case when ${to} = 'retired' then to_timestamp(${now}::float8) else retired_at end
    where template_id = ${template.id} and version = ${version}`
}

export async function setCurrentSponsor(
  tx: Tx,
  of: { readonly template: TemplateRow; readonly version: number; readonly sponsor: string },
): Promise<void> {
  await tx.sql`update template_version set current_sponsor = ${of.sponsor}
    where template_id = ${of.template.id} and version = ${of.version}`
}

export type CommentKind = 'comment' | 'submitted' | 'withdrawn' | 'sent_back' | 'approved'
export type CommentRow = {
  readonly id: string
  readonly userId: string
  readonly login: string
  readonly name: string
  readonly kind: CommentKind
  readonly body: string
  /** The item of the ceiling that it is about; null: the version. */
  readonly item: Item | null
  /** Seconds. */
  readonly createdAt: number
}

export async function insertComment(
  tx: Tx,
  of: {
    readonly id: string
    readonly template: TemplateRow
    readonly version: number
    readonly userId: string
    readonly kind: CommentKind
    readonly body: string
    readonly item?: Item | undefined
    readonly now: number
  },
): Promise<void> {
  await tx.sql`
    insert into template_comment (id, tenant_id, template_id, version, user_id, kind, body, item, created_at)
    values (${of.id}, ${of.template.tenantId}, ${of.template.id}, ${of.version}, ${of.userId}, ${of.kind},
      ${of.body}, ${of.item === undefined ? null : json(of.item)}::text::jsonb, to_timestamp(${of.now}::float8))`
}

/** Oldest first. */
export const selectComments = (
  tx: Tx,
  of: { readonly template: TemplateRow; readonly version: number; readonly limit: number },
): Promise<readonly CommentRow[]> => tx.sql<CommentRow>`
  select c.id, c.user_id as "userId", u.login, u.name, c.kind, c.body, c.item,
    extract(epoch from c.created_at)::float8 as "createdAt"
  from template_comment c join app_user u on u.tenant_id = c.tenant_id and u.id = c.user_id
  where c.tenant_id = ${of.template.tenantId} and c.template_id = ${of.template.id}
    and c.version = ${of.version}
  order by c.created_at, c.id limit ${of.limit}`

/** A person of the tenant, by id or login. */
export async function selectSponsor(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly ref: string },
): Promise<Sponsor | null> {
  const [row] = await tx.sql<Sponsor>`
    select id, login, name, status from app_user
    where tenant_id = ${of.tenantId} and (id = ${of.ref} or login = ${of.ref})
    order by id = ${of.ref} desc limit 1`
  return row ?? null
}

/** Ids of these that the catalog has had and has no more. */
export async function retiredPermissions(
  tx: Tx,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await tx.sql<{ id: string }>`
    select id from permission where retired and id = any(${[...ids]}::text[])`
  return new Set(rows.map((row) => row.id))
}

/** Versions of templates by name that a tenant may build on: its own and public ones. Drafts are among its own. */
export type Buildable = {
  readonly template: string
  readonly version: number
  readonly status: VersionStatus
  readonly ceiling: readonly Item[]
  readonly children: readonly Child[]
  readonly sensitive: readonly Item[]
}
export const selectBuildable = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly names: readonly string[] },
): Promise<readonly Buildable[]> => tx.sql<Buildable>`
  select t.name as template, v.version, v.status, v.ceiling, v.children, v.sensitive
  from template t join template_version v on v.template_id = t.id
  where t.name = any(${[...of.names]}::text[])
    and (t.tenant_id = ${of.tenantId} or (t.visibility = 'public' and v.status in ('published', 'retired')))
  order by t.name, v.version`

/** Tenants that have adopted a version of a template, by id: the order in which their guards are taken. */
export async function tenantsThatAdopted(
  tx: Tx,
  templateId: TemplateId,
): Promise<readonly { readonly id: TenantId; readonly slug: string }[]> {
  return tx.sql<{ id: TenantId; slug: string }>`
    select t.id, t.slug from enablement e join tenant t on t.id = e.tenant_id
    where e.template_id = ${templateId} order by t.id`
}
