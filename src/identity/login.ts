import { KeyObject } from 'node:crypto'
import { types } from 'node:util'
import {
  decodeJwt,
  decodeProtectedHeader,
  errors,
  type JWTClaimVerificationOptions,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
  UnsecuredJWT,
} from 'jose'
import { fail, ok, type Result } from '../fault.ts'
import type { Clock } from '../ports.ts'
import { compactParts } from '../tokens/compact.ts'
import { signatureHolds } from '../tokens/verify.ts'
import { createProviderKeys, ProviderUnavailable } from './provider-keys.ts'
import { isText, readClaims } from './user-claims.ts'

/**
 * An identity provider that a tenant trusts, as its row says; only active ones are ever passed
 * here.
 */
export type Provider = {
  readonly id: string
  readonly issuer: string
  /**
   * Names this tenant as an API at its provider. Never a client's id: that is what ID tokens are
   * for.
   */
  readonly audience: string
  readonly firstPartyClients: readonly string[]
  readonly createsUsers: boolean
  /** The operator says that this provider is reached by plain http or inside a private network. */
  readonly privateNetwork: boolean
}

export type UserProfile = {
  readonly login?: string
  readonly name?: string
  readonly email?: string
}

export type VerifiedUserToken = {
  readonly provider: Provider
  readonly issuer: string
  readonly subject: string
  /** The app that the token was issued to: `azp`, or else `client_id` (RFC 9068 section 2.2). */
  readonly clientId: string | null
  /** Who else the token says may act for its subject: `may_act.sub` (RFC 8693 section 4.4). */
  readonly mayAct: string | null
  /** Seconds since the epoch. */
  readonly expiresAt: number
  readonly profile: UserProfile
}

export type UserTokenVerifier = {
  readonly verify: (
    token: string,
    providers: readonly Provider[],
  ) => Promise<Result<VerifiedUserToken>>
  readonly checkIssuer: (
    source: Pick<Provider, 'issuer' | 'privateNetwork'>,
  ) => Promise<Result<true>>
  /** Issuers that did not answer when they were last asked; absent: nobody remembers. */
  readonly unreachable?: () => readonly string[]
}

const TOKEN_CHARACTERS_MAX = 16 * 1024
const CLOCK_TOLERANCE_SECONDS = 5
/** RFC 7518 section 3.3. */
const RSA_BITS_MIN = 2048
const UNSECURED = Buffer.from('{"alg":"none"}').toString('base64url')

/**
 * Signatures by a key that only the provider has. No MACs: their key would be one we publish or
 * share.
 */
const ALGORITHMS = [
  'ES256',
  'ES384',
  'ES512',
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'EdDSA',
  'Ed25519',
]

/**
 * What access tokens call themselves (RFC 9068 section 2.1); providers that predate it say `JWT` or
 * nothing.
 */
const TYPES = new Set(['at+jwt', 'application/at+jwt', 'jwt'])

/**
 * Headers by which a token would choose its own key, or change what is signed. None is ever
 * followed.
 */
const REFUSED_HEADERS = ['crit', 'jku', 'jwk', 'x5u', 'x5c', 'b64', 'zip']

/** Whom a token says it is about, before anything of it is verified. Null when that could be nobody. */
export function namedIn(
  token: string,
): { readonly issuer: string; readonly subject: string } | null {
  const claims = decode(token)
  return claims === null || !isText(claims.iss) || !isText(claims.sub)
    ? null
    : { issuer: claims.iss, subject: claims.sub }
}

/**
 * Verifies users' access tokens from the identity providers of a tenant (SPEC section 6, step 1).
 *
 * `verify` faults: `subject_token_invalid` for every token that is not acceptable, without saying
 * why; `provider_unavailable` when the provider's keys cannot be had, so that nothing was decided
 * about the token. It never accepts on old keys: see `createProviderKeys` for how long keys serve
 * (10 minutes) and how new ones are found. Whether the token is for the agent or the app that
 * presents it, and who the user is, is for the caller to decide.
 *
 * `checkIssuer` is for setting a provider up: `unprocessable` if the issuer cannot be one,
 * `provider_unavailable` if it does not answer with metadata and keys.
 */
export function createUserTokenVerifier(options: {
  readonly publicUrl: string
  readonly clock: Clock
  /** How long one request to a provider may take; 5 seconds by default. */
  readonly fetchMillisMax?: number
}): UserTokenVerifier {
  const { publicUrl, clock } = options
  const keys = createProviderKeys(clock, options.fetchMillisMax)

  const verify: UserTokenVerifier['verify'] = async (token, providers) => {
    const unverified = decode(token)
    if (unverified === null) return fail('subject_token_invalid')
    if (isOwnIssuer(publicUrl, unverified.iss)) return fail('subject_token_invalid')
    const matching = providers.filter((provider) => provider.issuer === unverified.iss)
    const [provider] = matching
    if (provider === undefined || matching.length !== 1) return fail('subject_token_invalid')
    // Before any request goes out: a token that no signature could save asks nothing of its
    // provider.
    if (readClaims(unverified, provider) === null) return fail('subject_token_invalid')
    const rules = {
      issuer: provider.issuer,
      audience: provider.audience,
      requiredClaims: ['exp', 'sub'],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: new Date(clock.now()),
    }
    try {
      const payload = await verifiedPayload(token, keys.keysOf(provider), rules)
      const read = readClaims(payload, provider)
      return read === null ? fail('subject_token_invalid') : ok({ provider, ...read })
    } catch (error) {
      if (error instanceof ProviderUnavailable) return fail('provider_unavailable')
      if (error instanceof errors.JOSEError) return fail('subject_token_invalid')
      // What is left can only be a published key that cannot be imported: the provider's defect.
      return fail('provider_unavailable')
    }
  }

  const checkIssuer: UserTokenVerifier['checkIssuer'] = async (source) => {
    const url = URL.canParse(source.issuer) ? new URL(source.issuer) : null
    if (url === null || url.search !== '' || url.hash !== '' || url.username !== '') {
      return fail('unprocessable', { detail: 'An issuer is an absolute URL with no query.' })
    }
    if (isOwnIssuer(publicUrl, source.issuer)) {
      return fail('unprocessable', { detail: 'Lend’s own issuers cannot be identity providers.' })
    }
    try {
      await keys.probe(source)
      return ok(true)
    } catch (error) {
      if (error instanceof ProviderUnavailable) return fail('provider_unavailable')
      throw error
    }
  }

  return { verify, checkIssuer, unreachable: keys.unreachable }
}

/**
 * jose's verification, with the signature checked synchronously for the two algorithms that providers sign nearly every
 * token with: through WebCrypto it costs a second thread and 1.6 times as much. The key is jose's choice, and the claims are
 * checked by jose: as those of an unsecured token, once the signature has been found good. `test/tokens` runs the vectors of
 * project Wycheproof over both ways of checking.
 */
async function verifiedPayload(
  token: string,
  keys: JWTVerifyGetKey,
  rules: JWTClaimVerificationOptions,
): Promise<JWTPayload> {
  const parts = compactParts(token)
  const header = decodeProtectedHeader(token)
  if (parts === null || (header.alg !== 'ES256' && header.alg !== 'RS256'))
    return (await jwtVerify(token, keys, { algorithms: ALGORITHMS, ...rules })).payload
  const [first = '', payload = '', signature = ''] = token.split('.')
  const key = await keys({ ...header, alg: header.alg }, { payload, protected: first, signature })
  if (!types.isCryptoKey(key)) throw new errors.JWKSInvalid('the key set holds no public key')
  const publicKey = KeyObject.from(key)
  const bits = publicKey.asymmetricKeyDetails?.modulusLength
  if (bits !== undefined && bits < RSA_BITS_MIN) throw new errors.JWSSignatureVerificationFailed()
  if (!signatureHolds(parts, { alg: header.alg, publicKey }))
    throw new errors.JWSSignatureVerificationFailed()
  return UnsecuredJWT.decode(`${UNSECURED}.${payload}.`, rules).payload
}

/**
 * A session token is not a user's token, whatever is configured: no session may start another as
 * its user.
 */
function isOwnIssuer(publicUrl: string, issuer: unknown): boolean {
  if (typeof issuer !== 'string') return false
  const own = new URL(`${publicUrl}/t/`).href
  return (
    issuer.startsWith(`${publicUrl}/t/`) ||
    (URL.canParse(issuer) && new URL(issuer).href.startsWith(own))
  )
}

/**
 * The unverified claims of a token whose form and header are acceptable, else null. Names nothing
 * as true.
 */
function decode(token: string): JWTPayload | null {
  if (token.length > TOKEN_CHARACTERS_MAX) return null
  const parts = token.split('.')
  if (parts.length !== 3 || !parts.every(isCanonical)) return null
  try {
    const header = decodeProtectedHeader(token)
    if (REFUSED_HEADERS.some((name) => Object.hasOwn(header, name))) return null
    if (typeof header.alg !== 'string' || !ALGORITHMS.includes(header.alg)) return null
    if (header.typ !== undefined && !TYPES.has(String(header.typ).toLowerCase())) return null
    return decodeJwt(token)
  } catch {
    // Not JSON, or not the JSON of a JWT. Nothing else can go wrong in decoding.
    return null
  }
}

/**
 * One spelling for each value (RFC 7515 section 2): no padding, no stray bits, no second form of
 * the same token.
 */
const isCanonical = (part: string): boolean =>
  /^[A-Za-z0-9_-]+$/.test(part) && Buffer.from(part, 'base64url').toString('base64url') === part
