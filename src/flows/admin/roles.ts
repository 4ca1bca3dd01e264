import type { UserCaller } from '../../callers.ts'
import type { UserId } from '../../core/vocabulary.ts'
import {
  type AssignmentRow,
  deleteAssignment,
  insertAssignment,
  insertRole,
  type RoleRow,
  renameRole,
  selectAssignments,
  selectGroup,
  selectRole,
  setRolePermissions,
  type Target,
  usersOfRole,
  usersOfTarget,
} from '../../db/admin-groups.ts'
import { FIRST, selectUser } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import type { RawItem } from '../items.ts'
import { secondsNow } from '../live.ts'
import { accessOf, badField, given, recordChange, taken } from './change.ts'

const noRole = () => fail('not_found', { detail: 'No such role in this organisation.' })
const noAssignment = () => fail('not_found', { detail: 'No such assignment in this organisation.' })
const permissionPath = (i: number): string => `permissions.${i}.`

export async function createRole(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly name: string; readonly permissions: readonly RawItem[] },
  tx: Tx,
): Promise<Result<RoleRow>> {
  const tenantId = caller.tenant.id
  const access = await accessOf(tx, input.permissions, permissionPath)
  if (!access.ok) return access
  const id = ctx.ids.id('role')
  if (!(await insertRole(tx, { id, tenantId, name: input.name, now: secondsNow(ctx.clock) })))
    return taken('name')
  await setRolePermissions(tx, id, access.value)
  await recordChange(ctx, tx, caller, {
    what: 'role.created',
    id,
    changes: { name: input.name, permissions: access.value },
  })
  const made = await selectRole(tx, { tenantId, id })
  return made === null ? noRole() : ok(made)
}

/** Renames a role or gives it another list of permissions, for everyone who has it. */
export async function changeRole(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: {
    readonly name?: string | undefined
    readonly permissions?: readonly RawItem[] | undefined
  },
  tx: Tx,
): Promise<Result<RoleRow>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  if ((await selectRole(tx, { tenantId, id })) === null) return noRole()
  const access =
    patch.permissions === undefined
      ? undefined
      : await accessOf(tx, patch.permissions, permissionPath)
  if (access?.ok === false) return access
  if (patch.name !== undefined && !(await renameRole(tx, { tenantId, id, name: patch.name })))
    return taken('name')
  if (access !== undefined) await setRolePermissions(tx, id, access.value)
  await recordChange(ctx, tx, caller, {
    what: 'role.changed',
    id,
    changes: given({ name: patch.name, permissions: access?.value }),
    ...(access === undefined ? {} : { affects: await usersOfRole(tx, id) }),
  })
  const after = await selectRole(tx, { tenantId, id })
  return after === null ? noRole() : ok(after)
}

export type TargetInput = {
  readonly user_id?: string | undefined
  readonly group_id?: string | undefined
}

/** Exactly one person or group, of this tenant. */
export async function targetOf(
  tx: Tx,
  caller: UserCaller,
  input: TargetInput,
): Promise<Result<Target>> {
  const tenantId = caller.tenant.id
  if (input.user_id !== undefined && input.group_id !== undefined)
    return badField('group_id', 'give a user_id or a group_id, not both')
  if (input.user_id !== undefined) {
    const user = await selectUser(tx, { tenantId, id: input.user_id })
    if (user === null) return badField('user_id', 'is not a person of this organisation')
    return ok({ userId: user.id, groupId: null })
  }
  if (input.group_id === undefined) return badField('user_id', 'give a user_id or a group_id')
  const group = await selectGroup(tx, { tenantId, id: input.group_id })
  if (group === null) return badField('group_id', 'is not a group of this organisation')
  return ok({ userId: null, groupId: group.id })
}

export const targetData = (target: Target) =>
  target.userId === null ? { group_id: target.groupId } : { user_id: target.userId }

export const targetNames = (target: Target): { readonly userId?: UserId } =>
  target.userId === null ? {} : { userId: target.userId }

async function assignment(
  tx: Tx,
  caller: UserCaller,
  id: string,
): Promise<AssignmentRow | undefined> {
  const tenantId = caller.tenant.id
  const [row] = await selectAssignments(tx, { tenantId, id, after: FIRST, limit: 1 })
  return row
}

export async function assignRole(
  ctx: Ctx,
  caller: UserCaller,
  input: TargetInput & { readonly role_id: string },
  tx: Tx,
): Promise<Result<AssignmentRow>> {
  const tenantId = caller.tenant.id
  const role = await selectRole(tx, { tenantId, id: input.role_id })
  if (role === null) return badField('role_id', 'is not a role of this organisation')
  const target = await targetOf(tx, caller, input)
  if (!target.ok) return target
  const id = ctx.ids.id('assignment')
  const now = secondsNow(ctx.clock)
  const row = { id, tenantId, roleId: role.id, now, ...target.value }
  if (!(await insertAssignment(tx, row)))
    return fail('already_exists', { detail: 'The role is assigned so already.' })
  await recordChange(ctx, tx, caller, {
    what: 'role.assigned',
    id,
    changes: { role_id: role.id, role: role.name, ...targetData(target.value) },
    names: targetNames(target.value),
  })
  const made = await assignment(tx, caller, id)
  return made === undefined ? noAssignment() : ok(made)
}

/** Takes a role from a person or from a whole group. */
export async function unassignRole(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  tx: Tx,
): Promise<Result<true>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const row = await assignment(tx, caller, id)
  if (row === undefined) return noAssignment()
  const affects = await usersOfTarget(tx, row)
  await deleteAssignment(tx, { tenantId, id })
  await recordChange(ctx, tx, caller, {
    what: 'role.unassigned',
    id,
    changes: { role_id: row.roleId, role: row.role, ...targetData(row) },
    names: targetNames(row),
    affects,
  })
  return ok(true)
}
