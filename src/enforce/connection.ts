import { createRemoteJWKSet, customFetch, errors, type JWTPayload, jwtVerify } from 'jose'
import { type ServiceFacts, serviceFactsOf } from './service.ts'
import { factsOf, isCanonical, isRecord, type TokenFacts } from './token.ts'

/**
 * What an enforcer asks of Lend: the issuer's addresses and keys, and what a token stands for now.
 */
export type Credentials = { readonly clientId: string; readonly clientSecret: string }

export type ConnectionOptions = {
  readonly issuer: string
  readonly audience: string
  readonly introspect?: Credentials
  readonly fetch: typeof globalThis.fetch
  readonly now: () => number
}

export type Denial =
  | 'token_missing'
  | 'token_invalid'
  | 'token_expired'
  | 'session_over'
  | 'resource_invalid'
  | 'not_granted'
  | 'read_only'
  | 'narrowed'
  | 'unavailable'

const ALGORITHMS = ['ES256', 'RS256']
const HEADERS = new Set(['typ', 'alg', 'kid'])
const ANSWER_MILLIS_MAX = 3000
const JWKS_FRESH_MILLIS = 300_000
/** Between two fetches for the sake of an unknown key, which anybody can name. */
const JWKS_COOLDOWN_MILLIS = 5000
const METADATA_FRESH_MILLIS = 300_000

export type Read = { readonly facts: TokenFacts } | { readonly denied: Denial }

/** RFC 8414 section 3.1: the well-known part stands between the host and the issuer's path. */
function metadataUrl(issuer: string): string {
  const url = new URL(issuer)
  return `${url.origin}/.well-known/oauth-authorization-server${url.pathname}`
}

/** RFC 6749 section 2.3.1: each half is form-encoded before it is base64-encoded. */
export function basic({ clientId, clientSecret }: Credentials): string {
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
    const of = isRecord(said) ? said : {}
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

export type Connection = {
  /** RFC 9068 section 4: what can be told without asking whether the session still lives. */
  readonly offline: (token: string) => Promise<Read>
  /**
   * RFC 7662: the session, its version, its user and its grants, as they are now. Without
   * credentials, as they were.
   */
  readonly live: (token: string, of: TokenFacts) => Promise<Read>
  /** A service account's token: verified, and what it stands for now, which is always asked. Needs credentials. */
  readonly service: (token: string) => Promise<ServiceRead>
}
export type ServiceRead = { readonly facts: ServiceFacts } | { readonly denied: Denial }

/** Neither call ever throws: what cannot be found out is `unavailable`. */
export function connect(options: ConnectionOptions): Connection {
  const { issuer, audience, introspect, fetch, now } = options
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

  /** The claims, once signature, times and header are as they must be. */
  async function verified(
    token: string,
    required: readonly string[],
  ): Promise<{ readonly claims: JWTPayload } | { readonly denied: Denial }> {
    if (!isCanonical(token)) return { denied: 'token_invalid' }
    try {
      const { payload, protectedHeader } = await jwtVerify(token, await keySet(), {
        issuer,
        audience,
        typ: 'at+jwt',
        algorithms: ALGORITHMS,
        requiredClaims: ['exp', 'iat', 'jti', 'authorization_details', ...required],
        currentDate: new Date(now()),
      })
      // `crit`, `jku`, `jwk`, `x5c` and the rest are refused, not ignored: Lend sends none of them.
      const plain = Object.keys(protectedHeader).every((name) => HEADERS.has(name))
      return plain ? { claims: payload } : { denied: 'token_invalid' }
    } catch (error) {
      return { denied: denialOf(error) }
    }
  }

  async function offline(token: string): Promise<Read> {
    const read = await verified(token, ['sid'])
    if ('denied' in read) return read
    const facts = factsOf(read.claims, { issuer, audience })
    return facts === null ? { denied: 'token_invalid' } : { facts }
  }

  /** What Lend says of a token now; undefined when it does not. */
  async function asked(token: string, by: Credentials): Promise<unknown> {
    try {
      const { introspection } = await metadata()
      const answer = await fetch(introspection, {
        method: 'POST',
        headers: {
          authorization: basic(by),
          'content-type': 'application/x-www-form-urlencoded',
          accept: 'application/json',
        },
        body: new URLSearchParams({ token }).toString(),
        redirect: 'error',
        signal: AbortSignal.timeout(ANSWER_MILLIS_MAX),
      })
      return answer.ok ? await answer.json() : undefined
    } catch {
      return undefined
    }
  }

  const live = async (token: string, of: TokenFacts): Promise<Read> =>
    introspect === undefined ? { facts: of } : introspected(await asked(token, introspect), of)

  async function service(token: string): Promise<ServiceRead> {
    const read = await verified(token, ['service_version'])
    if ('denied' in read) return read
    const own = serviceFactsOf(read.claims, { issuer, audience })
    if (own === null || introspect === undefined) return { denied: 'token_invalid' }
    const said = await asked(token, introspect)
    if (!isRecord(said)) return { denied: 'unavailable' }
    if (said.active === false) return { denied: 'session_over' }
    const facts = said.active === true ? serviceFactsOf(said, { issuer, audience }) : null
    return facts === null || facts.service !== own.service ? { denied: 'unavailable' } : { facts }
  }

  function introspected(said: unknown, of: TokenFacts): Read {
    if (!isRecord(said)) return { denied: 'unavailable' }
    if (said.active === false) return { denied: 'session_over' }
    const facts = said.active === true ? factsOf(said, { issuer, audience }) : null
    // An answer about anything but the token that was shown is no answer.
    return facts === null || facts.session !== of.session ? { denied: 'unavailable' } : { facts }
  }

  return { offline, live, service }
}
