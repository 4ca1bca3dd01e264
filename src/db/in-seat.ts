import type postgres from 'postgres'
import { ConnectionLost, type Seat } from './seats.ts'
import { noop, type Run, txOn, watched } from './statements.ts'
import type { Orm, Planned, Tx } from './tx.ts'

const SILENT = 'The database has not answered in time.'

/**
 * One transaction on a seat: `begin` travels with the first statements and `commit` with the last. Whatever goes wrong is
 * thrown, and then nothing of it is kept.
 */
export async function inSeat<T>(
  seat: Seat,
  of: {
    readonly run: Run
    readonly orm: () => Orm
    readonly planned: Planned
    readonly patienceMillis: number
  },
  body: (tx: Tx) => Promise<T>,
): Promise<T> {
  const later: Promise<unknown>[] = []
  const after: (() => void)[] = []
  let over = false
  // Of statement and answer, neither may be waited for longer: the other end may be gone without a word.
  const silence = setTimeout(() => seat.drop(new ConnectionLost(SILENT)), of.patienceMillis)
  const { run, explains } = watched(async (text, values) => {
    silence.refresh()
    const rows = await of.run(text, values)
    silence.refresh()
    return rows as never
  })
  const tx = txOn({
    run: (text, values) =>
      over ? Promise.reject(new Error('the transaction is over')) : run(text, values),
    orm: of.orm,
    later: (sent) => later.push(sent),
    committed: (then) => after.push(then),
  })
  const lost = new Promise<never>((_, reject) => {
    seat.onLost = (error) => {
      over = true
      reject(error)
    }
  })
  if (seat.lost) throw new ConnectionLost()
  const send = (statement: postgres.PendingQuery<postgres.Row[]>) => {
    const sent = statement.simple().execute()
    sent.catch(noop)
    return sent
  }
  seat.idle = false
  // Local to the transaction: what is planned by value elsewhere finds the connection as it was.
  const begun = send(
    of.planned === 'once'
      ? seat.sql`begin; set local plan_cache_mode = force_generic_plan; set local random_page_cost = 1.1`
      : seat.sql`begin`,
  )
  let end: ReturnType<typeof send> | undefined
  const work = async (): Promise<T> => {
    const value = await body(tx)
    over = true
    end = send(seat.sql`commit`)
    await Promise.all([begun, ...later])
    // Postgres answers a commit of what has failed with ROLLBACK: an error that the body swallowed is no success.
    if ((await end).command !== 'COMMIT')
      throw explains(undefined) ?? new Error('the transaction was rolled back')
    seat.idle = true
    for (const then of after) then()
    return value
  }
  try {
    return await Promise.race([work(), lost])
  } catch (error) {
    over = true
    if (seat.lost) throw error
    const ended = end ?? send(seat.sql`rollback`)
    await Promise.race([ended, lost])
    seat.idle = true
    throw explains(error)
  } finally {
    clearTimeout(silence)
  }
}
