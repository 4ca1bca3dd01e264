import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { checkpointKey, trustedKeys } from '../checkpoint-key.ts'
import { type Config, configFrom } from '../config.ts'
import {
  CannotRestore,
  type EmptyFolder,
  restoreEmbedded,
  restoreServer,
  takeEmptyFolder,
} from '../db/restore.ts'
import { opened, selectKept } from '../db/sealed.ts'
import { type Db, withRead } from '../db/tx.ts'
import { type AfterRestore, afterRestore } from '../flows/after-restore.ts'
import { makeCheckpoint } from '../flows/checkpoint.ts'
import { systemClock, systemIds } from '../ids.ts'
import type { Ctx } from '../ports.ts'
import { existingVault } from '../vault.ts'
import { DATABASE_FILE, type Manifest, openArchive } from './archive.ts'
import { KEY_FILES } from './backup.ts'
import { checkRestorer, loadServer } from './pg-programs.ts'
import { CliProblem } from './run-file.ts'
import { verifyDatabase } from './verify-activity.ts'

type Out = (line: string) => void

/** A restored database with the folder of the files that belong to it, before anything is served from it. */
type Place = { readonly db: Db; readonly keys: string; readonly manifest: Manifest }

/** What an operator has to look at, since nobody can know it: plainly, and by name. */
const LOOK_AGAIN = [
  'freezes',
  'people, agents and service accounts that were disabled',
  'roles, groups and permissions that were taken away, and restrictions that were added',
  'deny and ask rules that people made',
  'secrets and keys that were replaced, and signing keys that were rotated',
  'templates that were narrowed or turned off, and permissions that were tightened or retired',
]

function tellWhatIsGone(out: Out, { at, kind }: Manifest, done: AfterRestore): void {
  out(`ended ${done.sessions} sessions that were live then; each app starts anew`)
  out(`${done.rules} allow rules wait until their user has looked at them again`)
  out(`${done.browsers} browsers have to sign in again`)
  out(`what was changed after ${at} is gone: look again at`)
  for (const what of LOOK_AGAIN) out(`  ${what}`)
  out('checkpoints of the record from after it that are kept elsewhere name records that are gone')
  if (kind === 'server') out('start the instances now; none may have run meanwhile')
}

/** Whether the keys that are here open what is sealed. A key is never made for it: it would open nothing. */
async function tellSealed(ctx: Pick<Ctx, 'db' | 'vault'>, out: Out): Promise<boolean> {
  const rows = (await withRead(ctx.db, 'restore', selectKept)).filter((row) => row.sealed !== null)
  const shut = rows.filter((row) => opened(ctx.vault, row, row) === null)
  out(`${rows.length - shut.length} of ${rows.length} sealed keys and secrets open`)
  for (const { kind, id } of shut) out(`  ${kind} ${id} opens with none of the keys`)
  if (shut.length === 0) return true
  out(
    'put the keys that sealed them back into LEND_SECRET_KEYS, or secret-key.json back into LEND_DATA',
  )
  if (shut.some(({ kind }) => kind === 'signing_key'))
    out(
      'until then no instance is ready and no token is issued; lend doctor says what to do without',
    )
  return false
}

/** Closes what the older state would open again, anchors that, and says what the record is worth. Returns the exit status. */
async function settle(config: Config, place: Place, out: Out): Promise<0 | 1> {
  const { db, keys, manifest } = place
  const ctx: Ctx = {
    ...{ db, clock: systemClock, ids: systemIds, publicUrl: config.publicUrl },
    notify: { kick: () => {}, subscribe: () => () => {} },
  }
  const { secretKeys, databaseUrl } = config
  const vault = existingVault({ secretKeys, databaseUrl, dataDir: keys })
  const done = await afterRestore(ctx, { backupAt: Date.parse(manifest.at) })
  const key = await checkpointKey(keys)
  await makeCheckpoint(ctx, key, 0)
  tellWhatIsGone(out, manifest, done)
  const opens = await tellSealed({ db, ...(vault === undefined ? {} : { vault }) }, out)
  const trusted = await trustedKeys(config, key)
  const verified = await verifyDatabase(ctx, out, trusted === undefined ? {} : { trusted })
  return opens && verified !== 1 ? 0 : 1
}

const filesIn = (folder: string): readonly string[] =>
  existsSync(folder) ? readdirSync(folder) : []

async function intoFolder(
  config: Config,
  of: { readonly file: string; readonly folder: EmptyFolder; readonly dataDir: string },
  out: Out,
): Promise<0 | 1> {
  const { draft } = of.folder
  const archive = join(draft, 'archive')
  mkdirSync(archive, { mode: 0o700 })
  const manifest = await openArchive(of.file, archive)
  if (manifest.kind !== 'embedded')
    throw new CliProblem(
      'This is a backup of a Postgres server’s database: set DATABASE_URL to a new, empty one.',
    )
  const bytes = readFileSync(join(archive, DATABASE_FILE.embedded))
  const copy = new Blob([new Uint8Array(bytes)], { type: 'application/x-gzip' })
  const db = await restoreEmbedded(join(draft, 'database'), copy)
  const keys = join(archive, 'files')
  let status: 0 | 1
  try {
    status = await settle(config, { db, keys, manifest }, out)
  } finally {
    await db.close()
  }
  const names = filesIn(keys)
  for (const name of names) renameSync(join(keys, name), join(draft, name))
  of.folder.finish([...names, 'database'])
  return status
}

/** Keys that are there must be the backup's own: another could not read what is restored, and none is ever written over. */
function refuseOtherKeys(dataDir: string, files: string): void {
  for (const name of KEY_FILES) {
    const [there, own] = [join(dataDir, name), join(files, name)]
    if (!existsSync(there) || !existsSync(own)) continue
    if (!readFileSync(there).equals(readFileSync(own)))
      throw new CliProblem(
        `${there} is another key than the backup’s: name another folder in LEND_DATA, or move it away.`,
      )
  }
}

async function intoServer(
  config: Config & { readonly databaseUrl: string; readonly dataDir: string },
  of: { readonly file: string; readonly draft: string },
  out: Out,
): Promise<0 | 1> {
  const { databaseUrl, dataDir } = config
  const manifest = await openArchive(of.file, of.draft)
  if (manifest.kind !== 'server')
    throw new CliProblem(
      'This is a backup of an embedded database: unset DATABASE_URL, and name a new folder in LEND_DATA.',
    )
  const files = join(of.draft, 'files')
  refuseOtherKeys(dataDir, files)
  await checkRestorer(manifest.pg_dump ?? 0)
  const place = await restoreServer(databaseUrl, () =>
    loadServer(databaseUrl, join(of.draft, DATABASE_FILE.server)),
  )
  let status: 0 | 1
  try {
    for (const name of filesIn(files).filter((one) => one.endsWith('.json')))
      if (!existsSync(join(dataDir, name))) copyFileSync(join(files, name), join(dataDir, name))
    const app = join(dataDir, 'app')
    if (!existsSync(app) && existsSync(join(files, 'app'))) renameSync(join(files, 'app'), app)
    status = await settle(config, { db: place.db, keys: dataDir, manifest }, out)
  } catch (error) {
    await place.undo()
    throw error
  }
  await place.finish()
  return status
}

/**
 * `lend restore FILE`: into an empty data folder, or an empty database of a Postgres server. What was ended, released or denied
 * after the backup does not come back to life (I19): see `afterRestore`. All or nothing: until the end no server starts on
 * it. Exit status 0: restored, and all is whole; 1: restored, and the record is not what was written, or sealed keys do not open.
 */
export async function restore(env: NodeJS.ProcessEnv, file: string, out: Out): Promise<0 | 1> {
  const config = configFrom(env, process.cwd())
  const { dataDir } = config
  // Not through a pooler: the lock on what is being restored belongs to a connection.
  const databaseUrl = config.databaseDirectUrl ?? config.databaseUrl
  if (dataDir === null)
    throw new CliProblem('LEND_DATA=memory keeps nothing: name the folder to restore into.')
  try {
    if (databaseUrl !== null) {
      mkdirSync(dataDir, { recursive: true, mode: 0o700 })
      const draft = mkdtempSync(join(dataDir, 'backup-'))
      try {
        return await intoServer({ ...config, databaseUrl, dataDir }, { file, draft }, out)
      } finally {
        rmSync(draft, { recursive: true, force: true })
      }
    }
    const folder = takeEmptyFolder(dataDir)
    try {
      return await intoFolder(config, { file, folder, dataDir }, out)
    } catch (error) {
      folder.undo()
      throw error
    }
  } catch (error) {
    if (error instanceof CannotRestore) throw new CliProblem(error.message)
    throw error
  }
}
