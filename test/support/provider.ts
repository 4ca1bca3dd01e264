import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'

/** A small identity provider of a test's own: metadata, keys, and tokens with whatever claims a test wants. */
export type TestProvider = {
  readonly issuer: string
  readonly mint: (claims: JWTPayload, header?: Record<string, unknown>) => Promise<string>
  /** How often it was asked for anything. */
  readonly asked: () => number
  readonly close: () => Promise<void>
}

export async function testProvider(): Promise<TestProvider> {
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: 'test', alg: 'ES256', use: 'sig' }
  let asked = 0
  const server = createServer((req, res) => {
    asked++
    const documents: Record<string, object> = {
      '/.well-known/openid-configuration': {
        issuer,
        jwks_uri: `${issuer}/keys`,
        authorization_endpoint: `${issuer}/authorize`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
      },
      '/keys': { keys: [jwk] },
    }
    const found = documents[req.url ?? '']
    res.writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' })
    res.end(JSON.stringify(found ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    issuer,
    asked: () => asked,
    mint: (claims, header = {}) => {
      const now = Math.floor(Date.now() / 1000)
      return new SignJWT(
        JSON.parse(JSON.stringify({ iss: issuer, iat: now, exp: now + 600, ...claims })),
      )
        .setProtectedHeader({ alg: 'ES256', kid: 'test', typ: 'at+jwt', ...header })
        .sign(privateKey)
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
