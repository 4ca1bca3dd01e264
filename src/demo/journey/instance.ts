import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/**
 * A fresh instance of the real server in a process of its own, which keeps nothing, and its command
 * line.
 */
export type Instance = {
  readonly url: string
  /**
   * Runs `lend` against it and answers with what it printed. Throws with its sentence when it
   * fails.
   */
  readonly lend: (...args: readonly string[]) => Promise<string>
  /** What the instance has logged, for when it does not do as it should. */
  readonly log: () => string
  /** Asks it to drain and waits. Answers with its exit code. */
  readonly stop: () => Promise<number | null>
}

const run = promisify(execFile)

const START_MILLIS_MAX = 90_000
const STOP_MILLIS_MAX = 15_000
const LOG_CHARACTERS_MAX = 20_000

const here = fileURLToPath(import.meta.url)
/** From the built files, or from the sources as the tests run them. */
const BUILT = extname(here) === '.js'
const program = (name: string): readonly string[] => {
  const file = join(dirname(here), '..', '..', `${name}${BUILT ? '.js' : '.ts'}`)
  return BUILT ? [file] : ['--import', 'tsx', file]
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (typeof address !== 'object' || address === null) throw new Error('no port is free')
  return address.port
}

async function ready(url: string, child: ChildProcess, log: () => string): Promise<void> {
  const until = Date.now() + START_MILLIS_MAX
  while (Date.now() < until) {
    if (child.exitCode !== null) throw new Error(`the server ended at its start:\n${log()}`)
    const answer = await fetch(`${url}/readyz`).catch(() => null)
    await answer?.body?.cancel()
    if (answer?.status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 150))
  }
  throw new Error(`the server was not ready after ${START_MILLIS_MAX / 1000} s:\n${log()}`)
}

/** Starts it on a port that is free and waits until it is ready. */
export async function startInstance(): Promise<Instance> {
  const port = await freePort()
  const url = `http://localhost:${port}`
  const env = {
    ...process.env,
    PORT: String(port),
    PUBLIC_URL: url,
    LEND_DATA: 'memory',
    LEND_DEMO: 'on',
    DATABASE_URL: '',
  }
  const child = spawn(process.execPath, program('main'), {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let logged = ''
  const keep = (chunk: Buffer) => {
    logged = `${logged}${chunk.toString()}`.slice(-LOG_CHARACTERS_MAX)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const log = () => logged
  // Nobody is left behind, however this process ends.
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  try {
    await ready(url, child, log)
  } catch (error) {
    kill()
    throw error
  }
  return {
    url,
    log,
    lend: async (...args) => {
      try {
        const { stdout } = await run(process.execPath, [...program('cli/main'), ...args], { env })
        return stdout.trim()
      } catch (error) {
        const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
        throw new Error(said === '' ? `lend ${args[0]} failed` : said)
      }
    },
    stop: async () => {
      child.kill('SIGTERM')
      const late = setTimeout(kill, STOP_MILLIS_MAX)
      const code = await ended
      clearTimeout(late)
      process.removeListener('exit', kill)
      return code
    },
  }
}
