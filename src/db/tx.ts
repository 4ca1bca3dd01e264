import type { PGlite, Transaction } from '@electric-sql/pglite'
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { drizzle as drizzlePostgres } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { inSeat } from './in-seat.ts'
import { ownLines } from './line.ts'
import { createReaders, type Readers } from './readers.ts'
import { type Connections, createSeats, type Seat } from './seats.ts'
import { sqlState } from './sql-error.ts'
import { noop, notAlone, type Run, txOn, watched } from './statements.ts'
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
 * whose statements are fixed and find their rows by key, so that no value makes another plan better. `by_value_and_long`: for
 * background work that reads a month of the record, and may take an hour over one statement.
 */
export type Planned = 'once' | 'by_value' | 'by_value_and_long'

/** A database: the embedded one or a server. Flows reach it only through `withTx` and `read`. */
export type Db = {
  readonly kind: 'embedded' | 'server'
  readonly begin: <T>(label: string, body: (tx: Tx) => Promise<T>, planned?: Planned) => Promise<T>
  /** Statements outside a transaction, each on a snapshot of its own. */
  readonly alone: Tx
  /** The same for fixed statements that find their rows by key: planned once, for any value. See `Planned`. */
  readonly aloneOnce: Tx
  /** The whole embedded database as it is at one moment, as a gzipped tar. A server is asked by its own programs. */
  readonly copy?: () => Promise<Blob>
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

/**
 * `withRead` for a hot path whose statement is fixed and finds its rows by key: a connection plans it once, for any value.
 */
export const hotRead = <T>(db: Db, label: string, body: (tx: Tx) => Promise<T>): Promise<T> =>
  body(db.aloneOnce).catch((error: unknown) => blame(error, label))

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

const READERS_MAX = 6
/** Of those that plan once. */
const HOT_READERS_MAX = 4
/** As `begin` sets it for a transaction whose statements are planned once. */
const ONCE = { plan_cache_mode: 'force_generic_plan', random_page_cost: '1.1' }
const SEATS_MAX = 16
/** So long a database that says nothing is waited for; then whoever asked is told that it is away. */
const PATIENCE_MILLIS = 10_000
/** The same for background work that reads a month of the record. */
const LONG_MILLIS = 3_600_000
const AGAIN_SECONDS_MAX = 1
const quiet = { onnotice: noop }

export type ServerOptions = {
  readonly readers?: number
  readonly seats?: number
  readonly name?: string
  readonly patienceMillis?: number
  /** Behind a pooler that gives a connection away after each transaction: nothing may be kept on one. */
  readonly isPooled?: boolean
}

/** What both clients are made with. A URL's own `connect_timeout` stands. */
function clientOptions(url: string, of: ServerOptions, patienceMillis: number) {
  const isBounded = URL.canParse(url) && new URL(url).searchParams.has('connect_timeout')
  return {
    ...quiet,
    ...ownLines(),
    // The driver's own pauses grow to twenty seconds: too long once the database is back.
    backoff: (tries: number) => Math.min(0.05 * 2 ** tries, AGAIN_SECONDS_MAX),
    prepare: of.isPooled !== true,
    connection: { application_name: of.name ?? 'lend' },
    ...(isBounded ? {} : { connect_timeout: patienceMillis / 1000 }),
  }
}

/** A Postgres server. Statements outside transactions share a few connections; a transaction has one to itself. */
export function postgresDb(url: string, of: ServerOptions = {}): Db {
  const { patienceMillis = PATIENCE_MILLIS } = of
  let statements = 0
  const count = () => {
    statements++
  }
  const options = clientOptions(url, of, patienceMillis)
  const aloneOrms = new WeakMap<postgres.Sql, Orm>()
  const aloneOrm = (client: postgres.Sql): Orm => {
    const known = aloneOrms.get(client)
    if (known !== undefined) return known
    const made = drizzlePostgres(client, { schema: tables }) as unknown as Orm
    aloneOrms.set(client, made)
    return made
  }
  const readersWith = (most: number, settings: { readonly [name: string]: string }) =>
    createReaders(() => {
      const connection = { ...options.connection, ...settings }
      const client = postgres(url, { ...options, connection, max: of.readers ?? most })
      // Drizzle fixes date and JSON parsing on a client when it is made; done at once so that every statement agrees.
      aloneOrm(client)
      return client
    }, patienceMillis)
  const readers = readersWith(READERS_MAX, {})
  // A pooler's connections are everybody's: nothing is set on them, and nothing is prepared that could be planned once.
  const hotReaders = of.isPooled === true ? readers : readersWith(HOT_READERS_MAX, ONCE)
  const aloneBy = (by: Readers): Tx =>
    txOn({
      run: (text, values) => by.answered((client) => runOn(client, count)(text, values)),
      ...{ orm: () => aloneOrm(by.client()), later: notAlone, committed: notAlone },
    })
  const orms: SeatOrm = new WeakMap()
  const seats = createSeats(url, options, {
    most: of.seats ?? SEATS_MAX,
    patienceMillis,
    prepare: (seat) => void ormOn(orms, seat),
  })
  const begin: Db['begin'] = async (label, body, planned = 'by_value') => {
    const seat = await seats.take().catch((e: unknown) => blame(e, label))
    try {
      const run = runOn(seat.sql, count)
      const patience = planned === 'by_value_and_long' ? LONG_MILLIS : patienceMillis
      return await inSeat(
        seat,
        { run, orm: () => ormOn(orms, seat), planned, patienceMillis: patience },
        body,
      )
    } catch (error) {
      return blame(error, label)
    } finally {
      seats.give(seat)
    }
  }
  return {
    kind: 'server',
    begin,
    alone: aloneBy(readers),
    aloneOnce: aloneBy(hotReaders),
    connections: seats.counts,
    close: async () => {
      await Promise.all([seats.close(), readers.close()])
      if (hotReaders !== readers) await hotReaders.close()
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
  const alone = on(pglite, runIn(pglite), { later: notAlone, committed: notAlone })
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
    alone,
    aloneOnce: alone,
    // The one connection: whoever does not have it waits.
    connections: () => ({
      open: 1,
      busy: Math.min(busy, 1),
      waiting: Math.max(busy - 1, 0),
      most: 1,
    }),
    copy: async () => {
      await pglite.query('checkpoint')
      return pglite.dumpDataDir('gzip')
    },
    close: () => pglite.close(),
    statements: () => statements,
  }
}
