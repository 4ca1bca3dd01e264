import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import { pinToLoadCore } from './machine.ts'

const SERVER = process.env.LEND_BENCH_DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres'

export type Scratch = {
  readonly url: string
  readonly sql: postgres.Sql
  /** Moves the server's processes for this database off the measured core. False: this user may not. */
  readonly pin: () => Promise<boolean>
  readonly drop: () => Promise<void>
}

const quiet = { onnotice: () => {} }

/** The benchmark's own: only servers on loopback are loaded. */
function ownServer(): string {
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(new URL(SERVER).hostname))
    throw new Error('LEND_BENCH_DATABASE_URL must be on this machine')
  return SERVER
}

/** A database of its own on a running Postgres, dropped afterwards. */
export async function createScratch(name: string, on = ownServer()): Promise<Scratch> {
  const server = new URL(on)
  const database = `lend_bench_${name}_${randomBytes(4).toString('hex')}`
  const admin = postgres(on, { max: 1, ...quiet })
  await admin.unsafe(`create database ${database}`)
  const url = new URL(server)
  url.pathname = `/${database}`
  const sql = postgres(url.href, { max: 2, ...quiet })
  return {
    url: url.href,
    sql,
    pin: async () => {
      const rows = await sql<{ pid: number }[]>`
        select pid from pg_stat_activity where datname = ${database}`
      return rows.map(({ pid }) => pinToLoadCore(pid)).every(Boolean)
    },
    drop: async () => {
      await sql.end({ timeout: 5 })
      await admin.unsafe(`drop database if exists ${database} with (force)`)
      await admin.end({ timeout: 5 })
    },
  }
}

/** Drops what a run left that was stopped half-way. One that is in use refuses, and is another run's. */
export async function dropLeftovers(): Promise<void> {
  const admin = postgres(SERVER, { max: 1, ...quiet })
  const left = await admin<{ name: string }[]>`
    select datname as name from pg_database where datname ~ '^lend_bench_[a-z0-9_]+_[0-9a-f]{8}$'`
  for (const { name } of left)
    await admin.unsafe(`drop database if exists ${name}`).catch(() => undefined)
  await admin.end({ timeout: 5 })
}

/** What autovacuum would do within a minute or so of real load: true statistics, dead rows gone. */
export async function settle(sql: postgres.Sql): Promise<void> {
  await sql.unsafe('vacuum analyze')
}

/** Whether commits are durable here; a floor without that would be no floor. */
export async function durability(sql: postgres.Sql): Promise<string> {
  const [row] = await sql<{ fsync: string; commit: string; version: string }[]>`
    select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
      current_setting('server_version') as version`
  return `Postgres ${row?.version}, fsync ${row?.fsync}, synchronous_commit ${row?.commit}`
}
