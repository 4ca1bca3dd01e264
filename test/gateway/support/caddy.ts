import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from './nginx.ts'

const REFERENCE = 'src/gateway/caddy/Caddyfile'

const isThere = () => spawnSync('caddy', ['version']).status === 0

/** Caddy is here, or is installed where that can be done, or one sentence says what is missing. */
export function requireCaddy(): void {
  if (isThere()) return
  if (process.getuid?.() === 0 && existsSync('/etc/debian_version')) {
    const install = (...args: string[]) =>
      spawnSync('apt-get', args, { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } })
    const caddy = ['install', '-y', '--no-install-recommends', 'caddy']
    if (install(...caddy).status !== 0) {
      install('update')
      install(...caddy)
    }
    if (isThere()) return
  }
  throw new Error(
    'These tests need Caddy 2.6 or later: install it (Debian: apt-get install caddy).',
  )
}

export type Caddy = {
  readonly origin: string
  readonly log: () => string
  readonly stop: () => Promise<void>
}

export type CaddyFor = {
  readonly lendPort: number
  /** By the names that the configuration has. */
  readonly services: { readonly accounts: string; readonly mail: string }
  /** Undefined: the environment has none. */
  readonly secret: string | undefined
}

function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`the reference configuration has no ${from} any more`)
  return text.replaceAll(from, to)
}

async function listens(port: number, child: ChildProcess, said: () => string): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    if (child.exitCode !== null) throw new Error(`Caddy did not start: ${said()}`)
    const open = await new Promise<boolean>((done) => {
      const socket = connect(port, '127.0.0.1', () => done(true))
      socket.on('error', () => done(false))
      socket.on('connect', () => socket.destroy())
    })
    if (open) return
    await pause(25)
  }
  throw new Error(`Caddy did not listen: ${said()}`)
}

/** Runs the reference configuration as it is, but for the addresses. */
export async function startCaddy(of: CaddyFor): Promise<Caddy> {
  const folder = mkdtempSync(join(tmpdir(), 'lend-caddy-'))
  const port = await freePort()
  let text = readFileSync(REFERENCE, 'utf8')
  text = replaced(text, '127.0.0.1:4000', `127.0.0.1:${of.lendPort}`)
  text = replaced(text, '127.0.0.1:8080', `127.0.0.1:${port}`)
  text = replaced(text, 'accounts.internal:8081', of.services.accounts)
  text = replaced(text, 'mail.internal:8082', of.services.mail)
  writeFileSync(join(folder, 'Caddyfile'), text)
  const { PATH } = process.env
  const env = {
    ...{ PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    ...(of.secret === undefined ? {} : { LEND_PROXY_SECRET: of.secret }),
  }
  const child = spawn('caddy', ['run', '--config', 'Caddyfile', '--adapter', 'caddyfile'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  await listens(port, child, () => said)
  return {
    origin: `http://127.0.0.1:${port}`,
    log: () => readFileSync(join(folder, 'access.log'), 'utf8') + said,
    stop: async () => {
      const over = new Promise((done) => child.once('exit', done))
      child.kill('SIGTERM')
      await over
      rmSync(folder, { recursive: true })
    },
  }
}
