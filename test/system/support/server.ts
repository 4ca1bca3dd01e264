import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { join } from 'node:path'

/** The built server as its users run it: a process, its files, its command line. `npm test` builds it first. */

export const root = join(import.meta.dirname, '..', '..', '..')

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

export type Settings = Record<string, string>

/** Without the settings of whoever runs the tests. */
export const cleanEnv = (settings: Settings): NodeJS.ProcessEnv => {
  const {
    DATABASE_URL,
    DATABASE_DIRECT_URL,
    REDIS_URL,
    LEND_DEMO,
    PUBLIC_URL,
    PORT,
    LEND_DATA,
    ...rest
  } = process.env
  return { ...rest, ...settings }
}

export function startServer(settings: Settings) {
  const child = spawn(process.execPath, [join(root, 'dist', 'src', 'main.js')], {
    cwd: root,
    env: cleanEnv(settings),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))
  return { child, exit, output: () => output }
}

export async function whenReady(
  port: number,
  server: ReturnType<typeof startServer>,
): Promise<void> {
  const until = Date.now() + 60_000
  while (Date.now() < until) {
    if (server.child.exitCode !== null) throw new Error(`the server stopped: ${server.output()}`)
    const ready = await fetch(`http://localhost:${port}/readyz`).catch(() => null)
    if (ready?.status === 200) return
    await new Promise((r) => setTimeout(r, 50))
  }
  throw new Error(`not ready: ${server.output()}`)
}

export type Server = ReturnType<typeof startServer>
