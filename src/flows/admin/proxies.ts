import type { UserCaller } from '../../callers.ts'
import { unknownServices } from '../../db/admin-clients.ts'
import { FIRST } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import {
  deleteMount,
  insertMount,
  insertProxy,
  isProxyName,
  type MountRow,
  type ProxyRow,
  selectMounts,
  selectProxies,
  updateProxy,
} from '../../db/proxies.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { hashSecret } from '../../tokens/client-auth.ts'
import { secondsNow } from '../live.ts'
import { badField, given, recordChange, taken } from './change.ts'
import { previousUntil, type Rotation } from './rotation.ts'

const noProxy = () => fail('not_found', { detail: 'No such proxy in this organisation.' })

async function proxyOf(tx: Tx, caller: UserCaller, id: string): Promise<ProxyRow | undefined> {
  const tenantId = caller.tenant.id
  const [row] = await selectProxies(tx, { tenantId, id, after: FIRST, limit: 1 })
  return row
}

/** Registers a reverse proxy that asks through one header family. Its secret is answered once and kept as a hash. */
export async function createProxy(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly name: string; readonly family: string },
  tx: Tx,
): Promise<Result<{ readonly proxy: ProxyRow; readonly secret: string }>> {
  const secret = ctx.ids.secret()
  const proxy: ProxyRow = {
    id: ctx.ids.id('proxy'),
    name: input.name,
    family: input.family,
    status: 'active',
    previousUntil: null,
    createdAt: secondsNow(ctx.clock),
  }
  const made = await insertProxy(tx, caller.tenant.id, { ...proxy, secretHash: hashSecret(secret) })
  if (!made) return taken('name')
  const changes = { name: input.name, family: input.family }
  await recordChange(ctx, tx, caller, { what: 'proxy.created', id: proxy.id, changes })
  return ok({ proxy, secret })
}

/** Renames a proxy, turns it off or on, or replaces its secret. Reaches every instance through the gateway's feed. */
export async function changeProxy(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: {
    readonly name?: string | undefined
    readonly status?: 'active' | 'disabled' | undefined
    readonly rotate_secret?: Rotation | undefined
  },
  tx: Tx,
): Promise<Result<{ readonly proxy: ProxyRow; readonly secret?: string }>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const before = await proxyOf(tx, caller, id)
  if (before === undefined) return noProxy()
  const { name, status, rotate_secret: rotation } = patch
  if (name !== undefined && (await isProxyName(tx, { tenantId, name, otherThan: id })))
    return taken('name')
  const secret = rotation === undefined ? undefined : ctx.ids.secret()
  const proxy: ProxyRow = {
    ...before,
    name: name ?? before.name,
    status: status ?? before.status,
    previousUntil: rotation === undefined ? before.previousUntil : previousUntil(ctx, rotation),
  }
  const secretHash = secret === undefined ? undefined : hashSecret(secret)
  await updateProxy(tx, tenantId, { ...proxy, secretHash })
  const changes = given({ name, status, rotate_secret: rotation })
  await recordChange(ctx, tx, caller, { what: 'proxy.changed', id, changes })
  return ok({ proxy, ...(secret === undefined ? {} : { secret }) })
}

/** The proxy's mounts, newest first; `not_found` where there is no such proxy. */
export async function mountsOf(
  tx: Tx,
  of: Parameters<typeof selectMounts>[1],
): Promise<Result<readonly MountRow[]>> {
  const { tenantId, proxyId } = of
  const [proxy] = await selectProxies(tx, { tenantId, id: proxyId, after: FIRST, limit: 1 })
  return proxy === undefined ? noProxy() : ok(await selectMounts(tx, of))
}

/** Exposes a service below a path of a proxy. Whoever names the service chooses its rules, so no request can. */
export async function createMount(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly proxyId: string; readonly prefix: string; readonly service: string },
  tx: Tx,
): Promise<Result<MountRow>> {
  const { proxyId, prefix, service } = input
  // Alone, so that two admins cannot both believe that they put their service there.
  await guardTenantAlone(tx, caller.tenant.id)
  if ((await proxyOf(tx, caller, proxyId)) === undefined) return noProxy()
  if ((await unknownServices(tx, [service])).length > 0)
    return badField('service', 'is not a service of the catalog')
  const id = ctx.ids.id<string>('mount')
  const mount: MountRow = { id, prefix, service, createdAt: secondsNow(ctx.clock) }
  if (!(await insertMount(tx, { tenantId: caller.tenant.id, proxyId }, mount)))
    return taken('prefix')
  const changes = { mount: id, prefix, service }
  await recordChange(ctx, tx, caller, { what: 'proxy.mounted', id: proxyId, changes })
  return ok(mount)
}

/** Takes a service away from a proxy: what was below the path belongs to the next shorter mount, or to none. */
export async function removeMount(
  ctx: Ctx,
  caller: UserCaller,
  of: { readonly proxyId: string; readonly id: string },
  tx: Tx,
): Promise<Result<true>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const [mount] = await selectMounts(tx, { tenantId, ...of, after: FIRST, limit: 1 })
  if (mount === undefined)
    return fail('not_found', { detail: 'No such mount of a proxy in this organisation.' })
  await deleteMount(tx, { tenantId, ...of })
  const changes = { mount: mount.id, prefix: mount.prefix, service: mount.service }
  await recordChange(ctx, tx, caller, { what: 'proxy.unmounted', id: of.proxyId, changes })
  return ok(true)
}
