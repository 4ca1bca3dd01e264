import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Options } from '../options.ts'
import { temporaryFolder } from '../support/lend.ts'
import { cpuMeter, cpuNote, freePort, pinToLoadCore, startPeer } from '../support/machine.ts'
import { alternate, compare, type Row } from '../support/rounds.ts'
import { withWorld } from '../support/world.ts'
import { type Caller, callerFor, load } from './gateway-load.ts'

const POOLED = 64
const START_TRIES = 200

type Asked = { readonly port: number; readonly path: string; readonly auth: number }

/** One nginx, two doors: both serve the same static page and ask in the same way, one Lend, the other the bare server. */
function configuration(
  folder: string,
  of: { readonly lend: Asked; readonly bare: Asked; readonly secret: string },
): string {
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const door = (name: string, { port, path }: Asked) => `
  server {
    listen 127.0.0.1:${port} backlog=1024;
    root ${folder}/page;
    location / { auth_request /_ask; }
    location = /_ask {
      internal;
      proxy_pass http://${name}${path};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Lend-Proxy-Secret ${of.secret};
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Original-URI /demo/accounts/accounts;
      proxy_set_header X-Request-Id $request_id;
    }
  }`
  const pool = (name: string, { auth }: Asked) => `
  upstream ${name} { server 127.0.0.1:${auth}; keepalive ${POOLED}; keepalive_requests 1000000; }`
  return `worker_processes 1;
daemon off;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log warn;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000;
  ${temp.map((name) => `${name}_temp_path ${folder}/temp/${name};`).join('\n  ')}
  ${pool('lend', of.lend)}${pool('bare', of.bare)}
  ${door('lend', of.lend)}${door('bare', of.bare)}
}
`
}

async function listens(port: number, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < START_TRIES; tries++) {
    if (child.exitCode !== null) throw new Error('nginx did not start')
    const open = await new Promise<boolean>((done) => {
      const socket = connect(port, '127.0.0.1', () => done(true))
      socket.on('error', () => done(false))
      socket.on('connect', () => socket.destroy())
    })
    if (open) return
    await pause(25)
  }
  throw new Error('nginx did not listen')
}

/** Connections that were closed from this side towards a port and wait: a pool leaves hardly any. */
const waitingAt = (port: number): number =>
  execFileSync('ss', ['-Htan', 'state', 'time-wait', `( dport = :${port} )`], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line !== '').length

async function withNginx<T>(
  of: { readonly lend: number; readonly bare: number; readonly caller: Caller },
  body: (doors: { readonly lend: string; readonly bare: string }) => Promise<T>,
): Promise<T> {
  if (!existsSync('/usr/sbin/nginx'))
    throw new Error('nginx is not here: apt-get install nginx-light')
  const folder = temporaryFolder()
  chmodSync(folder.path, 0o755)
  for (const name of ['page', 'temp']) mkdirSync(join(folder.path, name))
  chmodSync(join(folder.path, 'temp'), 0o777)
  writeFileSync(join(folder.path, 'page', 'index.html'), '<!doctype html><title>Page</title>\n')
  const lend = { port: await freePort(), path: '/t/acme/forward-auth/nginx', auth: of.lend }
  const bare = { port: await freePort(), path: '/', auth: of.bare }
  const file = join(folder.path, 'nginx.conf')
  writeFileSync(file, configuration(folder.path, { lend, bare, secret: of.caller.secret }))
  const child = spawn('/usr/sbin/nginx', ['-c', file, '-p', folder.path], { stdio: 'ignore' })
  try {
    await listens(lend.port, child)
    const workers = execFileSync('pgrep', ['-P', String(child.pid)], { encoding: 'utf8' })
    for (const pid of [child.pid, ...workers.trim().split('\n').map(Number)])
      if (pid) pinToLoadCore(pid)
    return await body({
      lend: `http://127.0.0.1:${lend.port}/`,
      bare: `http://127.0.0.1:${bare.port}/`,
    })
  } finally {
    const gone = new Promise((done) => child.once('exit', done))
    child.kill('SIGTERM')
    await gone
    folder.remove()
  }
}

/** G3: nginx that asks Lend about each request for a static page, against the same nginx asking the framework alone. */
export async function g3(options: Options): Promise<readonly Row[]> {
  const peer = await startPeer('bare', {})
  const seconds = options.quick ? 1 : options.seconds
  try {
    return await withWorld({ name: 'g3', sessions: 4, ...options.profiled }, async (world) => {
      const caller = await callerFor(world)
      const headers = { authorization: `Bearer ${caller.token}` }
      const of = { lend: world.lend.port, bare: peer.ready.port, caller }
      return withNginx(of, async (doors) => {
        const before = waitingAt(world.lend.port)
        const [own, other] = [cpuMeter(world.lend), cpuMeter(peer)]
        const rounds = await alternate(
          [
            ['asking Lend', () => own.during(() => load(doors.lend, { headers, seconds }))],
            ['asking bare Hono', () => other.during(() => load(doors.bare, { headers, seconds }))],
          ],
          { rounds: options.rounds },
        )
        const after = waitingAt(world.lend.port)
        return [
          compare({
            row: 'G3',
            what: 'nginx with auth_request to Lend / the same nginx asking Hono for an empty 200',
            unit: '/s',
            rounds,
            lend: 'asking Lend',
            other: 'asking bare Hono',
            reach: '≥ 0.75, then 0.85',
            least: 0.75,
            note: `${cpuNote(own, other)}; TIME_WAIT towards Lend: ${before} before, ${after} after`,
          }),
        ]
      })
    })
  } finally {
    await peer.stop()
  }
}
