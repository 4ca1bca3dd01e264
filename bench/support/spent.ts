import { readFileSync } from 'node:fs'
import type { World } from './world.ts'

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

/** Processor time in microseconds, the rest in bytes. */
export type Spent = {
  readonly server: number
  readonly database: number
  readonly wal: number
  readonly kept: number
}

/** What the server and its database have spent so far: it wanders less than a rate where others use the machine. */
export async function spentSoFar({ scratch, lend }: World): Promise<Spent> {
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

/** What one of `count` calls costs. */
export async function spentOn(
  world: World,
  count: number,
  calls: () => Promise<unknown>,
): Promise<Spent> {
  const before = await spentSoFar(world)
  await calls()
  const after = await spentSoFar(world)
  const each = (of: keyof Spent) => (after[of] - before[of]) / count
  return {
    server: each('server'),
    database: each('database'),
    wal: each('wal'),
    kept: each('kept'),
  }
}
