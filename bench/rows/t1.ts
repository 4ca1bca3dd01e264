import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Options } from '../options.ts'
import { type Scratch, settle } from '../support/database.ts'
import { basic, drive, form } from '../support/drive.ts'
import { type Peer, pinToLoadCore, startPeer } from '../support/machine.ts'
import { alternate, compare, pace, type Row } from '../support/rounds.ts'
import { CONCURRENCY, type World, withWorld } from '../support/world.ts'

const PGBENCH_CLIENTS = 16
const SCRIPT = `\\set n random(1, 1000000000)
begin;
insert into bench_one (id, person, at, data) values (gen_random_uuid(), :n, now(), '{"mode": "ask"}');
insert into bench_two (chain, type, at, data) values (:n, 'session.started', now(), '{"by": "exchange"}');
commit;
`

/** The floor of T1: what a durable start writes at the least, by Postgres's own load generator. */
export async function pgbenchOn(scratch: Scratch) {
  await scratch.sql.unsafe(`
    create table bench_one (id uuid primary key, person bigint not null, at timestamptz not null, data jsonb not null);
    create table bench_two (n bigint generated always as identity primary key, chain bigint not null,
      type text not null, at timestamptz not null, data jsonb not null)`)
  const folder = mkdtempSync(join(tmpdir(), 'lend-bench-'))
  const file = join(folder, 'two-inserts.sql')
  writeFileSync(file, SCRIPT)
  const url = new URL(scratch.url)
  const args = ['-n', '-M', 'prepared', '-c', String(PGBENCH_CLIENTS), '-j', '1', '-f', file]
  const place = ['-h', url.hostname, '-p', url.port || '5432', '-U', url.username || 'postgres']
  const measure = (transactions: number): Promise<number> =>
    new Promise((resolve, reject) => {
      const each = String(Math.ceil(transactions / PGBENCH_CLIENTS))
      const child = spawn('pgbench', [...args, '-t', each, ...place, url.pathname.slice(1)], {
        env: { ...process.env, PGPASSWORD: decodeURIComponent(url.password) },
      })
      child.once('error', reject)
      child.once('spawn', () => {
        if (child.pid !== undefined) pinToLoadCore(child.pid)
        // Its connections are made at once; their processes follow to the load's core.
        setTimeout(() => void scratch.pin().catch(reject), 100)
      })
      let output = ''
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk) => {
          output += chunk
        })
      child.once('exit', (code) => {
        const tps = Number(/tps = ([0-9.]+)/.exec(output)?.[1])
        if (code === 0 && tps > 0) resolve(tps)
        else reject(new Error(`pgbench: ${output}`))
      })
    })
  return { measure, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

async function lendStarts(world: World, count: number): Promise<number> {
  await world.endSessions()
  const { perSecond } = await drive(world.lend.origin, CONCURRENCY, world.starts(count))
  return perSecond
}

async function clientCredentials(peer: Peer, count: number): Promise<number> {
  const sent = form(
    '/token',
    { grant_type: 'client_credentials' },
    basic(String(peer.ready.id), String(peer.ready.secret)),
  )
  const origin = `http://127.0.0.1:${peer.ready.port}`
  const requests = Array.from({ length: count }, () => sent)
  return (await drive(origin, CONCURRENCY, requests)).perSecond
}

/** T1: session starts by token exchange, durable, against pgbench and against oidc-provider. */
export async function t1(options: Options): Promise<readonly Row[]> {
  const most = options.quick ? 200 : 12_000
  const seconds = options.seconds
  return withWorld({ name: 't1', sessions: most, ...options.profiled }, async (world) => {
    const [lend, pgbench, oidc] = [
      pace(seconds, { first: 200, most }),
      pace(seconds, { first: 1_000, most: options.quick ? 500 : 60_000 }),
      pace(seconds, { first: 500, most: options.quick ? 300 : 60_000 }),
    ]
    const floor = await pgbenchOn(world.scratch)
    const peer = await startPeer('oidc', {})
    try {
      const rounds = await alternate(
        [
          ['Lend', async () => lend.seen(await lendStarts(world, lend.count()))],
          ['pgbench', async () => pgbench.seen(await floor.measure(pgbench.count()))],
          ['oidc-provider', async () => oidc.seen(await clientCredentials(peer, oidc.count()))],
        ],
        {
          rounds: options.rounds,
          warmed: async () => {
            await settle(world.scratch.sql)
            options.pinned(await world.scratch.pin())
          },
        },
      )
      const common = { row: 'T1', unit: '/s' as const, rounds, lend: 'Lend' }
      return [
        compare({
          ...common,
          what: '(a) session start, durable / begin + two inserts + commit, 16 clients',
          other: 'pgbench',
          reach: '≥ 0.4, then 1.0',
          least: 0.4,
        }),
        compare({
          ...common,
          what: '(b) session start / client_credentials, ES256, in memory',
          other: 'oidc-provider',
          reach: '≥ 0.8, then 1.4',
          least: 0.8,
        }),
      ]
    } finally {
      floor.remove()
      await peer.stop()
    }
  })
}
