import { spawn } from 'node:child_process'
import { CliProblem } from './run-file.ts'

/** Postgres's own programs, which alone know how to copy a server's database whole. */

const ERROR_BYTES_MAX = 4096

/** A URL's parts as the programs read them from the environment: an argument would show the password to every process. */
function environmentOf(url: string): NodeJS.ProcessEnv {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url)
  const sslmode = searchParams.get('sslmode') ?? (searchParams.has('ssl') ? 'require' : null)
  const given: Readonly<Record<string, string | null>> = {
    PGHOST: hostname.replace(/^\[|\]$/g, '') || null,
    PGPORT: port || null,
    PGUSER: decodeURIComponent(username) || null,
    PGPASSWORD: decodeURIComponent(password) || null,
    PGDATABASE: decodeURIComponent(pathname.slice(1)) || null,
    PGSSLMODE: sslmode,
  }
  const set = Object.entries(given).filter(([, value]) => value !== null)
  return { ...process.env, PGCONNECT_TIMEOUT: '10', ...Object.fromEntries(set) }
}

type Program = 'pg_dump' | 'pg_restore'

function run(program: Program, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    let errors = ''
    child.stdout.on('data', (part) => {
      out += String(part)
    })
    child.stderr.on('data', (part) => {
      if (errors.length < ERROR_BYTES_MAX) errors += String(part)
    })
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'ENOENT'
          ? new CliProblem(
              `${program} is not on this machine: install Postgres’s client programs, of the server’s version or newer.`,
            )
          : error,
      ),
    )
    child.once('close', (code) => {
      if (code === 0) resolve(out)
      else reject(new CliProblem(errors.trim().split('\n')[0] || `${program} failed (${code}).`))
    })
  })
}

/** The major version of a program on this machine, 15 and so on. */
async function majorOf(program: Program): Promise<number> {
  const said = await run(program, ['--version'], process.env)
  return Number(/(\d+)(\.\d+)*/.exec(said.replace(/^[^)]*\)/, ''))?.[1] ?? 0)
}

/** Writes a database into a file, as it is at one moment, while it is in use. Returns the major version of what wrote it. */
export async function dumpServer(
  url: string,
  of: { readonly file: string; readonly server: number },
): Promise<number> {
  const own = await majorOf('pg_dump')
  if (own < of.server)
    throw new CliProblem(
      `pg_dump is of version ${own} and the server of ${of.server}: install Postgres’s client programs of version ${of.server} or newer.`,
    )
  const args = ['--format=custom', '--no-password', `--file=${of.file}`]
  await run('pg_dump', args, environmentOf(url))
  return own
}

/** Throws before anything is touched when this machine's program cannot read what was written. */
export async function checkRestorer(made: number): Promise<void> {
  const own = await majorOf('pg_restore')
  if (own < made)
    throw new CliProblem(
      `pg_restore is of version ${own} and the backup of ${made}: install Postgres’s client programs of version ${made} or newer.`,
    )
}

/** Loads a file that `dumpServer` wrote into a database, in one transaction. Who owns what is left to the database's own user. */
export async function loadServer(url: string, file: string): Promise<void> {
  const environment = environmentOf(url)
  const args = ['--single-transaction', '--exit-on-error', '--no-owner', '--no-privileges']
  const to = `--dbname=${environment.PGDATABASE ?? ''}`
  await run('pg_restore', [...args, '--no-password', to, file], environment)
}
