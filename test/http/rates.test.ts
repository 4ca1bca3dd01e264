import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Db } from '../../src/db/tx.ts'
import { clientAddress } from '../../src/http/client-address.ts'
import { RATE_LIMITS, type RateLimit, type Rates } from '../../src/ports.ts'
import { createRates } from '../../src/rates.ts'
import { hashSecret } from '../../src/tokens/client-auth.ts'
import { ask as askGateway, lentSession } from '../gateway/support/proxy.ts'
import {
  type Answer,
  basic,
  type Credentials,
  DRAFTING,
  type LiveServer,
  serveLend,
  type TokenAnswer,
} from '../support/live-server.ts'

/** What a client sees that comes too often: each door in its own words, and nobody else is stopped. */
const OFTEN = Object.fromEntries(RATE_LIMITS.map((limit) => [limit, 1_000_000])) as Record<
  RateLimit,
  number
>

let lend: LiveServer
let db: Db
let now: Rates
/** From here on, with counts of nobody yet, but for the limits that are given. */
const limited = (limits: Partial<Record<RateLimit, number>>) => {
  now = createRates({ aMinute: { ...OFTEN, ...limits }, db })
}

let agent: Credentials
let point: Credentials
let session: TokenAnswer

beforeAll(async () => {
  lend = await serveLend({
    jobs: false,
    rates: (of) => {
      db = of
      limited({})
      return {
        take: (limit, key) => now.take(limit, key),
        look: (limit, key) => now.look(limit, key),
      }
    },
  })
  agent = await lend.agent()
  point = await lend.enforcementPoint()
  session = await lend.start('maya')
})
beforeEach(() => limited({}))
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

function expectLater({ status, headers }: Answer<unknown>): void {
  expect(status).toBe(429)
  const seconds = Number(headers.get('retry-after'))
  expect(seconds).toBeGreaterThanOrEqual(1)
  expect(seconds).toBeLessThanOrEqual(60)
}

const reissue = (as: Credentials = agent) =>
  lend.token({ grant_type: 'refresh_token', refresh_token: session.refresh_token }, as)
const post = (path: string, body: object, headers: Record<string, string>) =>
  lend.request(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
const asPoint = () => ({ authorization: basic(point) })
const message = (path: string, token: string) =>
  post(
    path,
    { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    {
      authorization: `Bearer ${token}`,
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
    },
  )

test('token endpoint: a client, in OAuth’s words; another client goes on', async () => {
  limited({ client: 2 })
  expect([(await reissue()).status, (await reissue()).status]).toEqual([200, 200])
  const third = await reissue()
  expectLater(third)
  expect(third.body).toMatchObject({
    error: 'temporarily_unavailable',
    error_reason: 'rate_limited',
    limit: 'client',
  })
  expect((await reissue(await lend.agent(DRAFTING))).body.error).toBe('invalid_grant')
})

test('token endpoint: nobody but the client itself uses its requests up', async () => {
  limited({ client: 1 })
  for (let i = 0; i < 5; i++)
    expect((await reissue({ ...agent, client_secret: 'wrong' })).status).toBe(401)
  expect((await reissue()).status).toBe(200)
})

test('token endpoint: a tenant, all its clients together, without a statement once it is full', async () => {
  limited({ tenant: 2 })
  expect((await reissue()).status).toBe(200)
  await reissue(await lend.agent(DRAFTING))
  const before = db.statements()
  const third = await reissue()
  expectLater(third)
  expect(third.body).toMatchObject({ error_reason: 'rate_limited', limit: 'tenant' })
  expect(db.statements()).toBe(before)
  const other = await lend.token({ grant_type: 'x' }, null, 'globex')
  expect(other.status).toBe(401)
})

test.each([
  ['MCP', 'session', '/t/acme/mcp'],
  ['the tool gateway', 'tools', '/t/acme/tools/mail/mcp'],
] as const)(
  '%s: a session, in JSON-RPC’s words; another session goes on',
  async (_, limit, path) => {
    limited({ [limit]: 2 })
    const send = (token: string): Promise<Answer<object>> => message(path, token)
    expect((await send(session.access_token)).status).toBe(200)
    expect((await send(session.access_token)).status).toBe(200)
    const third = await send(session.access_token)
    expectLater(third)
    expect(third.body).toMatchObject({
      jsonrpc: '2.0',
      error: { data: { code: 'rate_limited', limit, retry_after: expect.any(Number) } },
      id: null,
    })
    const other = await lend.start('maya')
    expect((await send(other.access_token)).status).toBe(200)
  },
)

test('MCP: a token with a broken signature uses up nobody’s requests', async () => {
  limited({ session: 1 })
  const forged = `${session.access_token.slice(0, -8)}AAAAAAAA`
  for (let i = 0; i < 3; i++) expect((await message('/t/acme/mcp', forged)).status).toBe(401)
  expect((await message('/t/acme/mcp', session.access_token)).status).toBe(200)
})

test('People API: a person, as a problem; another person goes on', async () => {
  limited({ person: 2 })
  const maya = await lend.userToken('maya')
  const me = (token: string) => lend.api(token, 'GET', '/me')
  expect([(await me(maya)).status, (await me(maya)).status]).toEqual([200, 200])
  const third = await me(maya)
  expectLater(third)
  expect(third.headers.get('content-type')).toBe('application/problem+json')
  expect(third.body).toMatchObject({ code: 'rate_limited', status: 429, limit: 'person' })
  expect((await me(await lend.userToken('omar'))).status).toBe(200)
})

test('People API: a person whose requests are used up still answers, takes back and ends', async () => {
  const maya = await lend.userToken('maya')
  const { session_id: own } = await lend.start('maya')
  limited({ person: 1 })
  expect((await lend.api(maya, 'GET', '/me')).status).toBe(200)
  expectLater(await lend.api(maya, 'GET', '/me'))
  expect((await lend.api(maya, 'POST', `/sessions/${own}/end`, {})).status).toBe(200)
  // That has a limit too.
  expectLater(await lend.api(maya, 'POST', `/access-requests/req_none/decision`, {}))
  limited({ person: 1 })
  await lend.api(maya, 'GET', '/me')
  expect(await lend.api(maya, 'DELETE', `/sessions/${own}/grants/grt_none`)).not.toMatchObject({
    status: 429,
  })
})

describe('an enforcement point', () => {
  const introspect = (): Promise<Answer<object>> =>
    lend.oauth('introspect', { token: session.access_token }, point)
  const evaluate = () =>
    post(
      '/t/acme/access/v1/evaluation',
      {
        subject: {
          type: 'agent_session',
          id: session.session_id,
          properties: { token: session.access_token },
        },
        action: { name: 'view' },
        resource: { type: 'dashboard', id: 'q3-pipeline' },
      },
      asPoint(),
    )
  const data = () =>
    post(
      '/t/acme/enforce/data',
      { token: session.access_token, entity: 'account', action: 'read' },
      asPoint(),
    )
  const report = () => post('/t/acme/enforce/calls', { calls: [] }, asPoint())
  const follow = () => lend.request('/t/acme/enforce/revocations', { headers: asPoint() })

  test.each([
    ['introspection', introspect, 'error_reason'],
    ['AuthZEN', evaluate, 'code'],
    ['data', data, 'code'],
    ['reports', report, 'code'],
    ['the feed', follow, 'code'],
  ] as const)('%s', async (_, knock, named) => {
    limited({ point: 1 })
    expect((await knock()).status).toBe(200)
    const second = await knock()
    expectLater(second)
    expect(second.body).toMatchObject({ [named]: 'rate_limited', limit: 'point' })
  })
})

test('publishing: a service’s client', async () => {
  limited({ publisher: 1 })
  const [found] = await lend.rows<{ id: string }>(
    `update service_client set secret_hash = $1 where service_id = 'accounts' returning id`,
    [hashSecret('of accounts')],
  )
  const client = { client_id: found?.id ?? '', client_secret: 'of accounts' }
  const diff = (): Promise<Answer<object>> =>
    post(
      '/t/studio/api/catalog/services/accounts/diff',
      { permissions: 'none' },
      { authorization: basic(client) },
    )
  expect((await diff()).status).toBe(422)
  const second = await diff()
  expectLater(second)
  expect(second.body).toMatchObject({ code: 'rate_limited', limit: 'publisher' })
})

test('forward-auth asks no limiter', async () => {
  const { token } = await lentSession(lend)
  limited(Object.fromEntries(RATE_LIMITS.map((limit) => [limit, 1])))
  await lend.gateway.caughtUp()
  for (let i = 0; i < 5; i++)
    expect((await askGateway(lend, { target: '/demo/accounts/accounts', token })).status).toBe(200)
})

describe('unauthenticated noise of one address', () => {
  test('is turned away at every door in its own words; health is answered', async () => {
    // Nobody was let in from here of late.
    lend.clock.advance(601)
    limited({ address: 3 })
    for (let i = 0; i < 3; i++) expect((await lend.api(null, 'GET', '/me')).status).toBe(401)
    const before = db.statements()
    const people = await lend.api(null, 'GET', '/me')
    expectLater(people)
    expect(people.body).toMatchObject({ code: 'rate_limited', limit: 'address' })
    const token = await reissue({ ...agent, client_secret: 'wrong' })
    expectLater(token)
    expect(token.body.error_reason).toBe('rate_limited')
    const mcp = await message('/t/acme/mcp', 'x')
    expectLater(mcp)
    expect(mcp.body).toMatchObject({ error: { data: { code: 'rate_limited' } } })
    expect(db.statements()).toBe(before)
    expect((await lend.request('/livez')).status).toBe(200)
  })

  test('does not stop those who work behind the same address', async () => {
    expect((await reissue()).status).toBe(200)
    limited({ address: 3 })
    for (let i = 0; i < 3; i++) expect((await lend.api(null, 'GET', '/me')).status).toBe(401)
    expectLater(await lend.api(null, 'GET', '/me'))
    expectLater(await reissue({ ...agent, client_secret: 'wrong' }))
    expect((await reissue()).status).toBe(200)
    expectLater(await lend.api(null, 'GET', '/me'))
  })

  test('counts tenants that are not there, and nothing that is answered well', async () => {
    limited({ address: 3 })
    for (let i = 0; i < 5; i++) expect((await reissue()).status).toBe(200)
    for (let i = 0; i < 3; i++) expect((await lend.request(`/t/no-${i}/mcp`)).status).toBe(404)
    expectLater(await lend.request('/t/no-3/mcp'))
  })
})

describe('whose address it is', () => {
  const of = (trusted: string[], direct = false) => clientAddress({ trusted, direct })
  test.each([
    [
      'the connection’s, where clients connect by themselves',
      of([], true),
      '203.0.113.7',
      '1.2.3.4',
      '203.0.113.7',
    ],
    ['unknown behind a proxy that is not named', of([]), '10.0.0.7', '203.0.113.7', null],
    [
      'the last that is no trusted proxy',
      of(['10.0.0.0/8']),
      '10.0.0.7',
      '6.6.6.6, 203.0.113.7, 10.1.1.1',
      '203.0.113.7',
    ],
    ['unknown when the trusted proxy does not say', of(['10.0.0.7']), '10.0.0.7', undefined, null],
    ['unknown when what it says is no address', of(['10.0.0.7']), '10.0.0.7', 'unknown', null],
    [
      'the connection’s when it is no trusted proxy',
      of(['10.0.0.7']),
      '10.0.0.8',
      '203.0.113.7',
      '10.0.0.8',
    ],
    ['IPv4 however it is written', of([], true), '::ffff:203.0.113.7', undefined, '203.0.113.7'],
    ['a network’s of IPv6', of([], true), '2001:db8:0:12::1', undefined, '2001:db8:0:12'],
    [
      'the same for all of that network',
      of([], true),
      '2001:0db8:0000:0012:9::f',
      undefined,
      '2001:db8:0:12',
    ],
    ['a trusted network of IPv6', of(['fd00::/8']), 'fd12::1', '2001:db8::1', '2001:db8:0:0'],
  ])('%s', (_, addressOf, peer, forwarded, expected) =>
    expect(addressOf(peer, forwarded)).toBe(expected),
  )
})
