import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'

/**
 * A stand-in for Lend's public addresses that a test can make answer anything, and the keys to sign
 * anything with.
 */
export type Issuer = {
  readonly issuer: string
  readonly audience: string
  /**
   * What introspection answers; a number is a status, `hang` never answers, `cut` drops the
   * connection.
   */
  live: object | number | 'hang' | 'cut'
  /** As `live`, for the call reports. */
  calls: number | 'cut'
  keysDown: boolean
  metadata: Readonly<Record<string, unknown>>
  readonly reports: { readonly key: string | undefined; readonly body: Reported }[]
  readonly introspections: () => number
  readonly claims: (changes?: Readonly<Record<string, unknown>>) => Record<string, unknown>
  readonly token: (
    changes?: Readonly<Record<string, unknown>>,
    signing?: { readonly header?: Record<string, unknown>; readonly key?: CryptoKey | Uint8Array },
  ) => Promise<string>
  readonly publicJwk: JWK
  readonly close: () => Promise<void>
}

export type Reported = {
  readonly calls: readonly Readonly<Record<string, unknown>>[]
  readonly lost?: number
}

export const CREDENTIALS = { clientId: 'epc_1', clientSecret: 's3cret:with/odd&chars' }
export const GRANT = {
  type: 'lend_api',
  permission: 'accounts:read',
  actions: ['read'],
  grant_id: 'grt_1',
}

async function bodyOf(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).toString()
}

const goodClaims = (issuer: string, audience: string) => {
  const now = Math.floor(Date.now() / 1000)
  const act = {
    iss: issuer,
    sub: 'agt_1',
    sub_profile: 'ai_agent',
    sid: 'ses_1',
    template: 'renewal-briefs@3',
  }
  return {
    iss: issuer,
    aud: audience,
    sub: 'ses_1',
    client_id: 'agt_1',
    jti: 'j1',
    iat: now,
    exp: now + 900,
    sid: 'ses_1',
    root_sid: 'ses_1',
    session_version: 1,
    tenant: 'acme',
    template: 'renewal-briefs@3',
    on_behalf_of: 'usr_maya',
    act,
    authorization_details: [GRANT],
    scope: 'accounts:read',
  }
}

/** Listens on a loopback port of its own; close it when done. */
export async function startIssuer(): Promise<Issuer> {
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
  const kid = 'k1'
  const publicJwk = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }
  let introspections = 0
  const server = createServer(async (req, res) => {
    const json = (status: number, body: unknown) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (req.url === '/.well-known/oauth-authorization-server/t/acme') return json(200, it.metadata)
    if (req.url === '/t/acme/oauth/jwks')
      return it.keysDown ? json(503, {}) : json(200, { keys: [publicJwk] })
    const isReport = req.url === '/t/acme/enforce/calls'
    const behaviour = isReport ? it.calls : it.live
    if (behaviour === 'cut') return void req.socket.destroy()
    if (behaviour === 'hang') return
    const body = await bodyOf(req)
    if (isReport) {
      const key = req.headers['idempotency-key']
      it.reports.push({ key: key?.toString(), body: JSON.parse(body) })
      return json(Number(it.calls), {})
    }
    introspections++
    if (typeof it.live === 'number') return json(it.live, {})
    return json(200, it.live)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const issuer = `${origin}/t/acme`
  const audience = `${origin}/demo/accounts`
  const claims = (changes: Readonly<Record<string, unknown>> = {}) => ({
    ...goodClaims(issuer, audience),
    ...changes,
  })
  const it: Issuer = {
    issuer,
    audience,
    live: { active: true, ...claims() },
    calls: 200,
    keysDown: false,
    metadata: {
      issuer,
      jwks_uri: `${issuer}/oauth/jwks`,
      introspection_endpoint: `${issuer}/oauth/introspect`,
    },
    reports: [],
    introspections: () => introspections,
    claims,
    token: (changes = {}, { header = {}, key = privateKey } = {}) =>
      new SignJWT(claims(changes))
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid, ...header })
        .sign(key),
    publicJwk,
    close: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
  return it
}
