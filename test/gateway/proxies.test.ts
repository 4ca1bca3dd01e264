import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ProxyFamily } from '../../schema/auth-decision.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'
import { ask, demoSecret, lentSession, reasonOf } from './support/proxy.ts'

/**
 * What the proxies send, header by header, as their documentation has it for a client's `GET /demo/accounts/accounts?page=2`:
 * Traefik's ForwardAuth and Caddy's forward_auth ask with GET and pass the client's headers on; Envoy's ext_authz over HTTP
 * sends the request's own method and path behind its path_prefix, with headers_to_add. nginx itself is run elsewhere.
 */
const FORWARDED = [
  ...['X-Forwarded-Method', 'GET', 'X-Forwarded-Proto', 'https'],
  ...['X-Forwarded-Host', 'api.acme.example', 'X-Forwarded-For', '203.0.113.9'],
  ...['X-Forwarded-Uri', '/demo/accounts/accounts?page=2'],
]
const CLIENT = ['User-Agent', 'curl/8.5.0', 'Accept', '*/*', 'Accept-Encoding', 'gzip']

type Fixture = { readonly address: string; readonly raw: readonly string[] }
const FIXTURES: Readonly<Record<Exclude<ProxyFamily, 'nginx'>, Fixture>> = {
  traefik: {
    address: '/t/acme/forward-auth/traefik',
    raw: [...CLIENT, ...FORWARDED, 'X-Forwarded-Port', '443', 'X-Real-Ip', '203.0.113.9'],
  },
  caddy: { address: '/t/acme/forward-auth/caddy', raw: [...CLIENT, ...FORWARDED] },
  envoy: {
    address: '/t/acme/forward-auth/envoy/demo/accounts/accounts?page=2',
    raw: ['Content-Length', '0', 'X-Envoy-Internal', 'true', 'X-Forwarded-For', '203.0.113.9'],
  },
}

let lend: LiveServer
let session: Awaited<ReturnType<typeof lentSession>>
beforeAll(async () => {
  lend = await serveLend({ jobs: false })
  session = await lentSession(lend)
})
afterAll(() => lend.close())

test.each(Object.entries(FIXTURES))('%s', async (_, { address, raw }) => {
  // `family: envoy` adds nothing of its own to what is sent.
  const send = (more: readonly string[]) =>
    ask(lend, { family: 'envoy', address, secret: null, raw: [...raw, ...more] })
  const secret = ['X-Lend-Proxy-Secret', demoSecret(lend)]
  const allowed = await send([...secret, 'Authorization', `Bearer ${session.token}`])
  expect(reasonOf(allowed)).toBe('allowed')
  // Envoy takes exactly 200 for a yes.
  expect(allowed.status).toBe(200)
  expect(allowed.headers['x-identity-id']).toBe(session.started.session_id)
  expect(reasonOf(await send(secret))).toBe('MISSING_TOKEN')
  expect(reasonOf(await send([]))).toBe('PROXY_UNAUTHENTICATED')
})
