import { spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener, request } from 'node:http'
import { type AddressInfo, createServer as createTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Names, nameServer } from './names.ts'
import { listens, replaced, requireProgram } from './program.ts'

const FOLDER = 'src/gateway/nginx'
/** Another nginx than Debian's, 1.27.3 or later: what is run is then the variant for it, whose addresses are names. */
const OTHER = process.env.LEND_NGINX
export const PROGRAM = OTHER ?? 'nginx'
export const looksUpNames = OTHER !== undefined

export const requireNginx = (): void =>
  requireProgram({ command: [PROGRAM, '-v'], package: 'nginx-light', needs: 'nginx 1.22 or later' })

export async function freePort(): Promise<number> {
  const server = createTcp()
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  await new Promise((done) => server.close(done))
  return port
}

export type Service = {
  readonly port: number
  /** What reached it. */
  readonly seen: IncomingMessage[]
  readonly close: () => Promise<void>
}

/** A program that nginx speaks to. */
export async function service(answer: RequestListener, port = 0): Promise<Service> {
  const seen: IncomingMessage[] = []
  const server = createServer((req, res) => {
    seen.push(req)
    answer(req, res)
  })
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    close: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

export type Running = {
  readonly origin: string
  readonly log: (name: string) => string
  readonly stop: () => Promise<void>
}

/**
 * Runs a configuration of `from` as it is, but for what `change` replaces in it, one worker, and where it keeps its files.
 * It listens at 127.0.0.1:8080 there, and at a free port here.
 */
export async function runNginx(of: {
  readonly from: string
  readonly file: string
  readonly change: (text: string) => string
  readonly beside?: Readonly<Record<string, string>>
}): Promise<Running> {
  const folder = mkdtempSync(join(tmpdir(), 'lend-nginx-'))
  cpSync(of.from, folder, { recursive: true })
  // The workers run as another user.
  chmodSync(folder, 0o755)
  mkdirSync(join(folder, 'temp'))
  chmodSync(join(folder, 'temp'), 0o777)
  const port = await freePort()
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  let text = of.change(readFileSync(join(folder, of.file), 'utf8'))
  text = replaced(text, 'listen 127.0.0.1:8080', `listen 127.0.0.1:${port}`)
  text = replaced(text, 'worker_processes auto', 'worker_processes 1')
  text = text.replace('http {', `http { ${temp.map((t) => `${t}_temp_path temp/${t};`).join(' ')}`)
  writeFileSync(join(folder, of.file), text)
  for (const [name, content] of Object.entries(of.beside ?? {}))
    writeFileSync(join(folder, name), content)
  const args = ['-p', folder, '-c', of.file, '-e', 'error.log', '-g', 'daemon off;']
  const child = spawn(PROGRAM, args, { stdio: 'ignore' })
  await listens(port, child, () => readFileSync(join(folder, 'error.log'), 'utf8'))
  return {
    origin: `http://127.0.0.1:${port}`,
    log: (name) => readFileSync(join(folder, name), 'utf8'),
    stop: async () => {
      const over = new Promise((done) => child.once('exit', done))
      child.kill('SIGTERM')
      await over
      rmSync(folder, { recursive: true })
    },
  }
}

export type Nginx = Running & {
  /** Of the variant that looks names up: who tells it. */
  readonly names: Names
}

export type NginxFor = {
  readonly lendPort: number
  /** By the names that the configuration has. An address on this machine, or a name that nobody answers for. */
  readonly services: { readonly accounts: string; readonly mail: string }
  readonly secret: string
  /** Without the pool, to see what it is good for. */
  readonly unpooled?: boolean
  /** How long a name counts, where that is to be seen to pass. */
  readonly valid?: string
}

const THERE = /^127\.0\.0\.1:(\d+)$/

/** Runs the reference configuration as it is, but for the addresses. */
export async function startNginx(of: NginxFor): Promise<Nginx> {
  const places = [
    [looksUpNames ? 'lend.internal:4000' : '127.0.0.1:4000', `127.0.0.1:${of.lendPort}`],
    ['accounts.internal:8081', of.services.accounts],
    ['mail.internal:8082', of.services.mail],
  ] as const
  const known: string[] = []
  /** An address by the name that stands for it, where names are looked up. */
  const named = (place: string, to: string): string => {
    const [, port] = (looksUpNames && THERE.exec(to)) || []
    if (port === undefined) return to
    const [name = ''] = place.split(':')
    known.push(name)
    return `${name}:${port}`
  }
  const moved = places.map(([place, to]) => [place, named(place, to)] as const)
  const names = await nameServer(known)
  const running = await runNginx({
    from: FOLDER,
    file: looksUpNames ? 'nginx-1.27.conf' : 'nginx.conf',
    beside: { 'lend-secret.conf': `set $lend_proxy_secret "${of.secret}";` },
    change: (from) => {
      let text = moved.reduce((so, [place, to]) => replaced(so, place, to), from)
      text = replaced(text, '127.0.0.53', `127.0.0.1:${names.port}`)
      if (of.valid !== undefined) text = replaced(text, 'valid=30s', `valid=${of.valid}`)
      // Later versions pool where nothing is said, so it is said that a connection is for one request.
      return of.unpooled === true
        ? replaced(text, 'keepalive_requests 10000;', 'keepalive_requests 1;')
        : text
    },
  })
  await names.told()
  // What came before these was acted on when they are answered.
  for (let n = 0; n < 2; n++) await get(running.origin, '/ping')
  return {
    ...running,
    names,
    stop: async () => {
      await running.stop()
      await names.close()
    },
  }
}

export type Got = {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** A client's request, on the wire as it is written here. */
export function get(
  origin: string,
  path: string,
  headers: Readonly<Record<string, string | string[]>> = {},
): Promise<Got> {
  const url = new URL(origin)
  return new Promise((resolve, reject) => {
    const sent = request({ host: url.hostname, port: url.port, path, headers }, (res) => {
      let body = ''
      res.setEncoding('utf8')
      res.on('data', (chunk: string) => {
        body += chunk
      })
      res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body }))
    })
    sent.on('error', reject)
    sent.end()
  })
}

const STATES = { established: '01', timeWait: '06' } as const

/** Connections to a local port, by state, as the kernel lists them. */
export function connectionsTo(port: number): Record<keyof typeof STATES, number> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[2]?.endsWith(`:${hex}`))
  const count = (state: string) => rows.filter((columns) => columns[3] === state).length
  return { established: count(STATES.established), timeWait: count(STATES.timeWait) }
}
