import type { UserCaller } from '../../callers.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import {
  insertService,
  insertServiceClient,
  type ServiceRow,
  selectServices,
  updateServiceClient,
  updateServiceTitle,
} from '../../db/registry.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { checkRegisteredJwks, hashSecret } from '../../tokens/client-auth.ts'
import { secondsNow } from '../live.ts'
import { badField, given, recordChange, taken } from './change.ts'
import { previousUntil, type Rotation, rotationOf } from './rotation.ts'

type Jwks = { readonly [name: string]: unknown }

/** The secret is there when this very call made one, and never again. */
export type ServiceMade = { readonly service: ServiceRow; readonly secret?: string }

const noService = () => fail('not_found', { detail: 'No such service.' })

const serviceRow = async (tx: Tx, id: string): Promise<ServiceRow | undefined> =>
  (await selectServices(tx, { id, after: '', limit: 1 }))[0]

function jwksFault(jwks: Jwks | null | undefined): Result<true> {
  if (jwks === null || jwks === undefined) return ok(true)
  const errors = checkRegisteredJwks(jwks).map((e) => ({ ...e, path: `jwks.${e.path}` }))
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok(true)
}

async function made(tx: Tx, id: string, secret: string | undefined): Promise<Result<ServiceMade>> {
  const service = await serviceRow(tx, id)
  if (service === undefined) return noService()
  return ok({ service, ...(secret === undefined ? {} : { secret }) })
}

/**
 * Makes a service of the catalog and the one client that publishes for it, in the operator's tenant: with its public keys, or
 * with a secret that is answered once and kept only as a hash. It publishes nothing yet.
 */
export async function createService(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly id: string; readonly title: string; readonly jwks?: Jwks | undefined },
  tx: Tx,
): Promise<Result<ServiceMade>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const keys = jwksFault(input.jwks)
  if (!keys.ok) return keys
  const { id, title, jwks = null } = input
  const there = await serviceRow(tx, id)
  // A service that was there before clients were kept gets the one that it lacks.
  if (there !== undefined && there.clientId !== null) return taken('id')
  if (there === undefined) await insertService(tx, { id, title })
  const secret = jwks === null ? ctx.ids.secret() : undefined
  const secretHash = secret === undefined ? null : hashSecret(secret)
  const clientId = ctx.ids.id('serviceClient')
  const now = secondsNow(ctx.clock)
  await insertServiceClient(tx, { id: clientId, tenantId, service: id, secretHash, jwks, now })
  const credential = secret === undefined ? 'keys' : 'secret'
  const changes = { title: there?.title ?? title, client_id: clientId, credential }
  await recordChange(ctx, tx, caller, { what: 'service.created', id, changes })
  return made(tx, id, secret)
}

export type ServicePatch = {
  readonly title?: string | undefined
  readonly status?: 'active' | 'disabled' | undefined
  /** Null takes the keys away. */
  readonly jwks?: Jwks | null | undefined
  /** True: the one before is dead at once. */
  readonly rotate_secret?: true | Rotation | undefined
  readonly remove_secret?: true | undefined
}

/**
 * Changes a service's client. Its old secret is dead as soon as a rotation is answered, or when the overlap that was asked for is
 * over; a disabled client publishes no more, and what is in the catalog stays. It always keeps a credential (422).
 */
export async function changeService(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: ServicePatch,
  tx: Tx,
): Promise<Result<ServiceMade>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const before = await serviceRow(tx, id)
  if (before === undefined || before.clientId === null) return noService()
  if (patch.rotate_secret && patch.remove_secret)
    return badField('remove_secret', 'cannot go with rotate_secret')
  const keys = jwksFault(patch.jwks)
  if (!keys.ok) return keys
  const jwks = patch.jwks === undefined ? before.jwks : patch.jwks
  const keepsSecret = patch.rotate_secret || (before.hasSecret && !patch.remove_secret)
  if (!keepsSecret && jwks === null)
    return badField(
      patch.remove_secret ? 'remove_secret' : 'jwks',
      'would leave the service without a credential',
    )
  const secret = patch.rotate_secret ? ctx.ids.secret() : undefined
  const secretHash =
    secret !== undefined ? hashSecret(secret) : patch.remove_secret === true ? null : undefined
  const status = patch.status ?? before.status ?? 'active'
  const rotation = rotationOf(patch.rotate_secret)
  const until = rotation === undefined ? before.previousUntil : previousUntil(ctx, rotation)
  const client = { tenantId, service: id, jwks, status }
  await updateServiceClient(tx, { ...client, secretHash, previousUntil: until })
  if (patch.title !== undefined) await updateServiceTitle(tx, { id, title: patch.title })
  const changes = given({
    title: patch.title,
    status: patch.status,
    keys: patch.jwks === undefined ? undefined : patch.jwks === null ? 'removed' : 'replaced',
    secret: patch.rotate_secret ? 'rotated' : patch.remove_secret ? 'removed' : undefined,
    overlap_seconds: rotation?.overlap_seconds,
  })
  await recordChange(ctx, tx, caller, { what: 'service.changed', id, changes })
  return made(tx, id, secret)
}
