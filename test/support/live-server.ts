import { setMaxListeners } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { busOf } from '../../src/bus/open.ts'
import { checkpointKey } from '../../src/checkpoint-key.ts'
import type { TenantId } from '../../src/core/vocabulary.ts'
import { openEmbedded, openServer } from '../../src/db/open.ts'
import { tracedDb } from '../../src/db/traced.ts'
import type { Db, SqlValue } from '../../src/db/tx.ts'
import type { DEMO_CLIENTS } from '../../src/demo/idp/provider.ts'
import type { DemoSecrets } from '../../src/demo/secrets.ts'
import { startDemo } from '../../src/demo/start.ts'
import { demoWebConfig } from '../../src/demo/world.ts'
import { type Gateway, startGateway } from '../../src/gateway/gateway.ts'
import { createApp } from '../../src/http/app.ts'
import { boundedServer, type ServerBounds } from '../../src/http/bounded-server.ts'
import { clientAddress } from '../../src/http/client-address.ts'
import { forwardAuthListener } from '../../src/http/forward-auth.ts'
import { createUserTokenVerifier } from '../../src/identity/login.ts'
import { systemIds } from '../../src/ids.ts'
import { startJobs } from '../../src/jobs.ts'
import { createNotify } from '../../src/notify.ts'
import type { Metrics } from '../../src/ops/metrics.ts'
import type { Ctx, Rates, Trace, Vault } from '../../src/ports.ts'
import { createKeyStore } from '../../src/tokens/keys.ts'
import type { ToolGatewayLimits } from '../../src/tool-gateway/gateway.ts'
import { openVault } from '../../src/vault.ts'
import { runOn } from './databases.ts'
import { calling, connectMcp, deciding, knowing, type Running, signingIn } from './live-calls.ts'

/**
 * The whole server in this process, as `main.ts` wires it, on a free loopback port with the demo world in it. Starting
 * takes about three seconds, so a test file starts one and shares it:
 *
 *   let lend: LiveServer
 *   beforeAll(async () => { lend = await serveLend() })
 *   afterAll(() => lend.close())
 *
 *   const { access_token } = await lend.start('maya')
 *   const mcp = await lend.mcp(access_token)
 *   await mcp.call('iam.request_access', { items: [{ permission: 'accounts:read' }], reason: 'to write the brief' })
 *   await lend.api(await lend.userToken('maya'), 'GET', '/access-requests?status=pending')
 */
export { ACCESS_TOKEN, basic, DRAFTING, RENEWALS, TOKEN_EXCHANGE, tenantOf } from './live-calls.ts'

export type ServeOptions = {
  /** `embedded` (in memory, the default) or the URL of a Postgres database; it is migrated and seeded. */
  readonly database?: 'embedded' | (string & {})
  /** The embedded database in this folder instead of in memory. */
  readonly folder?: string
  /** `database` leads through a transaction pooler; this is the server itself. */
  readonly directUrl?: string
  /** Kicks go through this Redis instead of the database. */
  readonly redisUrl?: string
  /** For a second instance beside another on the same database. By default this one's own address. */
  readonly publicUrl?: string
  /** Sweep, re-evaluation and key jobs; on unless told otherwise, as in the product. */
  readonly jobs?: boolean
  /** Bounds of what tool servers may do; the product's by default. */
  readonly toolGateway?: ToolGatewayLimits
  /** Counts what happens, as the product does for `/metrics`. */
  readonly metrics?: Metrics
  /** Seals credentials; one of this instance's own by default. */
  readonly vault?: Vault
  /** Traces, told to a collector of the test's. */
  readonly trace?: Trace
  /** What clients may take of the server; the product's own by default. */
  readonly bounds?: Partial<ServerBounds>
  /** How often; without limits by default. Clients are then told apart by the connection's address. */
  readonly rates?: (db: Db) => Rates
}

/** JSON as it came. Assertions say what is in it; give a type to read further. */
export type Body = { readonly [name: string]: unknown }
export type Answer<T = Body> = {
  readonly status: number
  readonly headers: Headers
  /** `{}` when nothing came. */
  readonly body: T
  readonly text: string
}

export type Credentials = { readonly client_id: string; readonly client_secret: string }
export type TokenAnswer = {
  readonly access_token: string
  readonly issued_token_type?: string
  readonly token_type: string
  readonly expires_in: number
  readonly session_id: string
  readonly refresh_token: string
  readonly scope?: string
  readonly authorization_details: readonly Body[]
}
/** What RFC 6749 section 5.2 and SPEC section 6 promise of every refusal. */
export type OAuthRefusal = {
  readonly error: string
  readonly error_description: string
  readonly error_reason: string
}

/** A parameter given as a list is sent more than once. */
export type Form = Readonly<Record<string, string | readonly string[] | undefined>>
export type DemoClient = keyof typeof DEMO_CLIENTS

export type ToolAnswer = {
  readonly isError?: boolean
  readonly content: readonly { readonly type: string; readonly text?: string }[]
  readonly structuredContent?: Body
}
export type Mcp = {
  readonly client: Client
  /** `structuredContent` of the answer; throws when the tool answers an error. */
  readonly call: <T = Body>(tool: string, args?: object) => Promise<T>
  readonly raw: (tool: string, args?: object) => Promise<ToolAnswer>
  readonly close: () => Promise<void>
}

export type LiveServer = {
  /** Where this instance is reached. */
  readonly origin: string
  readonly publicUrl: string
  readonly ctx: Ctx
  readonly app: ReturnType<typeof createApp>
  readonly secrets: DemoSecrets
  readonly gateway: Gateway
  /** AUTH_DECISION lines that were written; `gateway.flush` brings those under way. */
  readonly lines: string[]
  /** What the server took for bugs. Empty, or the test has found one. */
  readonly bugs: { readonly error: unknown; readonly requestId: string | undefined }[]
  /** The server's clock: real time, and as far ahead as a test has moved it. Tokens of the provider live by real time. */
  readonly clock: { readonly now: () => number; readonly advance: (seconds: number) => void }
  readonly issuer: (tenant?: string) => string
  readonly mcpUrl: (tenant?: string) => string
  /** The URL of one of the demo's resource servers, as in `accounts` or `reports`. */
  readonly resource: (name: string) => string
  readonly tenantId: (tenant?: string) => Promise<TenantId>
  readonly userId: (login: string) => Promise<string>
  /** One statement with `$1`, `$2`…, past all flows. */
  readonly rows: <T = Body>(sql: string, params?: readonly SqlValue[]) => Promise<T[]>
  readonly agent: (name?: string, tenant?: string) => Promise<Credentials>
  readonly enforcementPoint: (name?: string, tenant?: string) => Promise<Credentials>
  /** A real sign-in at the tenant's provider, once a login and client. `people` opens the People API; `app` is exchanged. */
  readonly userToken: (login: string, client?: DemoClient, tenant?: string) => Promise<string>
  readonly idToken: (login: string, client?: DemoClient, tenant?: string) => Promise<string>
  /** A user's access token by the demo provider's own key, with claims of the test's choosing (undefined removes one). */
  readonly mintUserToken: (login: string, claims?: Body, tenant?: string) => Promise<string>
  readonly request: <T = Body>(path: string, init?: RequestInit) => Promise<Answer<T>>
  readonly api: <T = Body>(
    token: string | null,
    method: string,
    path: string,
    body?: unknown,
    more?: { readonly tenant?: string; readonly headers?: Readonly<Record<string, string>> },
  ) => Promise<Answer<T>>
  /** A form post below `/t/{tenant}/oauth`; the client authenticates by `client_secret_basic`, null: not at all. */
  readonly oauth: <T = TokenAnswer & OAuthRefusal & Body>(
    endpoint: 'token' | 'introspect' | 'revoke',
    form: Form,
    credentials: Credentials | null,
    tenant?: string,
  ) => Promise<Answer<T>>
  readonly token: <T = TokenAnswer & OAuthRefusal & Body>(
    form: Form,
    credentials: Credentials | null,
    tenant?: string,
  ) => Promise<Answer<T>>
  /** A session of the user, started by exchange; throws when it is refused. */
  readonly start: (
    login: string,
    how?: { readonly agent?: string; readonly form?: Form },
  ) => Promise<TokenAnswer>
  /** The session's token re-issued; throws when it is refused. */
  readonly reissue: (refreshToken: string, how?: ReissueHow) => Promise<TokenAnswer>
  readonly mcp: (accessToken: string, tenant?: string) => Promise<Mcp>
  /** `iam.request_access` over MCP, on a connection of its own. */
  readonly ask: (
    accessToken: string,
    items: readonly AskedItem[],
    tenant?: string,
  ) => Promise<AskAnswer>
  /** The user answers every pending item of a request alike; throws when that is refused. */
  readonly answer: (
    login: string,
    requestId: string,
    decision?: 'allow_once' | 'allow_always' | 'deny' | 'deny_always',
  ) => Promise<void>
  /** Asks, and the user allows it once. Throws unless every item is granted in the end. */
  readonly lend: (login: string, accessToken: string, items: readonly AskedItem[]) => Promise<void>
  /** Freezes as the tenant's admin; the answer unfreezes. */
  readonly freeze: (
    scope: 'tenant' | 'template' | 'agent' | 'user',
    id: string,
  ) => Promise<() => Promise<void>>
  /** Ends what a user's agents run, so that a file's tests do not use up the live sessions of one another. */
  readonly endSessions: (login: string) => Promise<void>
  readonly close: () => Promise<void>
}

export type AskedItem = {
  readonly permission: string
  readonly resource?: string
  readonly narrow?: object
}
export type AskAnswer = {
  readonly items: readonly {
    readonly permission: string
    readonly outcome: 'granted' | 'refused' | 'pending'
    readonly reason: string
  }[]
  readonly request_id?: string
  readonly token_refresh: boolean
}
type ReissueHow = { readonly agent?: string; readonly tenant?: string; readonly resource?: string }

/** Both loopback addresses on one free port, as the demo listens; only IPv4 where there is no other. */
async function listenOn(make: () => Server): Promise<{ servers: Server[]; port: number }> {
  const at = (server: Server, port: number, host: string) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, resolve)
    })
  const v4 = make()
  await at(v4, 0, '127.0.0.1')
  const { port } = v4.address() as AddressInfo
  const v6 = make()
  try {
    await at(v6, port, '::1')
    return { servers: [v4, v6], port }
  } catch {
    return { servers: [v4], port }
  }
}

function movableClock() {
  let ahead = 0
  return {
    now: () => Date.now() + ahead,
    advance: (seconds: number) => {
      ahead += seconds * 1000
    },
  }
}

async function secretsIn(db: Db): Promise<DemoSecrets> {
  const [row] = await runOn(db)<{ value: DemoSecrets }>(
    `select value from installation where name = 'demo'`,
  )
  if (row === undefined) throw new Error('the demo has made no secrets')
  return row.value
}

/** Longer than a busy test may leave a connection idle: a client that takes up one just being closed is cut off. */
const PATIENT = { keptAliveMillis: 120_000 }

/** Starts it; close it when done. */
export async function serveLend(options: ServeOptions = {}): Promise<LiveServer> {
  const { database = 'embedded', jobs: withJobs = true } = options
  const { redisUrl = null, directUrl: databaseDirectUrl = null } = options
  let handle: RequestListener = (_req, res) => res.writeHead(503).end()
  const { servers, port } = await listenOn(() =>
    boundedServer((req, res) => handle(req, res), { ...PATIENT, ...options.bounds }),
  )
  const origin = `http://localhost:${port}`
  const publicUrl = options.publicUrl ?? origin
  const raw =
    database === 'embedded'
      ? await openEmbedded(options.folder ?? null)
      : await openServer(database, databaseDirectUrl)
  const db = options.trace === undefined ? raw : tracedDb(raw, options.trace)
  const bugs: { error: unknown; requestId: string | undefined }[] = []
  const onBug = (error: unknown, requestId?: string) => void bugs.push({ error, requestId })
  const databaseUrl = database === 'embedded' ? null : database
  const notify = await createNotify(
    busOf({ publicUrl, databaseUrl, databaseDirectUrl, redisUrl }, db),
    (what, more) => onBug({ what, ...more }),
  )
  const stopping = new AbortController()
  setMaxListeners(0, stopping.signal)
  const clock = movableClock()
  const vault = options.vault ?? openVault({ secretKeys: null, dataDir: null, databaseUrl })
  const ctx: Ctx = {
    db,
    clock,
    ids: systemIds,
    notify,
    publicUrl,
    stopping: stopping.signal,
    vault,
    ...(options.metrics === undefined ? {} : { observe: options.metrics.observe }),
    ...(options.trace === undefined ? {} : { trace: options.trace }),
    ...(options.rates === undefined ? {} : { rates: options.rates(db) }),
  }
  const keys = createKeyStore({ db, clock, vault })
  const verifier = createUserTokenVerifier({ publicUrl, clock })
  const lines: string[] = []
  const gateway = startGateway({
    ...{ ctx, keys, verifier, onBug },
    write: (text) => lines.push(...text.trimEnd().split('\n')),
    note: () => {},
    ...(options.metrics === undefined ? {} : { took: options.metrics.took }),
  })
  options.metrics?.watch({ ctx, gateway, ready: gateway.ready })
  const common = { ctx, keys, verifier, gateway }
  const app = createApp({
    ...common,
    ready: gateway.ready,
    isFresh: gateway.isFresh,
    addressOf: clientAddress({ trusted: [], direct: true }),
    onBug,
    web: demoWebConfig(),
    ...(options.toolGateway === undefined ? {} : { toolGateway: options.toolGateway }),
  })
  const demo = await startDemo({
    ctx,
    doorSecret: ctx.ids.secret(),
    app,
    onBug,
    appFolder: null,
    anthropicKey: undefined,
  })
  const jobs = withJobs
    ? await startJobs(ctx, { checkpointKey: await checkpointKey(null), keptMonths: null }, onBug)
    : null
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  const forwardAuth = forwardAuthListener(gateway, ctx.trace)
  handle = (req, res) => {
    if (!forwardAuth(req, res) && !demo.handle(req, res)) void listener(req, res)
  }
  const secrets = await secretsIn(db)
  await gateway.caughtUp()
  const run: Running = { origin, publicUrl, ctx, app, secrets, bugs, clock }
  const known = knowing(run)
  const user = signingIn(run)
  const calls = calling(run, known, user)
  const opened = new Set<Mcp>()
  const mcp: LiveServer['mcp'] = async (accessToken, tenant = 'acme') => {
    const connected = await connectMcp(`${origin}/t/${tenant}/mcp`, accessToken)
    opened.add(connected)
    return connected
  }
  return {
    ...run,
    gateway,
    lines,
    ...known,
    ...user,
    ...calls,
    ...deciding(user, calls, mcp),
    mcp,
    close: async () => {
      stopping.abort()
      for (const one of opened) await one.close()
      for (const server of servers) server.closeAllConnections()
      await Promise.all(servers.map((s) => new Promise((done) => s.close(done))))
      await jobs?.stop()
      await gateway.stop()
      demo.stop()
      await notify.stop()
      await db.close()
    },
  }
}
