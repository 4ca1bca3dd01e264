import { drizzle } from 'drizzle-orm/postgres-js'
import { migrate } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'

/**
 * Scratch databases on a Postgres server, for what an embedded database cannot show: it has one connection. Each process
 * migrates one template and clones it; `drop` drops both.
 */
export const SERVER_URL =
  process.env.LEND_TEST_DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres'
const CONNECT_SECONDS = 5
// Any number that only these tests lock.
const CREATION_LOCK = 7_310_002

export type Scratch = {
  /** A database of its own, migrated and empty. */
  readonly url: string
  /** The connections to it must have been closed, or are cut off. */
  readonly drop: () => Promise<void>
}

/** Somebody chose to go without a server. CI never does. */
export const postgresIsLeftOut = process.env.LEND_TEST_NO_POSTGRES === '1'

const quiet = { max: 1, connect_timeout: CONNECT_SECONDS, onnotice: () => {} }

/** The server's own URL without a password, for a message. */
function shownUrl(): string {
  const url = new URL(SERVER_URL)
  url.password = ''
  return url.href
}

export function urlOf(database: string): string {
  const url = new URL(SERVER_URL)
  url.pathname = `/${database}`
  return url.href
}

/** One connection to the server, for the statements that make and drop databases. */
async function onServer<T>(body: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(SERVER_URL, quiet)
  try {
    await sql`select 1`.catch((error: unknown) => {
      throw new Error(
        `No Postgres server answers at ${shownUrl()}: start one, name another in LEND_TEST_DATABASE_URL, or leave these suites out with LEND_TEST_NO_POSTGRES=1.`,
        { cause: error },
      )
    })
    return await body(sql)
  } finally {
    await sql.end({ timeout: CONNECT_SECONDS })
  }
}

let template: Promise<string> | undefined
let clones = 0
let made = 0

async function makeTemplate(): Promise<string> {
  const name = `lend_test_${process.pid}_${Date.now().toString(36)}`
  await onServer((sql) => sql.unsafe(`create database ${name}`))
  const migrator = postgres(urlOf(name), quiet)
  try {
    await migrate(drizzle(migrator), { migrationsFolder: 'drizzle' })
  } finally {
    // A database with connections cannot be cloned.
    await migrator.end({ timeout: CONNECT_SECONDS })
  }
  return name
}

const dropDatabase = (name: string) =>
  onServer((sql) => sql.unsafe(`drop database if exists ${name} with (force)`))

/** A new database with nothing in it, not even our tables. */
export async function emptyDatabase(): Promise<Scratch> {
  const name = `lend_test_${process.pid}_${Date.now().toString(36)}_empty_${++made}`
  await onServer((sql) => sql.unsafe(`create database ${name}`))
  return {
    url: urlOf(name),
    drop: async () => {
      await dropDatabase(name)
    },
  }
}

/** A new database; drop it when done. The first of a process migrates, the rest are copies. */
export async function scratchDatabase(): Promise<Scratch> {
  template ??= makeTemplate()
  const from = await template
  const name = `${from}_${++made}`
  clones++
  // Two processes that clone at once would wait for each other's template anyway; the lock makes them queue.
  await onServer(async (sql) => {
    await sql`select pg_advisory_lock(${CREATION_LOCK})`
    await sql.unsafe(`create database ${name} template ${from}`)
  })
  return {
    url: urlOf(name),
    drop: async () => {
      await dropDatabase(name)
      clones--
      if (clones > 0) return
      template = undefined
      await dropDatabase(from)
    },
  }
}
