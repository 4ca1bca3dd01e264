import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { dirname, join } from 'node:path'
import { median } from './rounds.ts'

/** One core for whichever server is measured; the other for the load generator and the database. */
const SERVER_CORE = 0
const LOAD_CORE = 1

/** The folder of `package.json`, from bench/ and from dist/bench/. */
export const root = (() => {
  let folder = import.meta.dirname
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  return folder
})()

const taskset = (...args: string[]) => spawnSync('taskset', args, { encoding: 'utf8' })

/** Whether processes can be kept to a core here. Where not, the figures say so. */
export const canPin = availableParallelism() >= 2 && taskset('-V').status === 0

/** Keeps a process with all its threads on the core that is not the server's. False when this user may not. */
export const pinToLoadCore = (pid: number): boolean =>
  canPin && taskset('-a', '-c', '-p', String(LOAD_CORE), String(pid)).status === 0

/** What runs on the server's core. The process is the program's own: taskset replaces itself by it. */
export const onServerCore = (command: string, args: readonly string[]): [string, string[]] =>
  canPin ? ['taskset', ['-c', String(SERVER_CORE), command, ...args]] : [command, [...args]]

export const machine = () => ({
  cores: cpus().length,
  model: cpus()[0]?.model ?? 'unknown',
  node: process.version,
  load_before: Number(loadavg()[0]?.toFixed(2)),
  pinned: canPin,
})

const TICKS_A_SECOND = 100

/** CPU seconds that a process has used, all its threads; NaN where the system does not say. */
function cpuSeconds(pid: number | undefined): number {
  try {
    // The command's name may hold spaces, and ends with the last bracket.
    const [, rest = ''] = /\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
    const fields = rest.split(' ')
    return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND
  } catch {
    return Number.NaN
  }
}

/** What one side did in one round. */
export type Done = {
  readonly perSecond: number
  readonly calls: number
  /** Told by a side that does other things too. */
  readonly cpuSeconds?: number
}

/** CPU that a process takes for a call: where others use the machine, it says more than the pace. */
export function cpuMeter(child: Pick<Child, 'process'>) {
  const micros: number[] = []
  return {
    during: async (measure: () => Promise<Done>): Promise<number> => {
      const before = cpuSeconds(child.process.pid)
      const { perSecond, calls, cpuSeconds: told } = await measure()
      micros.push(((told ?? cpuSeconds(child.process.pid) - before) * 1e6) / calls)
      return perSecond
    },
    /** The median of what was measured, in microseconds. */
    micros: (): number => median(micros),
  }
}

type CpuMeter = ReturnType<typeof cpuMeter>
export const cpuNote = (lend: CpuMeter, other: CpuMeter): string =>
  `CPU a call ${lend.micros().toFixed(1)} µs against ${other.micros().toFixed(1)} µs`

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

const children = new Set<ChildProcess>()
// Whatever ends the benchmark, nothing of it goes on running.
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

export type Child = {
  readonly process: ChildProcess
  readonly output: () => string
  /** Asks it to stop; insists after ten seconds. */
  readonly stop: () => Promise<void>
}

/** A Node program on the server's core, with only the environment that it is given. */
export function startNode(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd = root,
): Child {
  const [command, rest] = onServerCore(process.execPath, args)
  const child = spawn(command, rest, {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  children.add(child)
  let output = ''
  const keep = (chunk: Buffer) => {
    output = `${output}${chunk}`.slice(-8_000)
  }
  child.stdout?.on('data', keep)
  child.stderr?.on('data', keep)
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  gone.then(() => children.delete(child)).catch(() => undefined)
  const stop = async () => {
    const insist = setTimeout(() => child.kill('SIGKILL'), 10_000)
    child.kill('SIGTERM')
    await gone
    clearTimeout(insist)
  }
  return { process: child, output: () => output, stop }
}

/** A program of bench/peers: it says once what it is ready with, and may be told to do work. */
export type Peer = Child & {
  readonly ready: { readonly port: number; readonly [key: string]: unknown }
  readonly ask: (message: object) => Promise<{ readonly [key: string]: unknown }>
}

const isRecord = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null

function nextMessage(child: Child): Promise<{ readonly [key: string]: unknown }> {
  return new Promise((resolve, reject) => {
    const gone = () => reject(new Error(`a peer stopped: ${child.output()}`))
    child.process.once('exit', gone)
    child.process.once('message', (message) => {
      child.process.off('exit', gone)
      if (!isRecord(message)) reject(new Error('a peer said something else'))
      else if (typeof message.failed === 'string') reject(new Error(message.failed))
      else resolve(message)
    })
  })
}

export async function startPeer(
  name: 'bare' | 'oidc' | 'raw' | 'rival' | 'verify' | 'workers',
  env: Readonly<Record<string, string>>,
): Promise<Peer> {
  const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js'
  const file = join(import.meta.dirname, '..', 'peers', `${name}.${extension}`)
  const child = startNode([file], env)
  const said = await nextMessage(child)
  if (typeof said.port !== 'number') throw new Error(`${name} has no port`)
  return {
    ...child,
    ready: { ...said, port: said.port },
    ask: (message) => {
      const answer = nextMessage(child)
      child.process.send(message)
      return answer
    },
  }
}
