import { getConnInfo } from '@hono/node-server/conninfo'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { BodyBroken } from '../body-bytes.ts'
import type { TenantRef } from '../callers.ts'
import { databaseAnswers } from '../db/operators.ts'
import { tenantCtx } from '../db/shares.ts'
import { findTenant } from '../db/tenants.ts'
import { withRead } from '../db/tx.ts'
import { isOutage } from '../fault.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { userCallerFrom } from '../identity/people.ts'
import { createMcpEndpoint } from '../mcp/endpoint.ts'
import { iamTools } from '../mcp/iam-tools.ts'
import { type Clock, type Trace, toolGatewayUrlOf } from '../ports.ts'
import { JWKS_MAX_AGE_SECONDS, KeyShut } from '../tokens/keys.ts'
import { createToolGateway, type ToolGatewayLimits } from '../tool-gateway/gateway.ts'
import { authzenRoutes } from './authzen.ts'
import { messagePage } from './browser/pages.ts'
import { browserRoutes, type WebConfig } from './browser/routes.ts'
import { browserUserFrom } from './browser/sign-in.ts'
import type { clientAddress } from './client-address.ts'
import { type Door, doorOf } from './doors.ts'
import { enforceRoutes } from './enforce.ts'
import { enforceDataRoutes } from './enforce-data.ts'
import { enforceRevocationsRoutes } from './enforce-revocations.ts'
import { forwardAuthRoutes } from './forward-auth.ts'
import { resourceMetadata, serverMetadata, toolGatewayMetadata } from './metadata.ts'
import {
  agentCallerFrom,
  GRANTS,
  introspectEndpoint,
  type OAuthDeps,
  revokeEndpoint,
  tokenEndpoint,
} from './oauth.ts'
import { oauthFault, oauthJson } from './oauth-form.ts'
import { createPeopleApi, requestIdOf } from './people/app.ts'
import { BROKEN_OFF } from './problem.ts'
import { rateFault, tooOftenAt } from './rate.ts'

export type AppDeps = OAuthDeps & {
  /** What the web page is told before anybody has signed in; by default, that this is no demo. */
  readonly web?: WebConfig
  /** See `PeopleDeps`. */
  readonly trustedKeys?: readonly string[] | undefined
  /** See `SignInDeps`. */
  readonly afterSignIn?: (tenant: TenantRef, returnTo: string) => string
  /** Bounds of what tool servers may do; the gateway's own by default. */
  readonly toolGateway?: ToolGatewayLimits
  /** Absent: nothing is asked by proxies here. */
  readonly gateway?: Pick<Gateway, 'check'>
  /** Whether what was taken back is known up to a minute ago; by default, that there is nothing to know. */
  readonly isFresh?: () => boolean
  /** Whose address a request is from, where that can be known; absent: noise is counted of nobody. */
  readonly addressOf?: ReturnType<typeof clientAddress>
  /** Whether this instance may take traffic. */
  readonly ready: () => boolean
  /** Whether signing keys were sealed with keys that this instance does not have: then it is not ready. Absent: no. */
  readonly keysShut?: () => boolean
  readonly onBug: (error: unknown, requestId: string) => void
}

type Env = { Variables: { tenant: TenantRef; requestId: string } }

const SLUG = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** Tenants are never renamed or removed, so what was found once stands. Bounded: a slug that is none is not kept. */
function tenantFinder(deps: AppDeps) {
  const known = new Map<string, TenantRef>()
  return async (slug: string): Promise<TenantRef | null> => {
    const hit = known.get(slug)
    if (hit !== undefined || !SLUG.test(slug)) return hit ?? null
    const found = await withRead(deps.ctx.db, 'find_tenant', (tx) => findTenant(tx, slug))
    if (found !== null) known.set(slug, found)
    return found
  }
}

/** One span a request, named by its door: an address may hold anything. */
const tracedBy =
  (trace: Trace): MiddlewareHandler<Env> =>
  (c, next) => {
    const { method } = c.req
    const door = doorOf(c.req.path)
    return trace.served(`${method} ${door}`, c.req.header('traceparent'), async (span) => {
      span.set('http.request.method', method)
      span.set('lend.door', door)
      await next()
      span.set('http.response.status_code', c.res.status)
    })
  }

/** A test's plain `Request` has no connection. */
const peerOf = (c: Context<Env>): string | undefined => {
  const bindings: { readonly incoming?: unknown } = c.env ?? {}
  return bindings.incoming === undefined ? undefined : getConnInfo(c).remote.address
}

/** So many addresses are remembered as somebody's. */
const KNOWN_MAX = 10_000
const KNOWN_MILLIS = 600_000
/** What these answer to anybody proves nobody. */
const PUBLIC_DOORS: ReadonlySet<Door> = new Set(['health', 'metadata', 'other'])

/** Addresses from which somebody was let in a moment ago, the longest unseen forgotten first. */
function knownAddresses(clock: Clock) {
  const seen = new Map<string, number>()
  const now = () => clock.now()
  return {
    has: (address: string): boolean => (seen.get(address) ?? 0) > now() - KNOWN_MILLIS,
    add: (address: string): void => {
      seen.delete(address)
      seen.set(address, now())
      const [oldest] = seen.size > KNOWN_MAX ? seen.keys() : []
      if (oldest !== undefined) seen.delete(oldest)
    },
  }
}

/**
 * What an address sends that nobody answers for (401, and tenants that are not there) is counted, and beyond the limit that is
 * what it gets no more answers to. From where nobody was let in of late, everything is turned away before it costs a
 * statement; elsewhere others work behind the same address, and they go on. Health is always answered.
 */
function unauthenticatedNoise({ ctx: { rates, clock }, addressOf }: AppDeps) {
  const known = knownAddresses(clock)
  const from = (c: Context<Env>): string | null =>
    addressOf?.(peerOf(c), c.req.header('x-forwarded-for')) ?? null
  const refusalOf = async (c: Context<Env>, address: string): Promise<Response | null> => {
    const seconds = (await rates?.look('address', address)) ?? null
    if (seconds === null) return null
    return tooOftenAt(doorOf(c.req.path), rateFault('address', seconds), c.var.requestId)
  }
  return {
    before: async (c: Context<Env>): Promise<Response | null> => {
      const address = from(c)
      if (address === null || known.has(address) || doorOf(c.req.path) === 'health') return null
      return refusalOf(c, address)
    },
    after: async (c: Context<Env>): Promise<void> => {
      const address = from(c)
      if (address === null) return
      if (c.res.ok && !PUBLIC_DOORS.has(doorOf(c.req.path))) known.add(address)
      if (c.res.status !== 401 && (c.res.status !== 404 || c.var.tenant !== undefined)) return
      const refused = await refusalOf(c, address)
      if (refused !== null) c.res = refused
      else await rates?.take('address', address)
    },
  }
}

const KEYS_SHUT =
  'Signing keys cannot be opened with the LEND_SECRET_KEYS of this instance. Its log names the keys that are missing.'

function health(app: Hono<Env>, deps: AppDeps): void {
  // Alive as long as this runs; a database that is away is no reason to be killed.
  app.get('/livez', (c) => c.json({ status: 'ok' }))
  app.get('/readyz', (c) =>
    deps.keysShut?.()
      ? c.json({ status: 'keys_shut', detail: KEYS_SHUT }, 503)
      : deps.ready()
        ? c.json({ status: 'ok' })
        : c.json({ status: 'starting' }, 503),
  )
  app.get('/healthz', async (c) => {
    const postgres = (await databaseAnswers(deps.ctx.db)) ? 'ok' : 'unreachable'
    const feed = (deps.isFresh?.() ?? true) ? 'ok' : 'stale'
    const well = postgres === 'ok' && feed === 'ok'
    return c.json({ status: well ? 'ok' : 'degraded', postgres, feed }, well ? 200 : 503)
  })
}

function tenantRoutes(app: Hono<Env>, deps: AppDeps): void {
  const { ctx, keys } = deps
  const own = (c: Context<Env>): OAuthDeps => ({ ...deps, ctx: tenantCtx(ctx, c.var.tenant) })
  app.post('/t/:tenant/oauth/token', (c) => tokenEndpoint(own(c), c.var.tenant, c.req.raw))
  app.post('/t/:tenant/oauth/introspect', (c) =>
    introspectEndpoint(own(c), c.var.tenant, c.req.raw),
  )
  app.post('/t/:tenant/oauth/revoke', (c) => revokeEndpoint(own(c), c.var.tenant, c.req.raw))
  app.get('/t/:tenant/oauth/jwks', async (c) =>
    c.json(await keys.jwks(c.var.tenant.id), 200, {
      'cache-control': `public, max-age=${JWKS_MAX_AGE_SECONDS}`,
    }),
  )
  app.get('/.well-known/oauth-authorization-server/t/:tenant', (c) =>
    c.json(serverMetadata(ctx, c.var.tenant.slug, [...GRANTS.keys()])),
  )
  app.get('/.well-known/oauth-protected-resource/t/:tenant/mcp', (c) =>
    c.json(resourceMetadata(ctx, c.var.tenant.slug)),
  )
  const mcp = createMcpEndpoint({
    publicUrl: ctx.publicUrl,
    authenticate: agentCallerFrom(deps),
    tools: iamTools(ctx),
    onBug: deps.onBug,
  })
  app.all('/t/:tenant/mcp', (c) => mcp(c.req.raw, c.var.tenant))
  toolGatewayRoutes(app, deps)
}

/** MCP servers of others, behind Lend (SPEC section 9). A token of the gateway's own audience, or the control token. */
function toolGatewayRoutes(app: Hono<Env>, deps: AppDeps): void {
  const { ctx } = deps
  const agent = agentCallerFrom(deps)
  const gateway = createToolGateway({
    ctx,
    authenticate: (token, { tenant, server }) =>
      agent(token, tenant, [toolGatewayUrlOf(ctx, tenant.slug, server)]),
    onBug: deps.onBug,
    ...deps.toolGateway,
  })
  app.all('/t/:tenant/tools/:server/mcp', (c) =>
    gateway(c.req.raw, { tenant: c.var.tenant, server: c.req.param('server') }),
  )
  app.get('/.well-known/oauth-protected-resource/t/:tenant/tools/:server/mcp', (c) =>
    c.json(toolGatewayMetadata(ctx, c.var.tenant.slug, c.req.param('server'))),
  )
}

/** I19: an outage is never an acceptance, and neither is a key that does not open. */
function thrownAnswer(error: unknown, requestId: string): Response {
  const unavailable = (says: string) =>
    oauthJson(
      {
        error: 'temporarily_unavailable',
        error_description: says,
        error_reason: 'unavailable',
        request_id: requestId,
      },
      503,
      { 'retry-after': '2' },
    )
  if (isOutage(error))
    return unavailable('The database cannot be reached, so nothing was decided or issued.')
  if (error instanceof KeyShut)
    return unavailable('No token can be signed here just now, so nothing was decided or issued.')
  return oauthJson(
    {
      error: 'server_error',
      error_description: 'Something went wrong here. Nothing was granted.',
      request_id: requestId,
    },
    500,
  )
}

/** All of Lend's own routes. `ready` is false while starting and while draining. */
export function createApp(deps: AppDeps): Hono<Env> {
  const app = new Hono<Env>()
  // Before all that follows: it answers by itself, from memory.
  if (deps.gateway !== undefined) app.route('/', forwardAuthRoutes(deps.gateway, deps.ctx.trace))
  if (deps.ctx.trace !== undefined) app.use(tracedBy(deps.ctx.trace))
  const find = tenantFinder(deps)
  const noise = unauthenticatedNoise(deps)
  const named = async (c: Context<Env>, next: () => Promise<void>) => {
    const tenant = await find(c.req.param('tenant') ?? '')
    if (tenant === null)
      return c.req.header('accept')?.includes('text/html')
        ? messagePage(404, 'No such organisation', 'Check the address.', {
            href: '/',
            text: 'Choose another',
          })
        : oauthJson(
            { error: 'not_found', error_description: 'No such tenant.', error_reason: 'not_found' },
            404,
          )
    c.set('tenant', tenant)
    return next()
  }
  app.use(async (c, next) => {
    const requestId = requestIdOf(c.req.raw)
    c.set('requestId', requestId)
    const began = performance.now()
    const refused = await noise.before(c)
    if (refused !== null) c.res = refused
    else {
      await next()
      await noise.after(c)
    }
    deps.ctx.observe?.answered(doorOf(c.req.path), c.res.status, (performance.now() - began) / 1000)
    c.res.headers.set('x-request-id', requestId)
    c.res.headers.set('x-content-type-options', 'nosniff')
  })
  health(app, deps)
  const people = createPeopleApi(deps.ctx, {
    verifyUser: userCallerFrom(deps.ctx, deps.verifier),
    browserUser: browserUserFrom(deps.ctx),
    findTenant: find,
    ...(deps.trustedKeys ? { trustedKeys: deps.trustedKeys } : {}),
    ...(deps.ctx.stopping ? { stopping: deps.ctx.stopping } : {}),
    onBug: deps.onBug,
  })
  app.route('/', people)
  app.route('/', enforceRoutes({ ctx: deps.ctx, findTenant: find, onBug: deps.onBug }))
  app.route('/', enforceRevocationsRoutes({ ctx: deps.ctx, findTenant: find, onBug: deps.onBug }))
  app.route('/', authzenRoutes({ ...deps, findTenant: find }))
  app.route('/', enforceDataRoutes({ ...deps, findTenant: find }))
  for (const path of [
    '/t/:tenant',
    '/t/:tenant/*',
    '/.well-known/oauth-authorization-server/t/:tenant',
    '/.well-known/oauth-protected-resource/t/:tenant/mcp',
    '/.well-known/oauth-protected-resource/t/:tenant/tools/:server/mcp',
  ])
    app.use(path, named)
  tenantRoutes(app, deps)
  browserRoutes(app, { ...deps, web: deps.web ?? { demo: false } })
  app.notFound((c) =>
    c.json({ error: 'not_found', error_description: 'No such address here.' }, 404),
  )
  app.onError((error, c) => {
    const { requestId } = c.var
    if (error instanceof BodyBroken) return oauthFault(BROKEN_OFF)
    deps.onBug(error, requestId)
    return thrownAnswer(error, requestId)
  })
  return app
}
