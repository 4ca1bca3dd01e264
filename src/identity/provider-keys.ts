import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose'
import {
  type AuthorizationServer,
  allowInsecureRequests,
  customFetch,
  discoveryRequest,
  processDiscoveryResponse,
} from 'oauth4webapi'
import type { Clock } from '../ports.ts'
import { type GuardedFetch, guardedFetch } from './fetch-guard.ts'

/** Bounds on what a provider can cost us, and on how old an answer of its may be. */
export const FETCH_MILLIS_MAX = 5_000
const ANSWER_BYTES_MAX = 256 * 1024
const KEYS_MAX = 100
const PROVIDERS_MAX = 256
export const METADATA_AGE_MILLIS_MAX = 10 * 60_000
export const KEYS_AGE_MILLIS_MAX = 10 * 60_000
/** An unknown `kid` asks the provider again at most this often. */
export const UNKNOWN_KID_COOLDOWN_MILLIS = 30_000
/** A provider that did not answer is left alone this long. */
export const FAILURE_COOLDOWN_MILLIS = 5_000
/** How long a failure is told of that nobody has looked at again. */
const TOLD_MILLIS = 10 * 60_000

export type KeySource = { readonly issuer: string; readonly privateNetwork: boolean }

/** The provider was asked, or would have to be, and nothing usable came of it. */
export class ProviderUnavailable extends Error {
  constructor(cause?: unknown) {
    super('identity provider unavailable', cause === undefined ? undefined : { cause })
    this.name = 'ProviderUnavailable'
  }
}

export type ProviderKeys = {
  /**
   * A resolver of this provider's public keys, for jose. Throws `ProviderUnavailable`, or jose's
   * own error when no key fits the token's header.
   */
  readonly keysOf: (source: KeySource) => JWTVerifyGetKey
  /** Asks the provider now, past all caches. Throws `ProviderUnavailable`. */
  readonly probe: (source: KeySource) => Promise<void>
  /** Issuers that did not answer when they were last asked, within the last ten minutes. */
  readonly unreachable: () => readonly string[]
}

type KeyResolver = ReturnType<typeof createLocalJWKSet>

type Entry = {
  metadata: { readonly jwksUri: string; readonly at: number } | null
  keys: { readonly resolve: KeyResolver; readonly at: number } | null
  failedAt: number | null
  /** Callers that come while an answer is on its way wait for that one. */
  loading: Promise<KeyResolver> | null
}

/**
 * Discovery (OpenID Connect Discovery 1.0 section 4) and key sets (RFC 7517), cached by issuer.
 *
 * Staleness: metadata and keys serve without asking for up to 10 minutes, so a key that its
 * provider withdraws may be accepted that much longer. Past that they are fetched again or nothing
 * is verified: there is no serving of stale keys. A key that appears is picked up by the first
 * token that names it, at most once in 30 seconds, so that a flood of made-up `kid`s does not
 * become a flood at the provider. After a failed fetch the provider is left alone for 5 seconds.
 *
 * Keys learned through a private network are never used for a source that may not reach it.
 */
export function createProviderKeys(
  clock: Clock,
  fetchMillisMax: number = FETCH_MILLIS_MAX,
): ProviderKeys {
  const entries = new Map<string, Entry>()
  const guard = { timeoutMillis: fetchMillisMax, maxBytes: ANSWER_BYTES_MAX }
  const publicFetch = guardedFetch({ ...guard, allowPrivate: false })
  const privateFetch = guardedFetch({ ...guard, allowPrivate: true })

  const entryOf = (source: KeySource): Entry => {
    const name = `${source.privateNetwork ? 'private' : 'public'} ${source.issuer}`
    const entry = entries.get(name) ?? { metadata: null, keys: null, failedAt: null, loading: null }
    // Moved to the end, so that what is dropped is what was used longest ago.
    entries.delete(name)
    entries.set(name, entry)
    const [oldest] = entries.keys()
    if (entries.size > PROVIDERS_MAX && oldest !== undefined) entries.delete(oldest)
    return entry
  }

  const load = (source: KeySource, entry: Entry): Promise<KeyResolver> => {
    if (entry.failedAt !== null && isYounger(clock, entry.failedAt, FAILURE_COOLDOWN_MILLIS)) {
      return Promise.reject(new ProviderUnavailable())
    }
    const fetch = source.privateNetwork ? privateFetch : publicFetch
    entry.loading ??= fetchKeys({ source, entry, clock, fetch }).finally(() => {
      entry.loading = null
    })
    return entry.loading
  }

  const keysOf =
    (source: KeySource): JWTVerifyGetKey =>
    async (header, token) => {
      const entry = entryOf(source)
      const cached = entry.keys
      if (cached === null || !isYounger(clock, cached.at, KEYS_AGE_MILLIS_MAX)) {
        return (await load(source, entry))(header, token)
      }
      try {
        return await cached.resolve(header, token)
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
        if (isYounger(clock, cached.at, UNKNOWN_KID_COOLDOWN_MILLIS)) throw error
        return (await load(source, entry))(header, token)
      }
    }

  const probe = async (source: KeySource): Promise<void> => {
    const entry = entryOf(source)
    Object.assign(entry, { metadata: null, failedAt: null })
    await load(source, entry)
  }

  const unreachable = (): readonly string[] =>
    [...entries]
      .filter(([, { failedAt }]) => failedAt !== null && isYounger(clock, failedAt, TOLD_MILLIS))
      .map(([name]) => name.slice(name.indexOf(' ') + 1))

  return { keysOf, probe, unreachable }
}

/** A clock that was set back makes everything old, never young for ever. */
function isYounger(clock: Clock, at: number, millis: number): boolean {
  const age = clock.now() - at
  return age >= 0 && age < millis
}

type Fetching = {
  readonly source: KeySource
  readonly entry: Entry
  readonly clock: Clock
  readonly fetch: GuardedFetch
}

async function fetchKeys({ source, entry, clock, fetch }: Fetching): Promise<KeyResolver> {
  try {
    if (entry.metadata === null || !isYounger(clock, entry.metadata.at, METADATA_AGE_MILLIS_MAX)) {
      entry.metadata = { jwksUri: await discover(source, fetch), at: clock.now() }
    }
    const answer = await fetch(entry.metadata.jwksUri, { headers: { accept: 'application/json' } })
    if (answer.status !== 200) throw new ProviderUnavailable()
    const resolve = createLocalJWKSet(keySetOf(await answer.json()))
    entry.keys = { resolve, at: clock.now() }
    entry.failedAt = null
    return resolve
  } catch (cause) {
    // The key set may have moved: the next try discovers anew.
    entry.metadata = null
    entry.failedAt = clock.now()
    throw cause instanceof ProviderUnavailable ? cause : new ProviderUnavailable(cause)
  }
}

async function discover(source: KeySource, fetch: GuardedFetch): Promise<string> {
  const issuer = new URL(source.issuer)
  const answer = await discoveryRequest(issuer, {
    algorithm: 'oidc',
    [customFetch]: fetch,
    [allowInsecureRequests]: source.privateNetwork,
  })
  const metadata: AuthorizationServer = await processDiscoveryResponse(issuer, answer)
  // The library compares URLs; tokens are compared by the letter, so their issuer is too (section
  // 4.3).
  if (metadata.issuer !== source.issuer) throw new ProviderUnavailable()
  if (metadata.jwks_uri === undefined) throw new ProviderUnavailable()
  return metadata.jwks_uri
}

function keySetOf(answer: unknown): JSONWebKeySet {
  if (typeof answer !== 'object' || answer === null || !('keys' in answer)) {
    throw new ProviderUnavailable()
  }
  const { keys } = answer
  if (!Array.isArray(keys) || keys.length > KEYS_MAX) throw new ProviderUnavailable()
  return { keys }
}
