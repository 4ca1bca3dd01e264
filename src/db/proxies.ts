import { and, eq } from 'drizzle-orm'
import type { TenantId } from '../core/vocabulary.ts'
import type { Page } from './directory.ts'
import { replacedSecret } from './replaced-secret.ts'
import { gatewayProxy } from './tables.ts'
import type { Tx } from './tx.ts'

/** A reverse proxy that asks forward-auth, without its secrets' hashes. */
export type ProxyRow = {
  readonly id: string
  readonly name: string
  /** Null: made before proxies had one, and free to use each. */
  readonly family: string | null
  readonly status: 'active' | 'disabled'
  /** Seconds; null when no other secret than its own opens. */
  readonly previousUntil: number | null
  readonly createdAt: number
}

export const selectProxies = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly ProxyRow[]> => tx.sql<ProxyRow>`
  select id, name, family, status, extract(epoch from previous_secret_until)::float8 as "previousUntil",
    extract(epoch from created_at)::float8 as "createdAt"
  from gateway_proxy
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

/** False: the name is taken. */
export async function insertProxy(
  tx: Tx,
  tenantId: TenantId,
  p: ProxyRow & { readonly secretHash: string },
): Promise<boolean> {
  const made = await tx.sql`
    insert into gateway_proxy (id, tenant_id, name, family, status, secret_hash, created_at)
    values (${p.id}, ${tenantId}, ${p.name}, ${p.family}, ${p.status}, ${p.secretHash},
      to_timestamp(${p.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

/** Another proxy of the tenant has this name. */
export async function isProxyName(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly name: string; readonly otherThan: string },
): Promise<boolean> {
  const [row] = await tx.sql`
    select 1 from gateway_proxy
    where tenant_id = ${of.tenantId} and name = ${of.name} and id <> ${of.otherThan}`
  return row !== undefined
}

export async function updateProxy(
  tx: Tx,
  tenantId: TenantId,
  p: ProxyRow & { readonly secretHash: string | undefined },
): Promise<void> {
  const { name, status } = p
  await tx.orm
    .update(gatewayProxy)
    .set({ name, status, ...replacedSecret(gatewayProxy, p) })
    .where(and(eq(gatewayProxy.tenantId, tenantId), eq(gatewayProxy.id, p.id)))
}

export type MountRow = {
  readonly id: string
  readonly prefix: string
  readonly service: string
  readonly createdAt: number
}

export const selectMounts = (
  tx: Tx,
  of: Page & { readonly proxyId: string; readonly id?: string },
): Promise<readonly MountRow[]> => tx.sql<MountRow>`
  select id, prefix, service_id as service, extract(epoch from created_at)::float8 as "createdAt"
  from gateway_mount
  where tenant_id = ${of.tenantId} and proxy_id = ${of.proxyId}
    and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

/** False: something is mounted there already. */
export async function insertMount(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly proxyId: string },
  m: MountRow,
): Promise<boolean> {
  const made = await tx.sql`
    insert into gateway_mount (tenant_id, proxy_id, prefix, service_id, id, created_at)
    values (${of.tenantId}, ${of.proxyId}, ${m.prefix}, ${m.service}, ${m.id},
      to_timestamp(${m.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

export async function deleteMount(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly proxyId: string; readonly id: string },
): Promise<void> {
  await tx.sql`
    delete from gateway_mount
    where tenant_id = ${of.tenantId} and proxy_id = ${of.proxyId} and id = ${of.id}`
}
