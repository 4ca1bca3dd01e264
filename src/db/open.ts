import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PGlite } from '@electric-sql/pglite'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator'
import { drizzle as drizzlePostgres } from 'drizzle-orm/postgres-js'
import { migrate as migratePostgres } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import { BadSetting } from '../config.ts'
import { ownLines } from './line.ts'
import { type Db, embeddedDb, postgresDb } from './tx.ts'

/** Any number that nothing else in this database locks. */
export const MIGRATION_LOCK = 7_310_001

/** Stands in a data folder, and as a schema in a server's database, for as long as a restore into it is not finished. */
export const RESTORING = 'restoring'
export const RESTORING_SCHEMA = 'lend_restoring'
const UNFINISHED = 'holds a restore that was not finished'

/** The same files for both kinds of database, found from src/ and from dist/src/. */
export function migrationsFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'drizzle', 'meta', '_journal.json'))) folder = dirname(folder)
  return join(folder, 'drizzle')
}

export type Migration = { readonly tag: string; readonly when: number }

/** What this program brings, oldest first. */
export function migrations(): readonly Migration[] {
  const journal = readFileSync(join(migrationsFolder(), 'meta', '_journal.json'), 'utf8')
  const { entries }: { entries: readonly Migration[] } = JSON.parse(journal)
  return entries
}

const LOOK_SECONDS_MAX = '5'

/** A Postgres server as it is: nothing is migrated, nothing is made. Connects when it is first asked. */
export function lookAtServer(url: string, of: { readonly isPooled: boolean }): Db {
  const bounded = new URL(url)
  if (!bounded.searchParams.has('connect_timeout'))
    bounded.searchParams.set('connect_timeout', LOOK_SECONDS_MAX)
  return postgresDb(bounded.href, { ...of, readers: 1, seats: 1, name: 'lend doctor' })
}

/** The embedded database as it is; null: there is none in this folder yet. Throws `BadSetting` while a server has it open. */
export async function lookAtEmbedded(dataDir: string): Promise<Db | null> {
  const folder = join(dataDir, 'database')
  if (!existsSync(folder)) return null
  const unlock = lockFolder(join(dataDir, 'database.lock'))
  try {
    const db = embeddedDb(await PGlite.create(folder))
    const close = async () => {
      await db.close()
      unlock()
    }
    return { ...db, close }
  } catch (error) {
    unlock()
    throw error
  }
}

async function isUnfinished(sql: postgres.Sql): Promise<boolean> {
  const [row] = await sql`select to_regnamespace(${RESTORING_SCHEMA}) is not null as yes`
  return row?.yes === true
}

/**
 * A Postgres server, migrated once whichever instance comes first. `directUrl`: set when `url` leads through a pooler in
 * transaction mode. The lock around the migrations belongs to a connection, so they go by the direct one.
 */
export async function openServer(url: string, directUrl: string | null = null): Promise<Db> {
  const migrator = postgres(directUrl ?? url, { max: 1, onnotice: () => {}, ...ownLines() })
  try {
    await migrator`select pg_advisory_lock(${MIGRATION_LOCK})`
    if (await isUnfinished(migrator))
      throw new BadSetting(
        'DATABASE_URL',
        `${UNFINISHED}: drop that database, create it anew and restore again`,
      )
    await migratePostgres(drizzlePostgres(migrator), { migrationsFolder: migrationsFolder() })
  } finally {
    // The lock ends with the connection.
    await migrator.end({ timeout: 5 })
  }
  return postgresDb(url, { isPooled: directUrl !== null })
}

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

// Lock files that this process holds: a second database in it would harm the first as another process would.
const held = new Set<string>()
const SETTLE_MILLIS = 100

/** The process that a lock file names; null when there is none. */
function holderOf(file: string): number | null {
  try {
    return Number(readFileSync(file, 'utf8').trim())
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

/** The file is linked into place with its content, so that nobody ever reads an empty one. False: it is there already. */
function createLock(file: string): boolean {
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${process.pid}\n`, { mode: 0o600 })
  try {
    linkSync(draft, file)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

/**
 * Two processes on one folder would both seem to work and silently part ways, so the folder is locked by a file beside it.
 * A lock whose process is gone, as after kill -9, is taken over; never one by age. So is one of this very process id that
 * this process does not hold: in a container every life has the same id.
 */
export function lockFolder(file: string): () => void {
  for (let attempt = 0; attempt < 3; attempt++) {
    if (createLock(file)) {
      // Of two that took over the same stale lock, one may have removed the other's: the one whose file stands has it.
      if (attempt > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SETTLE_MILLIS)
      if (holderOf(file) === process.pid) {
        held.add(file)
        return () => {
          held.delete(file)
          rmSync(file, { force: true })
        }
      }
    }
    const holder = holderOf(file)
    if (holder !== null && (holder === process.pid ? held.has(file) : holder > 0 && alive(holder)))
      throw new BadSetting(
        'LEND_DATA',
        `is in use by the running server with process id ${holder}: stop it, or choose another folder`,
      )
    rmSync(file, { force: true })
  }
  throw new BadSetting('LEND_DATA', `could not be locked: remove ${file} if no server is running`)
}

/** The embedded database, in a folder or in memory only, migrated. */
export async function openEmbedded(dataDir: string | null): Promise<Db> {
  let unlock = () => {}
  let folder: string | undefined
  if (dataDir !== null) {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    unlock = lockFolder(join(dataDir, 'database.lock'))
    folder = join(dataDir, 'database')
  }
  try {
    if (dataDir !== null && existsSync(join(dataDir, RESTORING)))
      throw new BadSetting('LEND_DATA', `${UNFINISHED}: empty the folder and restore again`)
    const pglite = await PGlite.create(folder)
    await migratePglite(drizzlePglite(pglite), { migrationsFolder: migrationsFolder() })
    const db = embeddedDb(pglite)
    const close = async () => {
      await db.close()
      unlock()
    }
    return { ...db, close }
  } catch (error) {
    unlock()
    throw error
  }
}
