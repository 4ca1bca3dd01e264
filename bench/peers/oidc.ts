import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createLocalJWKSet, jwtVerify } from 'jose'
import type { Configuration, default as Provider } from 'oidc-provider'
import { serve } from '../support/peer.ts'

/**
 * The peer of T1 and T2: oidc-provider with its own in-memory adapter. One confidential client, ES256 JWT access tokens;
 * `client_credentials` as the library has it, and a token exchange as a grant of its own.
 */
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const AUDIENCE = 'https://api.bench.example'
const CLIENT = { id: 'bench', secret: randomBytes(32).toString('base64url') }

// The library says at its start that it is a development set-up; what is measured here is one.
console.warn = () => {}
const { default: OidcProvider } = await import('oidc-provider')

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const jwk = { ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig', kid: 'bench' }
const { d: _, ...publicJwk } = jwk
const keys = createLocalJWKSet({ keys: [publicJwk as { kty: string }] })

const resourceServer = {
  scope: '',
  audience: AUDIENCE,
  accessTokenTTL: 900,
  accessTokenFormat: 'jwt' as const,
  jwt: { sign: { alg: 'ES256' as const } },
}

/** What a subject holds: five grants, as in the session that Lend issues for. */
const held = new Map([
  [
    'bench-user',
    [
      'accounts:read',
      'accounts.rows:my_region',
      'email:send',
      'dashboard:view',
      'dashboard:view',
    ].map((permission, i) => ({
      type: 'lend_api',
      permission,
      actions: ['read'],
      identifier: `thing/${i}`,
      grant_id: randomUUID(),
    })),
  ],
])

const configuration: Configuration = {
  clients: [
    {
      client_id: CLIENT.id,
      client_secret: CLIENT.secret,
      grant_types: ['client_credentials', EXCHANGE],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_basic',
    },
  ],
  jwks: { keys: [jwk as never] },
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => AUDIENCE,
      useGrantedResource: () => true,
      getResourceServerInfo: () => resourceServer,
    },
  },
  extraTokenClaims: (_ctx, token) => {
    const accountId = 'accountId' in token ? token.accountId : undefined
    return accountId === undefined
      ? undefined
      : { authorization_details: held.get(accountId) ?? [] }
  },
}

const taken: { handle?: (req: IncomingMessage, res: ServerResponse) => void } = {}
const server = createServer((req, res) => taken.handle?.(req, res))
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const address = server.address()
const port = typeof address === 'object' && address ? address.port : 0
const provider = new OidcProvider(`http://127.0.0.1:${port}`, configuration)
provider.on('server_error', (_ctx, error: Error) => console.error(error))

async function subjectOf(token: unknown, issuer: string): Promise<string> {
  const { payload } = await jwtVerify(String(token), keys, {
    issuer,
    audience: AUDIENCE,
    typ: 'at+jwt',
    algorithms: ['ES256'],
  })
  return payload.sub ?? ''
}

function addExchange(to: Provider): void {
  const parameters = ['subject_token', 'subject_token_type', 'resource']
  to.registerGrantType(
    EXCHANGE,
    async (ctx) => {
      const { client, params } = ctx.oidc
      if (client === undefined) throw new Error('no client')
      const accountId = await subjectOf(params?.subject_token, to.issuer)
      const token = new to.AccessToken({ accountId, client, gty: EXCHANGE } as never)
      token.resourceServer = new to.ResourceServer(AUDIENCE, resourceServer)
      ctx.body = {
        access_token: await token.save(),
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: token.tokenType,
        expires_in: token.expiration,
        authorization_details: held.get(accountId),
      }
    },
    parameters,
    ['resource'],
  )
}
addExchange(provider)
taken.handle = provider.callback()

const user = new provider.AccessToken({
  accountId: 'bench-user',
  client: await provider.Client.find(CLIENT.id),
} as never)
user.resourceServer = new provider.ResourceServer(AUDIENCE, resourceServer)
serve({ port, ...CLIENT, subjectToken: await user.save(), exchange: EXCHANGE })
