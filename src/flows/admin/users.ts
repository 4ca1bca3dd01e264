import type { UserCaller } from '../../callers.ts'
import type { UserId } from '../../core/vocabulary.ts'
import { Journal } from '../../db/activity.ts'
import { selectIdentityProviders } from '../../db/admin-clients.ts'
import {
  deleteUserPermission,
  FIRST,
  insertUser,
  insertUserPermission,
  otherActiveAdmins,
  selectUser,
  selectUserPermissions,
  type UserPermissionRow,
  type UserRow,
  updateUser,
} from '../../db/directory.ts'
import { guardTenantAlone, guardUserAlone } from '../../db/guard.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'
import { accessOf, badField, given, recordChange, taken } from './change.ts'
import { endLiveSessions } from './end-sessions.ts'

type Attributes = UserRow['attributes']

export type UserInput = {
  readonly login: string
  readonly name: string
  readonly email?: string | undefined
  /** Absent: that of the tenant's only identity provider. */
  readonly issuer?: string | undefined
  readonly subject: string
  readonly attributes?: Attributes | undefined
  readonly staff_roles?: readonly string[] | undefined
}

const noUser = () => fail('not_found', { detail: 'No such person in this organisation.' })

/** The issuer a new person is keyed by: one that the tenant trusts. */
async function issuerFor(
  tx: Tx,
  caller: UserCaller,
  asked: string | undefined,
): Promise<Result<string>> {
  const providers = await selectIdentityProviders(tx, {
    tenantId: caller.tenant.id,
    after: FIRST,
    limit: 1000,
  })
  if (asked !== undefined) {
    if (providers.some((p) => p.issuer === asked)) return ok(asked)
    return badField('issuer', 'is not an identity provider of this organisation')
  }
  const [only, ...others] = providers.filter((p) => p.status === 'active')
  if (only === undefined)
    return badField('issuer', 'this organisation has no identity provider yet')
  return others.length === 0
    ? ok(only.issuer)
    : badField('issuer', 'is required: this organisation has several identity providers')
}

/** Brings in a person, who holds nothing yet. Faults: 409 for a login or subject that is taken. */
export async function createUser(
  ctx: Ctx,
  caller: UserCaller,
  input: UserInput,
  tx: Tx,
): Promise<Result<UserRow>> {
  const issuer = await issuerFor(tx, caller, input.issuer)
  if (!issuer.ok) return issuer
  const tenantId = caller.tenant.id
  const id = ctx.ids.id<UserId>('user')
  const made = await insertUser(tx, {
    id,
    tenantId,
    issuer: issuer.value,
    subject: input.subject,
    login: input.login,
    name: input.name,
    email: input.email ?? null,
    attributes: input.attributes ?? {},
    staffRoles: input.staff_roles ?? [],
    now: secondsNow(ctx.clock),
  })
  if (made !== 'made') return taken(made)
  const { login, name, subject, attributes, staff_roles } = input
  await recordChange(ctx, tx, caller, {
    what: 'user.created',
    id,
    changes: given({ login, name, issuer: issuer.value, subject, attributes, staff_roles }),
    names: { userId: id },
  })
  const user = await selectUser(tx, { tenantId, id })
  return user === null ? noUser() : ok(user)
}

export type UserPatch = {
  readonly status?: 'active' | 'disabled' | undefined
  readonly name?: string | undefined
  /** Null takes it away. */
  readonly email?: string | null | undefined
  readonly attributes?: Attributes | undefined
  readonly staff_roles?: readonly string[] | undefined
}

const isAdmin = (user: Pick<UserRow, 'status' | 'staffRoles'>): boolean =>
  user.status === 'active' && user.staffRoles.includes('org_admin')

/**
 * Changes a person. Disabling ends all their live sessions in the same commit, under the tenant's guard alone: once it is
 * answered nothing of theirs can still be issued. The last active org admin stays one (409 `still_in_use`).
 */
export async function changeUser(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: UserPatch,
  tx: Tx,
): Promise<Result<UserRow>> {
  const tenantId = caller.tenant.id
  if ((await selectUser(tx, { tenantId, id })) === null) return noUser()
  // Two admins who disable each other at once must not both succeed, so these two concern the whole tenant.
  const wide = patch.status !== undefined || patch.staff_roles !== undefined
  if (wide) await guardTenantAlone(tx, tenantId)
  else await guardUserAlone(tx, { tenantId, userId: id as UserId })
  const before = await selectUser(tx, { tenantId, id })
  if (before === null) return noUser()
  const after: UserRow = {
    ...before,
    status: patch.status ?? before.status,
    name: patch.name ?? before.name,
    email: patch.email === undefined ? before.email : patch.email,
    attributes: patch.attributes ?? before.attributes,
    staffRoles: patch.staff_roles ?? before.staffRoles,
  }
  const userId = before.id
  if (
    isAdmin(before) &&
    !isAdmin(after) &&
    (await otherActiveAdmins(tx, { tenantId, userId })) === 0
  )
    return fail('still_in_use', {
      detail: `${before.login} is the last active org admin. Make somebody else one first.`,
    })
  await updateUser(tx, tenantId, after)
  const journal = new Journal(ctx, tenantId)
  const disabled = before.status === 'active' && after.status === 'disabled'
  const ended = disabled
    ? await endLiveSessions(ctx, tx, journal, caller, { userId, reason: 'user_disabled' })
    : null
  const what = disabled
    ? 'user.disabled'
    : before.status !== after.status
      ? 'user.enabled'
      : 'user.changed'
  const { status, name, email, attributes, staff_roles } = patch
  // The record cannot be erased, so it does not say what a person's address was.
  const mail = email === undefined ? undefined : email === null ? 'removed' : 'changed'
  const changes = {
    ...given({ status, name, email: mail, attributes, staff_roles }),
    ...ended?.counts,
  }
  const affects = disabled || patch.attributes !== undefined ? { affects: [userId] } : {}
  const change = { what, id, changes, names: { userId }, ...affects }
  await recordChange(ctx, tx, caller, change, journal)
  return ok(after)
}

/** Gives a person a permission directly. Faults: 422 naming the field, 409 when they have exactly it. */
export async function giveUserPermission(
  ctx: Ctx,
  caller: UserCaller,
  userId: string,
  input: { readonly permission: string; readonly resource?: string | undefined },
  tx: Tx,
): Promise<Result<UserPermissionRow>> {
  const tenantId = caller.tenant.id
  const user = await selectUser(tx, { tenantId, id: userId })
  if (user === null) return noUser()
  const access = await accessOf(tx, [input], () => '')
  if (!access.ok) return access
  const [one] = access.value
  if (one === undefined) return badField('permission', 'is required')
  const id = ctx.ids.id('userPermission')
  const now = secondsNow(ctx.clock)
  if (!(await insertUserPermission(tx, { id, tenantId, userId, now, ...one })))
    return fail('already_exists', { detail: `${user.login} has exactly this already.` })
  await recordChange(ctx, tx, caller, {
    what: 'user.permission_given',
    id,
    changes: given({ ...one, resource: one.resource ?? undefined, user_id: userId }),
    names: { userId: user.id },
  })
  const [row] = await selectUserPermissions(tx, { tenantId, userId, id })
  return row === undefined ? noUser() : ok(row)
}

/** Takes a direct permission back; what the person lent by it ends within seconds, and at the next issue at the latest. */
export async function takeUserPermission(
  ctx: Ctx,
  caller: UserCaller,
  of: { readonly userId: string; readonly id: string },
  tx: Tx,
): Promise<Result<true>> {
  const tenantId = caller.tenant.id
  const user = await selectUser(tx, { tenantId, id: of.userId })
  if (user === null) return noUser()
  await guardUserAlone(tx, { tenantId, userId: user.id })
  const gone = await deleteUserPermission(tx, { tenantId, userId: user.id, id: of.id })
  if (gone === null)
    return fail('not_found', { detail: `${user.login} has no such direct permission.` })
  await recordChange(ctx, tx, caller, {
    what: 'user.permission_taken',
    id: of.id,
    changes: given({ ...gone, resource: gone.resource ?? undefined, user_id: user.id }),
    names: { userId: user.id },
    affects: [user.id],
  })
  return ok(true)
}
