import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openEmbedded } from '../../src/db/open.ts'
import { doorRoutes } from '../../src/demo/door.ts'
import { newDemoSecrets, seedDemo } from '../../src/demo/seed.ts'
import { systemClock, systemIds } from '../../src/ids.ts'
import type { Ctx } from '../../src/ports.ts'
import { runOn } from '../support/databases.ts'

/**
 * The command line's door opens only for whoever can read the run file, from this machine, outside
 * any browser.
 */
const SECRET = 's'.repeat(43)
let ctx: Ctx
let secrets: Awaited<ReturnType<typeof newDemoSecrets>>
let origin: string
let close: () => Promise<void>

async function serve(withDemo: boolean) {
  const app = doorRoutes({ ctx, secret: SECRET, ...(withDemo ? { secrets } : {}) })
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  const server = createServer((req, res) => void listener(req, res))
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise<void>((done) => void server.close(() => done())),
  }
}

beforeAll(async () => {
  ctx = {
    db: await openEmbedded(null),
    clock: systemClock,
    ids: systemIds,
    notify: { kick: () => {}, subscribe: () => () => {} },
    publicUrl: 'http://localhost:4000',
  }
  secrets = await newDemoSecrets()
  await seedDemo(ctx, { secrets })
  const served = await serve(true)
  origin = served.origin
  close = served.close
})
afterAll(async () => {
  await close()
  await ctx.db.close()
})

async function knock(
  path: string,
  body: unknown,
  headers: Record<string, string> = { 'x-lend-door': SECRET },
  at = origin,
) {
  const answer = await fetch(`${at}/_door/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  return {
    status: answer.status,
    headers: answer.headers,
    body: (await answer.json()) as Readonly<Record<string, unknown>>,
  }
}

describe('who is turned away', () => {
  test.each<[string, Record<string, string>]>([
    ['no secret', {}],
    ['an empty secret', { 'x-lend-door': '' }],
    ['a wrong secret', { 'x-lend-door': `${SECRET.slice(1)}x` }],
    ['the beginning of the secret', { 'x-lend-door': SECRET.slice(1) }],
    ['a page in a browser', { 'x-lend-door': SECRET, origin: 'http://localhost:4000' }],
    ['a page without an origin', { 'x-lend-door': SECRET, 'sec-fetch-site': 'none' }],
    ['somebody behind a proxy', { 'x-lend-door': SECRET, 'x-forwarded-for': '203.0.113.9' }],
    ['somebody behind another proxy', { 'x-lend-door': SECRET, forwarded: 'for=203.0.113.9' }],
  ])('%s', async (_, headers) => {
    const answer = await knock('demo-credentials', { tenant: 'acme' }, headers)
    expect(answer).toMatchObject({ status: 403, body: { problem: 'This door is not for you.' } })
  })

  test('a question that is not understood', async () => {
    const more = await knock('demo-credentials', { tenant: 'acme', all: true })
    expect(more.status).toBe(400)
  })
})

test('credentials are the installation’s, in the shape that is promised', async () => {
  const { body, headers } = await knock('demo-credentials', { tenant: 'acme' })
  expect(headers.get('cache-control')).toBe('no-store')
  expect(body).toEqual({
    issuer: 'http://localhost:4000/t/acme',
    token_endpoint: 'http://localhost:4000/t/acme/oauth/token',
    mcp: 'http://localhost:4000/t/acme/mcp',
    agents: [
      {
        client_id: expect.stringMatching(/^agt_/),
        client_secret: secrets.agents.acme?.['Renewal assistant'],
        templates: ['renewal-briefs'],
      },
      {
        client_id: expect.stringMatching(/^agt_/),
        client_secret: secrets.agents.acme?.['Drafting assistant'],
        templates: ['email-drafter'],
      },
    ],
    enforcement_points: [
      {
        client_id: expect.stringMatching(/^epc_/),
        client_secret: secrets.enforcementPoints.acme?.['Demo services'],
      },
    ],
    resource_servers: ['accounts', 'dashboards', 'contracts', 'mail', 'reports'].map((name) => ({
      resource: `http://localhost:4000/demo/${name}`,
      subject: name === 'reports' ? 'user' : 'session',
    })),
    proxies: [
      {
        name: 'Demo gateway',
        mounts: ['/demo/accounts', '/demo/contracts', '/demo/dashboards', '/demo/mail'],
        secret: secrets.proxies.acme?.['Demo gateway'],
      },
    ],
  })
})

test('what does not exist is named', async () => {
  expect(await knock('demo-credentials', { tenant: 'nobody' })).toMatchObject({
    status: 404,
    body: { problem: 'There is no tenant "nobody".' },
  })
  const token = { tenant: 'acme', user: 'gus', client: 'people' }
  expect(await knock('demo-token', token)).toMatchObject({
    status: 404,
    body: { problem: expect.stringContaining('choose one of maya, adam, cleo, omar') },
  })
})

test('a rotation publishes, then signs, and is on record', async () => {
  const staged = await knock('rotate-keys', { tenant: 'acme', alg: 'ES256', now: false })
  expect(staged.body).toMatchObject({ stage: 'published', active_from: expect.any(String) })
  const done = await knock('rotate-keys', { tenant: 'acme', alg: 'ES256', now: true })
  expect(done.body).toMatchObject({ stage: 'activated', kid: staged.body.kid })
  const recorded = await runOn(ctx.db)<{ data: object }>(
    `select data from activity where type = 'admin.changed' order by n`,
  )
  expect(recorded.map((row) => row.data)).toMatchObject([
    { what: 'signing_key.rotated', alg: 'ES256', stage: 'published' },
    { what: 'signing_key.rotated', alg: 'ES256', stage: 'activated' },
  ])
})

test('with the demo off it signs nobody in and tells nothing, and keys can still be rotated', async () => {
  const off = await serve(false)
  const headers = { 'x-lend-door': SECRET }
  const token = { tenant: 'acme', user: 'maya', client: 'people' }
  expect((await knock('demo-token', token, headers, off.origin)).status).toBe(409)
  expect((await knock('demo-credentials', { tenant: 'acme' }, headers, off.origin)).status).toBe(
    409,
  )
  const rotated = { tenant: 'acme', alg: 'RS256', now: true }
  expect((await knock('rotate-keys', rotated, headers, off.origin)).status).toBe(200)
  await off.close()
})
