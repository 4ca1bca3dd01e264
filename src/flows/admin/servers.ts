import type { UserCaller } from '../../callers.ts'
import {
  deleteEnforcementPoint,
  deleteResourceServer,
  type EnforcementPointRow,
  insertEnforcementPoint,
  insertResourceServer,
  type ResourceServerRow,
  selectEnforcementPoints,
  selectResourceServers,
  unknownServices,
  updateEnforcementPoint,
  updateResourceServer,
} from '../../db/admin-clients.ts'
import { FIRST } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { hashSecret } from '../../tokens/client-auth.ts'
import { secondsNow } from '../live.ts'
import { badField, given, recordChange, taken } from './change.ts'
import { previousUntil, type Rotation } from './rotation.ts'
import { resourceProblem } from './urls.ts'

const noServer = () =>
  fail('not_found', { detail: 'No such resource server in this organisation.' })

const noPoint = () =>
  fail('not_found', { detail: 'No such enforcement point in this organisation.' })

async function servicesFault(tx: Tx, services: readonly string[]): Promise<Result<true>> {
  const unknown = new Set(await unknownServices(tx, services))
  const errors = services.flatMap((id, i) =>
    unknown.has(id) ? [{ path: `services.${i}`, message: 'is not a service of the catalog' }] : [],
  )
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok(true)
}

async function server(tx: Tx, caller: UserCaller, id: string) {
  const tenantId = caller.tenant.id
  const [row] = await selectResourceServers(tx, { tenantId, id, after: FIRST, limit: 1 })
  return row
}

/** Registers an audience that tokens can be issued for. Never one of Lend's own addresses. */
export async function createResourceServer(
  ctx: Ctx,
  caller: UserCaller,
  input: {
    readonly resource: string
    readonly name: string
    readonly subject: 'session' | 'user'
    readonly services: readonly string[]
  },
  tx: Tx,
): Promise<Result<ResourceServerRow>> {
  const problem = resourceProblem(input.resource, ctx.publicUrl)
  if (problem !== null) return badField('resource', problem)
  const known = await servicesFault(tx, input.services)
  if (!known.ok) return known
  const row: ResourceServerRow = {
    ...input,
    id: ctx.ids.id('resourceServer'),
    services: [...new Set(input.services)],
    createdAt: secondsNow(ctx.clock),
  }
  if (!(await insertResourceServer(tx, caller.tenant.id, row))) return taken('resource')
  const { resource, name, subject, services } = row
  const changes = { resource, name, subject, services }
  await recordChange(ctx, tx, caller, { what: 'resource_server.created', id: row.id, changes })
  return ok(row)
}

/** What a server enforces decides what its tokens carry, so a change waits for tokens that are being issued. */
export async function changeResourceServer(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: {
    readonly name?: string | undefined
    readonly subject?: 'session' | 'user' | undefined
    readonly services?: readonly string[] | undefined
  },
  tx: Tx,
): Promise<Result<ResourceServerRow>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const before = await server(tx, caller, id)
  if (before === undefined) return noServer()
  const known = await servicesFault(tx, patch.services ?? [])
  if (!known.ok) return known
  const after: ResourceServerRow = {
    ...before,
    name: patch.name ?? before.name,
    subject: patch.subject ?? before.subject,
    services: [...new Set(patch.services ?? before.services)],
  }
  await updateResourceServer(tx, caller.tenant.id, after)
  const { name, subject, services } = patch
  const changes = given({ name, subject, services })
  await recordChange(ctx, tx, caller, { what: 'resource_server.changed', id, changes })
  return ok(after)
}

export async function removeResourceServer(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  tx: Tx,
): Promise<Result<true>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const row = await server(tx, caller, id)
  if (row === undefined) return noServer()
  await deleteResourceServer(tx, { tenantId: caller.tenant.id, id })
  const changes = { resource: row.resource }
  await recordChange(ctx, tx, caller, { what: 'resource_server.removed', id, changes })
  return ok(true)
}

/** Makes an enforcement point. Its secret is answered once and kept only as a hash. */
export async function createEnforcementPoint(
  ctx: Ctx,
  caller: UserCaller,
  input: {
    readonly name: string
    readonly services: readonly string[]
    readonly asksAboutUsers: boolean
  },
  tx: Tx,
): Promise<Result<{ readonly point: EnforcementPointRow; readonly secret: string }>> {
  const known = await servicesFault(tx, input.services)
  if (!known.ok) return known
  const secret = ctx.ids.secret()
  const point: EnforcementPointRow = {
    id: ctx.ids.id('enforcementPoint'),
    name: input.name,
    services: [...new Set(input.services)],
    asksAboutUsers: input.asksAboutUsers,
    status: 'active',
    previousUntil: null,
    createdAt: secondsNow(ctx.clock),
  }
  const tenantId = caller.tenant.id
  await insertEnforcementPoint(tx, tenantId, { ...point, secretHash: hashSecret(secret) })
  const { id, name, services, asksAboutUsers } = point
  const changes = { name, services, ...(asksAboutUsers ? { asks_about_users: true } : {}) }
  await recordChange(ctx, tx, caller, { what: 'enforcement_point.created', id, changes })
  return ok({ point, secret })
}

/** What a point may see and ask is read with its credential at each call, so a change holds from the next call on. */
export async function changeEnforcementPoint(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: {
    readonly name?: string | undefined
    readonly services?: readonly string[] | undefined
    readonly asks_about_users?: boolean | undefined
    readonly status?: 'active' | 'disabled' | undefined
    readonly rotate_secret?: Rotation | undefined
  },
  tx: Tx,
): Promise<Result<{ readonly point: EnforcementPointRow; readonly secret?: string }>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const [before] = await selectEnforcementPoints(tx, { tenantId, id, after: FIRST, limit: 1 })
  if (before === undefined) return noPoint()
  const known = await servicesFault(tx, patch.services ?? [])
  if (!known.ok) return known
  const { rotate_secret: rotation } = patch
  const secret = rotation === undefined ? undefined : ctx.ids.secret()
  const point: EnforcementPointRow = {
    ...before,
    name: patch.name ?? before.name,
    services: [...new Set(patch.services ?? before.services)],
    asksAboutUsers: patch.asks_about_users ?? before.asksAboutUsers,
    status: patch.status ?? before.status,
    previousUntil: rotation === undefined ? before.previousUntil : previousUntil(ctx, rotation),
  }
  const secretHash = secret === undefined ? undefined : hashSecret(secret)
  await updateEnforcementPoint(tx, tenantId, { ...point, secretHash })
  const changes = given({ ...patch })
  await recordChange(ctx, tx, caller, { what: 'enforcement_point.changed', id, changes })
  return ok({ point, ...(secret === undefined ? {} : { secret }) })
}

export async function removeEnforcementPoint(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  tx: Tx,
): Promise<Result<true>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const [row] = await selectEnforcementPoints(tx, { tenantId, id, after: FIRST, limit: 1 })
  if (row === undefined) return noPoint()
  await deleteEnforcementPoint(tx, { tenantId, id })
  const changes = { name: row.name }
  await recordChange(ctx, tx, caller, { what: 'enforcement_point.removed', id, changes })
  return ok(true)
}
