import type { UserCaller } from '../../callers.ts'
import type { AgentId, TemplateId } from '../../core/vocabulary.ts'
import { Journal } from '../../db/activity.ts'
import {
  type AgentRow,
  clientsOf,
  insertAgent,
  selectAgents,
  updateAgent,
  visibleTemplates,
} from '../../db/admin-clients.ts'
import { FIRST } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import type { Tx } from '../../db/tx.ts'
import { type FieldError, fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { checkRegisteredJwks, hashSecret } from '../../tokens/client-auth.ts'
import { secondsNow } from '../live.ts'
import { badField, given, recordChange, taken } from './change.ts'
import { endLiveSessions } from './end-sessions.ts'
import { previousUntil, type Rotation, rotationOf } from './rotation.ts'

type Jwks = { readonly [name: string]: unknown }

/** The secret is there when this very call made one, and never again. */
export type AgentMade = { readonly agent: AgentRow; readonly secret?: string }

const noAgent = () => fail('not_found', { detail: 'No such agent in this organisation.' })

const agentRow = async (tx: Tx, caller: UserCaller, id: string): Promise<AgentRow | undefined> => {
  const tenantId = caller.tenant.id
  const [row] = await selectAgents(tx, { tenantId, id, after: FIRST, limit: 1 })
  return row
}

async function templatesOf(
  tx: Tx,
  caller: UserCaller,
  names: readonly string[],
): Promise<Result<readonly TemplateId[]>> {
  const known = await visibleTemplates(tx, { tenantId: caller.tenant.id, names })
  const errors: FieldError[] = []
  const ids = names.flatMap((name, i) => {
    const id = known.get(name)
    if (id !== undefined) return [id]
    errors.push({ path: `templates.${i}`, message: 'is not a template of this organisation' })
    return []
  })
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok([...new Set(ids)])
}

/** An app whose user tokens open the People API could approve its own agent's requests (SPEC section 8, I6). */
async function appsFault(
  tx: Tx,
  caller: UserCaller,
  clients: readonly string[],
): Promise<Result<true>> {
  const { firstParty } = await clientsOf(tx, caller.tenant.id)
  const errors = clients.flatMap((client, i) =>
    firstParty.includes(client)
      ? [{ path: `app_clients.${i}`, message: 'is a first-party client, which no agent may have' }]
      : [],
  )
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok(true)
}

export function jwksFault(jwks: Jwks | null | undefined): Result<true> {
  if (jwks === null || jwks === undefined) return ok(true)
  const errors = checkRegisteredJwks(jwks).map((e) => ({ ...e, path: `jwks.${e.path}` }))
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok(true)
}

export type AgentInput = {
  readonly name: string
  readonly templates: readonly string[]
  readonly app_clients: readonly string[]
  readonly jwks?: Jwks | undefined
}

/** Registers an agent: with its public keys, or with a secret that is answered once and kept only as a hash. */
export async function createAgent(
  ctx: Ctx,
  caller: UserCaller,
  input: AgentInput,
  tx: Tx,
): Promise<Result<AgentMade>> {
  const tenantId = caller.tenant.id
  // First-party clients and apps are kept apart by two flows; the guard keeps those from passing each other.
  await guardTenantAlone(tx, tenantId)
  const templates = await templatesOf(tx, caller, input.templates)
  if (!templates.ok) return templates
  const apps = await appsFault(tx, caller, input.app_clients)
  if (!apps.ok) return apps
  const keys = jwksFault(input.jwks)
  if (!keys.ok) return keys
  const secret = input.jwks === undefined ? ctx.ids.secret() : undefined
  const id = ctx.ids.id<AgentId>('agent')
  const made = await insertAgent(tx, tenantId, {
    id,
    name: input.name,
    templateIds: templates.value,
    appClients: [...new Set(input.app_clients)],
    jwks: input.jwks ?? null,
    secretHash: secret === undefined ? null : hashSecret(secret),
    createdAt: secondsNow(ctx.clock),
  })
  if (!made) return taken('name')
  await recordChange(ctx, tx, caller, {
    what: 'agent.created',
    id,
    changes: {
      name: input.name,
      templates: input.templates,
      app_clients: input.app_clients,
      credential: secret === undefined ? 'keys' : 'secret',
    },
    names: { agentId: id },
  })
  const agent = await agentRow(tx, caller, id)
  if (agent === undefined) return noAgent()
  return ok({ agent, ...(secret === undefined ? {} : { secret }) })
}

export type AgentPatch = {
  readonly status?: 'active' | 'disabled' | undefined
  readonly templates?: readonly string[] | undefined
  readonly app_clients?: readonly string[] | undefined
  /** Null takes the keys away. */
  readonly jwks?: Jwks | null | undefined
  /** True: the one before is dead at once. */
  readonly rotate_secret?: true | Rotation | undefined
  readonly remove_secret?: true | undefined
}

async function patchFault(tx: Tx, caller: UserCaller, patch: AgentPatch): Promise<Result<true>> {
  if (patch.rotate_secret && patch.remove_secret)
    return badField('remove_secret', 'cannot go with rotate_secret')
  const apps = await appsFault(tx, caller, patch.app_clients ?? [])
  return apps.ok ? jwksFault(patch.jwks) : apps
}

/**
 * Changes an agent. Disabling it ends its live sessions in the same commit. An agent always keeps a credential (422); its old
 * secret is dead as soon as a rotation is answered, or when the overlap that was asked for is over. A shorter list of
 * templates gates new roots only.
 */
export async function changeAgent(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: AgentPatch,
  tx: Tx,
): Promise<Result<AgentMade>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const before = await agentRow(tx, caller, id)
  if (before === undefined) return noAgent()
  const bad = await patchFault(tx, caller, patch)
  if (!bad.ok) return bad
  const templates =
    patch.templates === undefined
      ? ok(before.templateIds)
      : await templatesOf(tx, caller, patch.templates)
  if (!templates.ok) return templates
  const jwks = patch.jwks === undefined ? before.jwks : patch.jwks
  const keepsSecret = patch.rotate_secret || (before.hasSecret && !patch.remove_secret)
  if (!keepsSecret && jwks === null)
    return badField(
      patch.remove_secret ? 'remove_secret' : 'jwks',
      'would leave the agent without a credential',
    )
  const secret = patch.rotate_secret ? ctx.ids.secret() : undefined
  const hash =
    secret !== undefined ? hashSecret(secret) : patch.remove_secret === true ? null : undefined
  const rotation = rotationOf(patch.rotate_secret)
  const until = rotation === undefined ? before.previousUntil : previousUntil(ctx, rotation)
  const status = patch.status ?? before.status
  const appClients = [...new Set(patch.app_clients ?? before.appClients)]
  const next = {
    ...{ ...before, status, jwks, appClients },
    ...{ previousUntil: until, templateIds: templates.value },
  }
  await updateAgent(tx, tenantId, next, hash)

  const journal = new Journal(ctx, tenantId)
  const disabled = before.status === 'active' && status === 'disabled'
  const end = { agentId: before.id, reason: 'agent_disabled' as const }
  const ended = disabled ? await endLiveSessions(ctx, tx, journal, caller, end) : null
  const keys = patch.jwks === undefined ? undefined : patch.jwks === null ? 'removed' : 'replaced'
  const { templates: names, app_clients, rotate_secret, remove_secret } = patch
  const changes = given({
    status: patch.status,
    templates: names,
    app_clients,
    keys,
    overlap_seconds: rotation?.overlap_seconds,
    secret: rotate_secret ? 'rotated' : remove_secret ? 'removed' : undefined,
    ...ended?.counts,
  })
  const what = disabled ? 'agent.disabled' : 'agent.changed'
  const affects = ended === null ? {} : { affects: ended.users }
  const change = { what, id, changes, names: { agentId: before.id }, ...affects }
  await recordChange(ctx, tx, caller, change, journal)
  const agent = await agentRow(tx, caller, id)
  if (agent === undefined) return noAgent()
  return ok({ agent, ...(secret === undefined ? {} : { secret }) })
}
