import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { importJWK, SignJWT } from 'jose'
import { checkpointKey } from '../../src/checkpoint-key.ts'
import type { Config } from '../../src/config.ts'
import type { TenantId } from '../../src/core/vocabulary.ts'
import { openEmbedded, openServer } from '../../src/db/open.ts'
import type { Db, SqlValue } from '../../src/db/tx.ts'
import { DEMO_CLIENTS, demoIssuerOf } from '../../src/demo/idp/provider.ts'
import { signInFully } from '../../src/demo/idp/sign-in.ts'
import { type DemoSecrets, secretOf } from '../../src/demo/secrets.ts'
import { startDemo } from '../../src/demo/start.ts'
import { DEMO_SERVICES_POINT, DEMO_TENANTS } from '../../src/demo/world.ts'
import { createApp } from '../../src/http/app.ts'
import { createUserTokenVerifier } from '../../src/identity/login.ts'
import { systemIds } from '../../src/ids.ts'
import { startJobs } from '../../src/jobs.ts'
import { createNotify } from '../../src/notify.ts'
import { type Ctx, issuerOf, mcpUrlOf } from '../../src/ports.ts'
import { createKeyStore } from '../../src/tokens/keys.ts'
import { runOn } from './databases.ts'

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
export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
export const RENEWALS = 'Renewal assistant'
export const DRAFTING = 'Drafting assistant'

export type ServeOptions = {
  /** `embedded` (in memory, the default) or the URL of a Postgres database; it is migrated and seeded. */
  readonly database?: 'embedded' | (string & {})
  /** For a second instance beside another on the same database. By default this one's own address. */
  readonly publicUrl?: string
  /** Sweep, re-evaluation and key jobs; on unless told otherwise, as in the product. */
  readonly jobs?: boolean
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

/** The demo tenant of a login: each has exactly one. */
export function tenantOf(login: string): string {
  const found = DEMO_TENANTS.find((tenant) => tenant.users.some((user) => user.login === login))
  if (found === undefined) throw new Error(`the demo world has no ${login}`)
  return found.slug
}

const subjectOf = (login: string): string =>
  DEMO_TENANTS.flatMap((tenant) => tenant.users).find((user) => user.login === login)?.subject ?? ''

function formOf(form: Form): URLSearchParams {
  const sent = new URLSearchParams()
  for (const [name, value] of Object.entries(form))
    for (const one of typeof value === 'string' ? [value] : (value ?? [])) sent.append(name, one)
  return sent
}

export const basic = ({ client_id, client_secret }: Credentials): string =>
  `Basic ${Buffer.from(`${encodeURIComponent(client_id)}:${encodeURIComponent(client_secret)}`).toString('base64')}`

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

/** Answers that need a body are read whole; an event stream is not for these helpers. */
async function answerOf<T>(response: Response): Promise<Answer<T>> {
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: (isJson && text !== '' ? JSON.parse(text) : {}) as T,
  }
}

async function connectMcp(url: string, accessToken: string): Promise<Mcp> {
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization: `Bearer ${accessToken}` } },
  })
  // Its declared types predate exactOptionalPropertyTypes.
  await client.connect(transport as Parameters<Client['connect']>[0])
  const raw = async (name: string, args: object = {}) =>
    (await client.callTool({ name, arguments: { ...args } })) as ToolAnswer
  return {
    client,
    raw,
    call: async <T>(name: string, args: object = {}) => {
      const answer = await raw(name, args)
      if (answer.isError) throw new Error(`${name}: ${answer.content[0]?.text}`)
      return answer.structuredContent as T
    },
    close: () => client.close(),
  }
}

const bodyOrThrow = <T>(what: string, answer: Answer<T>): T => {
  if (answer.status !== 200) throw new Error(`${what}: ${answer.status} ${answer.text}`)
  return answer.body
}

type Running = Pick<
  LiveServer,
  'origin' | 'publicUrl' | 'ctx' | 'app' | 'secrets' | 'bugs' | 'clock'
>

/** Ids and secrets of the seeded world. */
function knowing(run: Running) {
  const rows = <T = Body>(sql: string, params: readonly SqlValue[] = []) =>
    runOn(run.ctx.db)<T>(sql, params)
  const oneId = async (what: string, sql: string, params: readonly SqlValue[]) => {
    const [row] = await rows<{ id: string }>(sql, params)
    if (row === undefined) throw new Error(`the demo world has no ${what}`)
    return row.id
  }
  const tenantId = (tenant = 'acme') =>
    oneId(tenant, 'select id from tenant where slug = $1', [tenant]) as Promise<TenantId>
  const clientOf = async (
    kind: 'agents' | 'enforcementPoints',
    name: string,
    tenant: string,
  ): Promise<Credentials> => {
    const table = kind === 'agents' ? 'agent' : 'enforcement_point'
    const id = await oneId(name, `select id from ${table} where tenant_id = $1 and name = $2`, [
      await tenantId(tenant),
      name,
    ])
    return { client_id: id, client_secret: secretOf(run.secrets, { kind, tenant, name }) }
  }
  return {
    rows,
    tenantId,
    issuer: (tenant = 'acme') => issuerOf(run.ctx, tenant),
    mcpUrl: (tenant = 'acme') => mcpUrlOf(run.ctx, tenant),
    resource: (name: string) => `${run.publicUrl}/demo/${name}`,
    userId: async (login: string) =>
      oneId(login, 'select id from app_user where tenant_id = $1 and login = $2', [
        await tenantId(tenantOf(login)),
        login,
      ]),
    agent: (name = RENEWALS, tenant = 'acme') => clientOf('agents', name, tenant),
    enforcementPoint: (name = DEMO_SERVICES_POINT, tenant = 'acme') =>
      clientOf('enforcementPoints', name, tenant),
  }
}

function signingIn(run: Running) {
  const signedIn = new Map<string, ReturnType<typeof signInFully>>()
  const signIn = (login: string, client: DemoClient, tenant: string) => {
    const key = `${tenant} ${login} ${client}`
    const secrets = run.secrets.idp.clientSecrets[tenant]
    if (secrets === undefined) throw new Error(`the demo has no provider for ${tenant}`)
    const of = { publicUrl: run.publicUrl, tenant, login, client, clientSecret: secrets[client] }
    const already = signedIn.get(key) ?? signInFully(of)
    signedIn.set(key, already)
    return already
  }
  return {
    userToken: async (login: string, client: DemoClient = 'people', tenant = tenantOf(login)) =>
      (await signIn(login, client, tenant)).accessToken,
    idToken: async (login: string, client: DemoClient = 'people', tenant = tenantOf(login)) =>
      (await signIn(login, client, tenant)).idToken,
    mintUserToken: async (login: string, claims: Body = {}, tenant = tenantOf(login)) => {
      const [jwk] = run.secrets.idp.keys[tenant] ?? []
      if (jwk === undefined) throw new Error(`the demo has no provider for ${tenant}`)
      const now = Math.floor(run.clock.now() / 1000)
      const payload = {
        iss: demoIssuerOf(run.publicUrl, tenant),
        aud: issuerOf(run.ctx, tenant),
        sub: subjectOf(login),
        client_id: DEMO_CLIENTS.app,
        iat: now,
        exp: now + 600,
        ...claims,
      }
      return new SignJWT(JSON.parse(JSON.stringify(payload)))
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: jwk.kid ?? '' })
        .sign(await importJWK(jwk, 'ES256'))
    },
  }
}

function calling(
  run: Running,
  known: ReturnType<typeof knowing>,
  user: ReturnType<typeof signingIn>,
) {
  const request: LiveServer['request'] = async (path, init) =>
    answerOf(await fetch(path.startsWith('http') ? path : `${run.origin}${path}`, init))
  const oauth: LiveServer['oauth'] = (endpoint, form, credentials, tenant = 'acme') =>
    request(`/t/${tenant}/oauth/${endpoint}`, {
      method: 'POST',
      headers: credentials === null ? {} : { authorization: basic(credentials) },
      body: formOf(form),
    })
  const token: LiveServer['token'] = (form, credentials, tenant) =>
    oauth('token', form, credentials, tenant)
  const api: LiveServer['api'] = (bearer, method, path, body, more = {}) =>
    request(`/t/${more.tenant ?? 'acme'}/api${path}`, {
      method,
      headers: {
        ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...more.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const start: LiveServer['start'] = async (login, how = {}) => {
    const tenant = tenantOf(login)
    const form = {
      grant_type: TOKEN_EXCHANGE,
      subject_token: await user.userToken(login, 'app'),
      subject_token_type: ACCESS_TOKEN,
      template: 'renewal-briefs',
      ...how.form,
    }
    const answer = await token<TokenAnswer>(form, await known.agent(how.agent, tenant), tenant)
    return bodyOrThrow(`start for ${login}`, answer)
  }
  const reissue: LiveServer['reissue'] = async (refreshToken, how = {}) => {
    const form = {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      resource: how.resource,
    }
    const credentials = await known.agent(how.agent, how.tenant)
    return bodyOrThrow('re-issue', await token<TokenAnswer>(form, credentials, how.tenant))
  }
  return { request, oauth, token, api, start, reissue }
}

type Calls = ReturnType<typeof calling>
type Shown = { digest: string; items: { id: string; outcome: string }[] }

/** What takes a person: their answers, an admin's freeze, an end. */
function deciding(user: ReturnType<typeof signingIn>, calls: Calls, mcpOf: LiveServer['mcp']) {
  const api = async <T>(login: string, method: string, path: string, body?: unknown) => {
    const more = { tenant: tenantOf(login) }
    const answer = await calls.api<T>(await user.userToken(login), method, path, body, more)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const ask: LiveServer['ask'] = async (accessToken, items, tenant) => {
    const mcp = await mcpOf(accessToken, tenant)
    try {
      return await mcp.call('iam.request_access', { items, reason: 'to write the brief' })
    } finally {
      await mcp.close()
    }
  }
  const answer: LiveServer['answer'] = async (login, requestId, decision = 'allow_once') => {
    const shown = await api<Shown>(login, 'GET', `/access-requests/${requestId}`)
    const items = shown.items
      .filter((item) => item.outcome === 'pending')
      .map(({ id }) => ({ id, decision }))
    const body = { digest: shown.digest, items }
    await api(login, 'POST', `/access-requests/${requestId}/decision`, body)
  }
  const lend: LiveServer['lend'] = async (login, accessToken, items) => {
    const tenant = tenantOf(login)
    const asked = await ask(accessToken, items, tenant)
    if (asked.request_id !== undefined) await answer(login, asked.request_id)
    const now = await ask(accessToken, items, tenant)
    const missing = now.items.filter((item) => item.outcome !== 'granted')
    if (missing.length > 0) throw new Error(`not granted: ${JSON.stringify(missing)}`)
  }
  return {
    ask,
    answer,
    lend,
    freeze: async (scope: string, id: string) => {
      const made = await api<{ id: string }>('adam', 'POST', '/freezes', { scope, id })
      return async () => void (await api('adam', 'DELETE', `/freezes/${made.id}`))
    },
    endSessions: async (login: string) => {
      type Listed = { items: { id: string; parent_id?: string }[] }
      const { items } = await api<Listed>(login, 'GET', '/sessions?status=active')
      for (const { id, parent_id } of items)
        if (parent_id === undefined) await api(login, 'POST', `/sessions/${id}/end`)
    },
  }
}

const configOf = (port: number, publicUrl: string, database: string): Config => ({
  port,
  publicUrl,
  databaseUrl: database === 'embedded' ? null : database,
  dataDir: null,
  demo: true,
  loopbackOnly: true,
})

async function secretsIn(db: Db): Promise<DemoSecrets> {
  const [row] = await runOn(db)<{ value: DemoSecrets }>(
    `select value from installation where name = 'demo'`,
  )
  if (row === undefined) throw new Error('the demo has made no secrets')
  return row.value
}

/** Starts it; close it when done. */
export async function serveLend(options: ServeOptions = {}): Promise<LiveServer> {
  const { database = 'embedded', jobs: withJobs = true } = options
  let handle: Parameters<typeof createServer>[1] = (_req, res) => res.writeHead(503).end()
  const { servers, port } = await listenOn(() => createServer((req, res) => handle?.(req, res)))
  const origin = `http://localhost:${port}`
  const publicUrl = options.publicUrl ?? origin
  const config = configOf(port, publicUrl, database)
  const db = database === 'embedded' ? await openEmbedded(null) : await openServer(database)
  const bugs: { error: unknown; requestId: string | undefined }[] = []
  const onBug = (error: unknown, requestId?: string) => void bugs.push({ error, requestId })
  const notify = await createNotify(db, onBug)
  const stopping = new AbortController()
  const clock = movableClock()
  const ctx: Ctx = { db, clock, ids: systemIds, notify, publicUrl, stopping: stopping.signal }
  const keys = createKeyStore({ db, clock })
  const verifier = createUserTokenVerifier({ publicUrl, clock })
  const app = createApp({ ctx, keys, verifier, ready: () => true, onBug })
  const demo = await startDemo({ ctx, config, app, onBug })
  const jobs = withJobs ? await startJobs(ctx, await checkpointKey(null), onBug) : null
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  handle = (req, res) => {
    if (!demo.handle(req, res)) void listener(req, res)
  }
  const secrets = await secretsIn(db)
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
      await notify.stop()
      await db.close()
    },
  }
}
