import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { doctor } from '../../src/cli/doctor.ts'
import { openServer } from '../../src/db/open.ts'
import type { Finding } from '../../src/ops/doctor/finding.ts'
import { ask as askGateway, lentSession, reasonOf } from '../gateway/support/proxy.ts'
import { runOn } from '../support/databases.ts'
import { type AskAnswer, type LiveServer, serveLend } from '../support/live-server.ts'
import { type PgBouncer, startPgBouncer } from '../support/pgbouncer.ts'
import { emptyDatabase, postgresIsLeftOut, type Scratch, urlOf } from '../support/postgres.ts'

const title = 'two instances behind PgBouncer in transaction mode'
const READ = { permission: 'accounts:read' }
const SOON = { timeout: 5_000, interval: 50 }

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    let bouncer: PgBouncer
    let scratch: Scratch
    let pooled: string
    let a: LiveServer
    let b: LiveServer
    beforeAll(async () => {
      bouncer = await startPgBouncer(urlOf('postgres'))
      // Nothing is in it: both bring the tables, the first has the lock.
      scratch = await emptyDatabase()
      pooled = bouncer.through(scratch.url)
      const at = { database: pooled, directUrl: scratch.url }
      const migrated = await Promise.all([
        openServer(at.database, at.directUrl),
        openServer(at.database, at.directUrl),
      ])
      for (const db of migrated) await db.close()
      a = await serveLend(at)
      b = await serveLend({ ...at, publicUrl: a.publicUrl })
    })
    afterAll(async () => {
      await b?.close()
      await a?.close()
      await scratch?.drop()
      await bouncer?.stop()
    })

    /** The agent's MCP address is the first instance's; everything else goes to either. */
    async function lentAcross(login: string) {
      const session = await b.start(login)
      const { request_id = '' } = await a.ask(session.access_token, [READ])
      await b.answer(login, request_id)
      const there = await b.reissue(session.refresh_token)
      const here = await a.reissue(session.refresh_token)
      return [there, here].map((one) => one.authorization_details.map((d) => d.permission))
    }

    test('what one starts, the other asks, the first answers and both re-issue', async () => {
      expect(await lentAcross('maya')).toEqual([[READ.permission], [READ.permission]])
    })

    test('a wait on the one is woken by an answer on the other', async () => {
      const took: number[] = []
      for (let n = 0; n < 3; n++) {
        const session = await b.start('maya')
        const { request_id = '' } = await a.ask(session.access_token, [READ])
        const mcp = await a.mcp(session.access_token)
        const waiting = mcp.call<AskAnswer>('iam.request_access', {
          ...{ items: [READ], reason: 'to write the brief', wait_seconds: 30 },
        })
        // It has looked once and waits.
        await pause(300)
        await b.answer('maya', request_id)
        const at = performance.now()
        expect((await waiting).items).toMatchObject([{ outcome: 'granted' }])
        took.push(performance.now() - at)
      }
      // A look every two seconds would come more than a second after most of these answers.
      expect(took.toSorted((x, y) => x - y)[1]).toBeLessThan(1_000)
    })

    test('each listens on a connection of its own, and none of the pool’s', async () => {
      const listening = await runOn(a.ctx.db)<{ name: string }>(
        `select application_name as name from pg_stat_activity
         where datname = current_database() and query ilike 'listen%'`,
      )
      expect(listening.map((one) => one.name)).toEqual(['lend bus', 'lend bus'])
    })

    test('the feed reaches the other: what was taken back is refused at its forward-auth', async () => {
      const { started, control, token } = await lentSession(a)
      await b.gateway.caughtUp()
      expect(reasonOf(await askGateway(b, { token }))).toBe('allowed')
      const mcp = await a.mcp(control)
      await mcp.call('iam.release_access', { items: [READ] })
      const refused = async () => reasonOf(await askGateway(b, { token }))
      await expect.poll(refused, SOON).toBe('SESSION_VERSION_STALE')
      expect((await a.reissue(started.refresh_token)).authorization_details).toEqual([])
    })

    test('many at once, far more than the pool has connections', async () => {
      const done = await Promise.all(Array.from({ length: 12 }, () => lentAcross('omar')))
      for (const one of done) expect(one).toEqual([[READ.permission], [READ.permission]])
      await a.endSessions('omar')
      expect([...a.bugs, ...b.bugs]).toEqual([])
    })

    const pooler = async (more: NodeJS.ProcessEnv) => {
      let text = ''
      const env = { LEND_DATA: 'memory', PUBLIC_URL: 'http://127.0.0.1:1', ...more }
      await doctor(env, (line) => (text += line), { json: true })
      const all: readonly Finding[] = JSON.parse(text)
      return all.filter((one) => one.check === 'pooler').map((one) => `${one.level}: ${one.says}`)
    }

    test('the doctor sees a pooler that is not named, and a direct address that is none', async () => {
      const DATABASE_URL = pooled
      expect(await pooler({ DATABASE_URL: scratch.url })).toEqual([])
      expect(await pooler({ DATABASE_URL, DATABASE_DIRECT_URL: scratch.url })).toEqual([
        'ok: DATABASE_DIRECT_URL leads to the same database, directly',
      ])
      // By itself: with others on the pool, the second look may be given another connection.
      await b.close()
      await a.close()
      expect((await pooler({ DATABASE_URL }))[0]).toMatch(/^wrong: DATABASE_URL leads through/)
      expect((await pooler({ DATABASE_URL, DATABASE_DIRECT_URL: pooled }))[0]).toMatch(
        /^wrong: DATABASE_DIRECT_URL leads through a pooler too/,
      )
      expect((await pooler({ DATABASE_URL, DATABASE_DIRECT_URL: urlOf('postgres') }))[0]).toMatch(
        /^wrong: .* lead to different databases/,
      )
    })
  },
)
