import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './nginx.ts'
import { listens, replaced, requireProgram } from './program.ts'

const REFERENCE = 'src/gateway/caddy/Caddyfile'

export const requireCaddy = (): void =>
  requireProgram({ command: ['caddy', 'version'], package: 'caddy', needs: 'Caddy 2.6 or later' })

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
