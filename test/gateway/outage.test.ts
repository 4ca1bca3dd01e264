import { setTimeout as pause } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createCalls } from '../../src/gateway/calls.ts'
import { STALE_MILLIS_MAX, startGateway } from '../../src/gateway/gateway.ts'
import { forwardAuthRoutes } from '../../src/http/forward-auth.ts'
import { createUserTokenVerifier } from '../../src/identity/login.ts'
import { createKeyStore } from '../../src/tokens/keys.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase, urlOf } from '../support/postgres.ts'
import { ask, demoSecret, lentSession, linesOf, reasonOf } from './support/proxy.ts'

/** The database is taken away while traffic flows (SPEC section 9: no call to it on the hot path; I19). */
describe.skipIf(postgresIsLeftOut)('without a database', () => {
  let scratch: Scratch
  let lend: LiveServer
  let session: Awaited<ReturnType<typeof lentSession>>
  const server = postgres(urlOf('postgres'), { max: 1, onnotice: () => {} })
  beforeAll(async () => {
    scratch = await scratchDatabase()
    lend = await serveLend({ database: scratch.url, jobs: false })
    session = await lentSession(lend)
  })
  afterAll(async () => {
    await lend.close()
    await scratch.drop()
    await server.end()
  })
  const name = () => new URL(scratch.url).pathname.slice(1)
  async function takeAway() {
    await server.unsafe(`alter database ${name()} allow_connections false`)
    await server`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name()}`
  }
  const giveBack = () => server.unsafe(`alter database ${name()} allow_connections true`)

  test('a warm answer sends no statement', async () => {
    await ask(lend, { token: session.token })
    await lend.gateway.flush()
    const lone = { ...lend.ctx, notify: { kick: () => {}, subscribe: () => () => {} } }
    // A gateway whose jobs are over does nothing but answer.
    const gateway = startGateway({
      ctx: lone,
      keys: createKeyStore({ ...lone, vault: lone.vault }),
      verifier: createUserTokenVerifier(lone),
      ...{ write: () => {}, note: () => {}, onBug: () => {} },
    })
    await gateway.caughtUp()
    await gateway.stop()
    await lend.gateway.stop()
    const app = forwardAuthRoutes(gateway)
    const headers = {
      authorization: `Bearer ${session.token}`,
      'x-lend-proxy-secret': demoSecret(lend),
      'x-original-method': 'GET',
      'x-original-uri': '/demo/accounts/accounts',
    }
    const before = lend.ctx.db.statements()
    for (let i = 0; i < 500; i++)
      expect((await app.request('/t/acme/forward-auth/nginx', { headers })).status).toBe(200)
    expect(lend.ctx.db.statements()).toBe(before)
    await lend.close()
    lend = await serveLend({ database: scratch.url, jobs: false, publicUrl: lend.publicUrl })
  })

  test('traffic goes on, refusals included, and calls are recorded once it is back', async () => {
    const at = { target: '/demo/accounts/accounts/during', token: session.token }
    expect(reasonOf(await ask(lend, at))).toBe('allowed')
    let stop = false
    const seen = new Map<string, number>()
    let slowest = 0
    const traffic = Array.from({ length: 4 }, async () => {
      while (!stop) {
        const began = performance.now()
        const reason = reasonOf(await ask(lend, at))
        slowest = Math.max(slowest, performance.now() - began)
        seen.set(reason, (seen.get(reason) ?? 0) + 1)
        await pause(5)
      }
    })
    await takeAway()
    await pause(3000)
    expect(reasonOf(await ask(lend, { token: null }))).toBe('MISSING_TOKEN')
    expect(reasonOf(await ask(lend, { ...at, method: 'DELETE' }))).toBe('NO_SUCH_PATH')
    await giveBack()
    await pause(500)
    stop = true
    await Promise.all(traffic)
    expect([...seen.keys()]).toEqual(['allowed'])
    expect(slowest).toBeLessThan(1000)
    const sent = 1 + (seen.get('allowed') ?? 0)
    // What was noted meanwhile is sent again until it is written: once.
    const recorded = () =>
      lend
        .rows<{ calls: number }>(
          `select coalesce(sum(coalesce((data ->> 'calls')::integer, 1)), 0)::integer as calls
           from activity where type = 'call.allowed' and data ->> 'target' like '%/during'`,
        )
        .then(([row]) => row?.calls)
    await expect
      .poll(
        async () => {
          await lend.gateway.flush()
          return recorded()
        },
        { timeout: 20_000, interval: 500 },
      )
      .toBe(sent)
  })

  test('after a minute without news nothing is allowed, what is open included, and no proxy is known', async () => {
    await lend.gateway.caughtUp()
    const open = { target: '/demo/accounts/health', token: null }
    expect(reasonOf(await ask(lend, open))).toBe('allowed')
    await takeAway()
    await pause(600)
    lend.clock.advance(STALE_MILLIS_MAX / 1000 - 2)
    expect(reasonOf(await ask(lend, open))).toBe('allowed')
    expect(reasonOf(await ask(lend, { ...open, secret: 'wrong' }))).toBe('PROXY_UNAUTHENTICATED')
    lend.clock.advance(3)
    const refused = await ask(lend, open)
    expect([refused.status, reasonOf(refused)]).toEqual([403, 'FACTS_UNAVAILABLE'])
    expect(reasonOf(await ask(lend, { token: session.token }))).toBe('FACTS_UNAVAILABLE')
    expect(reasonOf(await ask(lend, { ...open, secret: 'wrong' }))).toBe('FACTS_UNAVAILABLE')
    const [line] = await linesOf(lend, refused.headers['x-request-id'])
    expect(line).toMatchObject({ tenant: 'acme', proxy_id: null, decision: 'deny', service: null })
    await giveBack()
    await expect
      .poll(async () => reasonOf(await ask(lend, { token: session.token })), { timeout: 10_000 })
      .toBe('allowed')
    expect(reasonOf(await ask(lend, open))).toBe('allowed')
  })

  test('news of what was taken back does not stand for what the proxies and endpoints are', async () => {
    const { ctx } = lend
    let isAway = false
    const away = () => Promise.reject(new Error('away'))
    const db: typeof ctx.db = {
      ...ctx.db,
      begin: (...given) =>
        isAway && given[0] === 'read_gateway' ? away() : ctx.db.begin(...given),
    }
    const notes: string[] = []
    const gateway = startGateway({
      ctx: { ...ctx, db },
      keys: createKeyStore({ db, clock: ctx.clock, vault: ctx.vault }),
      verifier: createUserTokenVerifier(ctx),
      note: (what) => notes.push(what),
      ...{ write: () => {}, onBug: () => {} },
    })
    await gateway.caughtUp()
    const app = forwardAuthRoutes(gateway)
    const open = async () =>
      (
        await app.request('/t/acme/forward-auth/nginx', {
          headers: {
            'x-lend-proxy-secret': demoSecret(lend),
            'x-original-method': 'GET',
            'x-original-uri': '/demo/accounts/health',
          },
        })
      ).headers.get('x-auth-error-code') ?? 'allowed'
    expect(await open()).toBe('allowed')
    isAway = true
    await lend.rows(
      `update endpoint set access = 'AUTHENTICATED'
       where service_id = 'accounts' and pattern = '/health' returning method`,
    )
    await gateway.caughtUp()
    expect(await open()).toBe('allowed')
    lend.clock.advance(STALE_MILLIS_MAX / 1000 + 1)
    await gateway.caughtUp()
    expect(await open()).toBe('FACTS_UNAVAILABLE')
    isAway = false
    await expect.poll(open, { timeout: 10_000 }).toBe('MISSING_TOKEN')
    expect(notes).toEqual([
      'reading the gateway’s metadata fails; what was read before stays in use',
      'reading the gateway’s metadata works again',
    ])
    await gateway.stop()
    await lend.rows(
      `update endpoint set access = 'OPEN'
       where service_id = 'accounts' and pattern = '/health' returning method`,
    )
  })

  test('an instance that has read nothing yet is not ready, and lets nothing through', async () => {
    await takeAway()
    const notes: string[] = []
    const bugs: unknown[] = []
    const gateway = startGateway({
      ctx: lend.ctx,
      keys: createKeyStore({ ...lend.ctx, vault: lend.ctx.vault }),
      verifier: createUserTokenVerifier(lend.ctx),
      write: () => {},
      note: (what) => notes.push(what),
      onBug: (error) => bugs.push(error),
    })
    await pause(1500)
    expect(gateway.ready()).toBe(false)
    const app = forwardAuthRoutes(gateway)
    const answer = await app.request('/t/acme/forward-auth/nginx', {
      headers: {
        'x-lend-proxy-secret': demoSecret(lend),
        'x-original-method': 'GET',
        'x-original-uri': '/demo/accounts/health',
      },
    })
    expect([answer.status, answer.headers.get('x-auth-error-code')]).toEqual([403, 'NOT_READY'])
    // Several tries have failed, and each thing was said once.
    expect(new Set(notes).size).toBe(notes.length)
    expect(bugs.length).toBe(notes.length)
    await giveBack()
    await expect.poll(() => gateway.ready(), { timeout: 20_000 }).toBe(true)
    await gateway.stop()
  })
})

describe('call records', () => {
  test('what cannot be written by a clean stop is counted', async () => {
    const lend = await serveLend({ jobs: false })
    try {
      const tenant = { id: await lend.tenantId(), slug: 'acme' }
      const by = { tenant, proxyId: 'prx_1', services: ['accounts'] }
      const call = { sessionId: 'ses_1', service: 'accounts', outcome: 'allowed' } as const
      const broken = () => Promise.reject(new Error('away'))
      const bugs: unknown[] = []
      const calls = createCalls({ ...lend.ctx, db: { ...lend.ctx.db, begin: broken } }, (error) =>
        bugs.push(error),
      )
      for (let i = 0; i < 3; i++) calls.add(by, { ...call, target: 'GET /a' })
      calls.add(by, { ...call, target: 'GET /b' })
      await calls.flush()
      await calls.flush()
      expect(bugs).toHaveLength(1)
      expect(await calls.stop()).toBe(4)
    } finally {
      await lend.close()
    }
  })

  test('what does not fit is counted, and told of with the next that is written', async () => {
    const lend = await serveLend({ jobs: false })
    try {
      const tenant = { id: await lend.tenantId(), slug: 'acme' }
      const by = { tenant, proxyId: 'prx_1', services: ['accounts'] }
      const calls = createCalls(lend.ctx, (error) =>
        lend.bugs.push({ error, requestId: undefined }),
      )
      const call = { sessionId: 'ses_1', service: 'accounts', outcome: 'allowed' } as const
      for (let i = 0; i < 20_005; i++) calls.add(by, { ...call, target: `GET /${i}` })
      expect(calls.lost()).toBe(5)
      expect(await calls.stop()).toBe(0)
      const counters = await lend.rows(
        `select name, count::integer from counter where tenant_id = $1 order by name`,
        [tenant.id],
      )
      // Their session is none, so the rest was refused; that too is counted.
      expect(counters).toEqual([
        { name: 'calls_lost', count: 5 },
        { name: 'calls_refused', count: 20_000 },
      ])
      expect(lend.bugs).toEqual([])
    } finally {
      await lend.close()
    }
  })
})
