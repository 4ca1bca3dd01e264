import { AUTH_REASONS, type ProxyFamily } from '../../schema/auth-decision.ts'
import type { Ctx } from '../ports.ts'
import type { Calls } from './calls.ts'
import type { Decided } from './decide.ts'
import type { TokenFacts } from './identity.ts'
import { placeText } from './lines.ts'
import type { PersonFacts } from './people.ts'
import type { Endpoint, GatewayTenant, Route, TenantProxy } from './snapshot.ts'

/** What becomes of a decision: the answer to the proxy, the line and the record. */

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

/** What has been found out about one request so far; its answer, its line and its record are made from it. */
export type Found = {
  readonly began: number
  tenant: GatewayTenant | null
  proxy: TenantProxy | null
  routeCache: 'hit' | 'miss' | 'none'
  place: Place | null
  tokenCache: 'hit' | 'miss' | 'none'
  facts: TokenFacts | null
  person: PersonFacts | null
}

/** Where a request goes, with what line and record say of it: made once for each path that is asked for often. */
export type Place = {
  readonly route: Route
  /** Method and path, as far as a record says them. */
  readonly target: string
  /** The line's part about it. */
  readonly text: string
}

export const withoutQuery = (target: string): string => {
  const query = target.indexOf('?')
  return query === -1 ? target : target.slice(0, query)
}

export function placeOf(
  route: Route,
  { method, path }: { readonly method: string; readonly path: string },
): Place {
  const endpoint = 'endpoint' in route ? route.endpoint : null
  const service = endpoint?.service ?? ('service' in route ? route.service : null)
  return {
    route,
    target: `${method} ${path}`.slice(0, TARGET_LENGTH_MAX),
    text: placeText({
      method,
      path: path.slice(0, PATH_SHOWN_MAX),
      service,
      endpoint: endpoint?.pattern ?? null,
      endpoint_access: endpoint?.access ?? null,
    }),
  }
}

export const endpointOf = ({ place }: Found): Endpoint | null =>
  place !== null && 'endpoint' in place.route ? place.route.endpoint : null

/** Who it is, as headers and the line name them. */
type Who = {
  readonly type: TokenFacts['kind'] | null
  readonly id: string | null
  readonly session: string | null
  readonly root: string | null
  readonly agent: string | null
  readonly user: string | null
}

const NOBODY: Who = { type: null, id: null, session: null, root: null, agent: null, user: null }

export function identityOf({ facts, person }: Found): Who {
  switch (facts?.kind) {
    case undefined:
      return NOBODY
    case 'agent_session':
      return {
        type: facts.kind,
        id: facts.sid,
        session: facts.sid,
        root: facts.rootSid,
        agent: facts.agentId,
        user: facts.userId,
      }
    case 'service':
      return { type: facts.kind, id: facts.id, session: null, root: null, agent: null, user: null }
    case 'user': {
      const id = person?.id ?? null
      return { type: facts.kind, id, session: null, root: null, agent: null, user: id }
    }
  }
}

/** The grant that was used, where something was lent: what a service account holds is its own. */
const grantOf = ({ facts }: Found, { permission }: Decided): string | undefined =>
  facts?.kind === 'agent_session' && permission !== null ? facts.grantOf.get(permission) : undefined

/** Before it was known where it goes. */
const unplaced = ({ method, target }: Asked): string =>
  placeText({
    method: method ?? null,
    path: target === undefined ? null : withoutQuery(target).slice(0, PATH_SHOWN_MAX),
    ...{ service: null, endpoint: null, endpoint_access: null },
  })

export function lineFacts(
  ctx: Ctx,
  asked: Asked,
  found: Found,
  of: { readonly end: Decided; readonly status: Answered['status']; readonly who: Who },
) {
  const { end, status, who } = of
  const grant = grantOf(found, end)
  return {
    at: ctx.clock.now(),
    request_id: asked.requestId,
    trace_id: asked.traceId,
    tenant: asked.tenant,
    tenant_id: found.tenant?.ref.id ?? null,
    proxy_id: found.proxy?.id ?? null,
    family: asked.family,
    place: found.place?.text ?? unplaced(asked),
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
export function allowHeaders(asked: Asked, found: Found, who: Who): Record<string, string> {
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
export function denyHeaders(
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

/**
 * A session's calls go to its chain, a service account's to its tenant's (I12), allowed or not; a refusal that names neither has
 * none to go to.
 */
export function record(calls: Calls, found: Found, end: Decided): void {
  const { facts, tenant, proxy, place } = found
  const endpoint = endpointOf(found)
  if (facts === null || facts.kind === 'user') return
  if (tenant === null || proxy === null || place === null || endpoint === null) return
  const allowed = AUTH_REASONS[end.reason].status === 200
  const by = { tenant: tenant.ref, proxyId: proxy.id, services: proxy.services }
  const call = {
    service: endpoint.service,
    outcome: allowed ? ('allowed' as const) : ('denied' as const),
    target: place.target,
    permission: end.permission ?? undefined,
    grantId: allowed ? grantOf(found, end) : undefined,
    reason: allowed ? undefined : end.reason.toLowerCase(),
  }
  calls.add(
    by,
    facts.kind === 'agent_session'
      ? { ...call, sessionId: facts.sid }
      : { ...call, serviceAccountId: facts.id },
  )
}
