import type { TenantId, UserId } from '../core/vocabulary.ts'
import type { Page } from './directory.ts'
import { json, type Tx } from './tx.ts'

/** Groups, roles and who has them: standing access of people, and only of people (I13). */
export type GroupRow = {
  readonly id: string
  readonly name: string
  readonly memberCount: number
  readonly createdAt: number
}

export const selectGroups = (tx: Tx, of: Page): Promise<readonly GroupRow[]> => tx.sql<GroupRow>`
  select g.id, g.name, extract(epoch from g.created_at)::float8 as "createdAt",
    (select count(*)::integer from group_member m where m.group_id = g.id) as "memberCount"
  from user_group g
  where g.tenant_id = ${of.tenantId}
    and ((extract(epoch from g.created_at) * 1000)::float8, g.id) < (${of.after[0]}::float8, ${of.after[1]})
  order by g.created_at desc, g.id desc limit ${of.limit}`

export async function selectGroup(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<GroupRow | null> {
  const [row] = await tx.sql<GroupRow>`
    select g.id, g.name, extract(epoch from g.created_at)::float8 as "createdAt",
      (select count(*)::integer from group_member m where m.group_id = g.id) as "memberCount"
    from user_group g where g.tenant_id = ${of.tenantId} and g.id = ${of.id}`
  return row ?? null
}

export type Member = { readonly id: UserId; readonly login: string; readonly name: string }

export const selectMembers = (
  tx: Tx,
  groupId: string,
): Promise<readonly Member[]> => tx.sql<Member>`
  select u.id, u.login, u.name from group_member m join app_user u on u.id = m.user_id
  where m.group_id = ${groupId} order by u.login`

/** False: the name is taken. */
export async function insertGroup(
  tx: Tx,
  of: {
    readonly id: string
    readonly tenantId: TenantId
    readonly name: string
    readonly now: number
  },
): Promise<boolean> {
  const made = await tx.sql`
    insert into user_group (id, tenant_id, name, created_at)
    values (${of.id}, ${of.tenantId}, ${of.name}, to_timestamp(${of.now}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

/** False: the name is taken by another. */
export async function renameGroup(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string; readonly name: string },
): Promise<boolean> {
  const done = await tx.sql`
    update user_group g set name = ${of.name} where g.tenant_id = ${of.tenantId} and g.id = ${of.id}
      and not exists (select from user_group o
        where o.tenant_id = ${of.tenantId} and o.name = ${of.name} and o.id <> ${of.id})
    returning id`
  return done.length === 1
}

export async function addMembers(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly groupId: string; readonly users: readonly string[] },
): Promise<readonly UserId[]> {
  if (of.users.length === 0) return []
  const rows = await tx.sql<{ id: UserId }>`
    insert into group_member (tenant_id, group_id, user_id)
    select ${of.tenantId}, ${of.groupId}, u from unnest(${of.users}::text[]) as u
    on conflict do nothing returning user_id as id`
  return rows.map((row) => row.id)
}

export async function removeMembers(
  tx: Tx,
  of: { readonly groupId: string; readonly users: readonly string[] },
): Promise<readonly UserId[]> {
  if (of.users.length === 0) return []
  const rows = await tx.sql<{ id: UserId }>`
    delete from group_member where group_id = ${of.groupId} and user_id = any(${of.users}::text[])
    returning user_id as id`
  return rows.map((row) => row.id)
}

export type Access = { readonly permission: string; readonly resource: string | null }
export type RoleRow = {
  readonly id: string
  readonly name: string
  readonly permissions: readonly Access[]
  readonly createdAt: number
}

export const selectRoles = (tx: Tx, of: Page): Promise<readonly RoleRow[]> => tx.sql<RoleRow>`
  select r.id, r.name, extract(epoch from r.created_at)::float8 as "createdAt",
    (select coalesce(jsonb_agg(jsonb_build_object('permission', p.permission_id, 'resource', p.resource)
        order by p.permission_id, p.resource nulls first), '[]')
      from role_permission p where p.role_id = r.id) as permissions
  from role r
  where r.tenant_id = ${of.tenantId}
    and ((extract(epoch from r.created_at) * 1000)::float8, r.id) < (${of.after[0]}::float8, ${of.after[1]})
  order by r.created_at desc, r.id desc limit ${of.limit}`

export async function selectRole(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<RoleRow | null> {
  const [row] = await tx.sql<RoleRow>`
    select r.id, r.name, extract(epoch from r.created_at)::float8 as "createdAt",
      (select coalesce(jsonb_agg(jsonb_build_object('permission', p.permission_id, 'resource', p.resource)
          order by p.permission_id, p.resource nulls first), '[]')
        from role_permission p where p.role_id = r.id) as permissions
    from role r where r.tenant_id = ${of.tenantId} and r.id = ${of.id}`
  return row ?? null
}

/** False: the name is taken. */
export async function insertRole(
  tx: Tx,
  of: {
    readonly id: string
    readonly tenantId: TenantId
    readonly name: string
    readonly now: number
  },
): Promise<boolean> {
  const made = await tx.sql`
    insert into role (id, tenant_id, name, created_at)
    values (${of.id}, ${of.tenantId}, ${of.name}, to_timestamp(${of.now}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

/** False: the name is taken by another. */
export async function renameRole(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string; readonly name: string },
): Promise<boolean> {
  const done = await tx.sql`
    update role r set name = ${of.name} where r.tenant_id = ${of.tenantId} and r.id = ${of.id}
      and not exists (select from role o
        where o.tenant_id = ${of.tenantId} and o.name = ${of.name} and o.id <> ${of.id})
    returning id`
  return done.length === 1
}

export async function setRolePermissions(
  tx: Tx,
  roleId: string,
  permissions: readonly Access[],
): Promise<void> {
  await tx.sql`delete from role_permission where role_id = ${roleId}`
  await tx.sql`
    insert into role_permission (role_id, permission_id, resource)
    select ${roleId}, p.permission, p.resource
    from jsonb_to_recordset(${json(permissions)}::text::jsonb) as p (permission text, resource text)`
}

/** Everyone who has a role, directly or through a group. */
export async function usersOfRole(tx: Tx, roleId: string): Promise<readonly UserId[]> {
  const rows = await tx.sql<{ id: UserId }>`
    select user_id as id from role_assignment where role_id = ${roleId} and user_id is not null
    union
    select m.user_id from role_assignment a join group_member m on m.group_id = a.group_id
    where a.role_id = ${roleId}`
  return rows.map((row) => row.id)
}

export type Target = { readonly userId: UserId | null; readonly groupId: string | null }

/** The person, or everyone in the group. */
export async function usersOfTarget(tx: Tx, target: Target): Promise<readonly UserId[]> {
  if (target.userId !== null) return [target.userId]
  const rows = await tx.sql<{ id: UserId }>`
    select user_id as id from group_member where group_id = ${target.groupId}`
  return rows.map((row) => row.id)
}

export type AssignmentRow = Target & {
  readonly id: string
  readonly roleId: string
  readonly role: string
  readonly createdAt: number
}

export const selectAssignments = (
  tx: Tx,
  of: Page & {
    readonly id?: string
    readonly roleId?: string | undefined
    readonly userId?: string | undefined
    readonly groupId?: string | undefined
  },
): Promise<readonly AssignmentRow[]> => tx.sql<AssignmentRow>`
  select a.id, a.role_id as "roleId", r.name as role, a.user_id as "userId", a.group_id as "groupId",
    extract(epoch from a.created_at)::float8 as "createdAt"
  from role_assignment a join role r on r.id = a.role_id
  where a.tenant_id = ${of.tenantId}
    and (${of.id ?? null}::text is null or a.id = ${of.id ?? null})
    and (${of.roleId ?? null}::text is null or a.role_id = ${of.roleId ?? null})
    and (${of.userId ?? null}::text is null or a.user_id = ${of.userId ?? null})
    and (${of.groupId ?? null}::text is null or a.group_id = ${of.groupId ?? null})
    and ((extract(epoch from a.created_at) * 1000)::float8, a.id) < (${of.after[0]}::float8, ${of.after[1]})
  order by a.created_at desc, a.id desc limit ${of.limit}`

/** False: it is assigned already. */
export async function insertAssignment(
  tx: Tx,
  of: Target & {
    readonly id: string
    readonly tenantId: TenantId
    readonly roleId: string
    readonly now: number
  },
): Promise<boolean> {
  const made = await tx.sql`
    insert into role_assignment (id, tenant_id, role_id, user_id, group_id, created_at)
    values (${of.id}, ${of.tenantId}, ${of.roleId}, ${of.userId}, ${of.groupId},
      to_timestamp(${of.now}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

export async function deleteAssignment(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<void> {
  await tx.sql`delete from role_assignment where tenant_id = ${of.tenantId} and id = ${of.id}`
}
