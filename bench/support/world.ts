import type postgres from 'postgres'
import { createScratch, type Scratch, settle } from './database.ts'
import { basic, drive, form, jsonPost, type Sent } from './drive.ts'
import { type Issuer, startIssuer } from './issuer.ts'
import { type Lend, startLend, temporaryFolder } from './lend.ts'

export const CONCURRENCY = 32
/** Live roots for one agent and user are limited to 20, so as many users are made as the starts of a round need. */
const LIVE_ROOTS_MAX = 20
const TEMPLATE = 'renewal-briefs'
const PEOPLE_CLIENT = 'bench-people'
const APP_CLIENT = 'renewal-app'
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

export type User = { readonly id: string; readonly app: string; readonly people: string }
export type Session = {
  readonly id: string
  readonly user: User
  readonly token: string
  readonly refresh: string
}

/**
 * Lend under test with people of its own: they are rows beside the demo's, so that no limit of the product has to be
 * lifted. Their identity provider is the benchmark's.
 */
export type World = {
  readonly scratch: Scratch
  readonly lend: Lend
  readonly users: readonly User[]
  readonly secrets: {
    readonly agent: { readonly id: string; readonly secret: string }
    readonly point: { readonly id: string; readonly secret: string }
  }
  readonly starts: (count: number) => readonly Sent[]
  readonly startSessions: (count: number) => Promise<readonly Session[]>
  /** Ends every session of the benchmark's users, as their end of life would. */
  readonly endSessions: () => Promise<void>
  readonly close: () => Promise<void>
}

const usersFor = (sessions: number): number => Math.ceil(sessions / LIVE_ROOTS_MAX) + 1

async function addPeople(
  sql: postgres.Sql,
  of: { readonly issuer: Issuer; readonly audience: string; readonly count: number },
): Promise<readonly User[]> {
  const { issuer, audience, count } = of
  await sql`
    insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, private_network, created_at)
    select 'idp_bench', id, ${issuer.issuer}, ${audience}, ${[PEOPLE_CLIENT]}, true, now()
    from tenant where slug = 'acme'`
  await sql`
    insert into app_user (id, tenant_id, issuer, subject, login, name, attributes, created_at)
    select 'usr_bench_' || n, t.id, ${issuer.issuer}, 'bench-' || n, 'bench-' || n, 'Bench ' || n,
      '{"region": "emea"}', now()
    from tenant t, generate_series(1, ${count}::int) n where t.slug = 'acme'`
  await sql`
    insert into group_member (tenant_id, group_id, user_id)
    select g.tenant_id, g.id, u.id from user_group g join app_user u on u.tenant_id = g.tenant_id
    where g.name = 'account-managers' and u.id like 'usr_bench_%'`
  await sql`
    insert into user_permission (id, tenant_id, user_id, permission_id, resource, created_at)
    select 'prm_' || u.id, u.tenant_id, u.id, 'dashboard:view', 'dashboard/*', now()
    from app_user u where u.id like 'usr_bench_%'`
  return Array.from({ length: count }, (_, i) => {
    const subject = `bench-${i + 1}`
    const mint = (client: string) => issuer.mint({ subject, client, audience })
    return { id: `usr_bench_${i + 1}`, app: mint(APP_CLIENT), people: mint(PEOPLE_CLIENT) }
  })
}

/** Everything that `renewal-briefs` may ask for and that is not sensitive is granted by rule. */
export async function addAllowRules(sql: postgres.Sql): Promise<void> {
  await sql`
    insert into consent_rule (id, tenant_id, user_id, template_id, permission_id, resource, effect, created_at)
    select 'rul_' || u.id || '_' || p.n, u.tenant_id, u.id, t.id, p.permission, p.resource, 'allow', now()
    from app_user u, template t, (values (1, 'accounts:read', null), (2, 'accounts.rows:my_region', null),
      (3, 'dashboard:view', 'dashboard/*'), (4, 'email:send', 'domain/*')) p (n, permission, resource)
    where u.id like 'usr_bench_%' and t.name = ${TEMPLATE}`
}

type SessionAnswer = { session_id: string; access_token: string; refresh_token: string }

async function openWorld(of: {
  readonly sessions: number
  readonly databaseUrl?: (url: string) => string
  readonly scratch: Scratch
  readonly profile?: string
  readonly inspect?: boolean
}): Promise<World> {
  const { scratch } = of
  const folder = temporaryFolder()
  const issuer = await startIssuer()
  const lend = await startLend({
    databaseUrl: of.databaseUrl?.(scratch.url) ?? scratch.url,
    data: folder.path,
    ...(of.profile === undefined ? {} : { profile: of.profile }),
    ...(of.inspect === undefined ? {} : { inspect: of.inspect }),
  })
  const found = await lend.credentials()
  const agent = found.agents.find((one) => one.templates.includes(TEMPLATE))
  const [point] = found.enforcement_points
  if (agent === undefined || point === undefined) throw new Error('the demo has no clients')
  const users = await addPeople(scratch.sql, {
    issuer,
    audience: found.issuer,
    count: usersFor(of.sessions),
  })
  await settle(scratch.sql)

  const credential = basic(agent.client_id, agent.client_secret)
  // An own place among the users, so that no user is asked for more starts than the limit while others have none.
  let turn = 0
  const startOf = (user: User): Sent =>
    form(
      '/t/acme/oauth/token',
      {
        grant_type: EXCHANGE,
        subject_token: user.app,
        subject_token_type: ACCESS_TOKEN,
        template: TEMPLATE,
        task: 'Prepare the renewal briefs of this quarter',
      },
      credential,
    )
  const next = () => users[turn++ % users.length] ?? never('there are users')
  const starts = (count: number) => Array.from({ length: count }, () => startOf(next()))
  return {
    scratch,
    lend,
    users,
    secrets: {
      agent: { id: agent.client_id, secret: agent.client_secret },
      point: { id: point.client_id, secret: point.client_secret },
    },
    starts,
    startSessions: async (count) => {
      const chosen = Array.from({ length: count }, next)
      const { bodies } = await drive(lend.origin, CONCURRENCY, chosen.map(startOf))
      return chosen.map((user, i) => {
        const body: SessionAnswer = JSON.parse(bodies[i] ?? '')
        return {
          id: body.session_id,
          user,
          token: body.access_token,
          refresh: body.refresh_token,
        }
      })
    },
    endSessions: async () => {
      await scratch.sql`
        delete from access_grant g using session s
        where s.id = g.session_id and s.user_id like 'usr_bench_%'`
      await scratch.sql`
        update session set status = 'ended', end_reason = 'user', ended_at = now(), version = version + 1
        where status = 'active' and user_id like 'usr_bench_%'`
    },
    close: async () => {
      await lend.stop()
      issuer.stop()
      folder.remove()
    },
  }
}

function never(what: string): never {
  throw new Error(`not so: ${what}`)
}

/** Opens the world, hands it over, and takes everything away again, whatever happened. */
export async function withWorld<T>(
  of: {
    readonly name: string
    /** A Postgres server; the benchmark's own by default. */
    readonly server?: string
    /** The most that are live at once. */
    readonly sessions: number
    readonly profile?: string
    readonly inspect?: boolean
    readonly through?: (url: string) => Promise<{ readonly url: string; readonly stop: () => void }>
  },
  body: (world: World) => Promise<T>,
): Promise<T> {
  const scratch = await createScratch(of.name, of.server)
  const through = await of.through?.(scratch.url)
  try {
    const world = await openWorld({
      sessions: of.sessions,
      scratch,
      ...(through === undefined ? {} : { databaseUrl: () => through.url }),
      ...(of.profile === undefined ? {} : { profile: of.profile }),
      ...(of.inspect === undefined ? {} : { inspect: of.inspect }),
    })
    try {
      return await body(world)
    } finally {
      await world.close()
    }
  } finally {
    through?.stop()
    await scratch.drop()
  }
}

/** A tool call as an MCP client sends it. */
export const toolCall = (session: Session, name: string, args: object): Sent =>
  jsonPost(
    '/t/acme/mcp',
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } },
    {
      authorization: `Bearer ${session.token}`,
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
    },
  )

export const requestAccess = (
  session: Session,
  items: readonly object[],
  more: object = {},
): Sent =>
  toolCall(session, 'iam.request_access', {
    items,
    reason: 'To prepare the renewal briefs of this quarter',
    ...more,
  })

export const reissue = (world: World, session: Session): Sent =>
  form(
    '/t/acme/oauth/token',
    { grant_type: 'refresh_token', refresh_token: session.refresh },
    basic(world.secrets.agent.id, world.secrets.agent.secret),
  )

export const introspection = (world: World, session: Session): Sent =>
  form(
    '/t/acme/oauth/introspect',
    { token: session.token },
    basic(world.secrets.point.id, world.secrets.point.secret),
  )

/** AuthZEN: may the session open the dashboard that it was lent? */
export const assetCheck = (world: World, session: Session): Sent =>
  jsonPost(
    '/t/acme/access/v1/evaluation',
    {
      subject: { type: 'agent_session', id: session.id, properties: { token: session.token } },
      action: { name: 'view' },
      resource: { type: 'dashboard', id: 'q3-pipeline' },
    },
    basic(world.secrets.point.id, world.secrets.point.secret),
  )

export const dataFilter = (world: World, session: Session): Sent =>
  jsonPost(
    '/t/acme/enforce/data',
    { token: session.token, entity: 'account', action: 'read' },
    basic(world.secrets.point.id, world.secrets.point.secret),
  )

/** Answers every pending item of a request with `allow_once`, as its user would after reading it. */
export const answer = (
  user: User,
  request: { id: string; digest: string; items: string[] },
): Sent =>
  jsonPost(
    `/t/acme/api/access-requests/${request.id}/decision`,
    {
      digest: request.digest,
      items: request.items.map((id) => ({ id, decision: 'allow_once' })),
    },
    { authorization: `Bearer ${user.people}` },
  )

export type Asked = { id: string; digest: string; sessionId: string; items: string[] }

/** What waits for an answer in these sessions, read beside the clock. */
export async function pendingOf(
  world: World,
  sessions: readonly Session[],
): Promise<ReadonlyMap<string, Asked>> {
  const rows = await world.scratch.sql<Asked[]>`
    select q.id, q.digest, q.session_id as "sessionId", array_agg(i.id order by i.position) as items
    from access_request q join request_item i on i.request_id = q.id and i.outcome = 'pending'
    where q.session_id = any(${sessions.map((s) => s.id)}) group by q.id`
  return new Map(rows.map((row) => [row.sessionId, row]))
}
