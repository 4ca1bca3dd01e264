import type { RequestListener } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { requireNginx, runNginx, type Service, service } from '../gateway/support/nginx.ts'
import { replaced } from '../gateway/support/program.ts'
import { postgresIsLeftOut } from '../support/postgres.ts'
import { type Client, cli, started } from './support/client.ts'
import { DEPLOY_MILLIS_MAX, type Deployment, deploy } from './support/deployment.ts'
import { live } from './support/lives.ts'

requireNginx()

/** The reference configuration for instances behind nginx, as it is but for the addresses. */
async function balancedByNginx(ports: readonly number[]) {
  const places = ['127.0.0.1:4001', '127.0.0.1:4002', '127.0.0.1:4003']
  const running = await runNginx({
    from: 'src/ops/nginx',
    file: 'nginx.conf',
    change: (text) =>
      places.reduce((so, place, n) => replaced(so, place, `127.0.0.1:${ports[n]}`), text),
  })
  return {
    url: running.origin,
    close: running.stop,
    /** A line a request, as they were written so far. */
    lines: (): readonly Line[] =>
      running
        .log('access.log')
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line)),
  }
}
type Line = {
  readonly method: string
  readonly path: string
  readonly status: number
  /** Each instance that was tried, one after the other. */
  readonly upstream: string
}
type Nginx = Awaited<ReturnType<typeof balancedByNginx>>

describe('nginx in front of instances', () => {
  let front: Nginx
  let services: Service[] = []
  const behind = async (...answers: readonly RequestListener[]) => {
    services = await Promise.all(answers.map((answer) => service(answer)))
    front = await balancedByNginx(services.map(({ port }) => port))
  }
  afterEach(async () => {
    await front.close()
    for (const one of services) await one.close()
  })
  const asked = (path: string) =>
    services.flatMap(({ seen }) => seen.filter((req) => req.url === path)).length
  const hangsUp: RequestListener = (req, res) => {
    if (req.url === '/readyz') res.end('ready')
    else req.resume().on('end', () => req.socket.destroy())
  }

  test('leaves one that stops alone while that still serves', async () => {
    const ready: RequestListener = (_req, res) => res.end('served')
    await behind(
      (req, res) => res.writeHead(req.url === '/readyz' ? 503 : 200).end('served'),
      ready,
      ready,
    )
    const [stopping] = services
    const post = async (path: string) =>
      (await fetch(`${front.url}${path}`, { method: 'POST', body: 'x' })).status
    await expect
      .poll(async () => [await post('/before'), stopping?.seen.some((r) => r.url === '/readyz')])
      .toEqual([200, true])
    // Its no has come back by the time that another answer has.
    await post('/between')
    for (let n = 0; n < 12; n++) expect(await post('/after')).toBe(200)
    expect(asked('/after')).toBe(12)
    expect(stopping?.seen.map((req) => req.url)).not.toContain('/after')
  })

  test('sends what an instance hung up on to another when it changes nothing', async () => {
    await behind(hangsUp, hangsUp, hangsUp)
    expect((await fetch(`${front.url}/reads`)).status).toBe(502)
    expect(asked('/reads')).toBe(3)
  })

  test.each(['POST', 'PATCH'])('sends a %s once, whatever becomes of it', async (method) => {
    await behind(hangsUp, hangsUp, hangsUp)
    const body = 'grant_type=refresh_token'
    expect((await fetch(`${front.url}/changes`, { method, body })).status).toBe(502)
    expect(asked('/changes')).toBe(1)
  })
})

const title = 'three instances behind nginx'
const SOON = { timeout: 30_000, interval: 100 }

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    let deployment: Deployment<Nginx>
    let client: Client
    let sql: postgres.Sql
    beforeAll(async () => {
      deployment = await deploy({
        instances: 3,
        front: balancedByNginx,
        settings: () => ({ LEND_DRAIN_SECONDS: '5', LEND_TRUSTED_PROXIES: '127.0.0.1' }),
        // A sign-in is in the memory of one demo provider, and nginx sends to whoever is there.
        firstAlone: true,
      })
      client = deployment.client
      sql = postgres(deployment.databaseUrl, { max: 1, onnotice: () => {} })
    }, DEPLOY_MILLIS_MAX)
    afterAll(async () => {
      await sql?.end()
      await deployment?.close()
    })

    const linesOf = (port: number) =>
      deployment.front.lines().filter(({ upstream }) => upstream.endsWith(`:${port}`))
    const isUsed = (port: number) => {
      const before = linesOf(port).length
      return expect.poll(() => linesOf(port).length, SOON).toBeGreaterThan(before)
    }

    /** Events of one person as they come, from the place that was heard last, again and again until it is over. */
    function listener(wrong: string[]) {
      const heard: string[] = []
      const over = new AbortController()
      let streams = 0
      let last = ''
      const listen = async () => {
        const answer = await fetch(`${deployment.front.url}/t/acme/api/events`, {
          headers: {
            authorization: `Bearer ${client.people}`,
            ...(last === '' ? {} : { 'last-event-id': last }),
          },
          signal: over.signal,
        })
        if (answer.status !== 200) wrong.push(`events: ${answer.status}`)
        streams++
        let text = ''
        for await (const chunk of answer.body ?? []) {
          text += Buffer.from(chunk).toString()
          const messages = text.split('\n\n')
          text = messages.pop() ?? ''
          for (const message of messages) {
            last = /^id: (.+)$/m.exec(message)?.[1] ?? last
            const session = /"session_id":"([^"]+)"/.exec(message)?.[1]
            if (/^event: session$/m.test(message) && session !== undefined) heard.push(session)
          }
        }
      }
      const listening = (async () => {
        while (!over.signal.aborted)
          await listen().catch((error: unknown) => {
            if (!over.signal.aborted) wrong.push(`events: ${String(error)}`)
          })
      })()
      return {
        heard,
        streams: () => streams,
        stop: () => {
          over.abort()
          return listening
        },
      }
    }

    test('restarted one after another under load fail no request of a client that knows only nginx', async () => {
      const wrong: string[] = []
      let isOver = false
      const events = listener(wrong)
      await expect.poll(events.streams, SOON).toBe(1)
      const load = Array.from({ length: 3 }, () => live(client, wrong, () => isOver))
      /** A question that its person answers only when all instances were restarted; the agent waits, again and again. */
      const session = started(await client.start())
      const asked = await client.ask(session.access_token)
      const waiting = (async () => {
        for (let waits = 1; ; waits++) {
          const { status, result, text } = await client.ask(session.access_token, {
            wait_seconds: 50,
          })
          if (status !== 200) wrong.push(`wait: ${status} ${text}`)
          if (result?.items[0]?.outcome !== 'pending') return { waits, result }
          await pause(100)
        }
      })()
      for (const port of deployment.ports) {
        await isUsed(port)
        deployment.server(port).child.kill('SIGTERM')
        expect(await deployment.server(port).exit).toBe(0)
        deployment.start(port)
        await deployment.whenReady(port)
        await isUsed(port)
      }
      expect((await client.answer(asked.result?.request_id ?? '')).status).toBe(200)
      const { waits, result } = await waiting
      expect(result?.items).toMatchObject([{ outcome: 'granted' }])
      // One of the three had it each time, so at least once it was told to ask on.
      expect(waits).toBeGreaterThan(1)
      isOver = true
      const lives = (await Promise.all(load)).reduce((sum, n) => sum + n, 0)
      expect((await client.revoke(session.refresh_token)).status).toBe(200)
      expect(wrong).toEqual([])

      // Nothing was begun twice: as many sessions as were asked for, each heard of as it ended.
      const rows = await sql<{ id: string; ended: boolean }[]>`
        select id, status <> 'active' as ended from session`
      expect(rows.filter((row) => row.ended).length).toBe(lives + 1)
      expect(rows.length).toBe(lives + 1)
      await expect.poll(() => rows.filter(({ id }) => !events.heard.includes(id)), SOON).toEqual([])
      expect(events.streams()).toBeGreaterThan(1)
      await events.stop()
      expect(wrong).toEqual([])
      const failed = deployment.front.lines().filter(({ status }) => status >= 500)
      expect(failed).toEqual([])
      const checked = await cli({ DATABASE_URL: deployment.databaseUrl }, 'verify-activity')
      expect(checked).toMatch(/^ok: /m)
    }, 420_000)
  },
)
