import type { PGlite, Transaction } from '@electric-sql/pglite'
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { drizzle as drizzlePostgres } from 'drizzle-orm/postgres-js'
import type postgres from 'postgres'
import * as tables from './tables.ts'

/**
 * One transaction. `sql` is a tagged template whose holes are always parameters, for the statements whose locks and
 * round trips matter; `orm` is Drizzle on the same transaction, for plain rows and filters composed at run time.
 * JSON goes in as `${json(value)}::text::jsonb`; times come out as `extract(epoch from …)::float8`, since the two
 * drivers disagree on both.
 *
 * Lock order, the same in every flow: guards (tenant, then user), root sessions by id, sessions, requests, the rest.
 */
export type Tx = {
  readonly sql: <T>(text: TemplateStringsArray, ...values: readonly SqlValue[]) => Promise<T[]>
  readonly orm: Orm
}
export type SqlValue = string | number | boolean | null | readonly string[] | readonly number[]
export type Orm = PgDatabase<PgQueryResultHKT, typeof tables>

/** A database: the embedded one or a server. Flows reach it only through `withTx` and `read`. */
export type Db = {
  readonly kind: 'embedded' | 'server'
  readonly begin: <T>(label: string, body: (tx: Tx) => Promise<T>) => Promise<T>
  /** Statements outside a transaction, each on a snapshot of its own. */
  readonly alone: Tx
  /** Listens for kicks from other instances. Calls `onKick` after each, and after a reconnect. */
  readonly listen: (channel: string, onKick: () => void) => Promise<() => Promise<void>>
  readonly kick: (channel: string) => Promise<void>
  readonly close: () => Promise<void>
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
export async function withTx<T>(db: Db, label: string, body: (tx: Tx) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db.begin(label, body)
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX || !RETRYABLE.has(sqlState(error) ?? '')) throw error
    }
  }
}

/**
 * For reads of one statement: no transaction around it, so one round trip instead of three. Never for two statements that
 * must agree, and never for a write.
 */
export const withRead = <T>(db: Db, label: string, body: (tx: Tx) => Promise<T>): Promise<T> =>
  body(db.alone).catch((error: unknown) => blame(error, label))

type Client = {
  readonly run: <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => Promise<R[]>
  readonly orm: () => Orm
}

/** Drizzle is made only where it is asked for: it costs more than most statements. */
function txOn(client: Client, count: () => void): Tx {
  let orm: Orm | undefined
  return {
    sql: (text, ...values) => {
      count()
      return client.run(text, values)
    },
    get orm() {
      orm ??= client.orm()
      return orm
    },
  }
}

export function postgresDb(client: postgres.Sql): Db {
  let statements = 0
  const count = () => {
    statements++
  }
  // Drizzle fixes date and JSON parsing on a client when it is made; done once here so every transaction agrees.
  drizzlePostgres(client)
  const on = (sql: postgres.Sql | postgres.TransactionSql): Tx =>
    txOn(
      {
        run: async <R>(text: TemplateStringsArray, values: readonly SqlValue[]) =>
          (await sql(text, ...(values as postgres.ParameterOrFragment<never>[]))) as unknown as R[],
        orm: () =>
          drizzlePostgres(Object.assign(sql as postgres.Sql, { options: client.options }), {
            schema: tables,
          }) as unknown as Orm,
      },
      count,
    )
  return {
    kind: 'server',
    begin: (label, body) =>
      client.begin((tx) => body(on(tx))).catch((e: unknown) => blame(e, label)) as Promise<never>,
    alone: on(client),
    listen: async (channel, onKick) => {
      const subscription = await client.listen(channel, onKick, onKick)
      return async () => {
        await subscription.unlisten()
      }
    },
    kick: async (channel) => {
      await client.notify(channel, '')
    },
    close: () => client.end({ timeout: 5 }),
    statements: () => statements,
  }
}

export function embeddedDb(pglite: PGlite): Db {
  let statements = 0
  const count = () => {
    statements++
  }
  const on = (sql: PGlite | Transaction): Tx =>
    txOn(
      {
        run: async <R>(text: TemplateStringsArray, values: readonly SqlValue[]) =>
          (await sql.sql<R>(text, ...values)).rows,
        orm: () => drizzlePglite(sql as PGlite, { schema: tables }) as unknown as Orm,
      },
      count,
    )
  return {
    kind: 'embedded',
    begin: (label, body) =>
      pglite
        .transaction((tx) => body(on(tx)))
        .catch((e: unknown) => blame(e, label)) as Promise<never>,
    alone: on(pglite),
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
