import { randomBytes } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose'

/**
 * What signs the demo providers' tokens: private keys as plain JSON, per tenant slug; the first one
 * signs.
 */
export type DemoIdpKeys = Readonly<Record<string, readonly JWK[]>>

export type DemoClientSecrets = {
  /** Of `lend-web`, the first-party client that people sign in through. */
  readonly people: string
  /** Of `renewal-app`, the demo agent's app. */
  readonly app: string
}

/**
 * All that must outlive a restart, so that tokens and cookies given out before it still hold. Plain
 * JSON.
 */
export type DemoIdpSecrets = {
  readonly keys: DemoIdpKeys
  readonly cookieSecret: string
  readonly clientSecrets: Readonly<Record<string, DemoClientSecrets>>
}

const secret = (): string => randomBytes(32).toString('base64url')

/** A signing key for one demo provider: ES256, named by its thumbprint (RFC 7638). */
export async function newDemoIdpKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const jwk = await exportJWK(privateKey)
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: 'ES256', use: 'sig' }
}

/**
 * Secrets of the demo's identity providers, random for each installation, one set for each tenant
 * slug.
 */
export async function newDemoIdpSecrets(slugs: readonly string[]): Promise<DemoIdpSecrets> {
  const keys = await Promise.all(
    slugs.map(async (slug) => [slug, [await newDemoIdpKey()]] as const),
  )
  return {
    keys: Object.fromEntries(keys),
    cookieSecret: secret(),
    clientSecrets: Object.fromEntries(
      slugs.map((slug) => [slug, { people: secret(), app: secret() }]),
    ),
  }
}
