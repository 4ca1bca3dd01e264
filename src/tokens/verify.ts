import { verify } from 'node:crypto'
import { serviceClaimsSchema, sessionClaimsSchema } from '../../schema/claims.ts'
import type { TenantRef } from '../callers.ts'
import type { SessionClaims } from '../core/claims.ts'
import type { ServiceClaims } from '../core/service-claims.ts'
import { type Failed, fail, ok, type Result } from '../fault.ts'
import {
  type Compact,
  canonicalObject,
  compactParts,
  type JsonObject,
  jsonObject,
} from './compact.ts'
import type { KeyStore, SigningAlg, VerifierKey } from './keys.ts'

export type TokenHeader = {
  readonly typ: 'at+jwt' | 'application/at+jwt'
  readonly alg: SigningAlg
  readonly kid: string
}

export type VerifiedSessionToken = { readonly claims: SessionClaims; readonly header: TokenHeader }

/**
 * Instances' clocks differ a little, so a token may seem to be issued this many seconds from now. There is no leeway at
 * its end, and its life is bounded by its own `iat`, so this lengthens nothing.
 */
const ISSUED_AHEAD_SECONDS_MAX = 2
/** An RFC 7638 thumbprint: SHA-256 in base64url. Anything else is not looked for. */
const KID = /^[A-Za-z0-9_-]{43}$/
const HEADER_MEMBERS = 3

// One fault for all: a prober learns nothing from the way in which a token is bad.
const refused = (): Failed => fail('unauthenticated')

/** Exactly `typ`, `alg` and `kid`: so `crit`, `jku`, `jwk`, `x5u`, `x5c` and the rest are refused, not ignored. */
function headerOf(text: string): TokenHeader | null {
  const header = canonicalObject(text)
  if (header === null || Object.keys(header).length !== HEADER_MEMBERS) return null
  const { typ, alg, kid } = header
  if (typ !== 'at+jwt' && typ !== 'application/at+jwt') return null
  if (alg !== 'ES256' && alg !== 'RS256') return null
  if (typeof kid !== 'string' || !KID.test(kid)) return null
  return { typ, alg, kid }
}

/**
 * Whether the key made the signature. The algorithm is the key's own, never the token's word. Synchronous: measured at
 * 0.7 (ES256) and 0.5 (RS256) of the time through WebCrypto; `test/tokens` runs the same vectors over both.
 */
export function signatureHolds(
  parts: Pick<Compact, 'signed' | 'signature'>,
  key: Pick<VerifierKey, 'alg' | 'publicKey'>,
): boolean {
  const modulusBits = key.publicKey.asymmetricKeyDetails?.modulusLength ?? 0
  // RFC 7518 sections 3.3 and 3.4: r and s of 32 bytes each, or as long as the modulus. DER has another length.
  if (parts.signature.length !== (key.alg === 'ES256' ? 64 : Math.ceil(modulusBits / 8)))
    return false
  try {
    return verify(
      'sha256',
      Buffer.from(parts.signed, 'latin1'),
      { key: key.publicKey, dsaEncoding: 'ieee-p1363' },
      parts.signature,
    )
  } catch {
    return false
  }
}

export type VerifyInput = {
  readonly token: string
  readonly tenant: TenantRef
  readonly issuer: string
  /** One or several; a token has exactly one. */
  readonly audience: string | readonly string[]
  /** Seconds. */
  readonly now: number
}

/**
 * Verifies a session token by itself (RFC 9068 section 4): what can be told without asking whether the session still
 * lives. In this order: form, header, key, signature, claims. `audience` is what the caller answers for, one or
 * several; a token has exactly one. `now` in seconds.
 *
 * Any defect is the fault `unauthenticated`. Throws only if the tenant's keys cannot be read, so an outage verifies
 * nothing (I19).
 */
export async function verifySessionToken(
  keys: Pick<KeyStore, 'verifierKeys'>,
  input: VerifyInput,
): Promise<Result<VerifiedSessionToken>> {
  const signed = await signedIn(keys, input)
  if (signed === null) return refused()
  const claims = sessionClaimsIn(signed.payload)
  if (claims === null || !isFor(claims, input)) return refused()
  return ok({ claims, header: signed.header })
}

export type VerifiedServiceToken = { readonly claims: ServiceClaims; readonly header: TokenHeader }

/** The same for a service account's token. A session's is refused here, and this one there. */
export async function verifyServiceToken(
  keys: Pick<KeyStore, 'verifierKeys'>,
  input: VerifyInput,
): Promise<Result<VerifiedServiceToken>> {
  const signed = await signedIn(keys, input)
  const object = signed === null ? null : canonicalObject(signed.payload)
  const parsed = object === null ? null : serviceClaimsSchema.safeParse(object)
  if (signed === null || !parsed?.success || !isFor(parsed.data, input)) return refused()
  return ok({ claims: parsed.data, header: signed.header })
}

/** What one of the tenant's keys has signed, or null. */
async function signedIn(
  keys: Pick<KeyStore, 'verifierKeys'>,
  input: VerifyInput,
): Promise<{ readonly header: TokenHeader; readonly payload: string } | null> {
  const parts = compactParts(input.token)
  if (parts === null) return null
  const header = headerOf(parts.header)
  if (header === null) return null
  // I17: only the keys of this tenant are looked at, whatever the token says.
  const key = (await keys.verifierKeys(input.tenant.id, header.kid)).get(header.kid)
  if (key === undefined || key.alg !== header.alg) return null
  return signatureHolds(parts, key) ? { header, payload: parts.payload } : null
}

function sessionClaimsIn(payload: string): (SessionClaims & { readonly nbf?: number }) | null {
  const object = canonicalObject(payload)
  if (object === null) return null
  const parsed = sessionClaimsSchema.safeParse(object)
  return parsed.success ? parsed.data : null
}

function isFor(
  claims: Pick<SessionClaims, 'iss' | 'tenant' | 'aud' | 'exp' | 'iat'> & { readonly nbf?: number },
  input: Omit<VerifyInput, 'token'>,
): boolean {
  const latestStart = input.now + ISSUED_AHEAD_SECONDS_MAX
  const audiences = typeof input.audience === 'string' ? [input.audience] : input.audience
  return (
    claims.iss === input.issuer &&
    claims.tenant === input.tenant.slug &&
    audiences.includes(claims.aud) &&
    claims.exp > input.now &&
    claims.iat <= latestStart &&
    (claims.nbf ?? 0) <= latestStart
  )
}

/** What a token says of itself, nothing of it verified: only to choose which verifier to ask, and what to refuse unseen. */
export function unverifiedClaims(token: string): JsonObject {
  const [, payload = ''] = token.split('.', 2)
  return jsonObject(Buffer.from(payload, 'base64url').toString()) ?? {}
}

/** Whether a token says of itself that it is a service account's. */
export const looksLikeServiceToken = (said: JsonObject): boolean => 'service_version' in said

/**
 * Whether a token says of itself that it is a token of this deployment. Not evidence of anything. `publicUrl` has no slash at its
 * end.
 */
export function looksLikeLendToken(said: JsonObject, publicUrl: string): boolean {
  if (typeof said.iss === 'string' && said.iss.startsWith(`${publicUrl}/t/`)) return true
  return typeof said.sid === 'string' && 'session_version' in said
}
