import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { create, extract } from 'tar'
import { z } from 'zod'
import { migrations, migrationsFolder } from '../db/open.ts'
import { CliProblem } from './run-file.ts'

/**
 * A backup is one tar file: `manifest.json` first, then the database, then the instance's own files below `files/`. The
 * manifest has the SHA-256 of each, so that what is damaged is told before anything is restored. It holds keys: mode 0600.
 */
const FORMAT = 1
const MANIFEST = 'manifest.json'

const manifestShape = z.strictObject({
  format: z.literal(FORMAT),
  /** Of the program that made it. */
  program: z.string().max(64),
  /** The newest migration that program brings. */
  migration: z.strictObject({ tag: z.string().max(200), when: z.number() }),
  /** ISO 8601: what was changed after it may not be in here. */
  at: z.iso.datetime(),
  kind: z.enum(['embedded', 'server']),
  /** Major version of the `pg_dump` that made it; only of a server's database. */
  pg_dump: z.number().optional(),
  files: z.array(z.strictObject({ path: z.string(), bytes: z.int(), sha256: z.string() })),
})
export type Manifest = z.output<typeof manifestShape>

export const DATABASE_FILE = { embedded: 'database.tar.gz', server: 'database.dump' } as const

/** What may be in one. Nothing else is ever written to disk. */
const PATH =
  /^(manifest\.json|database\.(tar\.gz|dump)|files\/[\w-]+\.json|files\/app\/ses_\w+\.json)$/

const versionOfProgram = (): string => {
  const text = readFileSync(join(migrationsFolder(), '..', 'package.json'), 'utf8')
  return z.object({ version: z.string() }).parse(JSON.parse(text)).version
}

async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const part of createReadStream(file)) hash.update(part)
  return hash.digest('hex')
}

/**
 * Packs what lies in a folder into a new file that only its owner can read, whole or not at all. `paths` are within the folder.
 */
export async function writeArchive(
  file: string,
  of: { readonly folder: string; readonly paths: readonly string[] } & Pick<
    Manifest,
    'at' | 'kind' | 'pg_dump'
  >,
): Promise<Manifest> {
  const { folder, paths, ...rest } = of
  const newest = migrations().at(-1)
  if (newest === undefined) throw new CliProblem('This program has no migrations: build it anew.')
  const files = []
  for (const path of paths) {
    const whole = join(folder, path)
    files.push({ path, bytes: statSync(whole).size, sha256: await sha256Of(whole) })
  }
  const migration = { tag: newest.tag, when: newest.when }
  const manifest: Manifest = {
    ...{ format: FORMAT, program: versionOfProgram(), migration, ...rest, files },
  }
  writeFileSync(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 })
  const draft = `${file}.${process.pid}.new`
  try {
    await pipeline(
      create({ cwd: folder, portable: true, noMtime: true }, [MANIFEST, ...paths]),
      createWriteStream(draft, { mode: 0o600, flags: 'wx', flush: true }),
    )
    if (existsSync(file)) throw new CliProblem(`${file} is there already: name another file.`)
    renameSync(draft, file)
  } finally {
    rmSync(draft, { force: true })
  }
  return manifest
}

const damaged = (why: string): CliProblem =>
  new CliProblem(`The backup is damaged (${why}): nothing was restored.`)

function readManifest(folder: string): Manifest {
  const file = join(folder, MANIFEST)
  if (!existsSync(file)) throw damaged('it has no manifest')
  let said: unknown
  try {
    said = JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    throw damaged('its manifest cannot be read')
  }
  const by = z.looseObject({ format: z.number(), program: z.string() }).safeParse(said)
  const own = versionOfProgram()
  if (by.success && by.data.format > FORMAT)
    throw new CliProblem(
      `The backup was made by Lend ${by.data.program} in a newer format; this is ${own}: restore it with that version.`,
    )
  const read = manifestShape.safeParse(said)
  if (!read.success) throw damaged('its manifest is none')
  const { migration, program } = read.data
  const newest = migrations().at(-1)
  if (migration.when > (newest?.when ?? 0))
    throw new CliProblem(
      `The backup was made by Lend ${program} with migration ${migration.tag}; this is ${own} with ${newest?.tag}: restore it with that version or a newer one.`,
    )
  return read.data
}

/** Unpacks a backup into an empty folder, every byte checked. Throws `CliProblem`: damaged, or made by a newer program. */
export async function openArchive(file: string, folder: string): Promise<Manifest> {
  if (!existsSync(file)) throw new CliProblem(`${file} cannot be read.`)
  try {
    await extract({
      ...{ file, cwd: folder, strict: true, noMtime: true },
      filter: (path, entry) => PATH.test(path) && 'type' in entry && entry.type === 'File',
    })
  } catch (error) {
    throw damaged(error instanceof Error ? (error.message.split('\n')[0] ?? '') : 'unreadable')
  }
  const manifest = readManifest(folder)
  for (const { path, bytes, sha256 } of manifest.files) {
    const whole = join(folder, path)
    if (!PATH.test(path) || !existsSync(whole)) throw damaged(`${path} is missing`)
    if (statSync(whole).size !== bytes || (await sha256Of(whole)) !== sha256)
      throw damaged(`${path} is not what was packed`)
  }
  if (!manifest.files.some(({ path }) => path === DATABASE_FILE[manifest.kind]))
    throw damaged('it has no database')
  return manifest
}
