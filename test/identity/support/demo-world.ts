import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { importJWK, type JWK, type JWTPayload, SignJWT } from 'jose'
import type { DemoTenant } from '../../../src/demo/idp/provider.ts'
import { type DemoIdpSecrets, newDemoIdpSecrets } from '../../../src/demo/idp/secrets.ts'
import { createDemoIdp, type DemoIdp } from '../../../src/demo/idp/serve.ts'
import type { Provider } from '../../../src/identity/login.ts'

const TENANTS: readonly DemoTenant[] = [
  {
    slug: 'acme',
    users: [
      { subject: 'acme-maya', login: 'maya', name: 'Maya Ortiz', email: 'maya@acme.example' },
      { subject: 'acme-odd', login: 'odd', name: '<script>alert(1)</script>', email: '"><b>' },
    ],
  },
  {
    slug: 'globex',
    users: [{ subject: 'globex-gus', login: 'gus', name: 'Gus', email: 'gus@globex.example' }],
  },
]

export async function serve(
  listener: RequestListener,
): Promise<{ server: Server; origin: string; close: () => Promise<void> }> {
  const server = createServer(listener)
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    await new Promise<void>((done) => server.close(() => done()))
  }
  return { server, origin: `http://127.0.0.1:${port}`, close }
}

export type DemoWorld = {
  publicUrl: string
  secrets: DemoIdpSecrets
  /** `down` drops every connection; `silent` never answers. */
  mode: 'up' | 'down' | 'silent'
  /** Requests whose path ends so. */
  hits: (path: string) => number
  provider: (slug: string) => Provider
  /** As a restart does: everything in memory is gone. */
  restart: (secrets: DemoIdpSecrets) => Promise<void>
  errors: Error[]
  close: () => Promise<void>
}

/**
 * The demo's real identity providers on a port of their own, as main mounts them, and a way to
 * break them.
 */
export async function serveDemoWorld(): Promise<DemoWorld> {
  const seen: string[] = []
  const errors: Error[] = []
  let idp: DemoIdp
  const { origin, close } = await serve((req, res) => {
    const path = (req.url ?? '').split('?')[0] ?? ''
    seen.push(path)
    if (world.mode === 'down') {
      req.socket.destroy()
    } else if (world.mode === 'up' && !idp.handle(req, res)) {
      res.statusCode = 404
      res.end('not the demo provider')
    }
  })
  const secrets = await newDemoIdpSecrets(TENANTS.map((tenant) => tenant.slug))
  const world: DemoWorld = {
    publicUrl: origin,
    secrets,
    mode: 'up',
    hits: (path) => seen.filter((each) => each.endsWith(path)).length,
    provider: (slug) => ({
      id: `idp_${slug}`,
      issuer: idp.issuerOf(slug),
      audience: idp.audienceOf(slug),
      firstPartyClients: ['lend-web'],
      createsUsers: false,
      privateNetwork: true,
    }),
    restart: async (given) => {
      world.secrets = given
      idp = await createDemoIdp({
        publicUrl: origin,
        tenants: TENANTS,
        ...given,
        onError: (error) => errors.push(error),
      })
    },
    errors,
    close,
  }
  await world.restart(secrets)
  return world
}

export function keyOf(world: DemoWorld, slug: string): JWK {
  const key = world.secrets.keys[slug]?.[0]
  if (key === undefined) throw new Error(`no key for ${slug}`)
  return key
}

/** Claims as the demo provider of acme puts them into an access token for its app. */
export const goodClaims = (world: DemoWorld): JWTPayload => {
  const now = Math.floor(Date.now() / 1000)
  return {
    iss: world.provider('acme').issuer,
    aud: world.provider('acme').audience,
    sub: 'acme-maya',
    client_id: 'renewal-app',
    jti: 'one',
    iat: now,
    exp: now + 3600,
    preferred_username: 'maya',
  }
}

/** A token that acme's provider could have signed; `changes` of undefined remove a claim. */
export async function mint(
  world: DemoWorld,
  changes: Record<string, unknown> = {},
  signing: { key?: JWK; header?: Record<string, unknown> } = {},
): Promise<string> {
  const key = signing.key ?? keyOf(world, 'acme')
  const header = { alg: 'ES256', typ: 'at+jwt', kid: key.kid ?? 'none', ...signing.header }
  return new SignJWT({ ...goodClaims(world), ...changes })
    .setProtectedHeader(header)
    .sign(await importJWK(key, 'ES256'))
}

/** A clock that tests set forward. */
export const testClock = () => {
  let ahead = 0
  return {
    now: () => Date.now() + ahead,
    forward: (seconds: number) => {
      ahead += seconds * 1000
    },
  }
}
