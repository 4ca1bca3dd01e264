import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { migrate } from 'drizzle-orm/pglite/migrator'
import { afterAll, beforeAll, describe } from 'vitest'
import { refusedBy } from '../../src/db/sql-error.ts'
import { type Db, embeddedDb, postgresDb, type SqlValue, type Tx } from '../../src/db/tx.ts'
import { postgresIsLeftOut, scratchDatabase } from './postgres.ts'
import { seed } from './world-seed.ts'

/** Runs one statement with `$1`, `$2`… whichever database is underneath. */
export type Run = <T = Row>(sql: string, params?: readonly SqlValue[]) => Promise<T[]>
export type Row = { readonly [column: string]: unknown }

/** A seeded database of its own: `world-seed.ts`'s people, catalog and templates. */
export type Database = {
  readonly db: Db
  readonly run: Run
  /** A transaction that leaves nothing behind, whatever its body does. */
  readonly rolledBack: (body: (run: Run) => Promise<void>) => Promise<void>
}

/** A statement's text cut at its holes, as the tagged templates of both drivers take it. */
export const runIn =
  (tx: Tx): Run =>
  (sql, params = []) => {
    const parts = sql.split(/\$\d+/)
    const values = [...sql.matchAll(/\$(\d+)/g)].map(([, n]) => params[Number(n) - 1] ?? null)
    return tx.sql(Object.assign(parts, { raw: parts }), ...values)
  }

export const runOn =
  (db: Db): Run =>
  (sql, params) =>
    db.begin('test', (tx) => runIn(tx)(sql, params))

class RollBack extends Error {}

async function rolledBack(db: Db, body: (run: Run) => Promise<void>): Promise<void> {
  try {
    await db.begin('test', async (tx) => {
      await body(runIn(tx))
      throw new RollBack()
    })
  } catch (error) {
    if (!(error instanceof RollBack)) throw error
  }
}

/** The seed as it is written, for any database. */
export const seedDatabase = (db: Db): Promise<void> =>
  db.begin('test', async (tx) => {
    const query = async (sql: string, params: readonly SqlValue[]) => runIn(tx)(sql, params)
    await seed({ query } as unknown as PGlite)
  })

export async function openPglite(): Promise<Db> {
  const pglite = await PGlite.create()
  await migrate(drizzle(pglite), { migrationsFolder: 'drizzle' })
  return embeddedDb(pglite)
}

/** An instance's own connections to a Postgres database. */
export const openPostgres = (url: string, connections = 10): Db =>
  postgresDb(url, { readers: 2, seats: connections })

async function openScratch(): Promise<{ db: Db; drop: () => Promise<void> }> {
  const { url, drop } = await scratchDatabase()
  return { db: openPostgres(url), drop }
}

/**
 * The same tests on the embedded database and on a server. `body` is given a function, to be called inside a test, that
 * answers the seeded database of this suite.
 */
export function eachDatabase(name: string, body: (database: () => Database) => void): void {
  const suite = (open: () => Promise<{ db: Db; drop?: () => Promise<void> }>) => () => {
    let opened: { db: Db; drop?: () => Promise<void> } | undefined
    beforeAll(async () => {
      opened = await open()
      await seedDatabase(opened.db)
    })
    afterAll(async () => {
      await opened?.db.close()
      await opened?.drop?.()
    })
    body(() => {
      if (opened === undefined) throw new Error('the database is open only inside tests')
      const { db } = opened
      return { db, run: runOn(db), rolledBack: (inside) => rolledBack(db, inside) }
    })
  }
  describe(
    `${name}, embedded`,
    suite(async () => ({ db: await openPglite() })),
  )
  describe.skipIf(postgresIsLeftOut)(
    `${name}, on a Postgres server${postgresIsLeftOut ? ' (left out: LEND_TEST_NO_POSTGRES=1)' : ''}`,
    suite(openScratch),
  )
}

/**
 * The name of what refused a write: a constraint, or a trigger that raises its own name. Null when nothing did. Deferred
 * constraints are looked at too, as a commit would.
 */
export async function refusal(run: Run, sql: string, params: readonly SqlValue[] = []) {
  try {
    await run(sql, params)
    await run('set constraints all immediate')
    return null
  } catch (error) {
    return refusedBy(error) ?? messageOf(error)
  }
}

const messageOf = (error: unknown): string =>
  error instanceof Error && error.cause !== undefined
    ? messageOf(error.cause)
    : error instanceof Error
      ? error.message
      : String(error)
