import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type LiveServer, serveLend } from '../support/live-server.ts'
import { type Caddy, requireCaddy, startCaddy } from './support/caddy.ts'
import { freePort, get, type Service, service } from './support/nginx.ts'
import { demoSecret, lentSession } from './support/proxy.ts'

requireCaddy()

const ACCOUNTS = '/demo/accounts/accounts'

let lend: LiveServer
let session: Awaited<ReturnType<typeof lentSession>>
let accounts: Service
const lendPort = () => Number(new URL(lend.origin).port)
const bearer = () => ({ Authorization: `Bearer ${session.token}` })

beforeAll(async () => {
  lend = await serveLend()
  session = await lentSession(lend)
  accounts = await service((_req, res) => res.end('the accounts'))
})
afterAll(async () => {
  await accounts.close()
  expect(lend.bugs).toEqual([])
  await lend.close()
})

type More = { lendPort?: number; accounts?: string; secret?: string | undefined }
const caddyFor = async (more: More = {}) =>
  startCaddy({
    lendPort: more.lendPort ?? lendPort(),
    services: {
      accounts: more.accounts ?? `127.0.0.1:${accounts.port}`,
      // Nobody answers for this name.
      mail: 'mail.invalid:8082',
    },
    secret: 'secret' in more ? more.secret : demoSecret(lend),
  })

describe('Caddy in front of a service', () => {
  let caddy: Caddy
  beforeAll(async () => {
    caddy = await caddyFor()
  })
  afterAll(() => caddy.stop())

  test('lets through what is held, and tells the service who calls', async () => {
    const got = await get(caddy.origin, `${ACCOUNTS}?page=2`, bearer())
    expect(got).toMatchObject({ status: 200, body: 'the accounts' })
    const seen = accounts.seen.at(-1)
    expect(seen?.url).toBe(`${ACCOUNTS}?page=2`)
    expect(seen?.headers).toMatchObject({
      'x-identity-type': 'agent_session',
      'x-identity-id': session.started.session_id,
      'x-session-id': session.started.session_id,
      'x-agent-id': (await lend.agent()).client_id,
      'x-on-behalf-of': await lend.userId('maya'),
      'x-tenant-id': await lend.tenantId(),
    })
  })

  test('passes neither a token nor what a client says of itself', async () => {
    const lies = {
      'X-Identity-Type': 'user',
      'X-Identity-Id': 'usr_root',
      'X-Session-Id': 'ses_root',
      'X-Agent-Id': 'agt_root',
      'X-On-Behalf-Of': 'usr_root',
      'X-Tenant-Id': 'ten_root',
      X_Identity_Id: 'usr_root',
      x_on_behalf_of: 'usr_root',
      'X-Lend-Proxy-Secret': 'mine',
      'X-Original-URI': '/demo/accounts/health',
      'X-Forwarded-Method': 'GET',
      'X-Forwarded-Uri': '/demo/accounts/health',
    }
    for (const [path, token] of [
      [ACCOUNTS, bearer()],
      ['/demo/accounts/health', {}],
    ] as const) {
      expect((await get(caddy.origin, path, { ...lies, ...token })).status).toBe(200)
      const seen = JSON.stringify(accounts.seen.at(-1)?.headers)
      expect(seen).not.toMatch(/mine|_root|authorization/i)
      expect(seen).not.toContain(session.token)
    }
    // Least of all is it moved to another address, or to another's answer.
    expect((await get(caddy.origin, ACCOUNTS, lies)).status).toBe(401)
  })

  test.each([
    ['no token', ACCOUNTS, {}, 401, 'MISSING_TOKEN'],
    ['a bad token', ACCOUNTS, { Authorization: 'Bearer nonsense' }, 401, 'TOKEN_INVALID'],
    ['two tokens', ACCOUNTS, { Authorization: ['Bearer a', 'Bearer b'] }, 403, 'HEADER_DUPLICATED'],
    ['no such path', '/demo/accounts/nothing', {}, 403, 'NO_SUCH_PATH'],
    ['two dots', '/demo/accounts/health/../accounts', {}, 403, 'PATH_HOSTILE'],
    ['an encoded slash', '/demo/accounts/health%2f..%2faccounts', {}, 403, 'PATH_HOSTILE'],
    ['two slashes', '/demo/accounts//health', {}, 403, 'PATH_HOSTILE'],
  ] as const)(
    'refuses %s, and the service hears nothing',
    async (_, path, headers, status, code) => {
      const before = accounts.seen.length
      const got = await get(caddy.origin, path, headers as Record<string, string>)
      expect([got.status, got.headers['x-auth-error-code']]).toEqual([status, code])
      if (status === 401) expect(got.headers['www-authenticate']).toMatch(/^Bearer realm="lend"/)
      expect(accounts.seen.length).toBe(before)
    },
  )

  test('starts with a service missing, and serves the others', async () => {
    expect((await get(caddy.origin, '/ping')).status).toBe(204)
    expect((await get(caddy.origin, ACCOUNTS, bearer())).status).toBe(200)
  })

  test('writes no token, secret or query to its logs', async () => {
    await get(caddy.origin, `${ACCOUNTS}?hidden=1`, bearer())
    await expect.poll(() => caddy.log()).toContain(ACCOUNTS)
    for (const one of ['hidden=', session.token, demoSecret(lend)])
      expect(caddy.log()).not.toContain(one)
  })
})

describe('Caddy fails closed', () => {
  const through = async (more: More) => {
    const caddy = await caddyFor(more)
    const before = accounts.seen.length
    try {
      const began = performance.now()
      const got = await get(caddy.origin, ACCOUNTS, bearer())
      const millis = performance.now() - began
      return { got, millis, ping: (await get(caddy.origin, '/ping')).status }
    } finally {
      expect(accounts.seen.length).toBe(before)
      await caddy.stop()
    }
  }

  test('when Lend is down', async () => {
    const { got, ping } = await through({ lendPort: await freePort() })
    expect([got.status, got.headers['retry-after'], ping]).toEqual([503, '2', 204])
  })

  test('when Lend is slow', async () => {
    const slow = await service(() => {})
    const { got, millis } = await through({ lendPort: slow.port })
    expect(got.status).toBe(503)
    expect(millis).toBeLessThan(3000)
    await slow.close()
  })

  test.each([500, 404, 302, 429])('when Lend answers %i', async (status) => {
    const odd = await service((_req, res) =>
      res.writeHead(status, { location: 'https://elsewhere.example' }).end(),
    )
    const { got } = await through({ lendPort: odd.port })
    expect([got.status, got.headers.location]).toEqual([503, undefined])
    await odd.close()
  })

  test.each(['NOT_READY', 'FACTS_UNAVAILABLE', 'INTERNAL_ERROR'])(
    'when Lend cannot know: %s',
    async (code) => {
      const cold = await service((_req, res) =>
        res.writeHead(403, { 'x-auth-error-code': code, 'content-length': 0 }).end(),
      )
      expect((await through({ lendPort: cold.port })).got.status).toBe(503)
      await cold.close()
    },
  )

  test.each([
    ['wrong', 'wrong'],
    ['not there', undefined],
  ])('when its own secret is %s', async (_, secret) => {
    const { got } = await through({ secret })
    expect([got.status, got.headers['x-auth-error-code']]).toEqual([403, 'PROXY_UNAUTHENTICATED'])
  })

  test.each([
    ['is gone', async () => `127.0.0.1:${await freePort()}`],
    ['has a name that cannot be looked up', async () => 'accounts.invalid:8081'],
  ])('when the service %s: 502 on that route', async (_, address) => {
    const { got, ping } = await through({ accounts: await address() })
    expect([got.status, ping]).toEqual([502, 204])
  })

  test('an error of the service’s own is the service’s own', async () => {
    const broken = await service((_req, res) => res.writeHead(500).end('mine'))
    const caddy = await caddyFor({ accounts: `127.0.0.1:${broken.port}` })
    try {
      const got = await get(caddy.origin, ACCOUNTS, bearer())
      expect([got.status, got.body]).toEqual([500, 'mine'])
    } finally {
      await caddy.stop()
      await broken.close()
    }
  })
})
