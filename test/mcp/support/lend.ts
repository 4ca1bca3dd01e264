import {
  createServer,
  type IncomingMessage,
  request,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import type { Config } from '../../../src/config.ts'
import { openEmbedded } from '../../../src/db/open.ts'
import type { Db } from '../../../src/db/tx.ts'
import { signIn } from '../../../src/demo/idp/sign-in.ts'
import type { DemoSecrets } from '../../../src/demo/secrets.ts'
import { startDemo } from '../../../src/demo/start.ts'
import { createApp } from '../../../src/http/app.ts'
import { createUserTokenVerifier } from '../../../src/identity/login.ts'
import { systemIds } from '../../../src/ids.ts'
import { startJobs } from '../../../src/jobs.ts'
import { createNotify } from '../../../src/notify.ts'
import type { Ctx } from '../../../src/ports.ts'
import { createKeyStore } from '../../../src/tokens/keys.ts'
import { type Run, runOn } from '../../support/databases.ts'
import { Agent } from './agent.ts'
import { Person } from './person.ts'

/**
 * The whole server with the demo world, on free loopback ports, as `main.ts` wires it: one instance on an embedded
 * database, or several on one Postgres behind a front that keeps the Host header. Tests come in by the public doors;
 * `sql` is for what no door can do.
 */
export type Lend = {
  readonly publicUrl: string
  readonly sql: Run
  /** Moves the clock of every instance. */
  readonly advance: (seconds: number) => void
  /** What the server called a bug. Nothing here is expected to be one. */
  readonly bugs: unknown[]
  /** Ids of the demo's agents in acme, by name. */
  readonly agentId: string
  readonly person: (login: Login) => Person
  /** A root session of `renewal-briefs` with its first token. A mode makes the person create the session first. */
  readonly start: (login: Login, how?: StartHow) => Promise<Agent>
  /** Ends all sessions and forgets all rules of maya and omar, as they would themselves. */
  readonly tidy: () => Promise<void>
  readonly close: () => Promise<void>
}

export type Login = 'maya' | 'omar' | 'adam' | 'cleo'
export const LOGINS: readonly Login[] = ['maya', 'omar', 'adam', 'cleo']
export type StartHow = {
  readonly mode?: 'ask' | 'auto' | 'bypass'
  readonly mode_expires_at?: string
  readonly client?: 'older' | 'newer'
  /** Which instance its tool calls go to; absent: whichever is next. */
  readonly via?: number
}

/** Names the instance that a request is for; without it the front takes turns. */
export const VIA = 'x-test-instance'

async function listening(listener: RequestListener): Promise<{ server: Server; port: number }> {
  const server = createServer(listener)
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return { server, port: (server.address() as AddressInfo).port }
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise<void>((done) => server.close(() => done()))
}

type Instance = { readonly port: number; readonly stop: () => Promise<void> }
type Wiring = {
  readonly publicUrl: string
  readonly now: () => number
  readonly bugs: unknown[]
  readonly poll?: number
}

/** One instance, as `main.ts` starts it. */
async function instance(db: Db, { publicUrl, now, bugs }: Wiring): Promise<Instance> {
  const onBug = (error: unknown) => void bugs.push(error)
  const notify = await createNotify(db, onBug)
  const draining = new AbortController()
  const clock = { now }
  const ctx: Ctx = { db, clock, ids: systemIds, notify, publicUrl, stopping: draining.signal }
  const keys = createKeyStore({ db, clock })
  const verifier = createUserTokenVerifier({ publicUrl, clock })
  const app = createApp({ ctx, keys, verifier, ready: () => true, onBug })
  const config: Config = {
    port: 0,
    publicUrl,
    databaseUrl: null,
    dataDir: null,
    demo: true,
    loopbackOnly: true,
  }
  const demo = await startDemo({ ctx, config, app, onBug })
  const jobs = await startJobs(ctx, config, onBug)
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  const { server, port } = await listening((req, res) => {
    if (!demo.handle(req, res)) void listener(req, res)
  })
  return {
    port,
    stop: async () => {
      draining.abort()
      await closed(server)
      await jobs.stop()
      await notify.stop()
    },
  }
}

/** Passes a request on as it came, Host and all; a side that hangs up is hung up on. */
function pass(req: IncomingMessage, res: ServerResponse, port: number): void {
  const { method, url, headers } = req
  const onward = request({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(res)
    answer.on('error', () => res.destroy())
  })
  onward.on('error', () => res.destroy())
  res.on('close', () => onward.destroy())
  req.pipe(onward)
}

type Opened = {
  readonly dbs: readonly Db[]
  readonly drop?: () => Promise<void>
}

/** Serves the world from as many instances as there are databases: each is one's own connections to the same data. */
export async function serveLend(opened?: Opened): Promise<Lend> {
  const { dbs, drop } = opened ?? { dbs: [await openEmbedded(null)] }
  const [first] = dbs
  if (first === undefined) throw new Error('an instance needs a database')
  const instances: Instance[] = []
  let turn = 0
  // The sign-in's state is in the memory of one demo provider, so it stays with the first instance.
  const pick = (req: IncomingMessage): number => {
    if (req.url?.startsWith('/demo/')) return 0
    const named = req.headers[VIA]
    return typeof named === 'string' ? Number(named) : turn++ % instances.length
  }
  const front = await listening((req, res) => {
    const { port } = instances[pick(req)] ?? {}
    if (port === undefined) res.writeHead(503).end()
    else pass(req, res, port)
  })
  const publicUrl = `http://127.0.0.1:${front.port}`
  let offset = 0
  const bugs: unknown[] = []
  const wiring = { publicUrl, now: () => Date.now() + offset, bugs }
  for (const db of dbs) instances.push(await instance(db, wiring))
  const world = await worldOf(publicUrl, runOn(first))
  return {
    publicUrl,
    bugs,
    ...world,
    advance: (seconds) => {
      offset += seconds * 1000
    },
    close: async () => {
      await closed(front.server)
      for (const one of instances) await one.stop()
      for (const db of dbs) await db.close()
      await drop?.()
    },
  }
}

/** The people, with their tokens, and the demo's agent, with its secret. */
async function worldOf(publicUrl: string, sql: Run) {
  const [installation] = await sql<{ value: DemoSecrets }>(
    `select value from installation where name = 'demo'`,
  )
  const [row] = await sql<{ id: string; name: string }>(
    `select a.id, a.name from agent a join tenant t on t.id = a.tenant_id
     where t.slug = 'acme' and a.name = 'Renewal assistant'`,
  )
  const secrets = installation?.value
  const clients = secrets?.idp.clientSecrets.acme
  const clientSecret = secrets?.agents.acme?.['Renewal assistant']
  if (row === undefined || clients === undefined || clientSecret === undefined)
    throw new Error('the demo world is not there')
  const token = (login: Login, client: 'people' | 'app') =>
    signIn({ publicUrl, tenant: 'acme', login, client, clientSecret: clients[client] })
  const people = new Map<Login, Person>()
  for (const login of LOGINS)
    people.set(login, new Person(publicUrl, login, await token(login, 'people')))
  const appTokens = {
    maya: await token('maya', 'app'),
    omar: await token('omar', 'app'),
  }
  const person = (login: Login): Person => {
    const one = people.get(login)
    if (one === undefined) throw new Error(`nobody is called ${login}`)
    return one
  }
  const start = async (login: Login, how: StartHow = {}): Promise<Agent> => {
    const subject = login === 'omar' ? appTokens.omar : appTokens.maya
    const { mode, mode_expires_at } = how
    const created =
      mode === undefined
        ? {}
        : {
            session_id: await person(login).create({ agent_id: row.id, mode, mode_expires_at }),
          }
    const app = { publicUrl, clientId: row.id, clientSecret }
    return Agent.start(app, { subject_token: subject, template: 'renewal-briefs', ...created }, how)
  }
  const tidy = async () => {
    for (const login of ['maya', 'omar'] as const) await person(login).tidy()
  }
  return { sql, agentId: row.id, person, start, tidy }
}
