import { readFileSync } from 'node:fs'
import type { Options } from '../options.ts'
import { drive, type Sent } from '../support/drive.ts'
import type { Row } from '../support/rounds.ts'
import {
  assetCheck,
  CONCURRENCY,
  reissue,
  type Session,
  type World,
  withWorld,
} from '../support/world.ts'
import { askedBy, callersFor } from './gateway-load.ts'

const TICKS_A_SECOND = 100

/** Processor time of a process so far, in microseconds; 0 for one that has gone. */
function cpuOf(pid: number): number {
  try {
    const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
    const [user, system] = rest.split(' ').slice(11, 13).map(Number)
    return (((user ?? 0) + (system ?? 0)) * 1e6) / TICKS_A_SECOND
  } catch {
    return 0
  }
}

type Spent = {
  readonly server: number
  readonly database: number
  readonly wal: number
  readonly kept: number
}

async function spentSoFar({ scratch, lend }: World): Promise<Spent> {
  const [of] = await scratch.sql<{ wal: number; kept: number; pids: number[] }[]>`
    select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as wal,
      pg_database_size(current_database())::float8 as kept,
      (select array_agg(pid) from pg_stat_activity where datname = current_database()) as pids`
  return {
    server: cpuOf(lend.process.pid ?? 0),
    database: (of?.pids ?? []).reduce((sum, pid) => sum + cpuOf(pid), 0),
    wal: of?.wal ?? 0,
    kept: of?.kept ?? 0,
  }
}

/** L1: what one call costs, for the load model: it says more of another machine than a rate does, and wanders less. */
export async function l1(options: Options): Promise<readonly Row[]> {
  const count = options.quick ? 100 : 1_500
  return withWorld({ name: 'l1', sessions: 2 * count + 100 }, async (world) => {
    const costOf = async (what: string, calls: readonly Sent[]): Promise<Row> => {
      const before = await spentSoFar(world)
      await drive(world.lend.origin, CONCURRENCY, calls)
      const after = await spentSoFar(world)
      const each = (of: keyof Spent) => (after[of] - before[of]) / calls.length
      const [server, database, wal, kept] = [
        each('server'),
        each('database'),
        each('wal'),
        each('kept'),
      ]
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
