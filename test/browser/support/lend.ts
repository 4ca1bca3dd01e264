import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { createApp, type Session } from '../../../src/demo/journey/app.ts'
import {
  asked,
  credentials,
  directPermissions,
  type PersonApi,
  personApi,
  session as sessionShape,
  users,
} from '../../../src/demo/journey/people.ts'
import {
  cleanEnv,
  freePort,
  root,
  type Server,
  type Settings,
  startServer,
  whenReady,
} from '../../system/support/server.ts'

const run = promisify(execFile)
const START_ATTEMPTS = 3

/** The built server as a process of its own, and what people, admins and other apps do at its public doors. */
export class Lend {
  readonly port: number
  readonly #settings: Settings
  readonly #tokens = new Map<string, Promise<string>>()
  #server: Server

  private constructor(port: number, settings: Settings, server: Server) {
    this.port = port
    this.#settings = settings
    this.#server = server
  }

  /** By default it keeps nothing. */
  static async start(settings: Settings = { LEND_DATA: 'memory' }): Promise<Lend> {
    for (let attempt = 1; ; attempt++) {
      const port = await freePort()
      const all = { LEND_LOG: 'error', ...settings, PORT: String(port) }
      const server = startServer(all)
      try {
        await patiently(port, server)
        return new Lend(port, all, server)
      } catch (error) {
        server.child.kill('SIGKILL')
        // Between finding the port and listening on it, another process may have taken it.
        if (attempt === START_ATTEMPTS || !server.output().includes('PORT')) throw error
      }
    }
  }

  get url(): string {
    return `http://localhost:${this.port}`
  }

  /** Where a page of a tenant is. */
  at(path: string, tenant = 'acme'): string {
    return `${this.url}/t/${tenant}${path}`
  }

  /** What the server has logged, for when it does not do as it should. */
  log(): string {
    return this.#server.output()
  }

  async stop(): Promise<number | null> {
    this.#server.child.kill('SIGTERM')
    const late = setTimeout(() => this.#server.child.kill('SIGKILL'), 30_000)
    const code = await this.#server.exit
    clearTimeout(late)
    return code
  }

  /** After `stop`: the same port and folder again. */
  async startAgain(): Promise<void> {
    this.#tokens.clear()
    this.#server = startServer(this.#settings)
    await patiently(this.port, this.#server)
  }

  async cli(...args: readonly string[]): Promise<string> {
    const bin = join(root, 'bin', 'lend.js')
    const { stdout } = await run(process.execPath, [bin, ...args], {
      cwd: root,
      env: cleanEnv(this.#settings),
    })
    return stdout.trim()
  }

  /** A person's own access token: `people` opens the People API, `app` is what the demo's agent exchanges. */
  token(login: string, client: 'people' | 'app' = 'people', tenant = 'acme'): Promise<string> {
    const key = `${tenant} ${login} ${client}`
    const known = this.#tokens.get(key)
    if (known !== undefined) return known
    const args = ['--user', login, '--tenant', tenant, '--client', client]
    const made = this.cli('demo-token', ...args)
    this.#tokens.set(key, made)
    return made
  }

  /** A person at the People API, without a browser. */
  async as(login: string, tenant = 'acme'): Promise<PersonApi> {
    return personApi(this.at('/api', tenant), await this.token(login, 'people', tenant))
  }

  /** Another app than the demo's: an ordinary OAuth and MCP client with the agent's credential. */
  async secondApp(tenant = 'acme'): Promise<SecondApp> {
    const all = credentials.parse(
      JSON.parse(await this.cli('demo-credentials', '--tenant', tenant)),
    )
    const agent = all.agents.find((one) => one.templates.includes('renewal-briefs'))
    const [point] = all.enforcement_points
    if (agent === undefined || point === undefined) throw new Error(`${tenant} has no agent`)
    const app = await createApp({
      issuer: all.issuer,
      mcp: all.mcp,
      agent,
      enforcementPoint: point,
    })
    return {
      introspect: app.introspect,
      start: async (of = {}) => {
        const login = of.login ?? 'maya'
        const made =
          of.mode === undefined
            ? undefined
            : await (await this.as(login, tenant)).send('POST', '/sessions', sessionShape, {
                agent_id: agent.client_id,
                template: 'renewal-briefs',
                mode: of.mode,
                ...(of.task === undefined ? {} : { task: of.task }),
              })
        const session = await app.start({
          userToken: await this.token(login, 'app', tenant),
          template: 'renewal-briefs',
          ...(made === undefined && of.task !== undefined ? { task: of.task } : {}),
          ...(made === undefined ? {} : { sessionId: made.id }),
        })
        return { ...session, ask: (asks) => ask(session, asks) }
      },
    }
  }
}

export type Item = {
  readonly permission: string
  readonly resource?: string
  readonly narrow?: object
}
export type Asked = z.output<typeof answer>

const answer = asked.extend({
  review_url: z.string().optional(),
  items: z.array(
    z.looseObject({
      permission: z.string(),
      outcome: z.string(),
      reason: z.string(),
      message: z.string(),
    }),
  ),
})

type Asks = {
  readonly items: readonly Item[]
  readonly reason?: string
  readonly waitSeconds?: number
}

export type AppSession = Session & {
  readonly ask: (of: Asks) => Promise<Asked>
}

export type SecondApp = {
  readonly introspect: (token: string) => Promise<boolean>
  /** Without a mode the app starts the session by itself, which then is in mode ask. */
  readonly start: (of?: {
    readonly login?: string
    readonly task?: string
    readonly mode?: 'ask' | 'auto' | 'bypass'
  }) => Promise<AppSession>
}

const ask = (session: Session, of: Asks): Promise<Asked> =>
  session.tool(
    'iam.request_access',
    {
      items: of.items,
      reason: of.reason ?? 'To prepare the renewal briefs.',
      ...(of.waitSeconds === undefined ? {} : { wait_seconds: of.waitSeconds }),
    },
    answer,
  )

const rules = z.looseObject({ items: z.array(z.looseObject({ id: z.string() })) })
const sessions = z.looseObject({
  items: z.array(
    z.looseObject({ id: z.string(), status: z.string(), parent_id: z.string().optional() }),
  ),
})

/** A loaded machine takes its time to migrate and seed. */
async function patiently(port: number, server: Server): Promise<void> {
  try {
    await whenReady(port, server)
  } catch (error) {
    if (server.child.exitCode !== null) throw error
    await whenReady(port, server)
  }
}

const DASHBOARD = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }

/** What adam does at the API that afternoon: the one dashboard that maya has is taken from her. */
export async function takeDashboard(lend: Lend): Promise<void> {
  const adam = await lend.as('adam')
  const maya = (await adam.get('/admin/users?login=maya', users)).items[0]?.id ?? ''
  const has = await adam.get(`/admin/users/${maya}/permissions`, directPermissions)
  const one = has.items.find((p) => p.permission === DASHBOARD.permission)
  if (one === undefined) throw new Error('maya has no dashboard to take')
  await adam.send('DELETE', `/admin/users/${maya}/permissions/${one.id}`, z.unknown())
}

export async function giveDashboard(lend: Lend): Promise<void> {
  const adam = await lend.as('adam')
  const maya = (await adam.get('/admin/users?login=maya', users)).items[0]?.id ?? ''
  await adam.send('POST', `/admin/users/${maya}/permissions`, z.unknown(), DASHBOARD)
}

/** Ends every live session of a person, and with them whatever waits for an answer. */
export async function endAll(lend: Lend, login: string, tenant = 'acme'): Promise<void> {
  const person = await lend.as(login, tenant)
  const { items } = await person.get('/sessions', sessions)
  for (const one of items)
    if (one.status === 'active' && one.parent_id === undefined)
      await person.statusOf('POST', `/sessions/${one.id}/end`, {})
}

/** Takes a person’s rules away, so that they are asked again. */
export async function forgetRules(lend: Lend, login: string): Promise<void> {
  const person = await lend.as(login)
  const { items } = await person.get('/rules', rules)
  for (const one of items) await person.send('DELETE', `/rules/${one.id}`, z.unknown())
}
