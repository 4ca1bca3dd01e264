import { ACCESS_CHANGED } from './feed.ts'
import { type Db, type Tx, withRead } from './tx.ts'

/** What operators are shown of the whole deployment: numbers, never whose they are. */
const ANSWER_MILLIS_MAX = 2000
const COUNTED_MAX = 100_000

/** An answer in time, or null: an outage must not hold whoever asks how things are. */
export async function inTime<T>(answer: Promise<T>): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ANSWER_MILLIS_MAX)
  })
  try {
    return await Promise.race([answer, late])
  } catch {
    return null
  } finally {
    clearTimeout(timer)
  }
}

/** Whether the database answers within two seconds. */
export const databaseAnswers = async (db: Db): Promise<boolean> =>
  (await inTime(withRead(db, 'health', (tx) => tx.sql`select 1`))) !== null

export type DeploymentCounts = {
  /** Prompts that nobody has answered yet; counted up to 100,000. */
  readonly openPrompts: number
  readonly liveSessions: number
  /** When the oldest change of access that re-evaluation has not passed was made, in seconds; null: none waits. */
  readonly oldestWaitingAt: number | null
  /** Calls that enforcement points say they could not report, ever. */
  readonly callsReportedLost: number
}

/** One statement over partial indexes, bounded however much there is. */
export async function deploymentCounts(tx: Tx, job: string): Promise<DeploymentCounts> {
  const [row] = await tx.sql<DeploymentCounts>`
    select
      (select count(*)::int from (
        select from access_request r join request_item i on i.request_id = r.id
        where r.status = 'pending' and i.outcome = 'pending' limit ${COUNTED_MAX}) p) as "openPrompts",
      (select count(*)::int from (
        select from session where status = 'active' limit ${COUNTED_MAX}) s) as "liveSessions",
      (select extract(epoch from f.at)::float8 from feed f
        where f.topic = ${ACCESS_CHANGED}
          and (f.xid, f.id) > (
            coalesce((select xid from feed_cursor where job = ${job}), '0'::xid8),
            coalesce((select id from feed_cursor where job = ${job}), 0))
        order by f.xid, f.id limit 1) as "oldestWaitingAt",
      (select coalesce(sum(count), 0)::float8 from counter where name = 'calls_lost') as "callsReportedLost"`
  return row ?? { openPrompts: 0, liveSessions: 0, oldestWaitingAt: null, callsReportedLost: 0 }
}
