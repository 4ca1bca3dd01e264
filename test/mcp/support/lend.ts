import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Run } from '../../support/databases.ts'
import {
  type LiveServer,
  type ServeOptions,
  serveLend as serveLive,
} from '../../support/live-server.ts'
import { Agent, VIA } from './agent.ts'
import { Person } from './person.ts'

/**
 * The whole server with the demo world, from `test/support/live-server.ts`, as these tests use it: agents that go through
 * an official MCP client, and people who answer through the People API. `sql` is for what no door can do.
 */
export type Lend = {
  readonly publicUrl: string
  readonly sql: Run
  readonly now: () => number
  /** Moves the clock of every instance. */
  readonly advance: (seconds: number) => void
  /** What the server called a bug. Nothing here is expected to be one. */
  readonly bugs: () => unknown[]
  /** The id of the demo's agent in acme. */
  readonly agentId: string
  readonly userId: (login: Login) => Promise<string>
  readonly person: (login: Login) => Person
  /** A root session of `renewal-briefs` with its first token. With a mode its user creates the session first. */
  readonly start: (login: Login, how?: StartHow) => Promise<Agent>
  /** Ends all sessions and forgets all rules of maya and omar, as they would themselves. */
  readonly tidy: () => Promise<void>
  readonly close: () => Promise<void>
}

export type Login = 'maya' | 'omar' | 'adam' | 'cleo'
const LOGINS: readonly Login[] = ['maya', 'omar', 'adam', 'cleo']
export type StartHow = {
  readonly mode?: 'ask' | 'auto' | 'bypass'
  readonly mode_expires_at?: string
  readonly client?: 'older' | 'newer'
  /** Which instance its calls go to; absent: whichever is next. */
  readonly via?: number
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

type Front = {
  readonly url: string
  readonly behind: (instance: LiveServer) => void
  readonly close: () => Promise<void>
}

/** One public address for several instances, which take turns unless a request names one. */
async function openFront(): Promise<Front> {
  const ports: number[] = []
  let turn = 0
  const pick = (req: IncomingMessage): number => {
    // A sign-in is in the memory of one demo provider, so all of it stays with the first.
    if (req.url?.startsWith('/demo/')) return 0
    const named = req.headers[VIA]
    return typeof named === 'string' ? Number(named) : turn++ % ports.length
  }
  const server = createServer((req, res) => {
    const port = ports[pick(req)]
    if (port === undefined) res.writeHead(503).end()
    else pass(req, res, port)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    behind: ({ origin }) => void ports.push(Number(new URL(origin).port)),
    close: async () => {
      server.closeAllConnections()
      await new Promise<void>((done) => server.close(() => done()))
    },
  }
}

/** One instance on an embedded database. */
export async function serveLend(): Promise<Lend> {
  const live = await serveLive()
  return lendOf([live], () => live.close())
}

/** Several instances on one Postgres, behind one public address. */
export async function serveInstances(
  database: string,
  count: number,
  more: Pick<ServeOptions, 'redisUrl'> = {},
): Promise<Lend> {
  const front = await openFront()
  const lives: LiveServer[] = []
  while (lives.length < count) {
    const live = await serveLive({ ...more, database, publicUrl: front.url })
    front.behind(live)
    lives.push(live)
  }
  return lendOf(lives, async () => {
    await front.close()
    for (const live of lives) await live.close()
  })
}

async function lendOf(lives: readonly LiveServer[], close: () => Promise<void>): Promise<Lend> {
  const [live] = lives
  if (live === undefined) throw new Error('there is no instance')
  const { publicUrl } = live
  const credentials = await live.agent()
  const people = new Map<Login, Person>()
  for (const login of LOGINS)
    people.set(login, new Person(publicUrl, login, await live.userToken(login)))
  const person = (login: Login): Person => {
    const one = people.get(login)
    if (one === undefined) throw new Error(`nobody is called ${login}`)
    return one
  }
  const agentId = credentials.client_id
  const app = { publicUrl, clientId: agentId, clientSecret: credentials.client_secret }
  return {
    publicUrl,
    agentId,
    person,
    sql: (sql, params) => live.rows(sql, params),
    now: () => live.clock.now(),
    advance: (seconds) => {
      for (const one of lives) one.clock.advance(seconds)
    },
    bugs: () => lives.flatMap((one) => one.bugs),
    userId: (login) => live.userId(login),
    start: async (login, how = {}) => {
      const { mode, mode_expires_at } = how
      const created =
        mode === undefined
          ? {}
          : { session_id: await person(login).create({ agent_id: agentId, mode, mode_expires_at }) }
      const subject_token = await live.userToken(login, 'app')
      return Agent.start(app, { subject_token, template: 'renewal-briefs', ...created }, how)
    },
    tidy: async () => {
      for (const login of ['maya', 'omar'] as const) await person(login).tidy()
    },
    close,
  }
}
