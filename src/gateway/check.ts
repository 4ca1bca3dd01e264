import { hash } from 'node:crypto'
import { AUTH_REASONS, type AuthReason, type ProxyFamily } from '../../schema/auth-decision.ts'
import type { Ctx } from '../ports.ts'
import type { Calls } from './calls.ts'
import { type Asker, type Decided, decide } from './decide.ts'
import type { Frequent } from './frequent.ts'
import type { Read, TokenFacts, Tokens } from './identity.ts'
import { type Lines, lineOf } from './lines.ts'
import { normalPath } from './path.ts'
import type { People, PersonFacts } from './people.ts'
import type { Revocations } from './revocations.ts'
import {
  type GatewayTenant,
  type ProxySecret,
  type Route,
  routeOf,
  type Snapshot,
  type TenantProxy,
} from './snapshot.ts'

/** What a proxy asks, read from the one header family that the address names. Nothing in it is trusted yet. */
export type Asked = {
  readonly tenant: string
  readonly family: ProxyFamily
  readonly requestId: string
  readonly traceId: string | null
  readonly secret: string | undefined
  /** A header that must come once came twice, or the address was not the one it seemed. */
  readonly spoiled: 'HEADER_DUPLICATED' | 'PATH_HOSTILE' | null
  readonly method: string | undefined
  /** Path and query. */
  readonly target: string | undefined
  readonly authorization: string | undefined
}

export type Answered = {
  readonly status: 200 | 401 | 403 | 404
  readonly headers: Readonly<Record<string, string>>
}

export type CheckOn = {
  readonly ctx: Ctx
  /** Null until warm. */
  readonly snapshot: () => Snapshot | null
  /** Whether what was taken back, and who asks for what, is known up to a minute ago. */
  readonly isFresh: () => boolean
  readonly routes: Frequent<Route | { readonly bad: AuthReason }>
  readonly tokens: Tokens
  readonly people: People
  readonly revocations: Revocations
  readonly calls: Calls
  readonly lines: Lines
  readonly counted: { names: number; decisions: number }
  readonly onBug: (error: unknown, requestId: string) => void
}

/** What has been found out about one request so far; its answer, its line and its record are made from it. */
type Found = {
  readonly began: number
  tenant: GatewayTenant | null
  proxy: TenantProxy | null
  routeCache: 'hit' | 'miss' | 'none'
  service: string | null
  endpoint: EndpointFound
  tokenCache: 'hit' | 'miss' | 'none'
  facts: TokenFacts | null
  person: PersonFacts | null
}
type EndpointFound = Extract<Route, { endpoint: unknown }>['endpoint'] | null

const METHOD = /^[A-Z]{1,16}$/
const SCHEME = 'bearer '
const NOT_ONE_TOKEN = /[\s,]/
const SECRET_LENGTH_MAX = 256

/** A secret that has been right once in this snapshot need not be hashed again. */
function secretBy(tenant: GatewayTenant, secret: string): ProxySecret | undefined {
  if (secret === '' || secret.length > SECRET_LENGTH_MAX) return undefined
  const seen = tenant.proxiesSeen.get(secret)
  if (seen !== undefined) return seen
  const found = tenant.proxies.get(hash('sha256', secret))
  if (found !== undefined) tenant.proxiesSeen.set(secret, found)
  return found
}

/** Which proxy asks. At the address of a family that is not its own it is nobody: there a client could speak in its name. */
function proxyBy(
  tenant: GatewayTenant,
  of: { readonly secret: string; readonly family: ProxyFamily; readonly now: number },
): TenantProxy | undefined {
  const found = secretBy(tenant, of.secret)
  if (found === undefined || found.until <= of.now) return undefined
  const { proxy } = found
  return proxy.family === null || proxy.family === of.family ? proxy : undefined
}

/** RFC 6750 section 2.1; what is in the token is for its verification to say. */
function tokenIn(authorization: string): string | null {
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return null
  const token = authorization.slice(SCHEME.length)
  return token === '' || NOT_ONE_TOKEN.test(token) ? null : token
}

const ended = (reason: AuthReason): Decided => ({ reason, permission: null, by: 'none' })

const BAD_PATH = { hostile: 'PATH_HOSTILE', too_long: 'PATH_TOO_LONG' } as const
const UNVERIFIED = {
  invalid: 'TOKEN_INVALID',
  tenant_mismatch: 'TENANT_MISMATCH',
  unavailable: 'FACTS_UNAVAILABLE',
} as const

/**
 * The check itself: one straight line from what a proxy asks to its answer, on memory alone. Only a person's or a key's first
 * sight waits for anything. Whatever goes wrong is a refusal (I19), and every request leaves exactly one line.
 */
export function createCheck(on: CheckOn): (asked: Asked) => Answered | Promise<Answered> {
  const { ctx } = on

  /** TenantProxy and endpoint, or why there is none. */
  function place(asked: Asked, snapshot: Snapshot, found: Found): Decided | null {
    found.tenant = snapshot.bySlug.get(asked.tenant) ?? null
    if (found.tenant === null) return ended('NO_SUCH_TENANT')
    if (asked.spoiled !== null) return ended(asked.spoiled)
    // Before the proxy is known: its secret may have been replaced, and what was open may be so no more.
    if (!on.isFresh()) return ended('FACTS_UNAVAILABLE')
    const { secret, method, target } = asked
    const { family } = asked
    const now = ctx.clock.now()
    const known = secret === undefined ? undefined : proxyBy(found.tenant, { secret, family, now })
    if (known === undefined) return ended('PROXY_UNAUTHENTICATED')
    found.proxy = known
    if (method === undefined || target === undefined) return ended('REQUEST_INCOMPLETE')
    if (!METHOD.test(method)) return ended('REQUEST_INCOMPLETE')
    const route = routed(snapshot, known, { method, target }, found)
    if ('bad' in route) return ended(route.bad)
    if ('endpoint' in route) {
      found.endpoint = route.endpoint
      found.service = route.endpoint.service
      return null
    }
    if (route.none === 'no_such_service') return ended('NO_SUCH_SERVICE')
    found.service = route.service
    return ended('NO_SUCH_PATH')
  }

  function routed(
    snapshot: Snapshot,
    proxy: TenantProxy,
    of: { readonly method: string; readonly target: string },
    found: Found,
  ): Route | { readonly bad: AuthReason } {
    const query = of.target.indexOf('?')
    const path = query === -1 ? of.target : of.target.slice(0, query)
    const key = `${proxy.id}\0${of.method}\0${path}`
    const hit = on.routes.get(key)
    found.routeCache = hit === undefined ? 'miss' : 'hit'
    if (hit !== undefined) return hit
    const normal = normalPath(path)
    if (typeof normal === 'string') return { bad: BAD_PATH[normal] }
    const route = routeOf(snapshot, proxy, { method: of.method, segments: normal.segments })
    on.routes.set(key, route)
    return route
  }

  function askerOf(facts: TokenFacts, person: PersonFacts | null): Asker | null {
    const expired = facts.expiresAt <= ctx.clock.now()
    const { audience } = facts
    if (facts.kind === 'agent_session')
      return {
        kind: facts.kind,
        audience,
        expired,
        dead: on.revocations.whyDead(facts),
        held: facts.held,
      }
    if (person === null) return null
    return { kind: 'user', audience, expired, active: person.active, held: person.held }
  }

  function judge(snapshot: Snapshot, found: Found): Decided {
    const { endpoint, facts, tenant, person } = found
    if (endpoint === null || facts === null || tenant === null) return ended('INTERNAL_ERROR')
    const asker = askerOf(facts, person)
    if (asker === null) return ended('USER_UNKNOWN')
    const resources = tenant.resources.get(endpoint.service) ?? []
    const { registryVersion } = snapshot
    return decide({ endpoint, asker, resources, registryVersion })
  }

  function withFacts(snapshot: Snapshot, found: Found, read: Read): Decided | Promise<Decided> {
    found.tokenCache = read.cached ? 'hit' : 'miss'
    if (typeof read.facts === 'string') return ended(UNVERIFIED[read.facts])
    found.facts = read.facts
    const { tenant } = found
    if (read.facts.kind !== 'user' || tenant === null) return judge(snapshot, found)
    const { issuer, subject } = read.facts
    const person = on.people.find(snapshot, { tenantId: tenant.ref.id, issuer, subject })
    const then = (known: PersonFacts | null): Decided => {
      found.person = known
      return judge(snapshot, found)
    }
    return person instanceof Promise
      ? person.then(then, () => ended('FACTS_UNAVAILABLE'))
      : then(person)
  }

  function decided(asked: Asked, found: Found): Decided | Promise<Decided> {
    const snapshot = on.snapshot()
    if (snapshot === null) return ended('NOT_READY')
    const nowhere = place(asked, snapshot, found)
    if (nowhere !== null) return nowhere
    const { endpoint, tenant } = found
    if (endpoint === null || tenant === null) return ended('INTERNAL_ERROR')
    if (endpoint.access === 'OPEN') return ended('OPEN_ENDPOINT')
    if (asked.authorization === undefined) return ended('MISSING_TOKEN')
    const token = tokenIn(asked.authorization)
    if (token === null) return ended('AUTHORIZATION_MALFORMED')
    const resources = tenant.resources.get(endpoint.service) ?? []
    const read = on.tokens.read({ snapshot, tenant }, { token, resources })
    return read instanceof Promise
      ? read.then((one) => withFacts(snapshot, found, one))
      : withFacts(snapshot, found, read)
  }

  const finish = (asked: Asked, found: Found, end: Decided): Answered => {
    on.counted.decisions++
    if (end.by === 'names') on.counted.names++
    const { status } = AUTH_REASONS[end.reason]
    on.lines.add(lineOf(lineFacts(ctx, asked, found, { end, status })))
    record(on.calls, asked, found, end)
    return status === 200
      ? { status, headers: allowHeaders(asked, found) }
      : { status, headers: denyHeaders(asked, end, status) }
  }

  return (asked) => {
    const found: Found = {
      began: performance.now(),
      ...{ tenant: null, proxy: null, routeCache: 'none', service: null, endpoint: null },
      ...{ tokenCache: 'none', facts: null, person: null },
    }
    const broken = (error: unknown): Answered => {
      on.onBug(error, asked.requestId)
      return finish(asked, found, ended('INTERNAL_ERROR'))
    }
    let end: Decided | Promise<Decided>
    try {
      end = decided(asked, found)
    } catch (error) {
      return broken(error)
    }
    return end instanceof Promise
      ? end.then((one) => finish(asked, found, one), broken)
      : finish(asked, found, end)
  }
}

/** Who it is, as headers and the line name them. */
function identityOf({ facts, person }: Found) {
  if (facts?.kind === 'agent_session')
    return {
      type: facts.kind,
      ...{ id: facts.sid, session: facts.sid, root: facts.rootSid },
      ...{ agent: facts.agentId, user: facts.userId },
    }
  const id = facts === null ? null : (person?.id ?? null)
  const type = facts === null ? null : ('user' as const)
  return { type, id, session: null, root: null, agent: null, user: id }
}

function lineFacts(
  ctx: Ctx,
  asked: Asked,
  found: Found,
  of: { readonly end: Decided; readonly status: Answered['status'] },
) {
  const who = identityOf(found)
  const { end, status } = of
  const grant =
    found.facts?.kind === 'agent_session' && end.permission !== null
      ? found.facts.grantOf.get(end.permission)
      : undefined
  return {
    at: ctx.clock.now(),
    request_id: asked.requestId,
    trace_id: asked.traceId,
    tenant: asked.tenant,
    tenant_id: found.tenant?.ref.id ?? null,
    proxy_id: found.proxy?.id ?? null,
    family: asked.family,
    method: asked.method ?? null,
    path: asked.target?.split('?', 1)[0]?.slice(0, PATH_SHOWN_MAX) ?? null,
    service: found.service,
    endpoint: found.endpoint?.pattern ?? null,
    endpoint_access: found.endpoint?.access ?? null,
    identity_type: who.type,
    identity_id: who.id,
    session_id: who.session,
    root_session_id: who.root,
    agent_id: who.agent,
    user_id: who.user,
    permission: end.permission,
    grant_id: grant ?? null,
    decision: status === 200 ? ('allow' as const) : ('deny' as const),
    decision_reason: end.reason,
    status,
    token_cache: found.tokenCache,
    route_cache: found.routeCache,
    checked_by: end.by,
    micros: Math.round((performance.now() - found.began) * 1000),
  }
}

const PATH_SHOWN_MAX = 1024
const TARGET_LENGTH_MAX = 256

/**
 * All of them, always: a proxy that only overwrites what it is given would else let a client's own through. Empty where there
 * is nothing to say.
 */
function allowHeaders(asked: Asked, found: Found): Record<string, string> {
  const who = identityOf(found)
  return {
    'content-length': '0',
    'cache-control': 'no-store',
    'x-identity-type': who.type ?? '',
    'x-identity-id': who.id ?? '',
    'x-session-id': who.session ?? '',
    'x-agent-id': who.agent ?? '',
    'x-on-behalf-of': who.session === null ? '' : (who.user ?? ''),
    'x-tenant-id': found.tenant?.ref.id ?? '',
    'x-request-id': asked.requestId,
  }
}

/** RFC 6750 section 3: no error code where no token came. */
function denyHeaders(
  asked: Asked,
  end: Decided,
  status: Answered['status'],
): Record<string, string> {
  const { reason, permission } = end
  const error = reason === 'MISSING_TOKEN' ? '' : ', error="invalid_token"'
  const scope = permission === null ? '' : `, scope="${permission}"`
  return {
    'content-length': '0',
    'cache-control': 'no-store',
    'x-auth-error-code': reason,
    'x-request-id': asked.requestId,
    ...(status === 401 ? { 'www-authenticate': `Bearer realm="lend"${error}` } : {}),
    ...(reason === 'PERMISSION_MISSING'
      ? { 'www-authenticate': `Bearer realm="lend", error="insufficient_scope"${scope}` }
      : {}),
  }
}

/** A session's calls go to its chain (I12), allowed or not; a refusal that names no session has none to go to. */
function record(calls: Calls, asked: Asked, found: Found, end: Decided): void {
  const { facts, tenant, proxy, endpoint } = found
  if (facts?.kind !== 'agent_session' || tenant === null || proxy === null || endpoint === null)
    return
  const allowed = AUTH_REASONS[end.reason].status === 200
  const path = asked.target?.split('?', 1)[0] ?? ''
  calls.add(
    { tenant: tenant.ref, proxyId: proxy.id, services: proxy.mounts.map((m) => m.service) },
    {
      sessionId: facts.sid,
      service: endpoint.service,
      outcome: allowed ? 'allowed' : 'denied',
      target: `${asked.method} ${path}`.slice(0, TARGET_LENGTH_MAX),
      ...(end.permission === null ? {} : { permission: end.permission }),
      ...(allowed
        ? { grantId: facts.grantOf.get(end.permission ?? '') }
        : { reason: end.reason.toLowerCase() }),
    },
  )
}
