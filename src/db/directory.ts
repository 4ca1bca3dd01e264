import type { TenantId, UserId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

/** The tenant's people. Every statement names the tenant, so another's ids find nothing (I17). Times in seconds. */
export type UserRow = {
  readonly id: UserId
  readonly login: string
  readonly name: string
  readonly email: string | null
  readonly issuer: string
  readonly subject: string
  readonly attributes: { readonly [name: string]: unknown }
  readonly staffRoles: readonly string[]
  readonly status: 'active' | 'disabled'
  readonly createdAt: number
}

/** Where a page of a list goes on: after this time (milliseconds) and id, newest first. */
export type After = readonly [number, string]

/** Later than every row, so that the first page needs no statement of its own. */
export const FIRST: After = [8.64e15, '~']

export type Page = { readonly tenantId: TenantId; readonly after: After; readonly limit: number }

export const selectUsers = (
  tx: Tx,
  of: Page & { readonly login?: string | undefined; readonly status?: string | undefined },
): Promise<readonly UserRow[]> => tx.sql<UserRow>`
  select id, login, name, email, issuer, subject, attributes, staff_roles as "staffRoles", status,
    extract(epoch from created_at)::float8 as "createdAt"
  from app_user
  where tenant_id = ${of.tenantId}
    and (${of.login ?? null}::text is null or login = ${of.login ?? null})
    and (${of.status ?? null}::text is null or status = ${of.status ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

export async function selectUser(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<UserRow | null> {
  const [row] = await tx.sql<UserRow>`
    select id, login, name, email, issuer, subject, attributes, staff_roles as "staffRoles", status,
      extract(epoch from created_at)::float8 as "createdAt"
    from app_user where tenant_id = ${of.tenantId} and id = ${of.id}`
  return row ?? null
}

export type NewUser = Omit<UserRow, 'status' | 'createdAt'> & {
  readonly tenantId: TenantId
  readonly now: number
}

/** Null: the login, or the issuer's subject, is taken. */
export async function insertUser(tx: Tx, u: NewUser): Promise<'made' | 'login' | 'subject'> {
  const made = await tx.sql`
    insert into app_user (id, tenant_id, issuer, subject, login, name, email, attributes, staff_roles,
      created_at)
    values (${u.id}, ${u.tenantId}, ${u.issuer}, ${u.subject}, ${u.login}, ${u.name}, ${u.email},
      ${json(u.attributes)}::text::jsonb, ${u.staffRoles}::text[], to_timestamp(${u.now}::float8))
    on conflict do nothing returning id`
  if (made.length === 1) return 'made'
  const [taken] = await tx.sql`
    select id from app_user where tenant_id = ${u.tenantId} and login = ${u.login}`
  return taken === undefined ? 'subject' : 'login'
}

export async function updateUser(tx: Tx, tenantId: TenantId, u: UserRow): Promise<void> {
  await tx.sql`
    update app_user set name = ${u.name}, email = ${u.email}, status = ${u.status},
      attributes = ${json(u.attributes)}::text::jsonb, staff_roles = ${u.staffRoles}::text[]
    where tenant_id = ${tenantId} and id = ${u.id}`
}

/** How many others could still administer the tenant. Exact only under the tenant's guard. */
export async function otherActiveAdmins(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId },
): Promise<number> {
  const [row] = await tx.sql<{ count: number }>`
    select count(*)::integer as count from app_user
    where tenant_id = ${of.tenantId} and id <> ${of.userId} and status = 'active'
      and 'org_admin' = any(staff_roles)`
  return row?.count ?? 0
}

/** Which of these ids are not of the tenant's own people. */
export async function strangers(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly ids: readonly string[] },
): Promise<readonly string[]> {
  if (of.ids.length === 0) return []
  const rows = await tx.sql<{ id: string }>`
    select id from app_user where tenant_id = ${of.tenantId} and id = any(${of.ids}::text[])`
  const known = new Set(rows.map((row) => row.id))
  return of.ids.filter((id) => !known.has(id))
}

/** What a person may do now, and by what. */
export type AccessRow = {
  readonly permission: string
  readonly title: string
  readonly resource: string | null
  readonly via: 'direct' | 'role' | 'group'
  readonly viaId: string
  readonly role: string | null
  readonly groupId: string | null
  readonly group: string | null
}

export const selectAccessOf = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: string },
): Promise<readonly AccessRow[]> => tx.sql<AccessRow>`
  select x.permission_id as permission, p.title, x.resource, x.via, x.via_id as "viaId",
    r.name as role, g.id as "groupId", g.name as "group"
  from user_access x
  join permission p on p.id = x.permission_id
  left join role r on x.via <> 'direct' and r.id = x.via_id
  left join user_group g on g.id = x.group_id
  where x.tenant_id = ${of.tenantId} and x.user_id = ${of.userId} and not p.retired
  order by x.permission_id, x.resource nulls first, x.via, x.via_id, g.id`

export type UserPermissionRow = {
  readonly id: string
  readonly permission: string
  readonly title: string
  readonly resource: string | null
  readonly createdAt: number
}

export const selectUserPermissions = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: string; readonly id?: string },
): Promise<readonly UserPermissionRow[]> => tx.sql<UserPermissionRow>`
  select x.id, x.permission_id as permission, p.title, x.resource,
    extract(epoch from x.created_at)::float8 as "createdAt"
  from user_permission x join permission p on p.id = x.permission_id
  where x.tenant_id = ${of.tenantId} and x.user_id = ${of.userId}
    and (${of.id ?? null}::text is null or x.id = ${of.id ?? null})
  order by x.permission_id, x.resource nulls first`

/** False: the person has exactly this already. */
export async function insertUserPermission(
  tx: Tx,
  of: {
    readonly id: string
    readonly tenantId: TenantId
    readonly userId: string
    readonly permission: string
    readonly resource: string | null
    readonly now: number
  },
): Promise<boolean> {
  const made = await tx.sql`
    insert into user_permission (id, tenant_id, user_id, permission_id, resource, created_at)
    values (${of.id}, ${of.tenantId}, ${of.userId}, ${of.permission}, ${of.resource},
      to_timestamp(${of.now}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

export async function deleteUserPermission(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: string; readonly id: string },
): Promise<{ readonly permission: string; readonly resource: string | null } | null> {
  const [gone] = await tx.sql<{ permission: string; resource: string | null }>`
    delete from user_permission
    where tenant_id = ${of.tenantId} and user_id = ${of.userId} and id = ${of.id}
    returning permission_id as permission, resource`
  return gone ?? null
}

/** Live session trees of one person, or that one agent runs, with whose they are; in lock order. */
export const liveRoots = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId?: string; readonly agentId?: string },
): Promise<readonly { readonly rootId: string; readonly userId: UserId }[]> => tx.sql<{
  rootId: string
  userId: UserId
}>`
  select id as "rootId", user_id as "userId" from session
  where tenant_id = ${of.tenantId} and status = 'active' and parent_id is null
    and (${of.userId ?? null}::text is null or user_id = ${of.userId ?? null})
    and (${of.agentId ?? null}::text is null or agent_id = ${of.agentId ?? null})
  order by id`
