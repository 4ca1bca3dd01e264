import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { register } from 'node:module'
import { getRequestListener } from '@hono/node-server'
import { serve } from '../support/peer.ts'

/**
 * The peer of G6: `@cloudflare/workers-oauth-provider` in Node, its tokens in memory, in front of a handler that answers an
 * empty 204. It asks its runtime for one base class only, which is given to it as its runtime does.
 */
const RUNTIME = `export class WorkerEntrypoint {
  constructor(ctx, env) { this.ctx = ctx; this.env = env }
}`
const asModule = (text: string) => `data:text/javascript,${encodeURIComponent(text)}`
register(
  asModule(`export const resolve = (name, context, next) =>
    name === 'cloudflare:workers'
      ? { url: ${JSON.stringify(asModule(RUNTIME))}, shortCircuit: true }
      : next(name, context)`),
)

/** What is used of Workers KV: text by key, forgotten at its end. */
function memoryKv() {
  const kept = new Map<string, { readonly value: string; readonly until: number }>()
  const find = (key: string): string | null => {
    const one = kept.get(key)
    return one === undefined || one.until <= Date.now() ? null : one.value
  }
  return {
    get: async (key: string, how?: { readonly type?: string }): Promise<unknown> => {
      const value = find(key)
      return value !== null && how?.type === 'json' ? JSON.parse(value) : value
    },
    put: async (
      key: string,
      value: string,
      how: { readonly expirationTtl?: number } = {},
    ): Promise<void> => {
      const life = (how.expirationTtl ?? Number.POSITIVE_INFINITY) * 1000
      kept.set(key, { value, until: Date.now() + life })
    },
    delete: async (key: string): Promise<void> => {
      kept.delete(key)
    },
    list: async ({ prefix = '' }: { readonly prefix?: string } = {}) => ({
      keys: [...kept.keys()].filter((key) => key.startsWith(prefix)).map((name) => ({ name })),
      list_complete: true,
    }),
  }
}

type Client = { readonly clientId: string; readonly clientSecret?: string }
type Helpers = {
  readonly createClient: (of: object) => Promise<Client>
  readonly parseAuthRequest: (request: Request) => Promise<{ readonly scope: string[] }>
  readonly completeAuthorization: (of: object) => Promise<{ readonly redirectTo: string }>
}
type Env = { readonly OAUTH_KV: ReturnType<typeof memoryKv>; readonly OAUTH_PROVIDER?: Helpers }
type Handler = { readonly fetch: (request: Request, env: Env) => Promise<Response> }
type Provider = {
  readonly fetch: (request: Request, env: Env, ctx: object) => Promise<Response>
}
/** Its types are of another runtime, so by a name that the compiler does not look up. */
const NAME: string = '@cloudflare/workers-oauth-provider'
const { OAuthProvider }: { readonly OAuthProvider: new (of: object) => Provider } = await import(
  NAME
)

const server = createServer((req, res) => void listener(req, res))
await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
const address = server.address()
const port = typeof address === 'object' && address ? address.port : 0
const origin = `http://localhost:${port}`
const REDIRECT = 'https://app.example/callback'

/** The person has agreed: what its consent page would do. */
const consent: Handler = {
  fetch: async (request, env) => {
    const helpers = env.OAUTH_PROVIDER
    if (helpers === undefined) throw new Error('the provider gave no helpers')
    if (new URL(request.url).pathname === '/client')
      return Response.json(
        await helpers.createClient({
          redirectUris: [REDIRECT],
          tokenEndpointAuthMethod: 'client_secret_post',
        }),
      )
    const asked = await helpers.parseAuthRequest(request)
    const { redirectTo } = await helpers.completeAuthorization({
      request: asked,
      userId: 'maya',
      metadata: {},
      scope: asked.scope,
      props: { user: 'maya' },
    })
    return Response.json({ redirectTo })
  },
}
const provider = new OAuthProvider({
  apiRoute: '/api',
  apiHandler: { fetch: async () => new Response(null, { status: 204 }) },
  defaultHandler: consent,
  authorizeEndpoint: '/authorize',
  tokenEndpoint: '/token',
  scopesSupported: ['read'],
  resourceMetadata: { resource: `${origin}/api` },
})
const env: Env = { OAUTH_KV: memoryKv() }
const handle = (request: Request) =>
  provider.fetch(request, env, { waitUntil: () => {}, passThroughOnException: () => {}, props: {} })
const listener = getRequestListener(handle)

async function issue(): Promise<string> {
  const read = async (path: string, body?: URLSearchParams) => {
    const answer = await handle(
      new Request(`${origin}${path}`, body === undefined ? {} : { method: 'POST', body }),
    )
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text.slice(0, 300)}`)
    return JSON.parse(text)
  }
  const client: Client = await read('/client')
  const verifier = randomBytes(32).toString('base64url')
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: client.clientId,
    redirect_uri: REDIRECT,
    scope: 'read',
    state: 'x',
    code_challenge: Buffer.from(digest).toString('base64url'),
    code_challenge_method: 'S256',
  })
  const { redirectTo } = await read(`/authorize?${query}`)
  const form = {
    grant_type: 'authorization_code',
    code: new URL(redirectTo).searchParams.get('code') ?? '',
    redirect_uri: REDIRECT,
    client_id: client.clientId,
    client_secret: client.clientSecret ?? '',
    code_verifier: verifier,
  }
  return (await read('/token', new URLSearchParams(form))).access_token
}

serve({ port, token: await issue() })
