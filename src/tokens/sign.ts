import { sign } from 'node:crypto'
import { assert } from '../core/assert.ts'
import type { SessionClaims } from '../core/claims.ts'
import { TOKEN_LIFE_SECONDS_MAX } from '../core/limits.ts'
import type { ServiceClaims } from '../core/service-claims.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { TOKEN_LENGTH_MAX } from './compact.ts'
import type { KeyStore, SigningAlg, SigningKey } from './keys.ts'

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/**
 * A JWS in compact form (RFC 7515 section 7.1). Synchronous on purpose: through WebCrypto an ES256 signature costs
 * about 1.7 times as much, and what is signed here is only ever our own claims.
 */
function compact(key: SigningKey, payload: unknown): string {
  const signed = `${encoded({ typ: 'at+jwt', alg: key.alg, kid: key.kid })}.${encoded(payload)}`
  const signature = sign('sha256', Buffer.from(signed, 'latin1'), {
    key: key.privateKey,
    // JWS wants r and s side by side (RFC 7518 section 3.4); RSA ignores this.
    dsaEncoding: 'ieee-p1363',
  })
  return `${signed}.${signature.toString('base64url')}`
}

/**
 * Signs a session's or a service account's token with the tenant's active key; the header is exactly `{typ: 'at+jwt', alg,
 * kid}` (RFC 9068 section 2.1).
 * Throws when the tenant has no key or the claims are not what a token may carry: those are bugs, found before the
 * token is out. A token longer than `TOKEN_LENGTH_MAX` could not be presented to anyone, so it is one too.
 */
export async function signToken(
  keys: KeyStore,
  input: {
    readonly tenantId: TenantId
    readonly claims: SessionClaims | ServiceClaims
    readonly alg?: SigningAlg
  },
): Promise<string> {
  const { claims } = input
  assert(Array.isArray(claims.authorization_details), 'an empty set of grants is written out')
  assert(claims.exp > claims.iat, 'a token is not issued dead')
  assert(claims.exp - claims.iat <= TOKEN_LIFE_SECONDS_MAX, 'I4: a token lives 15 minutes at most')
  const token = compact(await keys.signer(input.tenantId, input.alg), claims)
  assert(token.length <= TOKEN_LENGTH_MAX, 'a token fits in a request header')
  return token
}
