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
import { listens, replaced, requireProgram } from './program.ts'

const FOLDER = 'src/gateway/nginx'

export const requireNginx = (): void =>
  requireProgram({ command: ['nginx', '-v'], package: 'nginx-light', needs: 'nginx 1.22 or later' })

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
export async function service(answer: RequestListener): Promise<Service> {
  const seen: IncomingMessage[] = []
  const server = createServer((req, res) => {
    seen.push(req)
    answer(req, res)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    close: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

export type Nginx = {
  readonly origin: string
  readonly log: (name: string) => string
  readonly stop: () => Promise<void>
}

export type NginxFor = {
  readonly lendPort: number
  /** By the names that the configuration has. */
  readonly services: { readonly accounts: string; readonly mail: string }
  readonly secret: string
  /** Without the pool, to see what it is good for. */
  readonly unpooled?: boolean
}

/** Runs the reference configuration as it is, but for the addresses, a dead resolver, and where it keeps its files. */
export async function startNginx(of: NginxFor): Promise<Nginx> {
  const folder = mkdtempSync(join(tmpdir(), 'lend-nginx-'))
  cpSync(FOLDER, folder, { recursive: true })
  // The workers run as another user.
  chmodSync(folder, 0o755)
  mkdirSync(join(folder, 'temp'))
  chmodSync(join(folder, 'temp'), 0o777)
  const [port, dead] = [await freePort(), await freePort()]
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  let text = readFileSync(join(folder, 'nginx.conf'), 'utf8')
  text = replaced(text, 'server 127.0.0.1:4000;', `server 127.0.0.1:${of.lendPort};`)
  text = replaced(text, 'listen 127.0.0.1:8080', `listen 127.0.0.1:${port}`)
  text = replaced(text, '127.0.0.53', `127.0.0.1:${dead}`)
  text = replaced(text, 'accounts.internal:8081', of.services.accounts)
  text = replaced(text, 'mail.internal:8082', of.services.mail)
  if (of.unpooled === true) text = replaced(text, 'keepalive 64;', '')
  text = replaced(text, 'worker_processes auto', 'worker_processes 1')
  text = text.replace('http {', `http { ${temp.map((t) => `${t}_temp_path temp/${t};`).join(' ')}`)
  writeFileSync(join(folder, 'nginx.conf'), text)
  writeFileSync(join(folder, 'lend-secret.conf'), `set $lend_proxy_secret "${of.secret}";`)
  const args = ['-p', folder, '-c', 'nginx.conf', '-e', 'error.log', '-g', 'daemon off;']
  const child = spawn('nginx', args, { stdio: 'ignore' })
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
