import type { Item, TenantId, UserId } from '../core/vocabulary.ts'
import { type CatalogRow, type FreezeScope, type ItemJson, itemOf } from './tree.ts'
import type { Tx } from './tx.ts'

/** What asset checks ask of catalog and directory. Every statement names the tenant, so another's ids find nothing (I17). */
export type AssetRow = CatalogRow & { readonly assetType: string }

/** Asset permissions on these types of object, of these services; none that is retired. */
export const selectAssets = (
  tx: Tx,
  of: { readonly services: readonly string[]; readonly types: readonly string[] },
): Promise<readonly AssetRow[]> => tx.sql<AssetRow>`
  select p.id, p.kind, p.access, p.risk, p.sensitive, p.delegable, p.title, p.description,
    p.service_id as service, p.enforced_at as "enforcedAt", p.data, true as "takesResource",
    p.asset ->> 'type' as "assetType"
  from permission p
  where p.kind = 'asset' and not p.retired and p.service_id = any(${of.services}::text[])
    and p.asset ->> 'type' = any(${of.types}::text[])
  order by p.id`

/** A person as an asset check sees them: what they may do now, and whether anything keeps them from it. */
export type Person = {
  readonly id: UserId
  readonly active: boolean
  readonly frozen: FreezeScope | null
  readonly access: readonly Item[]
}

type PersonSql = Omit<Person, 'access'> & { readonly access: readonly ItemJson[] }

const personOf = (row: PersonSql): Person => ({ ...row, access: row.access.map(itemOf) })

/** One person of the tenant; null when there is none of that id. */
export async function selectPerson(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<Person | null> {
  const [row] = await tx.sql<PersonSql>`
    select u.id, u.status = 'active' as active,
      (select f.scope from frozen f where f.tenant_id = ${of.tenantId}
        and (f.scope = 'tenant' or (f.scope = 'user' and f.target_id = ${of.id})) limit 1) as frozen,
      (select coalesce(json_agg(x), '[]') from (
        select distinct x.permission_id as permission, x.resource, null::jsonb as narrow
        from user_access x where x.user_id = ${of.id} and x.tenant_id = ${of.tenantId}) x) as access
    from app_user u where u.tenant_id = ${of.tenantId} and u.id = ${of.id}`
  return row === undefined ? null : personOf(row)
}

/**
 * People who have the permission on this resource or on the one pattern that could cover it, by id. Whether that is enough is
 * decided where every check is; this only keeps the list short.
 */
export async function selectHolders(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly permission: string
    readonly resource: string
    readonly after: string
    readonly limit: number
  },
): Promise<readonly Person[]> {
  const pattern = `${of.resource.slice(0, of.resource.lastIndexOf('/'))}/*`
  const rows = await tx.sql<PersonSql>`
    select u.id, u.status = 'active' as active,
      (select f.scope from frozen f where f.tenant_id = ${of.tenantId}
        and (f.scope = 'tenant' or (f.scope = 'user' and f.target_id = u.id)) limit 1) as frozen,
      json_agg(json_build_object('permission', x.permission_id, 'resource', x.resource, 'narrow', null)) as access
    from user_access x join app_user u on u.id = x.user_id and u.tenant_id = x.tenant_id
    where x.tenant_id = ${of.tenantId} and x.permission_id = ${of.permission}
      and x.resource = any(${[of.resource, pattern]}::text[]) and u.id > ${of.after}
    group by u.id, u.status order by u.id limit ${of.limit}`
  return rows.map(personOf)
}

/** Single objects that the tenant's directory names for a permission: Lend knows no others. By name, after one of them. */
export async function selectKnownResources(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly permission: string
    readonly after: string
    readonly limit: number
  },
): Promise<readonly string[]> {
  const rows = await tx.sql<{ resource: string }>`
    select distinct r.resource collate "C" as resource from (
      select resource from user_permission
        where tenant_id = ${of.tenantId} and permission_id = ${of.permission}
      union all
      select p.resource from role r join role_permission p on p.role_id = r.id
        where r.tenant_id = ${of.tenantId} and p.permission_id = ${of.permission}) r
    where r.resource is not null and r.resource not like '%/*' and r.resource collate "C" > ${of.after}
    order by 1 limit ${of.limit}`
  return rows.map((row) => row.resource)
}
