import { hash } from 'node:crypto'
import { AUTH_REASONS, type AuthReason, type ProxyFamily } from '../../schema/auth-decision.ts'
import type { Ctx } from '../ports.ts'
import {
  type Answered,
  type Asked,
  allowHeaders,
  denyHeaders,
  endpointOf,
  type Found,
  identityOf,
  lineFacts,
  type Place,
  placeOf,
  record,
  withoutQuery,
} from './answers.ts'
import type { Calls } from './calls.ts'
import { type Asker, type Decided, decide } from './decide.ts'
import type { Frequent } from './frequent.ts'
import type { Read, ServiceFacts, TokenFacts, Tokens } from './identity.ts'
import { type Lines, lineOf } from './lines.ts'
import { normalPath } from './path.ts'
import type { People, PersonFacts } from './people.ts'
import type { Revocations } from './revocations.ts'
import {
  type GatewayTenant,
  type ProxySecret,
  routeOf,
  type Snapshot,
  type TenantProxy,
} from './snapshot.ts'

export type CheckOn = {
  readonly ctx: Ctx
  /** Null until warm. */
  readonly snapshot: () => Snapshot | null
  /** Whether what was taken back, and who asks for what, is known up to a minute ago. */
  readonly isFresh: () => boolean
  readonly routes: Frequent<Place>
  readonly tokens: Tokens
  readonly people: People
  readonly revocations: Revocations
  readonly calls: Calls
  readonly lines: Lines
  readonly counted: Counted
  /** How long a decision took, in seconds; absent: nobody counts. */
  readonly took?: ((seconds: number) => void) | undefined
  readonly onBug: (error: unknown, requestId: string) => void
}

type ServiceDead = Extract<Asker, { readonly kind: 'service' }>['dead']

/** Since the start. */
export type Counted = {
  /** Decided by name, since the token had been read under an older registry. */
  names: number
  readonly reasons: Record<AuthReason, number>
  readonly caches: Record<'token' | 'route' | 'person', { hit: number; miss: number }>
}

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
    const routed = placed(snapshot, known, { method, target }, found)
    if (typeof routed === 'string') return ended(routed)
    found.place = routed
    const { route } = routed
    if ('endpoint' in route) return null
    return ended(route.none === 'no_such_service' ? 'NO_SUCH_SERVICE' : 'NO_SUCH_PATH')
  }

  function placed(
    snapshot: Snapshot,
    proxy: TenantProxy,
    of: { readonly method: string; readonly target: string },
    found: Found,
  ): Place | AuthReason {
    const path = withoutQuery(of.target)
    const key = `${proxy.id}\0${of.method}\0${path}`
    const hit = on.routes.get(key)
    found.routeCache = hit === undefined ? 'miss' : 'hit'
    if (hit !== undefined) return hit
    const normal = normalPath(path)
    if (typeof normal === 'string') return BAD_PATH[normal]
    const { method } = of
    const route = routeOf(snapshot, proxy, { method, segments: normal.segments })
    const place = placeOf(route, { method, path })
    on.routes.set(key, place)
    return place
  }

  /** The metadata says which version counts; the feed may have brought a newer one already. Any other is refused. */
  function whyDead(tenant: GatewayTenant, of: ServiceFacts): ServiceDead {
    const account = tenant.serviceAccounts.get(of.id)
    if (account === undefined) return 'unknown'
    if (!account.active) return 'disabled'
    if (of.version !== Math.max(account.version, on.revocations.lowest(of.id))) return 'stale'
    return on.revocations.isTenantFrozen(tenant.ref.id) ? 'frozen' : null
  }

  function askerOf(
    tenant: GatewayTenant,
    { facts, person }: { readonly facts: TokenFacts; readonly person: PersonFacts | null },
  ): Asker | null {
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
    if (facts.kind === 'service') {
      const { kind, held } = facts
      return { kind, audience, expired, dead: whyDead(tenant, facts), held }
    }
    if (person === null) return null
    const { active, held } = person
    const frozen = on.revocations.isPersonFrozen(tenant.ref.id, person.id)
    return { kind: 'user', audience, expired, active, frozen, held }
  }

  function judge(snapshot: Snapshot, found: Found): Decided {
    const { facts, tenant, person } = found
    const endpoint = endpointOf(found)
    if (endpoint === null || facts === null || tenant === null) return ended('INTERNAL_ERROR')
    const asker = askerOf(tenant, { facts, person })
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
    on.counted.caches.person[person instanceof Promise ? 'miss' : 'hit']++
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
    const { tenant } = found
    const endpoint = endpointOf(found)
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
    const { caches, reasons } = on.counted
    reasons[end.reason]++
    if (found.tokenCache !== 'none') caches.token[found.tokenCache]++
    if (found.routeCache !== 'none') caches.route[found.routeCache]++
    on.took?.((performance.now() - found.began) / 1000)
    if (end.by === 'names') on.counted.names++
    const { status } = AUTH_REASONS[end.reason]
    const who = identityOf(found)
    on.lines.add(lineOf(lineFacts(ctx, asked, found, { end, status, who })))
    record(on.calls, found, end)
    return status === 200
      ? { status, headers: allowHeaders(asked, found, who) }
      : { status, headers: denyHeaders(asked, end, status) }
  }

  return (asked) => {
    const found: Found = {
      began: performance.now(),
      tenant: null,
      proxy: null,
      routeCache: 'none',
      place: null,
      tokenCache: 'none',
      facts: null,
      person: null,
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
