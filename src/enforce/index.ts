import { createRemoteJWKSet, customFetch, errors, type JWTPayload, jwtVerify } from 'jose'
import { canonicalResource, patternCovers } from '../core/resource.ts'
import { matches, shownBy } from './filter.ts'
import { type Call, createReporter, type Reporter } from './report.ts'
import { factsOf, type HeldGrant, type TokenFacts, tenantOf } from './token.ts'

export type { Call, HeldGrant, TokenFacts }
export { matches, shownBy }

/**
 * `lend/enforce`: how a resource server checks the tokens of agents by itself. It needs nothing of the server but its
 * public addresses, and fails closed: whatever cannot be verified is not allowed (I19).
 */
export type EnforcerOptions = {
  /** The tenant's issuer, as in `https://lend.example/t/acme`. */
  readonly issuer: string
  /** This resource server, exactly as it is registered. Tokens for anything else are refused, control tokens too. */
  readonly audience: string
  /**
   * The enforcement point's own credentials. With them every check also asks Lend live, so that what was taken away is
   * gone at once; without them a token is good for as long as it lives, 15 minutes at most, and nothing can be reported.
   */
  readonly introspect?: { readonly clientId: string; readonly clientSecret: string }
  readonly fetch?: typeof globalThis.fetch
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

export type Wanted = {
  readonly permission: string
  /** The one object or destination that is touched, for permissions that take one. */
  readonly resource?: string
  /** The call changes something. Then a grant that is lent for reading only does not count. */
  readonly writes?: boolean
  /** The caller applies `narrow` of every grant in `grants` to its rows. Otherwise narrowed grants do not count. */
  readonly narrows?: boolean
}

export const DENIALS = [
  'token_missing',
  'token_invalid',
  'token_expired',
  'session_over',
  'resource_invalid',
  'not_granted',
  'read_only',
  'narrowed',
  'unavailable',
] as const
export type Denial = (typeof DENIALS)[number]

export type Verdict = {
  readonly allowed: boolean
  readonly reason: 'granted' | Denial
  /** What to answer with over HTTP: 200, 401 for a bad token, 403 for no access, 503 when nothing can be verified. */
  readonly status: 200 | 401 | 403 | 503
  /** Known as soon as the token's signature holds, allowed or not; null before. */
  readonly session: string | null
  readonly agent: string | null
  readonly user: string | null
  /** The grant that allows it, the first of `grants`. */
  readonly grant: HeldGrant | null
  /** Every grant that allows it. Data grants are alternatives: a row is visible if any of them shows it. */
  readonly grants: readonly HeldGrant[]
  /** What the agent would ask for with `iam.request_access`. */
  readonly ask: { readonly permission: string; readonly resource?: string }
}

export type Enforcer = {
  /** Never throws. `token` is the bare token, without `Bearer`. */
  readonly check: (token: string | null | undefined, wanted: Wanted) => Promise<Verdict>
  /** Queues the record of a call; it is sent in the background. Throws if there are no credentials to send it with. */
  readonly report: (call: Call) => void
  /** Sends what is queued. */
  readonly flush: () => Promise<void>
  /** Sends what it can and stops. */
  readonly close: () => Promise<void>
  /** Records of calls that were dropped and not yet told of. */
  readonly lost: () => number
}

const ALGORITHMS = ['ES256', 'RS256']
const ANSWER_MILLIS_MAX = 3000
const JWKS_FRESH_MILLIS = 300_000
/** Between two fetches for the sake of an unknown key, which anybody can name. */
const JWKS_COOLDOWN_MILLIS = 5000
const METADATA_FRESH_MILLIS = 300_000
const TOKEN_CHARACTERS_MAX = 64 * 1024

const STATUS = {
  granted: 200,
  token_missing: 401,
  token_invalid: 401,
  token_expired: 401,
  session_over: 401,
  resource_invalid: 403,
  not_granted: 403,
  read_only: 403,
  narrowed: 403,
  unavailable: 503,
} as const satisfies Record<Verdict['reason'], Verdict['status']>

type Read = { readonly facts: TokenFacts } | { readonly denied: Denial }

/** RFC 8414 section 3.1: the well-known part stands between the host and the issuer's path. */
function metadataUrl(issuer: string): string {
  const url = new URL(issuer)
  return `${url.origin}/.well-known/oauth-authorization-server${url.pathname}`
}

/** RFC 6749 section 2.3.1: each half is form-encoded before it is base64-encoded. */
function basic({ clientId, clientSecret }: NonNullable<EnforcerOptions['introspect']>): string {
  const pair = [clientId, clientSecret].map(encodeURIComponent).join(':')
  return `Basic ${btoa(pair)}`
}

type Metadata = { readonly jwksUri: URL; readonly introspection: string }

/** An issuer's addresses, looked up when first needed and again when they are old. */
function discovery(issuer: string, fetch: typeof globalThis.fetch, now: () => number) {
  let found: { readonly metadata: Metadata; readonly at: number } | null = null
  return async (): Promise<Metadata> => {
    if (found !== null && now() - found.at < METADATA_FRESH_MILLIS) return found.metadata
    const answer = await fetch(metadataUrl(issuer), {
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MILLIS_MAX),
    })
    const said: unknown = answer.ok ? await answer.json() : null
    const of: Readonly<Record<string, unknown>> = { ...(said as object | null) }
    const sameOrigin = (value: unknown): value is string =>
      typeof value === 'string' &&
      URL.canParse(value) &&
      new URL(value).origin === new URL(issuer).origin
    // A document that names another issuer, or sends our credentials elsewhere, is not followed.
    if (of.issuer !== issuer || !sameOrigin(of.jwks_uri) || !sameOrigin(of.introspection_endpoint))
      throw new Error('the issuer metadata is not usable')
    const metadata = { jwksUri: new URL(of.jwks_uri), introspection: of.introspection_endpoint }
    found = { metadata, at: now() }
    return metadata
  }
}

/** Bad tokens are told apart from an outage: only the former are the caller's fault. */
function denialOf(error: unknown): Denial {
  if (error instanceof errors.JWTExpired) return 'token_expired'
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid)
    return 'unavailable'
  // jose names a JWKS that could not be fetched by its base class alone.
  if (error instanceof errors.JOSEError && error.code !== errors.JOSEError.code)
    return 'token_invalid'
  return 'unavailable'
}

/** Narrows a list of held grants to those that allow what is wanted, or says what is missing. */
function allowing(
  grants: readonly HeldGrant[],
  wanted: Wanted,
  resource: string | undefined,
): { readonly grants: readonly HeldGrant[] } | { readonly denied: Denial } {
  const held = grants.filter(
    (grant) => grant.permission === wanted.permission && patternCovers(grant.identifier, resource),
  )
  if (held.length === 0) return { denied: 'not_granted' }
  const writable = wanted.writes ? held.filter((grant) => grant.read_only !== true) : held
  if (writable.length === 0) return { denied: 'read_only' }
  const usable = wanted.narrows ? writable : writable.filter((grant) => grant.narrow === undefined)
  return usable.length === 0 ? { denied: 'narrowed' } : { grants: usable }
}

const NO_REPORTER: Reporter = {
  report: () => {
    throw new Error('lend/enforce: report() needs the credentials of an enforcement point')
  },
  flush: async () => {},
  close: async () => {},
  lost: () => 0,
  queued: () => 0,
}

/** Makes the enforcer of one resource server for one tenant. It holds its keys and its queue: make one and keep it. */
export function createEnforcer(options: EnforcerOptions): Enforcer {
  const { issuer, audience, introspect, fetch = globalThis.fetch, now = Date.now } = options
  const metadata = discovery(issuer, fetch, now)
  let keys: { readonly uri: string; readonly get: ReturnType<typeof createRemoteJWKSet> } | null =
    null

  async function keySet() {
    const { jwksUri } = await metadata()
    if (keys?.uri !== jwksUri.href) {
      const get = createRemoteJWKSet(jwksUri, {
        cacheMaxAge: JWKS_FRESH_MILLIS,
        cooldownDuration: JWKS_COOLDOWN_MILLIS,
        timeoutDuration: ANSWER_MILLIS_MAX,
        [customFetch]: fetch,
      })
      keys = { uri: jwksUri.href, get }
    }
    return keys.get
  }

  /** RFC 9068 section 4: what can be told without asking whether the session still lives. */
  async function offline(token: string): Promise<Read> {
    try {
      const { payload } = await jwtVerify(token, await keySet(), {
        issuer,
        audience,
        typ: 'at+jwt',
        algorithms: ALGORITHMS,
        requiredClaims: ['exp', 'iat', 'jti', 'sid', 'authorization_details'],
        currentDate: new Date(now()),
      })
      const facts = factsOf(payload, { issuer, audience })
      return facts === null ? { denied: 'token_invalid' } : { facts }
    } catch (error) {
      return { denied: denialOf(error) }
    }
  }

  /** RFC 7662: the session, its version, its user and its grants, as they are now. */
  async function live(token: string, of: TokenFacts): Promise<Read> {
    if (introspect === undefined) return { facts: of }
    try {
      const { introspection } = await metadata()
      const answer = await fetch(introspection, {
        method: 'POST',
        headers: {
          authorization: basic(introspect),
          'content-type': 'application/x-www-form-urlencoded',
          accept: 'application/json',
        },
        body: new URLSearchParams({ token }).toString(),
        redirect: 'error',
        signal: AbortSignal.timeout(ANSWER_MILLIS_MAX),
      })
      if (!answer.ok) return { denied: 'unavailable' }
      const said = (await answer.json()) as (JWTPayload & { active?: unknown }) | null
      if (said?.active === false) return { denied: 'session_over' }
      const facts = said?.active === true ? factsOf(said, { issuer, audience }) : null
      // An answer about anything but the token that was shown is no answer.
      return facts === null || facts.session !== of.session ? { denied: 'unavailable' } : { facts }
    } catch {
      return { denied: 'unavailable' }
    }
  }

  async function check(token: string | null | undefined, wanted: Wanted): Promise<Verdict> {
    const ask = {
      permission: wanted.permission,
      ...(wanted.resource === undefined ? {} : { resource: wanted.resource }),
    }
    const verdict = (
      reason: Verdict['reason'],
      facts: TokenFacts | null,
      grants: readonly HeldGrant[] = [],
    ): Verdict => ({
      allowed: reason === 'granted',
      reason,
      status: STATUS[reason],
      session: facts?.session ?? null,
      agent: facts?.agent ?? null,
      user: facts?.user ?? null,
      grant: grants[0] ?? null,
      grants,
      ask,
    })
    if (token === null || token === undefined || token === '') return verdict('token_missing', null)
    if (token.length > TOKEN_CHARACTERS_MAX) return verdict('token_invalid', null)
    const read = await offline(token)
    if ('denied' in read) return verdict(read.denied, null)
    const canonical = wanted.resource === undefined ? undefined : canonicalResource(wanted.resource)
    if (canonical?.ok === false) return verdict('resource_invalid', read.facts)
    const current = await live(token, read.facts)
    if ('denied' in current) return verdict(current.denied, read.facts)
    const found = allowing(current.facts.grants, wanted, canonical?.value)
    return 'denied' in found
      ? verdict(found.denied, current.facts)
      : verdict('granted', current.facts, found.grants)
  }

  const reporter =
    introspect === undefined
      ? NO_REPORTER
      : createReporter({
          url: `${issuer}/enforce/calls`,
          authorization: basic(introspect),
          fetch,
          now,
        })
  return {
    check,
    report: reporter.report,
    flush: reporter.flush,
    close: reporter.close,
    lost: reporter.lost,
  }
}

/** The bare token of an `Authorization` header, or null. A token anywhere else is no credential. */
export const bearerOf = (authorization: string | null | undefined): string | null =>
  /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization ?? '')?.[1] ?? null

/** A tenant's slug from its issuer, as in `https://lend.example/t/acme`. */
export { tenantOf }
