import type { UserCaller } from '../../callers.ts'
import type { ServiceAccountId } from '../../core/vocabulary.ts'
import { catalogEntries } from '../../db/catalog.ts'
import { FIRST } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import {
  deleteServicePermission,
  insertServiceAccount,
  insertServicePermission,
  isServiceAccountName,
  type ServiceAccountRow,
  type ServicePermissionRow,
  selectServiceAccounts,
  selectServicePermissions,
  updateServiceAccount,
} from '../../db/service-accounts.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { hashSecret } from '../../tokens/client-auth.ts'
import { secondsNow } from '../live.ts'
import { jwksFault } from './agents.ts'
import { badField, given, recordChange, taken } from './change.ts'
import { previousUntil, type Rotation } from './rotation.ts'

type Jwks = { readonly [name: string]: unknown }

/** The secret is there when this very call made one, and never again. */
export type ServiceAccountMade = { readonly account: ServiceAccountRow; readonly secret?: string }

const noAccount = () =>
  fail('not_found', { detail: 'No such service account in this organisation.' })

async function accountOf(
  tx: Tx,
  caller: UserCaller,
  id: string,
): Promise<ServiceAccountRow | undefined> {
  const tenantId = caller.tenant.id
  const [row] = await selectServiceAccounts(tx, { tenantId, id, after: FIRST, limit: 1 })
  return row
}

const made = (account: ServiceAccountRow | undefined, secret: string | undefined) =>
  account === undefined ? noAccount() : ok({ account, ...(secret === undefined ? {} : { secret }) })

/** Registers a backend program: with its public keys, or with a secret that is answered once. It holds nothing yet. */
export async function createServiceAccount(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly name: string; readonly jwks?: Jwks | undefined },
  tx: Tx,
): Promise<Result<ServiceAccountMade>> {
  const keys = jwksFault(input.jwks)
  if (!keys.ok) return keys
  const secret = input.jwks === undefined ? ctx.ids.secret() : undefined
  const id = ctx.ids.id<ServiceAccountId>('serviceAccount')
  const inserted = await insertServiceAccount(tx, caller.tenant.id, {
    id,
    name: input.name,
    jwks: input.jwks ?? null,
    secretHash: secret === undefined ? null : hashSecret(secret),
    createdAt: secondsNow(ctx.clock),
  })
  if (!inserted) return taken('name')
  const changes = { name: input.name, credential: secret === undefined ? 'keys' : 'secret' }
  await recordChange(ctx, tx, caller, { what: 'service_account.created', id, changes })
  return made(await accountOf(tx, caller, id), secret)
}

export type ServiceAccountPatch = {
  readonly name?: string | undefined
  readonly status?: 'active' | 'disabled' | undefined
  /** Null takes the keys away. */
  readonly jwks?: Jwks | null | undefined
  readonly rotate_secret?: Rotation | undefined
  readonly remove_secret?: true | undefined
}

/** The account as it is to be; 422 where it would be left without a credential. */
function patched(
  ctx: Ctx,
  before: ServiceAccountRow,
  patch: ServiceAccountPatch,
): Result<ServiceAccountRow> {
  const { rotate_secret: rotation, remove_secret: removes } = patch
  if (rotation !== undefined && removes)
    return badField('remove_secret', 'cannot go with rotate_secret')
  const jwks = patch.jwks === undefined ? before.jwks : patch.jwks
  const hasSecret = rotation !== undefined || (before.hasSecret && !removes)
  if (!hasSecret && jwks === null)
    return badField(
      removes ? 'remove_secret' : 'jwks',
      'would leave the service account without a credential',
    )
  const until = rotation === undefined ? before.previousUntil : previousUntil(ctx, rotation)
  return ok({
    ...before,
    ...{ jwks, hasSecret, previousUntil: removes ? null : until },
    name: patch.name ?? before.name,
    status: patch.status ?? before.status,
  })
}

/**
 * Renames a service account, turns it off or on, or changes its credentials. All but a new name and turning it on raises its
 * version, so that every token from before is dead at each gateway within seconds.
 */
export async function changeServiceAccount(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: ServiceAccountPatch,
  tx: Tx,
): Promise<Result<ServiceAccountMade>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const before = await accountOf(tx, caller, id)
  if (before === undefined) return noAccount()
  const keys = jwksFault(patch.jwks)
  if (!keys.ok) return keys
  const { name } = patch
  if (name !== undefined && (await isServiceAccountName(tx, { tenantId, name, otherThan: id })))
    return taken('name')
  const after = patched(ctx, before, patch)
  if (!after.ok) return after
  const { rotate_secret, remove_secret, jwks, status } = patch
  const secret = rotate_secret === undefined ? undefined : ctx.ids.secret()
  const secretHash = secret === undefined ? (remove_secret ? null : undefined) : hashSecret(secret)
  await updateServiceAccount(tx, tenantId, { ...after.value, secretHash })
  const changes = given({
    ...{ name, status, rotate_secret },
    keys: jwks === undefined ? undefined : jwks === null ? 'removed' : 'replaced',
    secret: remove_secret ? 'removed' : undefined,
  })
  await recordChange(ctx, tx, caller, { what: 'service_account.changed', id, changes })
  return made(await accountOf(tx, caller, id), secret)
}

/** What it holds, newest first; `not_found` where there is no such service account. */
export async function servicePermissionsOf(
  tx: Tx,
  caller: UserCaller,
  of: Parameters<typeof selectServicePermissions>[1],
): Promise<Result<readonly ServicePermissionRow[]>> {
  const account = await accountOf(tx, caller, of.accountId)
  return account === undefined ? noAccount() : ok(await selectServicePermissions(tx, of))
}

/**
 * Gives a service account an API permission. Never one that is never delegable: a program's credential is what an agent could be
 * handed, and nobody is asked at each of its calls, so what no agent may hold stays with people.
 */
export async function giveServicePermission(
  ctx: Ctx,
  caller: UserCaller,
  of: { readonly accountId: string; readonly permission: string },
  tx: Tx,
): Promise<Result<ServicePermissionRow>> {
  const { accountId, permission } = of
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const account = await accountOf(tx, caller, accountId)
  if (account === undefined) return noAccount()
  const row = (await catalogEntries(tx, [permission])).get(permission)
  if (row === undefined) return badField('permission', 'is not in the catalog')
  if (row.kind !== 'api' || row.enforcedAt !== 'gateway')
    return badField('permission', 'is not an API permission that a gateway enforces')
  if (!row.delegable) return badField('permission', 'is never delegable: only people can have it')
  const id = ctx.ids.id<string>('servicePermission')
  const now = secondsNow(ctx.clock)
  if (!(await insertServicePermission(tx, { id, tenantId, accountId, permission, now })))
    return fail('already_exists', { detail: `${account.name} has exactly this already.` })
  const changes = { permission, service_account: accountId }
  await recordChange(ctx, tx, caller, { what: 'service_account.permission_given', id, changes })
  const page = { tenantId, accountId, id, after: FIRST, limit: 1 }
  const [given] = await selectServicePermissions(tx, page)
  return given === undefined ? noAccount() : ok(given)
}

/** Takes a permission back; the account's version rises with it, so tokens that carry it are dead within seconds. */
export async function takeServicePermission(
  ctx: Ctx,
  caller: UserCaller,
  of: { readonly accountId: string; readonly id: string },
  tx: Tx,
): Promise<Result<true>> {
  const { accountId, id } = of
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const page = { tenantId, accountId, id, after: FIRST, limit: 1 }
  const [held] = await selectServicePermissions(tx, page)
  if (held === undefined)
    return fail('not_found', { detail: 'No service account here has such a permission.' })
  await deleteServicePermission(tx, { tenantId, accountId, id })
  const changes = { permission: held.permission, service_account: accountId }
  await recordChange(ctx, tx, caller, { what: 'service_account.permission_taken', id, changes })
  return ok(true)
}
