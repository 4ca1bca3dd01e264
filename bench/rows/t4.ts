import { Pool } from 'undici'
import type { Options } from '../options.ts'
import { settle } from '../support/database.ts'
import type { Sent } from '../support/drive.ts'
import { startPeer } from '../support/machine.ts'
import { alternate, compare, median, type Row } from '../support/rounds.ts'
import {
  answer,
  pendingOf,
  requestAccess,
  type Session,
  type World,
  withWorld,
} from '../support/world.ts'

const ITEM = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
const WAIT_SECONDS = 20
/** The waiting call has looked once and sleeps by then. */
const SETTLED_MILLIS = 40

async function send(pool: Pool, sent: Sent): Promise<string> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: sent.path,
    headers: sent.headers ?? {},
    ...(sent.body === undefined ? {} : { body: sent.body }),
  })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`${sent.path} answered ${statusCode}: ${text}`)
  return text
}

const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))

async function stored(world: World, session: Session) {
  for (let look = 0; look < 500; look++) {
    const asked = (await pendingOf(world, [session])).get(session.id)
    if (asked !== undefined) return asked
    await pause(2)
  }
  throw new Error('the request was not stored')
}

/** From the sending of the answer to the return of the call that waited for it. */
async function answered(world: World, pool: Pool, session: Session): Promise<number> {
  const waiting = send(pool, requestAccess(session, [ITEM], { wait_seconds: WAIT_SECONDS }))
  const asked = await stored(world, session)
  await pause(SETTLED_MILLIS)
  const started = performance.now()
  const [said] = await Promise.all([waiting, send(pool, answer(session.user, asked))])
  const millis = performance.now() - started
  if (!said.includes('allowed_by_user')) throw new Error(`the call returned without it: ${said}`)
  return millis
}

/** The request itself, without a wait: what comes before a person can read it. */
async function asked(pool: Pool, session: Session): Promise<number> {
  const started = performance.now()
  await send(pool, requestAccess(session, [ITEM]))
  return performance.now() - started
}

/** T4: how long after the answer the waiting call returns. One at a time: a latency, not a rate. */
export async function t4(options: Options): Promise<readonly Row[]> {
  const each = options.quick ? 5 : 30
  return withWorld({ name: 't4', sessions: each, ...options.profiled }, async (world) => {
    await world.scratch.sql`
      create table bench_commit (n bigint generated always as identity primary key, at timestamptz)`
    const raw = await startPeer('raw', { DATABASE_URL: world.scratch.url })
    const lend = new Pool(world.lend.origin, { connections: 4, pipelining: 1 })
    const bare = new Pool(`http://127.0.0.1:${raw.ready.port}`, { connections: 1, pipelining: 1 })
    const times = async (one: (i: number) => Promise<number>) => {
      const all: number[] = []
      for (let i = 0; i < each; i++) all.push(await one(i))
      return median(all)
    }
    const fresh = async () => {
      await world.endSessions()
      return world.startSessions(each)
    }
    try {
      const rounds = await alternate(
        [
          [
            'answer',
            async () => {
              const sessions = await fresh()
              return times((i) => answered(world, lend, sessions[i] as Session))
            },
          ],
          [
            'request',
            async () => {
              const sessions = await fresh()
              return times((i) => asked(lend, sessions[i] as Session))
            },
          ],
          [
            'raw',
            () =>
              times(async () => {
                const started = performance.now()
                await send(bare, { path: '/commit' })
                await send(bare, { path: '/empty' })
                return performance.now() - started
              }),
          ],
        ],
        {
          rounds: options.rounds,
          warmed: async () => {
            await settle(world.scratch.sql)
            options.pinned(await world.scratch.pin())
          },
        },
      )
      const whole = rounds.map((r) => ({ ...r, whole: (r.request ?? 0) + (r.answer ?? 0) }))
      const common = { row: 'T4', unit: 'ms' as const, other: 'raw' }
      return [
        compare({
          ...common,
          what: 'answer sent → waiting call returned / two round trips and one commit',
          rounds,
          lend: 'answer',
          reach: '≤ 3',
          most: 3,
        }),
        compare({
          ...common,
          what: 'the same with the request itself before it',
          rounds: whole,
          lend: 'whole',
          reach: '≤ 3',
          most: 3,
        }),
      ]
    } finally {
      await Promise.all([lend.close(), bare.close()])
      await raw.stop()
    }
  })
}
