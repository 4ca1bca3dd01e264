import { verify } from 'node:crypto'
import { sessionClaimsSchema } from '../../schema/claims.ts'
import type { TenantRef } from '../callers.ts'
import type { SessionClaims } from '../core/claims.ts'
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
  input: {
    readonly token: string
    readonly tenant: TenantRef
    readonly issuer: string
    readonly audience: string | readonly string[]
    readonly now: number
  },
): Promise<Result<VerifiedSessionToken>> {
  const parts = compactParts(input.token)
  if (parts === null) return refused()
  const header = headerOf(parts.header)
  if (header === null) return refused()
  // I17: only the keys of this tenant are looked at, whatever the token says.
  const key = (await keys.verifierKeys(input.tenant.id, header.kid)).get(header.kid)
  if (key === undefined || key.alg !== header.alg) return refused()
  if (!signatureHolds(parts, key)) return refused()
  const claims = claimsIn(parts.payload)
  if (claims === null || !isFor(claims, input)) return refused()
  return ok({ claims, header })
}

function claimsIn(payload: string): (SessionClaims & { readonly nbf?: number }) | null {
  const object = canonicalObject(payload)
  if (object === null) return null
  const parsed = sessionClaimsSchema.safeParse(object)
  return parsed.success ? parsed.data : null
}

function isFor(
  claims: SessionClaims & { readonly nbf?: number },
  input: {
    readonly tenant: TenantRef
    readonly issuer: string
    readonly audience: string | readonly string[]
    readonly now: number
  },
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

/**
 * Whether a token says of itself that it is a session token of this deployment. Not evidence of anything: it serves to
 * refuse Lend's tokens where a user's is wanted, and to choose which verifier to ask. `publicUrl` has no slash at its end.
 */
export function looksLikeLendToken(token: string, publicUrl: string): boolean {
  const [, payload = ''] = token.split('.', 2)
  const claims: JsonObject = jsonObject(Buffer.from(payload, 'base64url').toString()) ?? {}
  if (typeof claims.iss === 'string' && claims.iss.startsWith(`${publicUrl}/t/`)) return true
  return typeof claims.sid === 'string' && 'session_version' in claims
}
