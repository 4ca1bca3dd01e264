import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator'
import { drizzle as drizzlePostgres } from 'drizzle-orm/postgres-js'
import { migrate as migratePostgres } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import {
  lockFolder,
  MIGRATION_LOCK,
  migrations,
  migrationsFolder,
  RESTORING,
  RESTORING_SCHEMA,
} from './open.ts'
import { type Db, embeddedDb, postgresDb } from './tx.ts'

/** Why nothing was restored: one sentence for the operator. What was there before is as it was. */
export class CannotRestore extends Error {
  override readonly name = 'CannotRestore'
}

/**
 * A database that is being restored. No server starts on it before `finish`; `undo` leaves the place as empty as it was. One
 * of the two is called, once.
 */
export type Restoring = {
  readonly db: Db
  readonly finish: () => Promise<void>
  readonly undo: () => Promise<void>
}

const NEWER = 'a newer version of Lend has been at this database: restore it with that version'

async function refuseNewer(applied: Promise<readonly { when: number }[]>): Promise<void> {
  const newest = migrations().at(-1)?.when ?? 0
  if ((await applied).some(({ when }) => when > newest)) throw new CannotRestore(NEWER)
}

/** An empty data folder, held by this process, with a folder inside for what is not whole yet. */
export type EmptyFolder = {
  /** Inside the data folder. While it is there no server starts. */
  readonly draft: string
  readonly undo: () => void
  /** Moves these out of the draft, and lets the folder go. */
  readonly finish: (names: readonly string[]) => void
}

/** Throws `CannotRestore` when something is in the folder, `BadSetting` when a process has it. */
export function takeEmptyFolder(dataDir: string): EmptyFolder {
  const there = existsSync(dataDir) ? readdirSync(dataDir) : []
  if (there.length > 0)
    throw new CannotRestore(
      `${dataDir} is not empty (it has ${there.slice(0, 3).join(', ')}): name another folder in LEND_DATA, or move this one away`,
    )
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const unlock = lockFolder(join(dataDir, 'database.lock'))
  const draft = join(dataDir, RESTORING)
  mkdirSync(draft, { mode: 0o700 })
  return {
    draft,
    undo: () => {
      rmSync(draft, { recursive: true, force: true })
      unlock()
    },
    finish: (names) => {
      for (const name of names) renameSync(join(draft, name), join(dataDir, name))
      rmSync(draft, { recursive: true, force: true })
      unlock()
    },
  }
}

/** The embedded database from what `copy` gave, in a folder that is not there yet; migrated to this program's schema. */
export async function restoreEmbedded(folder: string, copy: Blob): Promise<Db> {
  const pglite = await PGlite.create({ dataDir: folder, loadDataDir: copy })
  try {
    await refuseNewer(
      pglite
        .query<{ when: number }>(
          'select created_at::float8 as when from drizzle.__drizzle_migrations',
        )
        .then(({ rows }) => rows),
    )
    await migratePglite(drizzlePglite(pglite), { migrationsFolder: migrationsFolder() })
    return embeddedDb(pglite)
  } catch (error) {
    await pglite.close()
    throw error
  }
}

async function refuseFull(sql: postgres.Sql): Promise<void> {
  const [unfinished] = await sql`
    select to_regnamespace(${RESTORING_SCHEMA}) is not null as yes`
  if (unfinished?.yes === true)
    throw new CannotRestore(
      'the database holds a restore that was not finished: drop it, create it anew and restore again',
    )
  const [there] = await sql<{ name: string }[]>`
    select n.nspname || '.' || c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname <> 'information_schema' and n.nspname not like 'pg\\_%'
      and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
    order by 1 limit 1`
  if (there !== undefined)
    throw new CannotRestore(
      `the database of DATABASE_URL is not empty (it has ${there.name}): create a new one and name it there`,
    )
}

/** One statement may go through all of the record. */
const RESTORE_MILLIS_MAX = 3_600_000

/**
 * A server's database from what `load` puts into it, all or nothing; migrated to this program's schema. Instances that start
 * meanwhile wait, and after a restore that was killed they refuse to. Throws `CannotRestore` when it is not empty.
 */
export async function restoreServer(url: string, load: () => Promise<void>): Promise<Restoring> {
  const keeper = postgres(url, { max: 1, onnotice: () => {} })
  const undo = async () => {
    // What was loaded is the operator's to drop: this never empties a database.
    const [there] = await keeper`select to_regnamespace('drizzle') is not null as yes`
    if (there?.yes !== true) await keeper`drop schema if exists lend_restoring`
    await keeper.end({ timeout: 5 })
  }
  try {
    await keeper`select pg_advisory_lock(${MIGRATION_LOCK})`
    await refuseFull(keeper)
  } catch (error) {
    await keeper.end({ timeout: 5 })
    throw error
  }
  await keeper`create schema lend_restoring`
  try {
    await load()
    const applied = keeper<{ when: number }[]>`
      select created_at::float8 as when from drizzle.__drizzle_migrations`
    await refuseNewer(applied)
    await migratePostgres(drizzlePostgres(keeper), { migrationsFolder: migrationsFolder() })
  } catch (error) {
    await undo()
    throw error
  }
  const db = postgresDb(url, {
    ...{ readers: 2, seats: 4, name: 'lend restore' },
    patienceMillis: RESTORE_MILLIS_MAX,
  })
  return {
    db,
    finish: async () => {
      await db.close()
      await keeper`drop schema lend_restoring`
      await keeper.end({ timeout: 5 })
    },
    undo: async () => {
      await db.close()
      await undo()
    },
  }
}
