import { execFile } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../gateway/support/nginx.ts'

const run = promisify(execFile)
const DEBIAN = '/usr/lib/postgresql'

/** A Postgres server of the test's own, to be stopped, started and set up badly. */
export type Cluster = {
  /** The database that every cluster has, empty. */
  readonly url: string
  readonly port: number
  /** `immediate`: as when the machine lost power. Connections are cut either way. */
  readonly stop: (how?: 'fast' | 'immediate') => Promise<void>
  /** With settings as `name=value`, beside those of the start. */
  readonly start: (settings?: readonly string[]) => Promise<void>
  readonly remove: () => Promise<void>
}

function program(name: string): string {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN) : []
  const newest = versions.toSorted((a, b) => Number(b) - Number(a))[0]
  return newest === undefined ? name : join(DEBIAN, newest, 'bin', name)
}

/** Postgres refuses to run as the superuser of the machine: then it is the user that Debian made for it. */
const isSuperuser = process.getuid?.() === 0
const asPostgres = async (command: string, args: readonly string[]): Promise<string> => {
  const [file, all] = isSuperuser
    ? ['runuser', ['-u', 'postgres', '--', command, ...args]]
    : [command, args]
  // Its own output would be the server's too, and would keep the pipe open.
  const { stdout } = await run(file, [...all], { cwd: tmpdir() })
  return stdout
}

async function giveToPostgres(folder: string): Promise<void> {
  if (!isSuperuser) return
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, 'postgres'])).stdout)),
  )
  chownSync(folder, uid ?? 0, gid ?? 0)
}

/** Made in about a second, and running. Settings as `name=value`. */
export async function scratchCluster(settings: readonly string[] = []): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), 'lend-pg-'))
  await giveToPostgres(folder)
  const data = join(folder, 'data')
  const port = await freePort()
  await asPostgres(program('initdb'), [
    ...['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'],
    '--locale=C.UTF-8',
  ])
  const control = (action: string, more: readonly string[]) =>
    asPostgres(program('pg_ctl'), [
      ...[action, '-D', data, '-w', '-t', '30', '-s', '-l', join(folder, 'log')],
      ...more,
    ])
  const start = async (also: readonly string[] = []) => {
    const all = [
      `port=${port}`,
      'listen_addresses=127.0.0.1',
      `unix_socket_directories=${folder}`,
      'fsync=off',
      'shared_buffers=32MB',
      ...settings,
      ...also,
    ]
    await control('start', ['-o', all.map((one) => `-c ${one}`).join(' ')])
  }
  let isUp = true
  await start()
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    start: async (also) => {
      await start(also)
      isUp = true
    },
    stop: async (how = 'fast') => {
      isUp = false
      await control('stop', ['-m', how])
    },
    remove: async () => {
      if (isUp) await control('stop', ['-m', 'immediate'])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
