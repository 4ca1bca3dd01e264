import { Pool } from 'undici'
import type { Options } from '../options.ts'
import { settle } from '../support/database.ts'
import { basic, form, type Sent } from '../support/drive.ts'
import { alternate, compare, median, type Row } from '../support/rounds.ts'
import { reissue, type Session, toolCall, type World, withWorld } from '../support/world.ts'

const FLOOD = 64
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

async function send(pool: Pool, sent: Sent): Promise<string> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: sent.path,
    headers: sent.headers ?? {},
    body: sent.body ?? '',
  })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`${sent.path} answered ${statusCode}: ${text}`)
  return text
}

/** What one person's app of another organisation sends now and then: the re-issue of a session of gus of globex. */
async function quietTenant(world: World): Promise<Sent> {
  const { agents } = await world.lend.credentials('globex')
  const [agent] = agents
  if (agent === undefined) throw new Error('globex has no agent')
  const credential = basic(agent.client_id, agent.client_secret)
  const subject = await world.lend.cli(
    'demo-token',
    '--user',
    'gus',
    '--client',
    'app',
    '--tenant',
    'globex',
  )
  const pool = new Pool(world.lend.origin, { connections: 1 })
  const started = await send(
    pool,
    form(
      '/t/globex/oauth/token',
      {
        grant_type: EXCHANGE,
        subject_token: subject.trim(),
        subject_token_type: ACCESS_TOKEN,
        template: agent.templates[0] ?? '',
      },
      credential,
    ),
  )
  await pool.close()
  const { refresh_token } = JSON.parse(started)
  return form('/t/globex/oauth/token', { grant_type: 'refresh_token', refresh_token }, credential)
}

/** F1: what one tenant's flood does to another's re-issue, one at a time. Bounded: 64 connections, for the time of a round. */
export async function f1(options: Options): Promise<readonly Row[]> {
  const seconds = options.quick ? 0.5 : options.seconds
  return withWorld({ name: 'f1', sessions: FLOOD, ...options.profiled }, async (world) => {
    const quiet = await quietTenant(world)
    const sessions = await world.startSessions(FLOOD)
    const one = new Pool(world.lend.origin, { connections: 1 })
    const many = new Pool(world.lend.origin, { connections: FLOOD, pipelining: 1 })
    const latency = async (): Promise<number> => {
      const millis: number[] = []
      const until = performance.now() + seconds * 1000
      while (performance.now() < until) {
        const began = performance.now()
        await send(one, quiet)
        millis.push(performance.now() - began)
      }
      return median(millis)
    }
    const flooded = async (): Promise<number> => {
      let over = false
      const worker = async (session: Session, turn: number) => {
        for (let i = turn; !over; i++)
          await send(
            many,
            i % 2 === 0 ? reissue(world, session) : toolCall(session, 'iam.my_access', {}),
          )
      }
      const flood = Promise.all(sessions.map(worker))
      const measured = await latency().finally(() => {
        over = true
      })
      await flood
      return measured
    }
    try {
      const rounds = await alternate(
        [
          ['flooded', flooded],
          ['alone', latency],
        ],
        {
          rounds: options.rounds,
          warmed: async () => {
            await settle(world.scratch.sql)
            options.pinned(await world.scratch.pin())
          },
        },
      )
      return [
        compare({
          ...{ row: 'F1', unit: 'ms', rounds, lend: 'flooded', other: 'alone' },
          what: `another tenant's re-issue while one tenant floods with ${FLOOD} connections / without`,
          reach: 'bounded by a share of the connections',
        }),
      ]
    } finally {
      await Promise.all([one.close(), many.close()])
    }
  })
}
