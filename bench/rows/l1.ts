import type { Options } from '../options.ts'
import { drive, type Sent } from '../support/drive.ts'
import type { Row } from '../support/rounds.ts'
import { spentOn } from '../support/spent.ts'
import { assetCheck, CONCURRENCY, reissue, type Session, withWorld } from '../support/world.ts'
import { askedBy, callersFor } from './gateway-load.ts'

/** L1: what one call costs, for the load model: it says more of another machine than a rate does, and wanders less. */
export async function l1(options: Options): Promise<readonly Row[]> {
  const count = options.quick ? 100 : 1_500
  return withWorld({ name: 'l1', sessions: 2 * count + 100 }, async (world) => {
    const costOf = async (what: string, calls: readonly Sent[]): Promise<Row> => {
      const spent = await spentOn(world, calls.length, () =>
        drive(world.lend.origin, CONCURRENCY, calls),
      )
      const { server, database, wal, kept } = spent
      return {
        ...{ row: 'L1', what, unit: 'ms', lend: server / 1000, other: null, ratio: null },
        ...{ reach: '-', met: null },
        note: `database ${(database / 1000).toFixed(2)} ms, WAL ${Math.round(wal)} bytes, kept ${Math.round(kept)} bytes a call`,
        rounds: [{ server, database, wal, kept }],
      }
    }
    await drive(world.lend.origin, CONCURRENCY, world.starts(count / 5))
    const starts = await costOf(
      'processor time of the server for one session start',
      world.starts(count),
    )
    const sessions = await world.startSessions(50)
    const again = Array.from({ length: count }, (_, i) =>
      reissue(world, sessions[i % sessions.length] as Session),
    )
    const reissues = await costOf('… one re-issue', again)
    const callers = await callersFor(world, 20)
    const asset = Array.from({ length: count }, (_, i) =>
      assetCheck(world, (callers[i % callers.length] ?? callers[0])?.session as Session),
    )
    const assets = await costOf('… one AuthZEN check', asset)
    const asked = Array.from({ length: count * 4 }, (_, i) => ({
      method: 'GET' as const,
      path: '/t/acme/forward-auth/nginx',
      headers: askedBy(callers[i % callers.length] ?? { token: '', secret: '' }),
    }))
    return [starts, reissues, assets, await costOf('… one forward-auth check, warm', asked)]
  })
}
