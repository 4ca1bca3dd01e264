import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { basic, drive, form } from '../support/drive.ts'
import { type Done, root } from '../support/machine.ts'
import { addAllowRules, reissue, type Session, type World } from '../support/world.ts'
import { holdFive } from './held.ts'

const run = promisify(execFile)
const CONNECTIONS = 64
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

/** A token for the demo's accounts that may read them, and the secret of the proxy in front of them. */
export type Caller = { readonly token: string; readonly secret: string }

/** A new token for the demo's accounts. */
export async function tokenOf(world: World, session: Session): Promise<string> {
  const send = async (sent: ReturnType<typeof form>) =>
    JSON.parse((await drive(world.lend.origin, 1, [sent])).bodies[0] ?? '{}').access_token
  const control = await send(reissue(world, session))
  const { agent } = world.secrets
  return send(
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
}

/** Sessions that hold what they call with, each with its token. */
export async function callersFor(
  world: World,
  count: number,
): Promise<readonly (Caller & { readonly session: Session })[]> {
  await addAllowRules(world.scratch.sql)
  const [row] = await world.scratch.sql`
    select value -> 'proxies' -> 'acme' ->> 'Demo gateway' as secret
    from installation where name = 'demo'`
  const callers: (Caller & { readonly session: Session })[] = []
  for (const session of await holdFive(world, count))
    callers.push({ session, token: await tokenOf(world, session), secret: row?.secret })
  return callers
}

export async function callerFor(world: World): Promise<Caller> {
  const [caller] = await callersFor(world, 1)
  if (caller === undefined) throw new Error('there is no session')
  return caller
}

/** What nginx sends about a call that a session may make. */
export const askedBy = ({ token, secret }: Caller): Readonly<Record<string, string>> => ({
  authorization: `Bearer ${token}`,
  'x-lend-proxy-secret': secret,
  'x-original-method': 'GET',
  'x-original-uri': '/demo/accounts/accounts?page=2',
  'x-request-id': '7f9c24e8-3b12-4c11-9d1e-0a5c1b2d3e4f',
  'user-agent': 'curl/8.5.0',
  accept: '*/*',
})

/** How it went, by a load generator of its own on this program's core. Any other answer than 200 stops the row. */
export async function load(
  url: string,
  of: { readonly headers: Readonly<Record<string, string>>; readonly seconds: number },
): Promise<Done> {
  const { stdout } = await run(
    process.execPath,
    [
      join(root, 'node_modules', 'autocannon', 'autocannon.js'),
      ...['--json', '--no-progress', '-c', String(CONNECTIONS), '-d', String(of.seconds)],
      ...Object.entries(of.headers).flatMap(([name, value]) => ['-H', `${name}=${value}`]),
      url,
    ],
    { maxBuffer: 16 * 1024 * 1024 },
  )
  const told = JSON.parse(stdout)
  const other = told.non2xx + told.errors + told.timeouts
  if (other !== 0) throw new Error(`${url}: ${other} answers were not 200`)
  return { perSecond: told['2xx'] / told.duration, calls: told['2xx'] }
}

type Sent = { readonly headers: Readonly<Record<string, string>> }
/** What is used of it. It comes without types, and so by a name that the compiler does not look up. */
type Autocannon = (of: {
  readonly url: string
  readonly connections: number
  /** Requests in all, divided among the connections. */
  readonly amount: number
  readonly setupClient: (client: {
    readonly setRequests: (requests: readonly Sent[]) => void
  }) => void
}) => Promise<{ readonly '2xx': number }>
const AUTOCANNON: string = 'autocannon'

/** Requests that differ in their headers, each sent once. They are written out before they are sent. */
export async function loadEach(
  url: string,
  of: {
    readonly connections: number
    readonly headers: readonly Readonly<Record<string, string>>[]
  },
): Promise<Done> {
  const each = Math.floor(of.headers.length / of.connections)
  const calls = each * of.connections
  const { default: autocannon }: { readonly default: Autocannon } = await import(AUTOCANNON)
  let clients = 0
  const began = performance.now()
  const told = await autocannon({
    url,
    connections: of.connections,
    amount: calls,
    setupClient: (client) => {
      const from = clients++ * each
      client.setRequests(of.headers.slice(from, from + each).map((headers) => ({ headers })))
    },
  })
  const seconds = (performance.now() - began) / 1000
  if (told['2xx'] !== calls) throw new Error(`${url}: ${calls - told['2xx']} answers were not 200`)
  return { perSecond: calls / seconds, calls }
}
