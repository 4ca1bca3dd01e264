import { createPrivateKey, type JsonWebKey, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { SignJWT } from 'jose'
import { algsOf } from '../tokens/client-keys.ts'
import { CliProblem } from './run-file.ts'

const ASSERTION_LIFE_SECONDS = 60

/** Only that it has the private part: whether the key is whole shows when it signs. */
const isPrivateKey = (value: unknown): value is JsonWebKey =>
  typeof value === 'object' && value !== null && 'd' in value && typeof value.d === 'string'

function keyIn(file: string): JsonWebKey {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    const why = error instanceof SyntaxError ? 'is not JSON' : 'cannot be read'
    throw new CliProblem(`LEND_CLIENT_KEY: ${file} ${why}.`)
  }
  if (!isPrivateKey(value))
    throw new CliProblem(`LEND_CLIENT_KEY: ${file} is not a private key as a JSON Web Key.`)
  return value
}

/** An assertion that the client signs of itself, good for one call at this issuer (RFC 7523 section 3). */
async function assertionBy(file: string, clientId: string, issuer: string): Promise<string> {
  const key = keyIn(file)
  const [alg] = algsOf(key)
  if (alg === undefined)
    throw new CliProblem(
      `LEND_CLIENT_KEY: ${file} is no key that signs: EC, RSA and Ed25519 keys do.`,
    )
  try {
    const now = Math.floor(Date.now() / 1000)
    return await new SignJWT({ jti: randomUUID() })
      .setProtectedHeader({ alg, ...(typeof key.kid === 'string' ? { kid: key.kid } : {}) })
      .setIssuer(clientId)
      .setSubject(clientId)
      .setAudience(issuer)
      .setIssuedAt(now)
      .setExpirationTime(now + ASSERTION_LIFE_SECONDS)
      .sign(createPrivateKey({ key, format: 'jwk' }))
  } catch {
    throw new CliProblem(`LEND_CLIENT_KEY: ${file} cannot sign; is the key whole?`)
  }
}

/**
 * The Authorization header of a service's client: signed by the key in the file of LEND_CLIENT_KEY (`private_key_jwt`), or its
 * secret of LEND_CLIENT_SECRET. Throws `CliProblem` unless exactly one of them is set and usable.
 */
export async function serviceAuthorization(
  env: NodeJS.ProcessEnv,
  of: { readonly clientId: string; readonly issuer: string },
): Promise<string> {
  const { LEND_CLIENT_SECRET: secret, LEND_CLIENT_KEY: key } = env
  if (!secret && !key)
    throw new CliProblem(
      'Put the client’s secret in LEND_CLIENT_SECRET, or the file of its private key in LEND_CLIENT_KEY.',
    )
  if (secret && key)
    throw new CliProblem('Set LEND_CLIENT_SECRET or LEND_CLIENT_KEY, not both of them.')
  if (key) return `Bearer ${await assertionBy(key, of.clientId, of.issuer)}`
  const pair = [of.clientId, secret ?? ''].map(encodeURIComponent).join(':')
  return `Basic ${Buffer.from(pair).toString('base64')}`
}
