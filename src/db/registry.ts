import { and, eq, sql } from 'drizzle-orm'
import type { Slice, SliceEndpoint, SlicePermission } from '../core/slice.ts'
import type { SliceBefore, SliceChange } from '../core/slice-diff.ts'
import type { TenantId } from '../core/vocabulary.ts'
import type { Page } from './directory.ts'
import { replacedSecret, type SecretChange } from './replaced-secret.ts'
import { serviceClient } from './tables.ts'
import { json, type Tx } from './tx.ts'

/** The registry: what each service published, version by version, and what waits for security. The deployment's. */
export type How = 'published' | 'approved' | 'rolled_back'

export type VersionRow = {
  readonly version: number
  readonly service: string
  readonly publishedBy: string
  readonly publishedAt: number
  readonly how: How
  /** In force from this version on; null when it was published before slices were kept. */
  readonly slice: Slice | null
}

/** The tenant that runs the catalog; null before one is named. */
export async function operatorTenant(tx: Tx): Promise<TenantId | null> {
  const [row] = await tx.sql<{ id: TenantId }>`select tenant_id as id from operator_tenant`
  return row?.id ?? null
}

type PermissionSql = SlicePermission & { readonly retired: boolean }

/** What is in force of a service, what it had once, and its latest version (0: none). */
export async function serviceState(
  tx: Tx,
  service: string,
): Promise<{ readonly before: SliceBefore; readonly version: number }> {
  const permissions = await tx.sql<PermissionSql>`
    select id, kind, title, description, keywords, access, risk, sensitive, delegable,
      enforced_at, data, asset, tool, retired
    from permission where service_id = ${service} order by bit`
  const endpoints = await tx.sql<SliceEndpoint>`
    select method, pattern, access, array(select p.permission_id from endpoint_permission p
      where p.service_id = e.service_id and p.method = e.method and p.pattern = e.pattern order by 1) as permissions
    from endpoint e where service_id = ${service} order by pattern, method`
  const [latest] = await tx.sql<{ version: number }>`
    select coalesce(max(version), 0)::integer as version from registry where service_id = ${service}`
  // Of each that is no more, as it was last: a later version's counts.
  const gone = await tx.sql<SliceEndpoint>`
    select distinct on (x.method, x.pattern) x.method, x.pattern, x.access, x.permissions
    from registry r, jsonb_to_recordset(r.slice -> 'endpoints')
      as x (method text, pattern text, access text, permissions jsonb)
    where r.service_id = ${service} and not exists (select from endpoint e
      where e.service_id = ${service} and e.method = x.method and e.pattern = x.pattern)
    order by x.method, x.pattern, r.version desc`
  const clean = ({ retired: _, data, asset, tool, ...rest }: PermissionSql): SlicePermission => ({
    ...rest,
    ...(data === null || data === undefined ? {} : { data }),
    ...(asset === null || asset === undefined ? {} : { asset }),
    ...(tool === null || tool === undefined ? {} : { tool }),
  })
  return {
    version: latest?.version ?? 0,
    before: {
      permissions: permissions.filter((p) => !p.retired).map(clean),
      retired: permissions.filter((p) => p.retired).map(clean),
      endpoints,
      gone,
    },
  }
}

/** Whose each permission is and of what kind, retired ones too. */
export async function permissionOwners(
  tx: Tx,
  ids: readonly string[],
): Promise<ReadonlyMap<string, { service: string; kind: string; retired: boolean }>> {
  const rows = await tx.sql<{ id: string; service: string; kind: string; retired: boolean }>`
    select id, service_id as service, kind, retired from permission where id = any(${ids}::text[])`
  return new Map(rows.map((row) => [row.id, row]))
}

/** The new version's number. The caller has the catalog's guard alone. */
export async function insertVersion(
  tx: Tx,
  of: {
    readonly service: string
    readonly by: string
    readonly how: How
    readonly slice: Slice
    readonly now: number
  },
): Promise<number> {
  const [row] = await tx.sql<{ version: number }>`
    insert into registry (version, service_id, published_at, published_by, how, slice)
    select coalesce(max(version), 0) + 1, ${of.service}::text, to_timestamp(${of.now}::float8), ${of.by}::text,
      ${of.how}::text, ${json(of.slice)}::text::jsonb
    from registry returning version`
  return row?.version ?? 0
}

/**
 * Makes the catalog say what a slice says. A permission that is not in it is retired, never deleted: its bit stays its own. A new
 * one gets the next bit that nobody ever had. Grants of what can no longer be lent must have ended before.
 */
export async function writeSlice(
  tx: Tx,
  of: { readonly service: string; readonly version: number; readonly slice: Slice },
): Promise<void> {
  const { service, version, slice } = of
  const ids = slice.permissions.map((p) => p.id)
  await tx.sql`update permission set retired = true, registry_version = ${version}
    where service_id = ${service} and not retired and not id = any(${ids}::text[])`
  await tx.sql`
    insert into permission (id, kind, title, description, service_id, access, risk, sensitive, delegable,
      enforced_at, bit, keywords, data, asset, tool, registry_version)
    select p.id, p.kind, p.title, p.description, ${service}::text, p.access, p.risk, p.sensitive, p.delegable,
      p.enforced_at, coalesce((select max(bit) from permission), -1)
        + row_number() over (order by (select 1 from permission o where o.id = p.id) nulls first, p.n),
      p.keywords, p.data, p.asset, p.tool, ${version}::integer
    from rows from (jsonb_to_recordset(${json(slice.permissions)}::text::jsonb)
      as (id text, kind text, title text, description text, access text, risk text, sensitive boolean,
        delegable boolean, enforced_at text, keywords text, data jsonb, asset jsonb, tool jsonb))
      with ordinality as p (id, kind, title, description, access, risk, sensitive, delegable, enforced_at,
        keywords, data, asset, tool, n)
    on conflict (id) do update set title = excluded.title, description = excluded.description,
      access = excluded.access, risk = excluded.risk, sensitive = excluded.sensitive,
      delegable = excluded.delegable, keywords = excluded.keywords, data = excluded.data,
      asset = excluded.asset, tool = excluded.tool, retired = false,
      registry_version = case when permission.retired
        or (permission.title, permission.description, permission.access, permission.risk, permission.sensitive,
          permission.delegable, permission.keywords, permission.data, permission.asset, permission.tool)
        is distinct from (excluded.title, excluded.description, excluded.access, excluded.risk,
          excluded.sensitive, excluded.delegable, excluded.keywords, excluded.data, excluded.asset, excluded.tool)
        then excluded.registry_version else permission.registry_version end`
  const endpoints = json(slice.endpoints)
  await tx.sql`delete from endpoint where service_id = ${service}`
  await tx.sql`
    insert into endpoint (service_id, method, pattern, access)
    select ${service}::text, method, pattern, access
    from jsonb_to_recordset(${endpoints}::text::jsonb) as e (method text, pattern text, access text)`
  await tx.sql`
    insert into endpoint_permission (service_id, method, pattern, permission_id)
    select distinct ${service}::text, e.method, e.pattern, p
    from jsonb_to_recordset(${endpoints}::text::jsonb) as e (method text, pattern text, permissions jsonb),
      jsonb_array_elements_text(e.permissions) as p`
}

/** Roots of live sessions in whose trees one of these is held, by tenant. */
export const rootsHolding = (
  tx: Tx,
  permissions: readonly string[],
): Promise<readonly { tenantId: TenantId; roots: string[] }[]> => tx.sql<{
  tenantId: TenantId
  roots: string[]
}>`
  select s.tenant_id as "tenantId", array_agg(distinct s.root_id order by s.root_id) as roots
  from access_grant g join session s on s.id = g.session_id
  where g.permission_id = any(${permissions}::text[])
  group by s.tenant_id order by s.tenant_id`

export const selectVersions = (
  tx: Tx,
  of: {
    readonly service: string
    readonly version?: number
    readonly before: number
    readonly limit: number
  },
): Promise<readonly VersionRow[]> => tx.sql<VersionRow>`
  select version, service_id as service, published_by as "publishedBy", how, slice,
    extract(epoch from published_at)::float8 as "publishedAt"
  from registry
  where service_id = ${of.service} and version < ${of.before}
    and (${of.version ?? null}::integer is null or version = ${of.version ?? null})
  order by version desc limit ${of.limit}`

export type ProposalStatus = 'open' | 'approved' | 'sent_back' | 'replaced'

export type ProposalRow = {
  readonly id: string
  readonly service: string
  readonly slice: Slice
  readonly changes: readonly SliceChange[]
  readonly status: ProposalStatus
  readonly proposedBy: string
  readonly proposedHow: 'published' | 'rolled_back'
  readonly createdAt: number
  readonly version: number | null
  readonly reviewedBy: string | null
  readonly reviewedAt: number | null
  readonly comment: string | null
}

export const selectProposals = (
  tx: Tx,
  of: Page & {
    readonly id?: string | undefined
    readonly service?: string | undefined
    readonly status?: ProposalStatus | undefined
  },
): Promise<readonly ProposalRow[]> => tx.sql<ProposalRow>`
  select id, service_id as service, slice, changes, status, proposed_by as "proposedBy",
    proposed_how as "proposedHow", version, reviewed_by as "reviewedBy", comment,
    extract(epoch from created_at)::float8 as "createdAt", extract(epoch from reviewed_at)::float8 as "reviewedAt"
  from catalog_proposal
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and (${of.service ?? null}::text is null or service_id = ${of.service ?? null})
    and (${of.status ?? null}::text is null or status = ${of.status ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

export async function openProposal(tx: Tx, service: string): Promise<ProposalRow | null> {
  const [row] = await tx.sql<ProposalRow>`
    select id, service_id as service, slice, changes, status, proposed_by as "proposedBy",
      proposed_how as "proposedHow", version, reviewed_by as "reviewedBy", comment,
      extract(epoch from created_at)::float8 as "createdAt", null::float8 as "reviewedAt"
    from catalog_proposal where service_id = ${service} and status = 'open'`
  return row ?? null
}

export const insertProposal = (
  tx: Tx,
  tenantId: TenantId,
  p: Pick<
    ProposalRow,
    'id' | 'service' | 'slice' | 'changes' | 'proposedBy' | 'proposedHow' | 'createdAt'
  >,
) => tx.sql`
  insert into catalog_proposal (id, tenant_id, service_id, slice, changes, proposed_by, proposed_how, created_at)
  values (${p.id}, ${tenantId}, ${p.service}, ${json(p.slice)}::text::jsonb, ${json(p.changes)}::text::jsonb,
    ${p.proposedBy}, ${p.proposedHow}, to_timestamp(${p.createdAt}::float8))`

/** Ends a proposal that is open. */
export const settleProposal = (
  tx: Tx,
  tenantId: TenantId,
  of: {
    readonly id: string
    readonly status: Exclude<ProposalStatus, 'open'>
    readonly version?: number
    readonly by?: string
    readonly comment?: string | undefined
    readonly now: number
  },
) => tx.sql`
  update catalog_proposal set status = ${of.status}, version = ${of.version ?? null}::integer,
    reviewed_by = ${of.by ?? null}, comment = ${of.comment ?? null},
    reviewed_at = case when ${of.by ?? null}::text is null then null else to_timestamp(${of.now}::float8) end
  where tenant_id = ${tenantId} and id = ${of.id}`

export type ServiceRow = {
  readonly id: string
  readonly title: string
  readonly version: number | null
  readonly permissions: number
  readonly endpoints: number
  readonly clientId: string | null
  readonly hasSecret: boolean
  readonly jwks: { readonly [name: string]: unknown } | null
  readonly status: 'active' | 'disabled' | null
  /** Seconds: until when the secret before this one still opens; null: there is none. */
  readonly previousUntil: number | null
  readonly openProposal: string | null
}

export const selectServices = (
  tx: Tx,
  of: { readonly id?: string; readonly after: string; readonly limit: number },
): Promise<readonly ServiceRow[]> => tx.sql<ServiceRow>`
  select s.id, s.title, (select max(version) from registry r where r.service_id = s.id) as version,
    (select count(*)::integer from permission p where p.service_id = s.id and not p.retired) as permissions,
    (select count(*)::integer from endpoint e where e.service_id = s.id) as endpoints,
    c.id as "clientId", c.secret_hash is not null as "hasSecret", c.jwks, c.status,
    extract(epoch from c.previous_secret_until)::float8 as "previousUntil",
    (select p.id from catalog_proposal p where p.service_id = s.id and p.status = 'open') as "openProposal"
  from service s left join service_client c on c.service_id = s.id
  where s.id > ${of.after} and (${of.id ?? null}::text is null or s.id = ${of.id ?? null})
  order by s.id limit ${of.limit}`

/** False: there is a service of that id already. */
export async function insertService(
  tx: Tx,
  of: { readonly id: string; readonly title: string },
): Promise<boolean> {
  const made = await tx.sql`insert into service (id, title) values (${of.id}, ${of.title})
    on conflict do nothing returning id`
  return made.length === 1
}

type ClientSql = {
  readonly tenantId: TenantId
  readonly service: string
  readonly secretHash: string | null
  readonly jwks: { readonly [name: string]: unknown } | null
}

export const insertServiceClient = (
  tx: Tx,
  c: ClientSql & { readonly id: string; readonly now: number },
) => tx.sql`
  insert into service_client (id, tenant_id, service_id, secret_hash, jwks, created_at)
  values (${c.id}, ${c.tenantId}, ${c.service}, ${c.secretHash},
    ${c.jwks === null ? null : json(c.jwks)}::text::jsonb, to_timestamp(${c.now}::float8))`

export async function updateServiceClient(
  tx: Tx,
  c: Omit<ClientSql, 'secretHash'> & SecretChange & { readonly status: 'active' | 'disabled' },
): Promise<void> {
  const jwks = c.jwks === null ? null : json(c.jwks)
  const { status } = c
  await tx.orm
    .update(serviceClient)
    .set({ status, jwks: sql`${jwks}::text::jsonb`, ...replacedSecret(serviceClient, c) })
    .where(and(eq(serviceClient.tenantId, c.tenantId), eq(serviceClient.serviceId, c.service)))
}

export const updateServiceTitle = (tx: Tx, of: { readonly id: string; readonly title: string }) =>
  tx.sql`update service set title = ${of.title} where id = ${of.id}`

/** Whether this client may still publish: it may have been disabled since it was authenticated. */
export async function clientStands(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly clientId: string; readonly service: string },
): Promise<boolean> {
  const rows = await tx.sql`
    select id from service_client where tenant_id = ${of.tenantId} and id = ${of.clientId}
      and service_id = ${of.service} and status = 'active'`
  return rows.length === 1
}
