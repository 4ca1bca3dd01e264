import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ask as askGateway, lentSession, reasonOf } from '../gateway/support/proxy.ts'
import { type Cluster, scratchCluster } from '../support/cluster.ts'
import { type Answer, basic, type LiveServer, serveLend } from '../support/live-server.ts'
import { postgresIsLeftOut } from '../support/postgres.ts'
import { through, type Wire, wireTo } from '../support/wire.ts'

/** The database in every state that it should not be in: what each door says, and that nothing is lost or widened (I19). */
const title = 'a database that is'
const BACK = { timeout: 20_000, interval: 100 }
const CONNECTIONS = 40

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    let cluster: Cluster
    let wire: Wire
    let lend: LiveServer
    let session: Awaited<ReturnType<typeof lentSession>>
    let person: string
    beforeAll(async () => {
      cluster = await scratchCluster([
        `max_connections=${CONNECTIONS}`,
        'superuser_reserved_connections=0',
      ])
      wire = await wireTo(cluster.port)
      lend = await serveLend({ database: through(cluster.url, wire.port), jobs: false })
      session = await lentSession(lend)
      person = await lend.userToken('maya')
      // Both of the person's tokens are had before anything breaks.
      await lend.userToken('maya', 'app')
    })
    let isStopped = false
    afterEach(async () => {
      wire.mend()
      if (isStopped) await cluster.start()
      isStopped = false
      await expect.poll(held, BACK).toEqual(['accounts:read'])
    })
    afterAll(async () => {
      await lend?.close()
      await wire?.close()
      await cluster?.remove()
    })

    /** What the session holds, by a fresh decision: what it held before, or something was lost or widened. */
    async function held(): Promise<unknown> {
      const { started } = session
      const form = { grant_type: 'refresh_token', refresh_token: started.refresh_token }
      const answer = await lend.token(form, await lend.agent()).catch(() => null)
      if (answer?.status !== 200) return answer?.text ?? 'no answer'
      return answer.body.authorization_details.map((detail) => detail.permission)
    }

    type Door = readonly [name: string, ask: () => Promise<Answer>, writes: boolean]
    /** Everything that needs the database, as a client asks it. */
    async function doors(): Promise<readonly Door[]> {
      const [agent, point] = [credentials.agent, credentials.point]
      const { started, control, token } = session
      const exchange = {
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token: await lend.userToken('maya', 'app'),
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        template: 'renewal-briefs',
      }
      const json = (authorization: string, body: object) => ({
        method: 'POST',
        headers: {
          authorization,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2025-11-25',
        },
        body: JSON.stringify(body),
      })
      const call = {
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: {
          name: 'iam.request_access',
          arguments: { items: [{ permission: 'email-templates:write' }], reason: 'to see' },
        },
      }
      const evaluation = {
        subject: { type: 'agent_session', id: started.session_id, properties: { token } },
        action: { name: 'view' },
        resource: { type: 'dashboard', id: 'q3-pipeline' },
      }
      const made = { agent_id: agent.client_id, template: 'renewal-briefs' }
      return [
        ['start', () => lend.token(exchange, agent), true],
        [
          're-issue',
          () =>
            lend.token(
              { grant_type: 'refresh_token', refresh_token: started.refresh_token },
              agent,
            ),
          true,
        ],
        ['introspection', () => lend.oauth('introspect', { token: control }, point), false],
        ['an MCP call', () => lend.request('/t/acme/mcp', json(`Bearer ${control}`, call)), true],
        ['a person’s list', () => lend.api(person, 'GET', '/sessions'), false],
        ['a person’s write', () => lend.api(person, 'POST', '/sessions', made), true],
        [
          'an asset check',
          () => lend.request('/t/acme/access/v1/evaluation', json(basic(point), evaluation)),
          false,
        ],
        [
          'data',
          () =>
            lend.request(
              '/t/acme/enforce/data',
              json(basic(point), { token, entity: 'accounts', action: 'read' }),
            ),
          false,
        ],
      ]
    }
    let credentials: Record<'agent' | 'point', { client_id: string; client_secret: string }>
    beforeAll(async () => {
      credentials = { agent: await lend.agent(), point: await lend.enforcementPoint() }
    })

    /** 503, when to try again, a code that a client can act on, and nothing of our inside. */
    function isAway(name: string, answer: Answer): void {
      // Whom MCP knows by a read that works is told in a tool's words.
      const isTold = name === 'an MCP call' && answer.status === 200
      if (isTold) expect(answer.text).toMatch(/unavailable.*retry_after.*"isError":true/)
      else {
        expect([name, answer.status]).toEqual([name, 503])
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
        expect(answer.text).toMatch(/unavailable|Try again/)
      }
      expect(answer.text).not.toMatch(/\n\s+at |select |postgres|ECONN|127\.0\.0\.1:/i)
    }

    /** Each door is asked at once; those that do not need what is missing answer as ever. */
    async function everyDoorIsAway(of: { readonly readsWork?: boolean } = {}): Promise<void> {
      const all = await doors()
      const answers = await Promise.all(all.map(([, ask]) => ask()))
      for (const [n, [name, , writes]] of all.entries()) {
        const answer = answers[n]
        if (answer === undefined) throw new Error(name)
        if (writes || of.readsWork !== true) isAway(name, answer)
        else expect([name, answer.status]).toEqual([name, 200])
      }
      // Forward-auth decides from memory, and goes on for a minute.
      expect(reasonOf(await askGateway(lend, { token: session.token }))).toBe('allowed')
    }

    const straight = async <T>(body: (sql: postgres.Sql) => Promise<T>): Promise<T> => {
      const sql = postgres(cluster.url, { max: 1, onnotice: () => {} })
      try {
        return await body(sql)
      } finally {
        await sql.end()
      }
    }

    test('stopped, and started again', async () => {
      isStopped = true
      await cluster.stop('immediate')
      await everyDoorIsAway()
    })

    test('cut off in the middle of every request', async () => {
      wire.slow(40)
      const all = await doors()
      const asked = all.map(([, ask]) => ask())
      await new Promise((done) => setTimeout(done, 100))
      wire.cut()
      for (const [n, answer] of (await Promise.all(asked)).entries())
        isAway(all[n]?.[0] ?? '', answer)
      await everyDoorIsAway()
    })

    test('silent: nobody waits without end', async () => {
      wire.stall()
      const began = performance.now()
      await everyDoorIsAway()
      // Several statements one after another may each have been waited for.
      expect(performance.now() - began).toBeLessThan(40_000)
    })

    test('slow: slow answers, and right ones', async () => {
      wire.slow(25)
      for (const [name, ask] of await doors())
        expect([name, (await ask()).status]).toEqual([
          name,
          name === 'a person’s write' ? 201 : 200,
        ])
    })

    test('read-only: what only reads goes on, nothing is issued, granted or ended', async () => {
      const readOnly = (yes: boolean) =>
        straight(async (sql) => {
          await sql.unsafe(`alter system set default_transaction_read_only = ${yes}`)
          await sql`select pg_reload_conf()`
        })
      await readOnly(true)
      const shown = () =>
        lend.rows<{ on: string }>(`select current_setting('default_transaction_read_only') as on`)
      await expect.poll(async () => (await shown())[0]?.on, BACK).toBe('on')
      await everyDoorIsAway({ readsWork: true })
      await straight(async (sql) => {
        await sql.unsafe('set default_transaction_read_only = off')
        await sql.unsafe('alter system reset default_transaction_read_only')
        await sql`select pg_reload_conf()`
      })
    })

    test('out of connections', async () => {
      const hogs: postgres.Sql[] = []
      const hog = async () => {
        const one = postgres(cluster.url, { max: 1, onnotice: () => {} })
        await one`select 1`
        hogs.push(one)
      }
      const [first] = await Promise.all([hog(), hog()]).then(() => hogs)
      if (first === undefined) throw new Error('no connection')
      // Lend's own go, again and again, until all there are belong to somebody else.
      const isFull = async () => {
        await first`
          select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'lend%'`
        await Promise.allSettled(Array.from({ length: CONNECTIONS }, hog))
        return hogs.length
      }
      await expect.poll(isFull, BACK).toBe(CONNECTIONS)
      await everyDoorIsAway()
      await Promise.all(hogs.map((one) => one.end()))
    })
  },
)
