import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Config, configFrom } from '../config.ts'
import { lookAtEmbedded, lookAtServer } from '../db/open.ts'
import { withRead } from '../db/tx.ts'
import { systemClock } from '../ids.ts'
import { DATABASE_FILE, type Manifest, writeArchive } from './archive.ts'
import { askServerForFile } from './door-client.ts'
import { dumpServer } from './pg-programs.ts'
import { CliProblem, findRunFile, type RunFile } from './run-file.ts'

/** Keys that are kept beside the database and never in it: without them a restored one cannot sign or open what it has. */
export const KEY_FILES = ['checkpoint-key.json', 'secret-key.json'] as const

/** The server that has the folder open, if one does. */
function runningServer(env: NodeJS.ProcessEnv): RunFile | null {
  try {
    return findRunFile(env, process.cwd())
  } catch {
    return null
  }
}

async function embeddedCopy(env: NodeJS.ProcessEnv, dataDir: string): Promise<Blob> {
  const running = runningServer({ ...env, LEND_DATA: dataDir })
  if (running !== null) return askServerForFile(running, 'backup', {})
  const db = await lookAtEmbedded(dataDir)
  if (db === null)
    throw new CliProblem(`There is no database in ${dataDir}: set LEND_DATA as the server has it.`)
  try {
    const copy = await db.copy?.()
    if (copy === undefined) throw new CliProblem('This database cannot be copied.')
    return copy
  } finally {
    await db.close()
  }
}

async function majorOfServer(url: string): Promise<number> {
  const db = lookAtServer(url, { isPooled: false })
  try {
    const [row] = await withRead(
      db,
      'backup',
      (tx) => tx.sql<{ version: number; migrated: boolean }>`
        select current_setting('server_version_num')::int as version,
          to_regclass('drizzle.__drizzle_migrations') is not null as migrated`,
    )
    if (row?.migrated !== true)
      throw new CliProblem('The database of DATABASE_URL has nothing of Lend in it.')
    return Math.floor(row.version / 10_000)
  } finally {
    await db.close()
  }
}

/** Copies the instance's own files. Sign-ins of browsers stay out: one that signed out since would be signed in again. */
function copyFiles(dataDir: string, folder: string): readonly string[] {
  const files = join(folder, 'files')
  mkdirSync(join(files, 'app'), { recursive: true, mode: 0o700 })
  const app = join(dataDir, 'app')
  const transcripts = existsSync(app)
    ? readdirSync(app).filter((name) => /^ses_\w+\.json$/.test(name))
    : []
  const names = [
    ...KEY_FILES.filter((name) => existsSync(join(dataDir, name))),
    ...transcripts.map((name) => join('app', name)),
  ]
  for (const name of names) copyFileSync(join(dataDir, name), join(files, name))
  return names.map((name) => join('files', name))
}

async function copyDatabase(
  env: NodeJS.ProcessEnv,
  config: Config,
  folder: string,
): Promise<Pick<Manifest, 'kind' | 'pg_dump'>> {
  const { dataDir } = config
  // Not through a pooler: a copy at one moment is one connection's.
  const url = config.databaseDirectUrl ?? config.databaseUrl
  if (url !== null) {
    const file = join(folder, DATABASE_FILE.server)
    const server = await majorOfServer(url)
    return { kind: 'server', pg_dump: await dumpServer(url, { file, server }) }
  }
  if (dataDir === null)
    throw new CliProblem('LEND_DATA=memory keeps nothing, so there is nothing to back up.')
  const copy = await embeddedCopy(env, dataDir)
  const bytes = new Uint8Array(await copy.arrayBuffer())
  writeFileSync(join(folder, DATABASE_FILE.embedded), bytes, { mode: 0o600 })
  return { kind: 'embedded' }
}

/**
 * `lend backup FILE`: the database and what an instance needs beside it to live again, in one file of mode 0600, while the server
 * runs or not. Never writes over a file. Throws `CliProblem` or `BadSetting` with one sentence, and then there is no file.
 */
export async function backup(
  env: NodeJS.ProcessEnv,
  given: string,
  out: (line: string) => void,
): Promise<0> {
  const config = configFrom(env, process.cwd())
  const file = resolve(given)
  if (existsSync(file)) throw new CliProblem(`${given} is there already: name another file.`)
  if (!existsSync(dirname(file))) throw new CliProblem(`There is no folder ${dirname(file)}.`)
  const folder = mkdtempSync(`${file}.`)
  try {
    const at = new Date(systemClock.now()).toISOString()
    const how = await copyDatabase(env, config, folder)
    const own = config.dataDir === null ? [] : copyFiles(config.dataDir, folder)
    const paths = [DATABASE_FILE[how.kind], ...own]
    const manifest = await writeArchive(file, { folder, paths, at, ...how })
    out(`${given}: ${how.kind} database of ${at}, migration ${manifest.migration.tag}`)
    for (const path of own.filter((one) => !one.includes('app'))) out(`with ${path}`)
    out('It holds keys: keep it as you keep them.')
    if (config.secretKeys !== null)
      out(
        'LEND_SECRET_KEYS is not in it: keep that apart, or no signing key and no credential in it ever opens again.',
      )
    return 0
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
