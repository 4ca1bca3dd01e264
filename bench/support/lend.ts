import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Child, canPin, freePort, root, startNode } from './machine.ts'

const run = promisify(execFile)
const RATES = ['client', 'tenant', 'session', 'tools', 'person', 'point']
  .map((limit) => `${limit}:1000000000`)
  .join(',')
const READY_MILLIS_MAX = 60_000

export type Credentials = {
  readonly issuer: string
  readonly mcp: string
  readonly agents: readonly {
    readonly client_id: string
    readonly client_secret: string
    readonly templates: readonly string[]
  }[]
  readonly enforcement_points: readonly {
    readonly client_id: string
    readonly client_secret: string
  }[]
}

export type Lend = Child & {
  readonly port: number
  readonly origin: string
  readonly credentials: (tenant?: string) => Promise<Credentials>
  /** What `npx lend …` prints. */
  readonly cli: (...args: readonly string[]) => Promise<string>
}

async function answers(origin: string, child: Child, everyMillis: number): Promise<void> {
  const until = Date.now() + READY_MILLIS_MAX
  while (Date.now() < until) {
    if (child.process.exitCode !== null) throw new Error(`Lend stopped: ${child.output()}`)
    const ready = await fetch(`${origin}/readyz`).catch(() => null)
    if (ready?.status === 200) return
    await new Promise((resolve) => setTimeout(resolve, everyMillis))
  }
  throw new Error(`Lend is not ready: ${child.output()}`)
}

/** The built server as its users run it, on the measured core. `databaseUrl` null: the embedded database in `data`. */
export async function startLend(of: {
  readonly databaseUrl: string | null
  readonly data: string
  readonly port?: number
  /** Of the deployment, when this is one instance more of it. */
  readonly publicUrl?: string
  /** Whether Node's inspector listens, on loopback, at a port that the output names. */
  readonly inspect?: boolean
  /** A folder for the profile that Node writes when the server stops. */
  readonly profile?: string
}): Promise<Lend> {
  const port = of.port ?? (await freePort())
  const settings = {
    PORT: String(port),
    LEND_DATA: of.data,
    LEND_DEMO: 'on',
    LEND_LOG: 'warn',
    // One client asks for all: more than any limit that would make sense. What is counted still is.
    LEND_RATE_LIMITS: RATES,
    ...(of.databaseUrl === null ? {} : { DATABASE_URL: of.databaseUrl }),
    ...(of.publicUrl === undefined ? {} : { PUBLIC_URL: of.publicUrl }),
  }
  const flags = [
    ...(of.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${of.profile}`]),
    ...(of.inspect === true ? ['--inspect=127.0.0.1:0'] : []),
  ]
  const child = startNode([...flags, join(root, 'dist', 'src', 'main.js')], settings)
  const origin = `http://localhost:${port}`
  await answers(origin, child, 10)
  const cli = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await run(process.execPath, [join(root, 'bin', 'lend.js'), ...args], {
      cwd: root,
      env: { PATH: process.env.PATH, ...settings },
    })
    return stdout
  }
  return {
    ...child,
    port,
    origin,
    cli,
    credentials: async (tenant = 'acme') =>
      JSON.parse(await cli('demo-credentials', '--tenant', tenant)),
  }
}

/** A folder for an instance's files, and how to remove it. */
export function temporaryFolder(): { readonly path: string; readonly remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'lend-bench-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export const pinnedNote = (databasePinned: boolean): string =>
  !canPin
    ? 'processes were not kept to cores'
    : databasePinned
      ? 'server on core 0; load generator and database on core 1'
      : 'server on core 0, load generator on core 1; the database was not kept to a core'
