import type { PGlite, Transaction } from '@electric-sql/pglite'
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { drizzle as drizzlePostgres } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { ConnectionLost, type Connections, createSeats, type Seat } from './seats.ts'
import * as tables from './tables.ts'
import { tellTakenBack } from './taken-back.ts'

/**
 * One transaction. `sql` is a tagged template whose holes are always parameters, for the statements whose locks and
 * round trips matter; `orm` is Drizzle on the same transaction, for plain rows and filters composed at run time.
 * JSON goes in as `${json(value)}::text::jsonb`; times come out as `extract(epoch from …)::float8`, since the two
 * drivers disagree on both.
 *
 * Lock order, the same in every flow: guards (catalog, tenant, then user), root sessions by id, sessions, requests, the rest.
 */
export type Tx = {
  readonly sql: <T>(text: TemplateStringsArray, ...values: readonly SqlValue[]) => Promise<T[]>
  /** A statement whose rows nobody needs: sent at once, not waited for before the commit, which cannot succeed if it failed. */
  readonly later: (text: TemplateStringsArray, ...values: readonly SqlValue[]) => void
  /** Runs after the commit, and never if there is none. What it throws is a bug of the caller's. */
  readonly committed: (then: () => void) => void
  readonly orm: Orm
}
export type SqlValue = string | number | boolean | null | readonly string[] | readonly number[]
export type Orm = PgDatabase<PgQueryResultHKT, typeof tables>

/**
 * How a transaction's statements are planned. `once`: a connection plans each of them once, for any value, and prefers an
 * index; planning anew for each value, as Postgres would for some of them, costs more than running them. Only for flows
 * whose statements are fixed and find their rows by key, so that no value makes another plan better.
 */
export type Planned = 'once' | 'by_value'

/** A database: the embedded one or a server. Flows reach it only through `withTx` and `read`. */
export type Db = {
  readonly kind: 'embedded' | 'server'
  readonly begin: <T>(label: string, body: (tx: Tx) => Promise<T>, planned?: Planned) => Promise<T>
  /** Statements outside a transaction, each on a snapshot of its own. */
  readonly alone: Tx
  /** Listens for kicks from other instances. Calls `onKick` after each, and after a reconnect. */
  readonly listen: (channel: string, onKick: () => void) => Promise<() => Promise<void>>
  readonly kick: (channel: string) => Promise<void>
  readonly close: () => Promise<void>
  /** What this is one tenant's share of (`shares.ts`); absent: it is the whole. */
  readonly whole?: Db
  /** Connections for transactions, and how many transactions wait for one. */
  readonly connections: () => Connections
  /** Statements sent so far, for the tests that bound round trips. */
  readonly statements: () => number
}

export const json = (value: unknown): string => JSON.stringify(value)

const ATTEMPTS_MAX = 4
// Deadlock, serialisation failure: Postgres rolled the transaction back and says to try again.
const RETRYABLE = new Set(['40001', '40P01'])

export const sqlState = (error: unknown): string | undefined =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : error instanceof Error && error.cause !== undefined
      ? sqlState(error.cause)
      : undefined

/** The name of the constraint that refused a write, from either driver. */
export const refusedBy = (error: unknown): string | undefined => {
  if (typeof error !== 'object' || error === null) return undefined
  const named = error as { constraint_name?: string; constraint?: string; cause?: unknown }
  return named.constraint_name ?? named.constraint ?? refusedBy(named.cause)
}

/** Says in which flow something broke, for the log. */
function blame(error: unknown, label: string): never {
  if (error instanceof Error) Object.assign(error, { flow: label })
  throw error
}

/** The only opener of transactions: one per flow, named by its label. */
export async function withTx<T>(
  db: Db,
  label: string,
  body: (tx: Tx) => Promise<T>,
  planned: Planned = 'by_value',
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    let opened: Tx | undefined
    const inside = (tx: Tx): Promise<T> => {
      opened = tx
      return body(tx)
    }
    try {
      const value = await db.begin(label, inside, planned)
      if (opened !== undefined) await tellTakenBack(db, opened)
      return value
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX || !RETRYABLE.has(sqlState(error) ?? '')) throw error
    }
  }
}

/**
 * `withTx` for a hot flow whose statements are fixed and find their rows by key: a connection plans each once, for any value.
 */
export const hotTx = <T>(db: Db, label: string, body: (tx: Tx) => Promise<T>): Promise<T> =>
  withTx(db, label, body, 'once')

/**
 * For reads of one statement: no transaction around it, so one round trip instead of three. Never for two statements that
 * must agree, and never for a write.
 */
export const withRead = <T>(db: Db, label: string, body: (tx: Tx) => Promise<T>): Promise<T> =>
  body(db.alone).catch((error: unknown) => blame(error, label))

const noop = (): void => undefined

type Run = <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => Promise<R[]>

const ABORTED = '25P02'

/** Notes the first statement that fails: it explains the ones after it, which only say that the transaction is aborted. */
function watched(run: Run): { run: Run; explains: (error: unknown) => unknown } {
  let first: { error: unknown } | undefined
  return {
    run: <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => {
      const sent = run<R>(text, values)
      sent.catch((error: unknown) => {
        first ??= { error }
      })
      return sent
    },
    explains: (error) =>
      first !== undefined && (error === undefined || sqlState(error) === ABORTED)
        ? first.error
        : error,
  }
}

/** Drizzle is made only where it is asked for: it costs more than most statements. */
function txOn(of: {
  run: Run
  orm: () => Orm
  later: (sent: Promise<unknown>) => void
  committed: (then: () => void) => void
}): Tx {
  return {
    sql: (text, ...values) => of.run(text, values),
    later: (text, ...values) => {
      const sent = of.run(text, values)
      sent.catch(noop)
      of.later(sent)
    },
    committed: of.committed,
    get orm() {
      return of.orm()
    },
  }
}

const notAlone = (): never => {
  throw new Error('a statement outside a transaction has no commit to wait for')
}

type SeatOrm = WeakMap<Seat, Orm>

const ormOn = (orms: SeatOrm, seat: Seat): Orm => {
  const known = orms.get(seat)
  if (known !== undefined) return known
  const sql = Object.assign(seat.sql as unknown as postgres.Sql, { options: seat.options })
  const made = drizzlePostgres(sql, { schema: tables }) as unknown as Orm
  orms.set(seat, made)
  return made
}

const runOn =
  (sql: postgres.Sql, count: () => void): Run =>
  async <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => {
    count()
    return (await sql(text, ...(values as postgres.ParameterOrFragment<never>[]))) as unknown as R[]
  }

/**
 * One transaction on a seat: `begin` travels with the first statements and `commit` with the last. Whatever goes wrong is
 * thrown, and then nothing of it is kept.
 */
async function inSeat<T>(
  seat: Seat,
  of: { readonly run: Run; readonly orm: () => Orm; readonly planned: Planned },
  body: (tx: Tx) => Promise<T>,
): Promise<T> {
  const later: Promise<unknown>[] = []
  const after: (() => void)[] = []
  let over = false
  const { run, explains } = watched(of.run)
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
  }
}

const READERS_MAX = 6
const SEATS_MAX = 16
const quiet = { onnotice: noop }

/** A Postgres server. Statements outside transactions share a few connections; a transaction has one to itself. */
export function postgresDb(
  url: string,
  of: { readonly readers?: number; readonly seats?: number; readonly name?: string } = {},
): Db {
  let statements = 0
  const count = () => {
    statements++
  }
  const options = { ...quiet, connection: { application_name: of.name ?? 'lend' } }
  const client = postgres(url, { ...options, max: of.readers ?? READERS_MAX })
  // Drizzle fixes date and JSON parsing on a client when it is made; done at once so that every statement agrees.
  const alone = drizzlePostgres(client, { schema: tables }) as unknown as Orm
  const orms: SeatOrm = new WeakMap()
  const seats = createSeats(url, options, {
    most: of.seats ?? SEATS_MAX,
    prepare: (seat) => void ormOn(orms, seat),
  })
  const begin: Db['begin'] = async (label, body, planned = 'by_value') => {
    const seat = await seats.take().catch((e: unknown) => blame(e, label))
    try {
      const on = { run: runOn(seat.sql, count), orm: () => ormOn(orms, seat), planned }
      return await inSeat(seat, on, body)
    } catch (error) {
      return blame(error, label)
    } finally {
      seats.give(seat)
    }
  }
  return {
    kind: 'server',
    begin,
    alone: txOn({
      run: runOn(client, count),
      ...{ orm: () => alone, later: notAlone, committed: notAlone },
    }),
    connections: seats.counts,
    listen: async (channel, onKick) => {
      const subscription = await client.listen(channel, onKick, onKick)
      return async () => {
        await subscription.unlisten()
      }
    },
    kick: async (channel) => {
      await client.notify(channel, '')
    },
    close: async () => {
      await Promise.all([seats.close(), client.end({ timeout: 5 })])
    },
    statements: () => statements,
  }
}

export function embeddedDb(pglite: PGlite): Db {
  let statements = 0
  let busy = 0
  const runIn =
    (sql: PGlite | Transaction): Run =>
    async <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => {
      statements++
      return (await sql.sql<R>(text, ...values)).rows
    }
  const on = (
    sql: PGlite | Transaction,
    run: Run,
    of: Pick<Parameters<typeof txOn>[0], 'later' | 'committed'>,
  ): Tx => {
    let orm: Orm | undefined
    return txOn({
      run,
      orm: () => {
        orm ??= drizzlePglite(sql as PGlite, { schema: tables }) as unknown as Orm
        return orm
      },
      ...of,
    })
  }
  return {
    kind: 'embedded',
    begin: (label, body) => {
      const after: (() => void)[] = []
      busy++
      return pglite
        .transaction(async (transaction) => {
          after.length = 0
          const later: Promise<unknown>[] = []
          const { run: send, explains } = watched(runIn(transaction))
          // What the body does not wait for, the commit does: here they do not travel in one line by themselves.
          const run: Run = <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => {
            const sent = send<R>(text, values)
            later.push(sent)
            return sent
          }
          const tx = on(transaction, run, {
            later: noop,
            committed: (then) => after.push(then),
          })
          try {
            const value = await body(tx)
            await Promise.all(later)
            // A commit of what has failed is a rollback: an error that the body swallowed is no success.
            const failed = explains(undefined)
            if (failed !== undefined) throw failed
            return value
          } catch (error) {
            throw explains(error)
          }
        })
        .then((value) => {
          for (const then of after) then()
          return value
        })
        .catch((e: unknown) => blame(e, label))
        .finally(() => {
          busy--
        }) as Promise<never>
    },
    alone: on(pglite, runIn(pglite), { later: notAlone, committed: notAlone }),
    // The one connection: whoever does not have it waits.
    connections: () => ({
      open: 1,
      busy: Math.min(busy, 1),
      waiting: Math.max(busy - 1, 0),
      most: 1,
    }),
    listen: async (channel, onKick) => {
      const stop = await pglite.listen(channel, onKick)
      return () => stop()
    },
    kick: async (channel) => {
      await pglite.query('select pg_notify($1, $2)', [channel, ''])
    },
    close: () => pglite.close(),
    statements: () => statements,
  }
}
