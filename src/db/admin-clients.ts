import { and, eq, sql } from 'drizzle-orm'
import type { AgentId, TemplateId, TenantId } from '../core/vocabulary.ts'
import type { Page } from './directory.ts'
import { replacedSecret, type SecretChange } from './replaced-secret.ts'
import type { Kept } from './sealed.ts'
import { agent, enforcementPoint } from './tables.ts'
import { json, type Tx } from './tx.ts'

/** Agents, resource servers, enforcement points and identity providers of a tenant. No row here carries a secret's hash. */
export type AgentRow = {
  readonly id: AgentId
  readonly name: string
  readonly status: 'active' | 'disabled'
  readonly templateIds: readonly TemplateId[]
  /** Names, in the order of the ids. */
  readonly templates: readonly string[]
  readonly appClients: readonly string[]
  readonly jwks: { readonly [name: string]: unknown } | null
  readonly hasSecret: boolean
  /** Seconds: until when the secret before this one still opens; null: there is none. */
  readonly previousUntil: number | null
  readonly createdAt: number
}

export const selectAgents = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly AgentRow[]> => tx.sql<AgentRow>`
  select a.id, a.name, a.status, a.template_ids as "templateIds", a.app_clients as "appClients", a.jwks,
    a.secret_hash is not null as "hasSecret",
    extract(epoch from a.previous_secret_until)::float8 as "previousUntil", extract(epoch from a.created_at)::float8 as "createdAt",
    array(select t.name from unnest(a.template_ids) with ordinality as x (id, i)
      join template t on t.id = x.id order by x.i) as templates
  from agent a
  where a.tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or a.id = ${of.id ?? null})
    and ((extract(epoch from a.created_at) * 1000)::float8, a.id) < (${of.after[0]}::float8, ${of.after[1]})
  order by a.created_at desc, a.id desc limit ${of.limit}`

/** False: the name is taken. */
export async function insertAgent(
  tx: Tx,
  tenantId: TenantId,
  a: Omit<AgentRow, 'templates' | 'hasSecret' | 'status' | 'previousUntil'> & {
    readonly secretHash: string | null
  },
): Promise<boolean> {
  const jwks = a.jwks === null ? null : json(a.jwks)
  const made = await tx.sql`
    insert into agent (id, tenant_id, name, secret_hash, jwks, app_clients, template_ids, created_at)
    values (${a.id}, ${tenantId}, ${a.name}, ${a.secretHash}, ${jwks}::text::jsonb,
      ${a.appClients}::text[], ${a.templateIds}::text[], to_timestamp(${a.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

export async function updateAgent(
  tx: Tx,
  tenantId: TenantId,
  a: AgentRow,
  secretHash: SecretChange['secretHash'],
): Promise<void> {
  const jwks = a.jwks === null ? null : json(a.jwks)
  const { status, previousUntil } = a
  await tx.orm
    .update(agent)
    .set({
      ...{ status, jwks: sql`${jwks}::text::jsonb` },
      ...{ appClients: [...a.appClients], templateIds: [...a.templateIds] },
      ...replacedSecret(agent, { secretHash, previousUntil }),
    })
    .where(and(eq(agent.tenantId, tenantId), eq(agent.id, a.id)))
}

/** Templates that the tenant may use, by name: its own and public ones. */
export async function visibleTemplates(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly names: readonly string[] },
): Promise<ReadonlyMap<string, TemplateId>> {
  const rows = await tx.sql<{ id: TemplateId; name: string }>`
    select id, name from template
    where (name = any(${of.names}::text[]) or id = any(${of.names}::text[]))
      and (visibility = 'public' or tenant_id = ${of.tenantId})`
  return new Map(rows.flatMap((row) => [[row.name, row.id] as const, [row.id, row.id] as const]))
}

/** Clients that people sign in through, and apps of agents: the two must never meet (SPEC section 8). */
export async function clientsOf(
  tx: Tx,
  tenantId: TenantId,
): Promise<{ readonly firstParty: readonly string[]; readonly apps: readonly string[] }> {
  const [row] = await tx.sql<{ firstParty: string[]; apps: string[] }>`
    select
      array(select unnest(first_party_clients) from identity_provider where tenant_id = ${tenantId})
        as "firstParty",
      array(select unnest(app_clients) from agent where tenant_id = ${tenantId}) as apps`
  return row ?? { firstParty: [], apps: [] }
}

export async function unknownServices(
  tx: Tx,
  services: readonly string[],
): Promise<readonly string[]> {
  const rows = await tx.sql<{ id: string }>`
    select id from service where id = any(${services}::text[])`
  const known = new Set(rows.map((row) => row.id))
  return services.filter((id) => !known.has(id))
}

export type ResourceServerRow = {
  readonly id: string
  readonly resource: string
  readonly name: string
  readonly subject: 'session' | 'user'
  readonly services: readonly string[]
  readonly createdAt: number
}

export const selectResourceServers = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly ResourceServerRow[]> => tx.sql<ResourceServerRow>`
  select id, resource, name, subject, services, extract(epoch from created_at)::float8 as "createdAt"
  from resource_server
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

/** False: the resource is registered already. */
export async function insertResourceServer(
  tx: Tx,
  tenantId: TenantId,
  s: ResourceServerRow,
): Promise<boolean> {
  const made = await tx.sql`
    insert into resource_server (id, tenant_id, resource, name, subject, services, created_at)
    values (${s.id}, ${tenantId}, ${s.resource}, ${s.name}, ${s.subject}, ${s.services}::text[],
      to_timestamp(${s.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

export async function updateResourceServer(
  tx: Tx,
  tenantId: TenantId,
  s: ResourceServerRow,
): Promise<void> {
  await tx.sql`
    update resource_server set name = ${s.name}, subject = ${s.subject}, services = ${s.services}::text[]
    where tenant_id = ${tenantId} and id = ${s.id}`
}

export async function deleteResourceServer(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<void> {
  await tx.sql`delete from resource_server where tenant_id = ${of.tenantId} and id = ${of.id}`
}

export type EnforcementPointRow = {
  readonly id: string
  readonly name: string
  readonly services: readonly string[]
  /** May ask what a person themselves may do, not only what a session holds. */
  readonly asksAboutUsers: boolean
  readonly status: 'active' | 'disabled'
  /** Seconds; null when no other secret than its own opens. */
  readonly previousUntil: number | null
  readonly createdAt: number
}

export const selectEnforcementPoints = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly EnforcementPointRow[]> => tx.sql<EnforcementPointRow>`
  select id, name, services, asks_about_users as "asksAboutUsers", status,
    extract(epoch from previous_secret_until)::float8 as "previousUntil",
    extract(epoch from created_at)::float8 as "createdAt"
  from enforcement_point
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

export async function insertEnforcementPoint(
  tx: Tx,
  tenantId: TenantId,
  p: EnforcementPointRow & { readonly secretHash: string },
): Promise<void> {
  await tx.sql`
    insert into enforcement_point (id, tenant_id, name, secret_hash, services, asks_about_users, created_at)
    values (${p.id}, ${tenantId}, ${p.name}, ${p.secretHash}, ${p.services}::text[], ${p.asksAboutUsers},
      to_timestamp(${p.createdAt}::float8))`
}

export async function updateEnforcementPoint(
  tx: Tx,
  tenantId: TenantId,
  p: EnforcementPointRow & { readonly secretHash: string | undefined },
): Promise<void> {
  const { name, asksAboutUsers, status } = p
  await tx.orm
    .update(enforcementPoint)
    .set({
      ...{ name, asksAboutUsers, status, services: [...p.services] },
      ...replacedSecret(enforcementPoint, p),
    })
    .where(and(eq(enforcementPoint.tenantId, tenantId), eq(enforcementPoint.id, p.id)))
}

export async function deleteEnforcementPoint(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<void> {
  await tx.sql`delete from enforcement_point where tenant_id = ${of.tenantId} and id = ${of.id}`
}

export type IdentityProviderRow = {
  readonly id: string
  readonly issuer: string
  readonly audience: string
  readonly firstPartyClients: readonly string[]
  readonly createsUsers: boolean
  readonly privateNetwork: boolean
  readonly webClientId: string | null
  /** The secret itself is read only where people sign in. */
  readonly hasWebClientSecret: boolean
  readonly status: 'active' | 'disabled'
  readonly createdAt: number
}

export const selectIdentityProviders = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly IdentityProviderRow[]> => tx.sql<IdentityProviderRow>`
  select id, issuer, audience, first_party_clients as "firstPartyClients",
    creates_users as "createsUsers", private_network as "privateNetwork",
    web_client_id as "webClientId", num_nonnulls(web_client_secret, sealed_web_client_secret) = 1 as "hasWebClientSecret", status,
    extract(epoch from created_at)::float8 as "createdAt"
  from identity_provider
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

/** False: the issuer is trusted already. */
export async function insertIdentityProvider(
  tx: Tx,
  tenantId: TenantId,
  p: IdentityProviderRow,
  webClientSecret: Kept | null,
): Promise<boolean> {
  const made = await tx.sql`
    insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, creates_users,
      private_network, web_client_id, web_client_secret, sealed_web_client_secret, status, created_at)
    values (${p.id}, ${tenantId}, ${p.issuer}, ${p.audience}, ${p.firstPartyClients}::text[],
      ${p.createsUsers}, ${p.privateNetwork}, ${p.webClientId}, ${webClientSecret?.clear ?? null},
      ${webClientSecret?.sealed ?? null}, ${p.status},
      to_timestamp(${p.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

/** Without `webClientSecret` the one that is there stays, unless the row has none any more. */
export async function updateIdentityProvider(
  tx: Tx,
  tenantId: TenantId,
  p: IdentityProviderRow,
  webClientSecret: Kept | null,
): Promise<void> {
  const { clear, sealed } = webClientSecret ?? { clear: null, sealed: null }
  const stays = webClientSecret === null && p.hasWebClientSecret
  await tx.sql`
    update identity_provider set audience = ${p.audience},
      first_party_clients = ${p.firstPartyClients}::text[], creates_users = ${p.createsUsers},
      private_network = ${p.privateNetwork}, web_client_id = ${p.webClientId},
      web_client_secret = case when ${stays}::boolean then web_client_secret else ${clear}::text end,
      sealed_web_client_secret = case when ${stays}::boolean then sealed_web_client_secret else ${sealed}::text end,
      status = ${p.status}
    where tenant_id = ${tenantId} and id = ${p.id}`
}
