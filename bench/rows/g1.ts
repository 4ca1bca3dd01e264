import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Options } from '../options.ts'
import { basic, drive, form } from '../support/drive.ts'
import { root, startPeer } from '../support/machine.ts'
import { alternate, compare, type Row } from '../support/rounds.ts'
import { addAllowRules, reissue, type World, withWorld } from '../support/world.ts'
import { holdFive } from './held.ts'

const run = promisify(execFile)
const CONNECTIONS = 64
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

/** What nginx sends about a call that a session may make. */
async function headersFor(world: World): Promise<readonly string[]> {
  await addAllowRules(world.scratch.sql)
  const [session] = await holdFive(world, 1)
  if (session === undefined) throw new Error('there is no session')
  const send = async (sent: ReturnType<typeof form>) =>
    JSON.parse((await drive(world.lend.origin, 1, [sent])).bodies[0] ?? '{}').access_token
  const control = await send(reissue(world, session))
  const { agent } = world.secrets
  const token = await send(
    form(
      '/t/acme/oauth/token',
      {
        grant_type: EXCHANGE,
        subject_token: control,
        subject_token_type: ACCESS_TOKEN,
        resource: `${world.lend.origin}/demo/accounts`,
      },
      basic(agent.id, agent.secret),
    ),
  )
  const [row] = await world.scratch.sql`
    select value -> 'proxies' -> 'acme' ->> 'Demo gateway' as secret
    from installation where name = 'demo'`
  return [
    `authorization=Bearer ${token}`,
    `x-lend-proxy-secret=${row?.secret}`,
    'x-original-method=GET',
    'x-original-uri=/demo/accounts/accounts?page=2',
    'x-request-id=7f9c24e8-3b12-4c11-9d1e-0a5c1b2d3e4f',
    'user-agent=curl/8.5.0',
    'accept=*/*',
  ]
}

/** Requests a second, by a load generator of its own on this program's core. Any other answer than 200 stops the row. */
async function load(
  url: string,
  of: { readonly headers: readonly string[]; readonly seconds: number },
): Promise<number> {
  const { stdout } = await run(
    process.execPath,
    [
      join(root, 'node_modules', 'autocannon', 'autocannon.js'),
      ...['--json', '--no-progress', '-c', String(CONNECTIONS), '-d', String(of.seconds)],
      ...of.headers.flatMap((header) => ['-H', header]),
      url,
    ],
    { maxBuffer: 16 * 1024 * 1024 },
  )
  const told = JSON.parse(stdout)
  const other = told.non2xx + told.errors + told.timeouts
  if (other !== 0) throw new Error(`${url}: ${other} answers were not 200`)
  return told['2xx'] / told.duration
}

/** G1: forward-auth, allowed and warm, its line written, against the framework answering nothing. */
export async function g1(options: Options): Promise<readonly Row[]> {
  const peer = await startPeer('bare', {})
  const seconds = options.quick ? 1 : options.seconds
  try {
    return await withWorld({ name: 'g1', sessions: 4, ...options.profiled }, async (world) => {
      const headers = await headersFor(world)
      const lend = `http://127.0.0.1:${world.lend.port}/t/acme/forward-auth/nginx`
      const bare = `http://127.0.0.1:${peer.ready.port}/`
      const rounds = await alternate(
        [
          ['forward-auth', () => load(lend, { headers, seconds })],
          ['bare Hono', () => load(bare, { headers, seconds })],
        ],
        { rounds: options.rounds },
      )
      return [
        compare({
          row: 'G1',
          what: 'forward-auth, allowed, warm / Hono answering an empty 200',
          unit: '/s',
          rounds,
          lend: 'forward-auth',
          other: 'bare Hono',
          reach: '≥ 0.65, then 0.80',
          least: 0.65,
        }),
      ]
    })
  } finally {
    await peer.stop()
  }
}
