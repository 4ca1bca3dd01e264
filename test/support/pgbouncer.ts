import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../gateway/support/nginx.ts'
import { listens, requireProgram } from '../gateway/support/program.ts'
import { through } from './wire.ts'

/** Debian's PgBouncer in transaction mode, in front of the tests' server. */
export type PgBouncer = {
  /** The same database, through the pooler. */
  readonly through: (url: string) => string
  readonly stop: () => Promise<void>
}

/** `pool`: connections to the server for each database. Few, so that clients really share them. */
export async function startPgBouncer(serverUrl: string, pool = 4): Promise<PgBouncer> {
  requireProgram({
    command: ['pgbouncer', '--version'],
    package: 'pgbouncer',
    needs: 'PgBouncer 1.18 or later',
  })
  const { hostname, port: serverPort, username } = new URL(serverUrl)
  const folder = mkdtempSync(join(tmpdir(), 'lend-pgbouncer-'))
  chmodSync(folder, 0o777)
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  const settings = [
    '[databases]',
    `* = host=${hostname} port=${serverPort || 5432} user=${username || 'postgres'}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    `unix_socket_dir = ${folder}`,
    `logfile = ${join(folder, 'log')}`,
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${pool}`,
    'max_client_conn = 500',
  ]
  writeFileSync(file, settings.join('\n'))
  // It refuses to run as the machine's superuser.
  const asUser = process.getuid?.() === 0 ? ['-u', 'postgres'] : []
  const child = spawn('pgbouncer', ['-q', ...asUser, file], { stdio: 'ignore' })
  await listens(port, child, () => readFileSync(join(folder, 'log'), 'utf8'))
  return {
    through: (url) => through(url, port),
    stop: async () => {
      const over = new Promise((done) => child.once('exit', done))
      child.kill('SIGKILL')
      await over
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
