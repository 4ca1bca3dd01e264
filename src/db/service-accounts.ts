import { and, eq, sql } from 'drizzle-orm'
import type { ServiceAccountId, TenantId } from '../core/vocabulary.ts'
import type { Page } from './directory.ts'
import { replacedSecret } from './replaced-secret.ts'
import { serviceAccount } from './tables.ts'
import { takesBack } from './taken-back.ts'
import { json, type Tx } from './tx.ts'

/** A tenant's backend program. No row here carries a secret's hash. */
export type ServiceAccountRow = {
  readonly id: ServiceAccountId
  readonly name: string
  readonly status: 'active' | 'disabled'
  /** Raised by the database with whatever takes something back. */
  readonly version: number
  readonly jwks: { readonly [name: string]: unknown } | null
  readonly hasSecret: boolean
  /** Seconds; null when no other secret than its own opens. */
  readonly previousUntil: number | null
  readonly createdAt: number
}

export const selectServiceAccounts = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly ServiceAccountRow[]> => tx.sql<ServiceAccountRow>`
  select id, name, status, version, jwks, secret_hash is not null as "hasSecret",
    extract(epoch from previous_secret_until)::float8 as "previousUntil",
    extract(epoch from created_at)::float8 as "createdAt"
  from service_account
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

/** False: the name is taken. */
export async function insertServiceAccount(
  tx: Tx,
  tenantId: TenantId,
  a: Pick<ServiceAccountRow, 'id' | 'name' | 'jwks' | 'createdAt'> & {
    readonly secretHash: string | null
  },
): Promise<boolean> {
  const jwks = a.jwks === null ? null : json(a.jwks)
  const made = await tx.sql`
    insert into service_account (id, tenant_id, name, secret_hash, jwks, created_at)
    values (${a.id}, ${tenantId}, ${a.name}, ${a.secretHash}, ${jwks}::text::jsonb,
      to_timestamp(${a.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

/** Another service account of the tenant has this name. */
export async function isServiceAccountName(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly name: string; readonly otherThan: string },
): Promise<boolean> {
  const [row] = await tx.sql`
    select 1 from service_account
    where tenant_id = ${of.tenantId} and name = ${of.name} and id <> ${of.otherThan}`
  return row !== undefined
}

export async function updateServiceAccount(
  tx: Tx,
  tenantId: TenantId,
  a: ServiceAccountRow & { readonly secretHash: string | null | undefined },
): Promise<void> {
  const jwks = a.jwks === null ? null : json(a.jwks)
  const { name, status } = a
  takesBack(tx)
  await tx.orm
    .update(serviceAccount)
    .set({ name, status, jwks: sql`${jwks}::text::jsonb`, ...replacedSecret(serviceAccount, a) })
    .where(and(eq(serviceAccount.tenantId, tenantId), eq(serviceAccount.id, a.id)))
}

export type ServicePermissionRow = {
  readonly id: string
  readonly permission: string
  readonly title: string
  readonly service: string
  readonly createdAt: number
}

export const selectServicePermissions = (
  tx: Tx,
  of: Page & { readonly accountId: string; readonly id?: string },
): Promise<readonly ServicePermissionRow[]> => tx.sql<ServicePermissionRow>`
  select s.id, s.permission_id as permission, p.title, p.service_id as service,
    extract(epoch from s.created_at)::float8 as "createdAt"
  from service_account_permission s join permission p on p.id = s.permission_id
  where s.tenant_id = ${of.tenantId} and s.service_account_id = ${of.accountId}
    and (${of.id ?? null}::text is null or s.id = ${of.id ?? null})
    and ((extract(epoch from s.created_at) * 1000)::float8, s.id) < (${of.after[0]}::float8, ${of.after[1]})
  order by s.created_at desc, s.id desc limit ${of.limit}`

/** False: it has exactly this already. `now` in seconds. */
export async function insertServicePermission(
  tx: Tx,
  of: {
    readonly id: string
    readonly tenantId: TenantId
    readonly accountId: string
    readonly permission: string
    readonly now: number
  },
): Promise<boolean> {
  const made = await tx.sql`
    insert into service_account_permission (id, tenant_id, service_account_id, permission_id, created_at)
    values (${of.id}, ${of.tenantId}, ${of.accountId}, ${of.permission}, to_timestamp(${of.now}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

export async function deleteServicePermission(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly accountId: string; readonly id: string },
): Promise<void> {
  takesBack(tx)
  await tx.sql`
    delete from service_account_permission
    where tenant_id = ${of.tenantId} and service_account_id = ${of.accountId} and id = ${of.id}`
}

/** What a service account stands for now. */
export type ServiceStanding = {
  readonly status: 'active' | 'disabled'
  readonly version: number
  /** Its whole tenant is frozen. */
  readonly frozen: boolean
  /** API permissions of these services that gateways enforce, in order; never one that no agent could be lent. */
  readonly permissions: readonly string[]
}

export async function readServiceStanding(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly id: ServiceAccountId
    readonly services: readonly string[]
  },
): Promise<ServiceStanding | null> {
  const [row] = await tx.sql<ServiceStanding>`
    select a.status, a.version,
      exists (select 1 from frozen f where f.tenant_id = a.tenant_id and f.scope = 'tenant') as frozen,
      array(select p.id from service_account_permission s join permission p on p.id = s.permission_id
        where s.tenant_id = a.tenant_id and s.service_account_id = a.id and p.kind = 'api'
          and p.delegable and not p.retired and p.enforced_at = 'gateway'
          and p.service_id = any(${of.services}::text[])
        order by p.id) as permissions
    from service_account a where a.tenant_id = ${of.tenantId} and a.id = ${of.id}`
  return row ?? null
}

/** Those of the ids that are the tenant's service accounts, disabled ones too: a record may arrive after. */
export async function knownServiceAccounts(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly ids: readonly string[] },
): Promise<ReadonlySet<string>> {
  const rows = await tx.sql<{ id: string }>`
    select id from service_account where tenant_id = ${of.tenantId} and id = any(${of.ids}::text[])`
  return new Set(rows.map((row) => row.id))
}
