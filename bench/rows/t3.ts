import type { Options } from '../options.ts'
import { settle } from '../support/database.ts'
import { drive } from '../support/drive.ts'
import { startPeer } from '../support/machine.ts'
import { alternate, compare, pace, type Row } from '../support/rounds.ts'
import { addAllowRules, CONCURRENCY, requestAccess, withWorld } from '../support/world.ts'
import { allGranted, THREE } from './held.ts'

/** T3: a request of three items granted by rule, over MCP and HTTP, against its inserts in one raw transaction. */
export async function t3(options: Options): Promise<readonly Row[]> {
  const most = options.quick ? 120 : 6_000
  return withWorld({ name: 't3', sessions: most, ...options.profiled }, async (world) => {
    await addAllowRules(world.scratch.sql)
    const raw = await startPeer('raw', { DATABASE_URL: world.scratch.url })
    const paces = {
      lend: pace(options.seconds, { first: 120, most }),
      raw: pace(options.seconds, { first: 120, most }),
    }
    // Every request is a session's first, so both sides find sessions that are new and hold nothing.
    const fresh = async (count: number) => {
      await world.endSessions()
      return world.startSessions(count)
    }
    try {
      const rounds = await alternate(
        [
          [
            'Lend',
            async () => {
              const sessions = await fresh(paces.lend.count())
              const asks = sessions.map((session) => requestAccess(session, THREE))
              const done = await drive(world.lend.origin, CONCURRENCY, asks, allGranted)
              return paces.lend.seen(done.perSecond)
            },
          ],
          [
            'raw transaction',
            async () => {
              const count = (await fresh(paces.raw.count())).length
              await raw.ask({ sessions: 'load' })
              const done = await raw.ask({ inserts: count, width: CONCURRENCY })
              return paces.raw.seen(Number(done.perSecond))
            },
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
      return [
        compare({
          row: 'T3',
          what: 'request_access, 3 items by rule, MCP / the same inserts in one transaction',
          unit: '/s',
          rounds,
          lend: 'Lend',
          other: 'raw transaction',
          reach: '≥ 0.50',
          least: 0.5,
        }),
      ]
    } finally {
      await raw.stop()
    }
  })
}
