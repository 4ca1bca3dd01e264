import type { Options } from '../options.ts'
import { settle } from '../support/database.ts'
import { drive } from '../support/drive.ts'
import { startPeer } from '../support/machine.ts'
import { alternate, compare, pace, type Row } from '../support/rounds.ts'
import {
  addAllowRules,
  assetCheck,
  CONCURRENCY,
  dataFilter,
  type Session,
  withWorld,
} from '../support/world.ts'
import { holdFive } from './held.ts'

const SESSIONS = 200
const SELECT = 'indexed select'
const SIDES = [
  ['asset check', assetCheck, '"decision":true'],
  ['data filter', dataFilter, '"reason":"granted"'],
] as const

/** G5: live checks of an asset and of data, five grants held, against one indexed select over postgres.js behind node:http. */
export async function g5(options: Options): Promise<readonly Row[]> {
  const most = options.quick ? 200 : 30_000
  return withWorld({ name: 'g5', sessions: SESSIONS, ...options.profiled }, async (world) => {
    await addAllowRules(world.scratch.sql)
    const sessions = await holdFive(world, options.quick ? 40 : SESSIONS)
    const raw = await startPeer('raw', { DATABASE_URL: world.scratch.url })
    await raw.ask({ sessions: 'load' })
    let turn = 0
    const next = (): Session => sessions[turn++ % sessions.length] as Session
    const many = <T>(count: number, one: () => T): T[] => Array.from({ length: count }, one)
    const select = pace(options.seconds, { first: 500, most })
    const lend = SIDES.map(([name, ask, says]) => {
      const own = pace(options.seconds, { first: 200, most })
      const measure = async () => {
        const requests = many(own.count(), () => ask(world, next()))
        const accept = (body: string) => body.includes(says)
        return own.seen((await drive(world.lend.origin, CONCURRENCY, requests, accept)).perSecond)
      }
      return [name, measure] as const
    })
    const plain = async () => {
      const requests = many(select.count(), () => ({ path: '/select' }))
      const accept = (body: string) => body.includes('"status":"active"')
      const origin = `http://127.0.0.1:${raw.ready.port}`
      return select.seen((await drive(origin, CONCURRENCY, requests, accept)).perSecond)
    }
    try {
      const rounds = await alternate([...lend, [SELECT, plain]], {
        rounds: options.rounds,
        warmed: async () => {
          await settle(world.scratch.sql)
          options.pinned(await world.scratch.pin())
        },
      })
      return SIDES.map(([name]) =>
        compare({
          row: 'G5',
          what: `${name}, 5 grants held / one ${SELECT} over postgres.js`,
          unit: '/s',
          rounds,
          lend: name,
          other: SELECT,
          reach: '≥ 0.50',
          least: 0.5,
        }),
      )
    } finally {
      await raw.stop()
    }
  })
}
