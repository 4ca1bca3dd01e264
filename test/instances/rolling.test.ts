import { setTimeout as pause } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DemoSecrets, secretOf } from '../../src/demo/secrets.ts'
import { postgresIsLeftOut } from '../support/postgres.ts'
import { startBalancer, via } from './support/balancer.ts'
import { type Client, cli, started } from './support/client.ts'
import { DEPLOY_MILLIS_MAX, type Deployment, deploy } from './support/deployment.ts'
import { live } from './support/lives.ts'

/** Three processes of the built server on one database, behind one address, and each of them restarted under load. */
const title = 'three instances'
const SOON = { timeout: 60_000, interval: 50 }

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    let deployment: Deployment
    let client: Client
    let sql: postgres.Sql

    beforeAll(async () => {
      // All at once, on a database without a table: one migrates and seeds, the others find it done.
      const settings = () => ({ LEND_DRAIN_SECONDS: '2' })
      deployment = await deploy({ instances: 3, front: startBalancer, settings })
      client = deployment.client
      sql = postgres(deployment.databaseUrl, { max: 1, onnotice: () => {} })
    }, DEPLOY_MILLIS_MAX)
    afterAll(async () => {
      await sql?.end()
      await deployment?.close()
    })

    test('that were started at once on an empty database migrated and seeded it once', async () => {
      const [row] = await sql`
        select (select count(*) = count(distinct created_at) from drizzle.__drizzle_migrations) as once,
          (select count(*)::int from tenant where slug = 'acme') as tenants`
      expect(row).toEqual({ once: true, tenants: 1 })
    })

    test('a session belongs to none of them: each step on another', async () => {
      const [a = 0, b = 0, c = 0] = deployment.ports
      const session = started(await client.start(via(a)))
      const asked = await client.ask(session.access_token, {}, via(b))
      const requestId = asked.result?.request_id ?? ''
      expect((await client.answer(requestId, via(c))).status).toBe(200)
      const again = await client.reissue(session.refresh_token, via(b))
      expect(again.body.authorization_details).toMatchObject([{ permission: 'accounts:read' }])
      expect((await client.revoke(session.refresh_token, via(a))).status).toBe(200)
      for (const port of deployment.ports)
        expect((await client.reissue(session.refresh_token, via(port))).body).toMatchObject({
          error: 'invalid_grant',
          error_reason: 'session_over',
        })
    })

    /** A stream of one's events on one instance, until it ends; whether it ended as a stream should. */
    async function listen(port: number) {
      const answer = await fetch(`${deployment.front.url}/t/acme/api/events`, {
        headers: { authorization: `Bearer ${client.people}`, ...via(port) },
      })
      return { status: answer.status, text: answer.text() }
    }

    /** A token for the accounts service that forward-auth lets through, and how to ask it. */
    async function gatewayOf() {
      const session = started(await client.start())
      const asked = await client.ask(session.access_token)
      await client.answer(asked.result?.request_id ?? '')
      const { access_token: control = '' } = (await client.reissue(session.refresh_token)).body
      const { body } = await client.exchange(control, `${deployment.front.url}/demo/accounts`)
      const [row] = await sql<{ value: DemoSecrets }[]>`
        select value from installation where name = 'demo'`
      if (row === undefined) throw new Error('the demo has made no secrets')
      const of = { kind: 'proxies', tenant: 'acme', name: 'Demo gateway' } as const
      const headers = {
        authorization: `Bearer ${body.access_token}`,
        'x-lend-proxy-secret': secretOf(row.value, of),
        'x-original-method': 'GET',
      }
      return (port: number, path: string) =>
        client.send('/forward-auth/nginx', {
          headers: { ...headers, ...via(port), 'x-original-uri': `/demo/accounts/accounts${path}` },
        })
    }
    const recorded = async (path: string) => {
      const [row] = await sql`
        select coalesce(sum(coalesce((data ->> 'calls')::int, 1)), 0)::int as calls from activity
        where type = 'call.allowed' and data ->> 'target' like ${`%${path}`}`
      return row?.calls
    }

    test('restarted one after another under load lose no request, wait or record', async () => {
      const gateway = await gatewayOf()
      const wrong: string[] = []
      let isOver = false
      const load = Array.from({ length: 3 }, () => live(client, wrong, () => isOver))
      for (const port of deployment.ports) {
        const server = deployment.server(port)
        const session = started(await client.start())
        const wait = client.ask(session.access_token, { wait_seconds: 50 }, via(port))
        const events = await listen(port)
        expect(events.status).toBe(200)
        await pause(500)
        for (let n = 0; n < 5; n++) expect((await gateway(port, `/${port}`)).status).toBe(200)
        server.child.kill('SIGTERM')
        // It says so before it stops listening: whoever comes meanwhile is served, and told to go elsewhere next.
        await expect.poll(() => deployment.front.isReady(port), SOON).toBe(false)
        const last = await client.send('/oauth/jwks', { headers: via(port) })
        expect(last.status).toBe(200)
        const alive = await fetch(`http://127.0.0.1:${port}/readyz`)
        expect([alive.status, alive.headers.get('connection')]).toEqual([503, 'close'])
        // The wait is answered with what there is, so the agent can ask on, which goes to another.
        const answered = await wait
        expect(answered).toMatchObject({ status: 200, result: { items: [{ outcome: 'pending' }] } })
        expect((await events.text).startsWith('event: ready')).toBe(true)
        expect(await server.exit).toBe(0)
        expect(await recorded(`/${port}`)).toBe(5)
        const requestId = answered.result?.request_id ?? ''
        const onward = client.ask(session.access_token, { wait_seconds: 50 })
        expect((await client.answer(requestId)).status).toBe(200)
        expect((await onward).result?.items).toMatchObject([{ outcome: 'granted' }])
        await client.revoke(session.refresh_token)
        deployment.start(port)
        await deployment.whenReady(port)
      }
      isOver = true
      const lives = (await Promise.all(load)).reduce((sum, n) => sum + n, 0)
      expect(wrong).toEqual([])
      expect(deployment.front.failures).toEqual([])
      // Each has had its share, the new ones included.
      for (const port of deployment.ports)
        expect(deployment.front.answers.get(port)).toBeGreaterThan(0)
      const [row] = await sql`
        select count(*)::int as n from activity where type = 'session.ended'`
      expect(row?.n).toBeGreaterThanOrEqual(lives)
      const checked = await cli({ DATABASE_URL: deployment.databaseUrl }, 'verify-activity')
      expect(checked).toMatch(/^ok: /m)
    }, 180_000)
  },
)
