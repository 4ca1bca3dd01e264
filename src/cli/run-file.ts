import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * How the command line finds the running server: a file that only its owner can read names the port
 * and a secret that opens the server's loopback door. One file a server; it goes when the server
 * stops.
 */
export type RunFile = {
  readonly port: number
  readonly pid: number
  readonly secret: string
  readonly publicUrl: string
}

/**
 * Where an instance keeps its data, as far as the run file needs it. A null `dataDir`: nothing is
 * kept.
 */
export type RunPlace = { readonly dataDir: string | null; readonly port: number }

/** Said to the person at the command line: one sentence, no trace. */
export class CliProblem extends Error {
  override readonly name = 'CliProblem'
}

const PRIVATE_FILE = 0o600
const PRIVATE_FOLDER = 0o700
const OTHERS = 0o077

const uid = (): number => process.getuid?.() ?? 0

/**
 * Beside the data; for a server that keeps none, in a folder of this user's own below the system's
 * temporary one.
 */
const folderOf = (dataDir: string | null, temporary = tmpdir()): string =>
  dataDir ?? join(temporary, `lend-${uid()}`)

/** Where an instance's run file is. */
export const runFilePath = ({ dataDir, port }: RunPlace): string =>
  join(folderOf(dataDir), `run-${port}.json`)

/**
 * Anybody may make folders in the temporary one, so a folder that is not ours alone is not trusted.
 */
function ownFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER })
  const found = lstatSync(folder)
  if (!found.isDirectory() || found.uid !== uid() || (found.mode & OTHERS) !== 0)
    throw new CliProblem(`${folder} must be a folder that only you can open.`)
}

/**
 * Writes the run file of a server that is listening. It appears whole or not at all, and only its
 * owner can read it.
 */
export function writeRunFile(at: RunPlace, run: RunFile): void {
  if (at.dataDir === null) ownFolder(folderOf(null))
  else mkdirSync(at.dataDir, { recursive: true, mode: PRIVATE_FOLDER })
  const path = runFilePath(at)
  const fresh = `${path}.${process.pid}.new`
  rmSync(fresh, { force: true })
  writeFileSync(fresh, `${JSON.stringify(run)}\n`, { mode: PRIVATE_FILE, flag: 'wx' })
  // The mode above is cut by the umask, never widened; this makes it exact.
  chmodSync(fresh, PRIVATE_FILE)
  renameSync(fresh, path)
}

/**
 * Removes the run file if it is this process's own: another server may have taken the port since.
 */
export function removeRunFile(at: RunPlace): void {
  const path = runFilePath(at)
  if (readRunFile(path)?.pid === process.pid) rmSync(path, { force: true })
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

const isRunFile = (value: unknown): value is RunFile => {
  if (typeof value !== 'object' || value === null) return false
  const run: Partial<RunFile> = value
  return (
    Number.isInteger(run.port) &&
    Number.isInteger(run.pid) &&
    (run.pid ?? 0) > 0 &&
    typeof run.secret === 'string' &&
    run.secret.length >= 32 &&
    typeof run.publicUrl === 'string' &&
    URL.canParse(run.publicUrl)
  )
}

/** Null: no such file, not one of ours, or its server is gone. */
function readRunFile(path: string): RunFile | null {
  try {
    const found = lstatSync(path)
    // A file that somebody else wrote could send the command line to a server of theirs.
    if (!found.isFile() || found.uid !== uid() || (found.mode & OTHERS) !== 0) return null
    const run: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return isRunFile(run) && isAlive(run.pid) ? run : null
  } catch {
    return null
  }
}

function liveIn(folder: string): readonly RunFile[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^run-[0-9]{1,5}\.json$/.test(name))
      .flatMap((name) => readRunFile(join(folder, name)) ?? [])
  } catch {
    return []
  }
}

const DEFAULT_PORT = 4000

function wantedPort(text: string | undefined): number | null {
  if (text === undefined || text === '') return null
  const port = Number(text)
  if (!/^[0-9]{1,5}$/.test(text) || port < 1 || port > 65535)
    throw new CliProblem('PORT must be a whole number from 1 to 65535.')
  return port
}

/**
 * Finds the running server, by `LEND_DATA` and `PORT` as the server reads them. Without `LEND_DATA`
 * a server that keeps nothing is found too; without `PORT` the only server that runs, or the one on
 * 4000. Throws `CliProblem` when there is none, or more than one and nothing to choose by.
 */
export function findRunFile(
  env: Readonly<Record<string, string | undefined>>,
  cwd: string,
  temporary = tmpdir(),
): RunFile {
  const data = env.LEND_DATA === undefined || env.LEND_DATA === '' ? null : env.LEND_DATA
  const inMemory = folderOf(null, temporary)
  const folders =
    data === null
      ? [resolve(cwd, '.lend'), inMemory]
      : [data === 'memory' ? inMemory : resolve(cwd, data)]
  const port = wantedPort(env.PORT)
  const where = port === null ? '' : ` on port ${port}`
  for (const folder of folders) {
    const live = liveIn(folder).filter((run) => port === null || run.port === port)
    const usual = live.find((run) => run.port === DEFAULT_PORT)
    const [first, second] = live
    if (usual !== undefined) return usual
    if (first !== undefined && second === undefined) return first
    if (first !== undefined) {
      const ports = live.map((run) => run.port).sort((a, b) => a - b)
      throw new CliProblem(
        `Several servers are running, on ports ${ports.join(', ')}: set PORT to one of them.`,
      )
    }
  }
  throw new CliProblem(
    `No Lend server is running${where} with its data in ${folders[0]}: start one with npm start, or set LEND_DATA and PORT as it has them.`,
  )
}
