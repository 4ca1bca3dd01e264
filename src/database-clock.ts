import { type Db, withRead } from './db/tx.ts'
import { startPeriodic } from './flows/periodic.ts'
import type { Clock } from './ports.ts'

const EVERY_MILLIS = 30_000
/** Beyond this an operator should hear of it, though nothing depends on it. */
const TELL_MILLIS = 2_000

/**
 * The database's clock, so that all instances on it agree on what time it is, however far their own clocks are off: an end, a
 * token's life and a limit are the same wherever they are looked at. It is the machine's own clock, moved by as little as
 * puts it between what is known of the other: the answer came from some moment between question and answer. Asked at the
 * start and every half minute; in between, and while the database is away, the machine's clock carries it on.
 *
 * `note` is told when the two begin to differ by more than two seconds. `stop` ends the asking.
 */
export async function databaseClock(
  db: Db,
  own: Clock,
  on: {
    readonly note: (what: string, more: object) => void
    readonly everyMillis?: number
  },
): Promise<Clock & { readonly stop: () => Promise<void> }> {
  let ahead = 0
  let isTold = false
  const look = async (): Promise<void> => {
    const before = own.now()
    const [row] = await withRead(
      db,
      'clock',
      (tx) => tx.sql<{ now: number }>`
        select extract(epoch from clock_timestamp())::float8 * 1000 as now`,
    )
    const after = own.now()
    if (row === undefined) return
    // Whole milliseconds, as every clock of ours gives them.
    ahead = Math.round(Math.min(Math.max(ahead, row.now - after), row.now - before))
    const isOff = Math.abs(ahead) > TELL_MILLIS
    if (isOff && !isTold)
      on.note('the clocks of this machine and of the database differ; the database’s counts', {
        seconds: Math.round(ahead / 1000),
      })
    isTold = isOff
  }
  await look()
  // What keeps it from being asked is told of by everything else that asks the database.
  const { everyMillis = EVERY_MILLIS } = on
  const job = startPeriodic({ run: look, everyMillis, onBug: () => {} })
  return { now: () => own.now() + ahead, stop: job.stop }
}
