import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { postgresIsLeftOut, scratchDatabase } from '../support/postgres.ts'
import { type Lend, serveInstances } from './support/lend.ts'
import { pause, until } from './support/until.ts'

/**
 * Waits across two instances on one database, behind one public address: whoever waits on the one hears of what happens on
 * the other, also when the notification of it is lost.
 */
const WAIT = { wait_seconds: 30 }
const SOON_MILLIS = 3_000
/** A lost notification costs at most one look, every two seconds. */
const LOST_MILLIS = 6_000
const A = 0
const B = 1

describe.skipIf(postgresIsLeftOut)(
  `waits across instances${postgresIsLeftOut ? ' (left out: LEND_TEST_NO_POSTGRES=1)' : ''}`,
  () => {
    let lend: Lend
    let drop = async () => {}
    beforeAll(async () => {
      const scratch = await scratchDatabase()
      drop = scratch.drop
      await makeLosable(scratch.url)
      lend = await serveInstances(scratch.url, 2)
    })
    afterEach(async () => {
      await lend.tidy()
      expect(lend.bugs()).toEqual([])
    })
    afterAll(async () => {
      await lend?.close()
      await drop()
    })

    const maya = () => lend.person('maya')

    /** Who listens for notifications: a connection of each instance that last ran LISTEN. */
    const listeners = () =>
      lend.sql<{ pid: number }>(
        `select pid from pg_stat_activity
         where datname = current_database() and query ilike 'listen%' and pid <> pg_backend_pid()`,
      )

    /** Waits on one instance while the user answers on another; how long it took from the answer. */
    async function answered(of: {
      waitsOn: number
      answersOn: number
      meanwhile?: () => Promise<unknown>
    }) {
      const agent = await lend.start('maya', { via: of.waitsOn })
      const waiting = agent.ask(['accounts:read'], WAIT)
      const { id } = await maya().asked(agent)
      await pause(300)
      await of.meanwhile?.()
      const answer = await maya().answer(id, 'allow_once', { via: of.answersOn, note: 'Go on.' })
      expect(answer.status).toBe(200)
      const at = performance.now()
      const result = await waiting
      expect(result.items).toMatchObject([{ outcome: 'granted', reason: 'allowed_by_user' }])
      expect(result.items[0]?.message).toContain('Go on.')
      expect(result.token_refresh).toBe(true)
      return { agent, millis: performance.now() - at }
    }

    it('each instance listens', async () => {
      expect(await listeners()).toHaveLength(2)
    })

    it.each([
      ['A', 'B', A, B],
      ['B', 'A', B, A],
      ['A', 'A', A, A],
    ])('a wait on %s returns when the answer goes to %s', async (_a, _b, waitsOn, answersOn) => {
      const { agent, millis } = await answered({ waitsOn, answersOn })
      expect(millis).toBeLessThan(SOON_MILLIS)
      await agent.refresh()
      expect(await agent.held()).toEqual(['accounts:read'])
    })

    it('is woken by the notification, not by the next look', async () => {
      const took: number[] = []
      for (let n = 0; n < 5; n++) took.push((await answered({ waitsOn: A, answersOn: B })).millis)
      // A look every two seconds would come more than one second after most of these answers.
      expect(took.sort((a, b) => a - b)[2]).toBeLessThan(1_000)
    })

    it('a wait on A ends when B ends the session or freezes its user', async () => {
      const ending = await lend.start('maya', { via: A })
      const waits = ending.ask(['accounts:read'], WAIT)
      await maya().asked(ending)
      const via = { 'x-test-instance': String(B) }
      await maya().call('POST', `/sessions/${ending.sessionId}/end`, undefined, via)
      const ended = performance.now()
      expect((await waits).items).toMatchObject([{ reason: 'cancelled' }])
      expect(performance.now() - ended).toBeLessThan(SOON_MILLIS)

      const frozen = await lend.start('maya', { via: A })
      const frozenWaits = frozen.ask(['accounts:read'], WAIT)
      await maya().asked(frozen)
      const body = { scope: 'user', id: await lend.userId('maya') }
      const made = await lend.person('adam').call<{ id: string }>('POST', '/freezes', body, via)
      const froze = performance.now()
      try {
        expect((await frozenWaits).items).toMatchObject([{ outcome: 'pending' }])
        expect(performance.now() - froze).toBeLessThan(SOON_MILLIS)
      } finally {
        await lend.person('adam').must('DELETE', `/freezes/${made.body.id}`)
      }
    })

    it('is taken up on B where A left it', async () => {
      const agent = await lend.start('maya')
      const first = await agent.ask(['accounts:read'], { wait_seconds: 1 })
      const again = agent.ask(['accounts:read'], WAIT)
      await maya().answer(first.request_id, 'deny')
      expect(await again).toMatchObject({
        request_id: first.request_id,
        items: [{ reason: 'denied_by_user' }],
      })
    })

    it('limits and questions are one for both: two calls at once ask once', async () => {
      const agent = await lend.start('maya')
      const both = await Promise.all([
        agent.ask(['accounts:read']),
        agent.ask(['accounts:read']),
        agent.ask(['accounts:read']),
        agent.ask(['accounts:read']),
      ])
      expect(new Set(both.map((r) => r.request_id)).size).toBe(1)
      expect(await maya().pending()).toHaveLength(1)
      const calls = Array.from({ length: 40 }, () =>
        agent.try('iam.request_access', { items: [{ permission: 'a:b' }], reason: 'x' }),
      )
      const faults = (await Promise.all(calls)).flatMap(({ fault }) => (fault ? [fault] : []))
      expect(faults).toHaveLength(14)
      for (const fault of faults) expect(fault).toMatchObject({ limit: 'requestsPerMinute' })
    })

    it('a token that was narrowed on one is dead on the other at once', async () => {
      const agent = await lend.start('maya', { mode: 'bypass', via: A })
      await agent.ask(['accounts:read'])
      await agent.refresh()
      const other = agent.on(B)
      expect(await other.status()).toBe(200)
      await agent.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
      expect([await other.status(), await agent.status()]).toEqual([401, 401])
    })

    it('returns within seconds when the notification is lost with its connection', async () => {
      const cut = async () => {
        const pids = (await listeners()).map((l) => l.pid)
        expect(pids.length).toBeGreaterThan(0)
        for (const pid of pids) await lend.sql('select pg_terminate_backend($1)', [pid])
      }
      const { millis } = await answered({ waitsOn: A, answersOn: B, meanwhile: cut })
      expect(millis).toBeLessThan(LOST_MILLIS)
      await until(async () => (await listeners()).length === 2, 'both listen again', 20)
      expect((await answered({ waitsOn: A, answersOn: B })).millis).toBeLessThan(SOON_MILLIS)
    })

    it('returns within seconds when the notification is never sent, as by one that was killed', async () => {
      await lend.sql('insert into losing values (true)')
      try {
        const { millis } = await answered({ waitsOn: A, answersOn: B })
        expect(millis).toBeLessThan(LOST_MILLIS)
      } finally {
        await lend.sql('delete from losing')
      }
    })
  },
)

/** Stands before the database's own `pg_notify`: it sends nothing while there is a row in `losing`. */
async function makeLosable(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    await sql.unsafe(`
      do $$ begin
        execute format('alter database %I set search_path = public, pg_catalog', current_database());
      end $$;
      create table losing (yes boolean);
      create function public.pg_notify(channel text, payload text) returns void language plpgsql as $$
      begin
        if not exists (select from losing) then perform pg_catalog.pg_notify(channel, payload); end if;
      end $$`)
  } finally {
    await sql.end()
  }
}
