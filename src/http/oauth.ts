import type { AgentCaller, AppCaller, EnforcementCaller, TenantRef } from '../callers.ts'
import type { SessionClaims } from '../core/claims.ts'
import { TASK_LENGTH_MAX } from '../core/limits.ts'
import { fail, ok, type Result } from '../fault.ts'
import { claimSubagent, exchangeForAudience, refreshToken } from '../flows/exchange-token.ts'
import { introspect, revokeToken, sessionStands } from '../flows/introspect.ts'
import type { Issued } from '../flows/issue-token.ts'
import { startByExchange } from '../flows/start-by-exchange.ts'
import type { UserTokenVerifier } from '../identity/login.ts'
import { subjectFrom } from '../identity/people.ts'
import { type Ctx, issuerOf, mcpUrlOf } from '../ports.ts'
import { authenticateClient, type ClientIdentity, type Trusts } from '../tokens/client-auth.ts'
import type { KeyStore } from '../tokens/keys.ts'
import { signToken } from '../tokens/sign.ts'
import {
  looksLikeLendToken,
  looksLikeServiceToken,
  unverifiedClaims,
  verifySessionToken,
} from '../tokens/verify.ts'
import { malformed, oauthFault, oauthJson, param, readForm, resourceOf } from './oauth-form.ts'
import { introspectServiceToken, resourcesOf, serviceToken } from './oauth-service.ts'
import { overRate, rateFault } from './rate.ts'

export type OAuthDeps = {
  readonly ctx: Ctx
  readonly keys: KeyStore
  readonly verifier: UserTokenVerifier
}

const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:'
const ACCESS_TOKEN = `${TOKEN_TYPE}access_token`
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

type App = AppCaller & { readonly trusts: Trusts }
type AgentGrant = (deps: OAuthDeps, app: App, form: URLSearchParams) => Promise<Result<Issued>>
/** Answers with the members of the token response (RFC 6749 section 5.1). */
type Grant = (
  deps: OAuthDeps,
  of: {
    readonly tenant: TenantRef
    readonly client: ClientIdentity
    readonly form: URLSearchParams
  },
) => Promise<Result<object>>

/** Every grant type in one table, each for one kind of client; metadata is made from its keys. */
export const GRANTS = new Map<string, Grant>([
  [TOKEN_EXCHANGE, forAgents(exchange)],
  ['refresh_token', forAgents(reissue)],
  ['client_credentials', serviceToken],
])

function taskOf(form: URLSearchParams): Result<string | undefined> {
  const task = param(form, 'task')
  return task !== undefined && [...task].length > TASK_LENGTH_MAX
    ? malformed('task', `is longer than ${TASK_LENGTH_MAX} characters`)
    : ok(task)
}

async function exchange(deps: OAuthDeps, app: App, form: URLSearchParams): Promise<Result<Issued>> {
  const subject = param(form, 'subject_token')
  const type = param(form, 'subject_token_type')
  if (subject === undefined) return malformed('subject_token', 'is required')
  if (type !== ACCESS_TOKEN && type !== `${TOKEN_TYPE}jwt`)
    return malformed('subject_token_type', `must be ${ACCESS_TOKEN}`)
  const actor = ['actor_token', 'actor_token_type'].find((name) => param(form, name) !== undefined)
  if (actor !== undefined)
    return malformed(actor, 'is not taken: the actor is the authenticated client')
  if (param(form, 'scope') !== undefined) return fail('scope_not_requested')
  const requested = param(form, 'requested_token_type')
  if (requested !== undefined && requested !== ACCESS_TOKEN)
    return malformed('requested_token_type', `must be ${ACCESS_TOKEN}`)
  const resource = resourceOf(form)
  if (!resource.ok) return resource
  return looksLikeLendToken(unverifiedClaims(subject), deps.ctx.publicUrl)
    ? exchangeControlToken(deps, app, form, { subject, resource: resource.value })
    : start(deps, app, form, { subject, resource: resource.value })
}

/** SPEC section 6.1. */
async function start(
  deps: OAuthDeps,
  app: App,
  form: URLSearchParams,
  of: { subject: string; resource: string | undefined },
): Promise<Result<Issued>> {
  const task = taskOf(form)
  if (!task.ok) return task
  const mode = param(form, 'mode')
  // I7: an app could claim anything, so what it starts alone runs in ask.
  if (mode !== undefined && mode !== 'ask')
    return fail('mode_not_allowed', {
      detail:
        'A session that an app starts is in ask mode. The user picks another by creating the session.',
    })
  const template = param(form, 'template')
  const sessionId = param(form, 'session_id')
  if (template === undefined && sessionId === undefined) return malformed('template', 'is required')
  const person = await subjectFrom(deps.verifier)(app.trusts, of.subject)
  if (!person.ok) return person
  return startByExchange(deps.ctx, app, {
    person: person.value,
    template,
    sessionId,
    task: task.value,
    resource: of.resource,
  })
}

/** SPEC sections 6.3 and 6.4: only a control token of the client's own session is exchanged. */
async function exchangeControlToken(
  deps: OAuthDeps,
  app: AppCaller,
  form: URLSearchParams,
  of: { subject: string; resource: string | undefined },
): Promise<Result<Issued>> {
  const { ctx, keys } = deps
  const verified = await verifySessionToken(keys, {
    token: of.subject,
    tenant: app.tenant,
    issuer: issuerOf(ctx, app.tenant.slug),
    audience: mcpUrlOf(ctx, app.tenant.slug),
    now: ctx.clock.now() / 1000,
  })
  if (!verified.ok) return fail('subject_token_invalid')
  const { claims } = verified.value
  if (claims.client_id !== app.agentId) return fail('subject_token_not_for_this_agent')
  const sessionId = param(form, 'session_id')
  return sessionId === undefined
    ? exchangeForAudience(ctx, app, claims, of.resource)
    : claimSubagent(ctx, app, claims, { sessionId, resource: of.resource })
}

/** SPEC section 6.2. */
async function reissue(
  deps: OAuthDeps,
  app: AppCaller,
  form: URLSearchParams,
): Promise<Result<Issued>> {
  const token = param(form, 'refresh_token')
  if (token === undefined) return malformed('refresh_token', 'is required')
  if (param(form, 'scope') !== undefined) return fail('scope_not_requested')
  const resource = resourceOf(form)
  if (!resource.ok) return resource
  return refreshToken(deps.ctx, app, { refreshToken: token, resource: resource.value })
}

function forAgents(grant: AgentGrant): Grant {
  return async (deps, { tenant, client, form }) => {
    const app = appOf(tenant, client)
    if (!app.ok) return app
    const issued = await grant(deps, app.value, form)
    return issued.ok ? ok(await answer(deps, tenant, issued.value, grant === exchange)) : issued
  }
}

async function answer(
  deps: OAuthDeps,
  tenant: TenantRef,
  issued: Issued,
  exchanged: boolean,
): Promise<object> {
  const { claims } = issued
  const token = await signToken(deps.keys, { tenantId: tenant.id, claims })
  return {
    access_token: token,
    ...(exchanged ? { issued_token_type: ACCESS_TOKEN } : {}),
    token_type: 'Bearer',
    expires_in: claims.exp - claims.iat,
    session_id: issued.sessionId,
    ...(issued.refreshToken === undefined ? {} : { refresh_token: issued.refreshToken }),
    ...(claims.scope === undefined ? {} : { scope: claims.scope }),
    // RFC 9396 section 7: what was granted is said, also when it is nothing.
    authorization_details: claims.authorization_details,
  }
}

type Client = {
  readonly form: URLSearchParams
  readonly client: ClientIdentity
  readonly basic: boolean
}

async function clientOf(
  deps: OAuthDeps,
  tenant: TenantRef,
  request: Request,
): Promise<Result<Client> & { readonly basic: boolean }> {
  const authorization = request.headers.get('authorization') ?? undefined
  const basic = authorization !== undefined
  const form = await readForm(request)
  if (!form.ok) return { ...form, basic }
  const { ctx } = deps
  const client = await authenticateClient(
    { db: ctx.db, clock: ctx.clock, issuer: issuerOf(ctx, tenant.slug), tenant },
    { authorization, form: form.value },
  )
  return client.ok
    ? { ...ok({ form: form.value, client: client.value, basic }), basic }
    : { ...client, basic }
}

function appOf(tenant: TenantRef, client: ClientIdentity): Result<App> {
  if (client.kind !== 'agent')
    return fail('forbidden', { detail: 'Only an agent’s client may do this.' })
  if (client.status !== 'active') return fail('agent_disabled')
  return ok({ as: 'app', tenant, agentId: client.id, trusts: client.trusts })
}

async function issueFor(
  deps: OAuthDeps,
  tenant: TenantRef,
  { form, client }: Client,
): Promise<Result<{ readonly body: object; readonly type: string }>> {
  const over =
    (await overRate(deps.ctx, 'client', client.id)) ??
    (await overRate(deps.ctx, 'tenant', tenant.id))
  if (over !== null) return over
  const type = param(form, 'grant_type')
  const grant = GRANTS.get(type ?? '')
  if (type === undefined) return malformed('grant_type', 'is required')
  if (grant === undefined) return fail('unsupported_grant_type')
  // Before anything is decided: what cannot be signed here must not start a session either.
  await deps.keys.signer(tenant.id)
  const issued = await grant(deps, { tenant, client, form })
  return issued.ok ? ok({ body: issued.value, type }) : issued
}

/** `POST /t/{tenant}/oauth/token` (RFC 6749 section 3.2, RFC 8693). */
export async function tokenEndpoint(
  deps: OAuthDeps,
  tenant: TenantRef,
  request: Request,
): Promise<Response> {
  const { observe, notify, rates } = deps.ctx
  // Only authenticated requests fill it, so nobody outside can close it; and while it is full, none of them costs a statement.
  const full = (await rates?.look('tenant', tenant.id)) ?? null
  if (full !== null) return oauthFault(rateFault('tenant', full))
  const read = await clientOf(deps, tenant, request)
  const done = read.ok ? await issueFor(deps, tenant, read.value) : read
  if (!done.ok) {
    observe?.tokenRefused(done.fault.code)
    return oauthFault(done.fault, !read.ok && read.basic)
  }
  const { body, type } = done.value
  notify.kick()
  observe?.tokenIssued(type === TOKEN_EXCHANGE ? 'token_exchange' : type)
  return oauthJson(body)
}

/** The claims of a session token of the tenant for any audience that Lend or one of its resource servers answers for, or null. */
export async function claimsOfAny(
  deps: Pick<OAuthDeps, 'ctx' | 'keys'>,
  tenant: TenantRef,
  token: string,
  /** Only these, where an enforcement point asks: a token for another is none of its business. */
  resources?: readonly string[],
): Promise<SessionClaims | null> {
  const { ctx, keys } = deps
  const audiences = resources ?? (await resourcesOf(ctx, tenant))
  const verified = await verifySessionToken(keys, {
    token,
    tenant,
    issuer: issuerOf(ctx, tenant.slug),
    audience: [mcpUrlOf(ctx, tenant.slug), ...audiences],
    now: ctx.clock.now() / 1000,
  })
  return verified.ok ? verified.value.claims : null
}

/** `POST /t/{tenant}/oauth/introspect` (RFC 7662): for the tenant's enforcement points; live. */
export async function introspectEndpoint(
  deps: OAuthDeps,
  tenant: TenantRef,
  request: Request,
): Promise<Response> {
  const read = await clientOf(deps, tenant, request)
  if (!read.ok) return oauthFault(read.fault, read.basic)
  const { form, client } = read.value
  if (client.kind !== 'enforcement_point')
    return oauthJson(
      {
        error: 'unauthorized_client',
        error_description: 'Only enforcement points introspect.',
        error_reason: 'forbidden',
      },
      403,
    )
  const over = await overRate(deps.ctx, 'point', client.id)
  if (over !== null) return oauthFault(over.fault)
  const token = param(form, 'token')
  if (token === undefined) return oauthFault(malformed('token', 'is required').fault)
  const caller: EnforcementCaller = {
    as: 'enforcement',
    tenant,
    id: client.id,
    services: client.services,
  }
  if (looksLikeServiceToken(unverifiedClaims(token)))
    return introspectServiceToken(deps, { ...caller, resources: client.resources }, token)
  const claims = await claimsOfAny(deps, tenant, token, client.resources)
  if (claims === null) return oauthJson({ active: false })
  const live = await introspect(deps.ctx, caller, claims)
  return oauthJson(live.active ? { ...live, token_type: 'Bearer' } : live)
}

/** `POST /t/{tenant}/oauth/revoke` (RFC 7009): ends the session subtree of any of the client's own session tokens. */
export async function revokeEndpoint(
  deps: OAuthDeps,
  tenant: TenantRef,
  request: Request,
): Promise<Response> {
  const read = await clientOf(deps, tenant, request)
  if (!read.ok) return oauthFault(read.fault, read.basic)
  const { form, client } = read.value
  // A disabled agent may still give up what it has.
  if (client.kind !== 'agent') return oauthFault({ code: 'forbidden' })
  const over = await overRate(deps.ctx, 'client', client.id)
  if (over !== null) return oauthFault(over.fault)
  const token = param(form, 'token')
  if (token === undefined) return oauthFault(malformed('token', 'is required').fault)
  const app: AppCaller = { as: 'app', tenant, agentId: client.id }
  const claims = await claimsOfAny(deps, tenant, token)
  const revoked = await revokeToken(
    deps.ctx,
    app,
    claims === null ? { refreshToken: token } : { claims },
  )
  return revoked.ok
    ? new Response(null, { status: 200, headers: { 'cache-control': 'no-store' } })
    : oauthFault(revoked.fault)
}

/** Who calls MCP: a live control token of the tenant (SPEC section 7). Faults are coarse. */
export const agentCallerFrom =
  (deps: Pick<OAuthDeps, 'ctx' | 'keys'>) =>
  async (
    token: string,
    tenant: TenantRef,
    /** Another address of Lend's than the MCP URL that takes the token: as its audience. */
    own: readonly string[] = [],
  ): Promise<Result<AgentCaller>> => {
    const { ctx, keys } = deps
    const verified = await verifySessionToken(keys, {
      token,
      tenant,
      issuer: issuerOf(ctx, tenant.slug),
      audience: [mcpUrlOf(ctx, tenant.slug), ...own],
      now: ctx.clock.now() / 1000,
    })
    if (!verified.ok) return verified
    const { claims } = verified.value
    // The signature is checked, so nobody else can use a session's requests up; no statement has been sent.
    const over = await overRate(ctx, own.length === 0 ? 'session' : 'tools', claims.sid)
    if (over !== null) return over
    if (!(await sessionStands(ctx, tenant, claims))) return fail('unauthenticated')
    return ok({
      as: 'agent',
      tenant,
      agentId: claims.client_id,
      userId: claims.on_behalf_of,
      sessionId: claims.sid,
      rootId: claims.root_sid,
      sessionVersion: claims.session_version,
      carries: claims.authorization_details.map((d) => d.grant_id),
      omits: claims.grants_omitted ?? 0,
    })
  }
