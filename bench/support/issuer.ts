import { createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { createServer } from 'node:http'

/** The smallest OpenID Connect provider that Lend trusts: metadata, one ES256 key, tokens minted without ceremony. */
export type Issuer = {
  readonly issuer: string
  readonly mint: (of: {
    readonly subject: string
    readonly client: string
    readonly audience: string
  }) => string
  readonly stop: () => void
}

const KID = 'bench'
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

export function startIssuer(): Promise<Issuer> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = { ...createPublicKey(privateKey).export({ format: 'jwk' }), kid: KID, alg: 'ES256' }
  let issuer = ''
  const server = createServer((req, res) => {
    const body =
      req.url === '/jwks'
        ? { keys: [jwk] }
        : {
            issuer,
            jwks_uri: `${issuer}/jwks`,
            authorization_endpoint: `${issuer}/authorize`,
            token_endpoint: `${issuer}/token`,
            response_types_supported: ['code'],
            subject_types_supported: ['public'],
            id_token_signing_alg_values_supported: ['ES256'],
          }
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  const mint: Issuer['mint'] = ({ subject, client, audience }) => {
    const iat = Math.floor(Date.now() / 1000)
    const claims = { iss: issuer, sub: subject, aud: audience, azp: client, iat, exp: iat + 7200 }
    const signed = `${encoded({ typ: 'at+jwt', alg: 'ES256', kid: KID })}.${encoded(claims)}`
    const signature = sign('sha256', Buffer.from(signed), {
      key: privateKey,
      dsaEncoding: 'ieee-p1363',
    })
    return `${signed}.${signature.toString('base64url')}`
  }
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      issuer = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
      resolve({ issuer, mint, stop: () => server.close() })
    })
  })
}
