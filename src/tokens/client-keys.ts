import { createPublicKey, generateKeyPairSync, type JsonWebKey } from 'node:crypto'
import type { FieldError } from '../fault.ts'

/**
 * The keys with which clients sign their assertions. One row for each kind of key says what it may sign with: what is
 * not in the table is not accepted, and an algorithm is never taken from a token alone.
 */
const EC_ALGS = { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512' } as const
const RSA_ALGS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const
const ED_ALGS = ['Ed25519', 'EdDSA'] as const

/** For `token_endpoint_auth_signing_alg_values_supported` (RFC 8414). */
export const ASSERTION_ALGS = [...Object.values(EC_ALGS), ...RSA_ALGS, ...ED_ALGS] as const
export type AssertionAlg = (typeof ASSERTION_ALGS)[number]

const ALG_NAMES: ReadonlySet<unknown> = new Set(ASSERTION_ALGS)
export const isAssertionAlg = (alg: unknown): alg is AssertionAlg => ALG_NAMES.has(alg)

const KEYS_MAX = 10
const RSA_BITS_MIN = 2048
const RSA_BITS_MAX = 8192
const RSA_EXPONENT_MIN = 65_537n
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']
const BASE64URL = /^[A-Za-z0-9_-]+$/

/** Only an object so far: `keyProblem` checks its members one by one, and OpenSSL the rest. */
const isJwk = (value: unknown): value is JsonWebKey =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The keys of a registered set, not checked; none if it is no set. */
export function keysIn(jwks: unknown): readonly JsonWebKey[] {
  if (typeof jwks !== 'object' || jwks === null || !('keys' in jwks)) return []
  return Array.isArray(jwks.keys) ? jwks.keys.filter(isJwk).slice(0, KEYS_MAX) : []
}

/** The algorithms a key may sign with: its own `alg` if it names one, else all that suit its type. */
export function algsOf(key: JsonWebKey): readonly AssertionAlg[] {
  const suiting = algsByType(key)
  return key.alg === undefined ? suiting : suiting.filter((alg) => alg === key.alg)
}

function algsByType(key: JsonWebKey): readonly AssertionAlg[] {
  if (key.kty === 'RSA') return RSA_ALGS
  if (key.kty === 'OKP') return key.crv === 'Ed25519' ? ED_ALGS : []
  if (key.kty !== 'EC') return []
  if (key.crv === 'P-256' || key.crv === 'P-384' || key.crv === 'P-521') return [EC_ALGS[key.crv]]
  return []
}

/**
 * What is wrong with a JWK set that an agent registers; empty if nothing is. Public keys only, at most ten, each EC
 * (P-256, P-384, P-521, the point on its curve), RSA (2048 to 8192 bits, e at least 65537 and odd) or Ed25519, no `kid`
 * twice. Paths are as in `keys.0.n`.
 */
export function checkRegisteredJwks(jwks: unknown): FieldError[] {
  const keys: unknown = typeof jwks === 'object' && jwks !== null && 'keys' in jwks && jwks.keys
  if (!Array.isArray(keys)) return [{ path: 'keys', message: 'must be a list of keys' }]
  if (keys.length === 0) return [{ path: 'keys', message: 'needs at least one key' }]
  if (keys.length > KEYS_MAX) return [{ path: 'keys', message: `takes at most ${KEYS_MAX} keys` }]
  const kids = new Set<unknown>()
  return keys.flatMap((key: unknown, i) => {
    const path = `keys.${i}`
    if (!isJwk(key)) return [{ path, message: 'must be an object' }]
    const twice = key.kid !== undefined && kids.has(key.kid)
    kids.add(key.kid)
    if (twice) return [{ path: `${path}.kid`, message: 'is the kid of another key too' }]
    const problem = keyProblem(key)
    return problem === null ? [] : [{ path: `${path}.${problem.path}`, message: problem.message }]
  })
}

/** The first thing wrong with one key, or null; the path is within the key. */
export function keyProblem(key: JsonWebKey): FieldError | null {
  const secret = PRIVATE_MEMBERS.find((name) => Object.hasOwn(key, name))
  if (secret !== undefined)
    return { path: secret, message: 'is part of a private or shared key: register the public key' }
  if (algsByType(key).length === 0)
    return { path: 'kty', message: 'must be EC on P-256, P-384 or P-521, RSA, or OKP with Ed25519' }
  if (algsOf(key).length === 0) return { path: 'alg', message: 'does not suit the key' }
  if (key.kid !== undefined && (typeof key.kid !== 'string' || key.kid.length > 255))
    return { path: 'kid', message: 'must be a string of at most 255 characters' }
  if (key.use !== undefined && key.use !== 'sig') return { path: 'use', message: 'must be sig' }
  if (key.key_ops !== undefined && !(Array.isArray(key.key_ops) && key.key_ops.includes('verify')))
    return { path: 'key_ops', message: 'must include verify' }
  const rsa = key.kty === 'RSA' ? rsaProblem(key) : null
  if (rsa !== null) return rsa
  try {
    // OpenSSL refuses a point that is not on the curve.
    createPublicKey({ key, format: 'jwk' })
    return null
  } catch {
    return { path: key.kty === 'RSA' ? 'n' : 'x', message: 'is not a key of its kind' }
  }
}

function rsaProblem(key: JsonWebKey): FieldError | null {
  const n = number(key.n)
  if (n === null || bits(n) < RSA_BITS_MIN || bits(n) > RSA_BITS_MAX)
    return { path: 'n', message: `must have ${RSA_BITS_MIN} to ${RSA_BITS_MAX} bits` }
  const e = number(key.e)
  if (e === null || e < RSA_EXPONENT_MIN || e % 2n === 0n || bits(e) > 64)
    return { path: 'e', message: `must be odd and at least ${RSA_EXPONENT_MIN}` }
  return null
}

const bits = (value: bigint): number => value.toString(2).length

function number(value: unknown): bigint | null {
  // 8192 bits are 1366 characters: nothing longer is worth converting.
  if (typeof value !== 'string' || value.length > 1500 || !BASE64URL.test(value)) return null
  return BigInt(`0x0${Buffer.from(value, 'base64url').toString('hex')}`)
}

/** Nobody has its private part: what an assertion is checked against when its client has no key that fits. */
export const DUMMY_JWK: JsonWebKey = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
}).publicKey.export({ format: 'jwk' })
