import { readFileSync } from 'node:fs'
import { request as httpRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DOORS, doorOf } from '../../src/http/doors.ts'
import { createMetrics } from '../../src/ops/metrics.ts'
import { serveMetrics } from '../../src/ops/serve.ts'
import { ask, lentSession } from '../gateway/support/proxy.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'

const metrics = createMetrics()
let lend: LiveServer
let server: Server
let url: string

beforeAll(async () => {
  lend = await serveLend({ metrics })
  server = serveMetrics(metrics.text)
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await lend.close()
})

const scraped = async () => (await fetch(`${url}/metrics`)).text()

/** The value of the one series whose labels hold all of these; 0 when there is none. */
async function readingOf(name: string, labels: Readonly<Record<string, string>> = {}) {
  const lines = (await scraped()).split('\n').filter((line) => line.split(/[{ ]/)[0] === name)
  const found = lines.filter((line) =>
    Object.entries(labels).every(([key, value]) => line.includes(`${key}="${value}"`)),
  )
  return found.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

/** How much a number grows while `body` runs. */
async function growth(
  of: readonly [name: string, labels?: Readonly<Record<string, string>>],
  body: () => Promise<unknown>,
): Promise<number> {
  const before = await readingOf(...of)
  await body()
  return (await readingOf(...of)) - before
}

describe('what is counted', () => {
  test('decisions by outcome, reason and what decided', async () => {
    const { access_token } = await lend.start('maya')
    const mcp = await lend.mcp(access_token)
    const asking = (permission: string) =>
      mcp.call('iam.request_access', { items: [{ permission }], reason: 'to write the brief' })
    const refused = { outcome: 'refused', reason: 'outside_ceiling', decided_by: 'policy' }
    expect(await growth(['lend_decisions_total', refused], () => asking('billing:admin'))).toBe(1)
    const allowed = { outcome: 'granted', reason: 'allowed_by_user', decided_by: 'prompt' }
    const lending = () => lend.lend('maya', access_token, [{ permission: 'accounts:read' }])
    expect(await growth(['lend_decisions_total', allowed], lending)).toBe(1)
    await mcp.close()
  })

  test('nothing that was rolled back', async () => {
    const { ctx } = lend
    let told = 0
    const broken = ctx.db.begin('test', async (tx) => {
      tx.committed(() => told++)
      throw new Error('no')
    })
    await expect(broken).rejects.toThrow('no')
    await ctx.db.begin('test', async (tx) => tx.committed(() => (told += 10)))
    expect(told).toBe(10)
  })

  test('tokens issued and refused, unauthenticated ones included', async () => {
    const issued = ['lend_tokens_issued_total', { grant_type: 'token_exchange' }] as const
    expect(await growth(issued, () => lend.start('maya'))).toBe(1)
    const { refresh_token } = await lend.start('maya')
    const again = ['lend_tokens_issued_total', { grant_type: 'refresh_token' }] as const
    expect(await growth(again, () => lend.reissue(refresh_token))).toBe(1)
    const nobody = { client_id: 'agt_nobody', client_secret: 'wrong' }
    const refused = ['lend_tokens_refused_total', { reason: 'client_unauthenticated' }] as const
    const form = { grant_type: 'refresh_token', refresh_token: 'x' }
    expect(await growth(refused, () => lend.token(form, nobody))).toBe(1)
  })

  test('requests by door and class of status', async () => {
    const of = ['lend_request_seconds_count', { door: 'people', status: '4xx' }] as const
    expect(await growth(of, () => lend.api(null, 'GET', '/me'))).toBe(1)
  })

  test('forward-auth by reason, with its time and its caches', async () => {
    const { token } = await lentSession(lend)
    const at = { target: `/demo/accounts/accounts/${Date.now()}`, token }
    await lend.gateway.caughtUp()
    const allow = ['lend_gateway_decisions_total', { reason: 'PERMISSION_HELD' }] as const
    expect(await growth(allow, () => ask(lend, at))).toBe(1)
    const hit = ['lend_gateway_cache_lookups_total', { cache: 'token', result: 'hit' }] as const
    expect(await growth(hit, () => ask(lend, at))).toBe(1)
    const route = ['lend_gateway_cache_lookups_total', { cache: 'route', result: 'hit' }] as const
    expect(await growth(route, () => ask(lend, at))).toBe(1)
    const deny = ['lend_gateway_decisions_total', { reason: 'MISSING_TOKEN' }] as const
    expect(await growth(deny, () => ask(lend))).toBe(1)
    expect(await growth(['lend_gateway_check_seconds_count'], () => ask(lend, at))).toBe(1)
  })

  test('open prompts, live sessions, connections, lags', async () => {
    const { access_token } = await lend.start('maya')
    const mcp = await lend.mcp(access_token)
    const asking = () =>
      mcp.call('iam.request_access', {
        items: [{ permission: 'contracts.fields:pricing' }],
        reason: 'to write the brief',
      })
    expect(await growth(['lend_open_prompts'], asking)).toBe(1)
    await mcp.close()
    expect(await growth(['lend_live_sessions'], () => lend.start('maya'))).toBe(1)
    expect(await growth(['lend_open_prompts'], () => lend.endSessions('maya'))).toBe(-1)
    expect(await readingOf('lend_database_up')).toBe(1)
    expect(await readingOf('lend_ready')).toBe(1)
    expect(await readingOf('lend_database_connections', { state: 'max' })).toBe(1)
    expect(await readingOf('lend_gateway_feed_lag_seconds')).toBeLessThan(5)
    expect(await readingOf('lend_reevaluation_lag_seconds')).toBeLessThan(5)
    expect(await readingOf('nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0)
  })

  test('how long a change of access has waited', async () => {
    const own = createMetrics()
    const rows = (waitingAt: number) => [{ oldestWaitingAt: waitingAt }]
    const alone = { ...lend.ctx.db.alone, sql: async () => rows(1000) as never }
    const db = { ...lend.ctx.db, alone }
    own.watch({
      ctx: { db, clock: { now: () => 1_042_000 } },
      gateway: lend.gateway,
      ready: () => false,
    })
    const { body } = await own.text()
    expect(body).toContain('\nlend_reevaluation_lag_seconds 42\n')
    expect(body).toContain('\nlend_ready 0\n')
  })

  test('a database that does not answer: says so in two seconds, and nothing false', async () => {
    const own = createMetrics()
    const alone = { ...lend.ctx.db.alone, sql: () => new Promise<never>(() => {}) }
    own.watch({
      ctx: { ...lend.ctx, db: { ...lend.ctx.db, alone } },
      gateway: lend.gateway,
      ready: () => true,
    })
    const began = performance.now()
    const { body } = await own.text()
    expect(performance.now() - began).toBeLessThan(4000)
    expect(body).toContain('\nlend_database_up 0\n')
    expect(body).toMatch(/\nlend_open_prompts NaN\n/i)
  })
})

describe('what is not', () => {
  test('nobody and nothing that grows with use is in a label', async () => {
    await lend.start('maya')
    const text = await scraped()
    for (const secret of ['acme', 'maya', 'ses_', 'usr_', 'agt_', 'ten_', 'renewal'])
      expect(text).not.toContain(secret)
  })

  test('no address makes a series of its own', async () => {
    const before = (await scraped()).split('\n').filter((l) => l.startsWith('lend_request')).length
    const odd = ['/t/acme/api%2f/x', '/t/nobody/mcp', '/zzz', '/t/acme/tools/none/mcp', '/t//oauth']
    for (let i = 0; i < 50; i++) await lend.request(`/t/acme/${i}`)
    for (const path of odd) await lend.request(path)
    const doors = new Set(
      [...(await scraped()).matchAll(/lend_request_seconds_count\{door="([^"]*)"/g)].map(
        (m) => m[1],
      ),
    )
    expect([...doors].filter((door) => !(DOORS as readonly string[]).includes(door ?? ''))).toEqual(
      [],
    )
    const after = (await scraped()).split('\n').filter((l) => l.startsWith('lend_request')).length
    // A door's first request of a class adds its buckets, once: five of the odd ones at most.
    expect(after - before).toBeLessThanOrEqual(6 * 18)
  })

  test.each([
    ['/t/acme/oauth/token', 'token'],
    ['/t/acme/mcp', 'mcp'],
    ['/t/acme/mcp/x', 'other'],
    ['/t/acme/tools/mail/mcp', 'tools'],
    ['/t/acme/api/me', 'people'],
    ['/t/acme/access/v1/evaluation', 'access'],
    ['/t/acme/enforce/data', 'enforce'],
    ['/.well-known/oauth-authorization-server/t/acme', 'metadata'],
    ['/readyz', 'health'],
    ['/', 'other'],
  ])('%s is %s', (path, door) => expect(doorOf(path)).toBe(door))

  test('metrics are not among what clients reach', async () => {
    expect((await lend.request('/metrics')).status).toBe(404)
  })

  test('the port answers nothing else, and no other method', async () => {
    expect((await fetch(`${url}/t/acme/oauth/token`)).status).toBe(404)
    expect((await fetch(`${url}/metrics?x=1`)).status).toBe(404)
    expect((await fetch(`${url}/metrics`, { method: 'POST' })).status).toBe(405)
    const status = await new Promise((done) =>
      httpRequest(`${url}/metrics`, { method: 'HEAD' }, (res) => done(res.statusCode)).end(),
    )
    expect(status).toBe(200)
  })
})

describe('dashboard and alerts', () => {
  const textOf = (name: string) =>
    readFileSync(join(import.meta.dirname, '..', '..', 'src', 'ops', name), 'utf8')
  const namesIn = (text: string) => [
    ...new Set(text.match(/\b(?:lend|nodejs|process)_[a-z0-9_]+\b/g) ?? []),
  ]
  const bare = (name: string) => name.replace(/_(bucket|count|sum)$/, '')
  const metricsOf = async () =>
    [...(await metrics.text()).body.matchAll(/^# TYPE (\S+) /gm)].map(([, name = '']) => name)

  test.each(['grafana-dashboard.json', 'alerts.yml'])('%s names only what exists', async (file) => {
    const exist = await metricsOf()
    const named = namesIn(textOf(file))
    expect(named.length).toBeGreaterThan(8)
    expect(named.filter((n) => !exist.includes(n) && !exist.includes(bare(n)))).toEqual([])
  })

  test('every metric of ours is on the dashboard', async () => {
    const shown = namesIn(textOf('grafana-dashboard.json')).flatMap((n) => [n, bare(n)])
    const ours = (await metricsOf()).filter((name) => name.startsWith('lend_'))
    expect(ours.length).toBeGreaterThan(15)
    expect(ours.filter((name) => !shown.includes(name))).toEqual([])
  })

  test('every door and cache that they name exists', () => {
    const text = textOf('grafana-dashboard.json').replaceAll('\\"', '"') + textOf('alerts.yml')
    const doors = [...text.matchAll(/door=~?"([^"]+)"/g)].flatMap(([, d = '']) => d.split('|'))
    expect(doors.length).toBeGreaterThan(3)
    expect(doors.filter((door) => !(DOORS as readonly string[]).includes(door))).toEqual([])
  })
})

describe('how it is', () => {
  test('healthz says database and feed', async () => {
    const { status, body } = await lend.request('/healthz')
    expect(status).toBe(200)
    expect(body).toEqual({ status: 'ok', postgres: 'ok', feed: 'ok' })
  })

  test('livez and readyz ask nobody', async () => {
    const before = lend.ctx.db.statements()
    expect((await lend.request('/livez')).status).toBe(200)
    expect((await lend.request('/readyz')).status).toBe(200)
    // Jobs run meanwhile; a probe of each kind a hundred times would show.
    for (let i = 0; i < 100; i++) await lend.request('/readyz')
    expect(lend.ctx.db.statements() - before).toBeLessThan(100)
  })
})
