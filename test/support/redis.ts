import { type ChildProcess, spawn } from 'node:child_process'
import { freePort } from '../gateway/support/nginx.ts'
import { listens, requireProgram } from '../gateway/support/program.ts'

/** A Redis of the test's own, that keeps nothing. */
export type Redis = {
  readonly url: string
  readonly port: number
  readonly stop: () => Promise<void>
  readonly start: () => Promise<void>
}

export async function scratchRedis(): Promise<Redis> {
  requireProgram({
    command: ['redis-server', '--version'],
    package: 'redis-server',
    needs: 'Redis 6 or later',
  })
  const port = await freePort()
  let child: ChildProcess | undefined
  const start = async () => {
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
    child = spawn('redis-server', args, { stdio: 'ignore' })
    await listens(port, child, () => 'redis-server')
  }
  const stop = async () => {
    const over = new Promise((done) => child?.once('exit', done))
    if (child === undefined || child.exitCode !== null) return
    child.kill('SIGKILL')
    await over
    child = undefined
  }
  await start()
  return { url: `redis://127.0.0.1:${port}`, port, stop, start }
}
