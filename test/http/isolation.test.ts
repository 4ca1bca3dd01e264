import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { UserId } from '../../src/core/vocabulary.ts'
import { insertBrowserSession } from '../../src/db/browser-sessions.ts'
import { withTx } from '../../src/db/tx.ts'
import { sessionCookie } from '../../src/http/browser/cookies.ts'
import { openApiDocument } from '../../src/http/people/app.ts'
import { foreignRequests, ownIds, PLAIN, type Sent } from '../support/foreign-requests.ts'
import {
  ACCESS_TOKEN,
  type Answer,
  type Body,
  basic,
  type Credentials,
  serveLend,
  TOKEN_EXCHANGE,
  type TokenAnswer,
} from '../support/live-server.ts'
import { hashRows, idsOf, makeVictim } from '../support/victim.ts'

/**
 * I17: nothing crosses tenants. Every route of the running app is tried by acme's people, agents, sessions and enforcement
 * points against globex, and with globex's ids in acme. Nothing is answered, and not one of globex's rows is different
 * afterwards. A route that this file cannot try fails it.
 */
const lend = await serveLend({ jobs: false })
afterAll(() => lend.close())

type Route = { readonly method: string; readonly path: string }
const nameOf = ({ method, path }: Route) => `${method} ${path}`

/** What the router holds, and what the document adds to it; one entry a method and path. */
function routesOf(): Route[] {
  const mounted = lend.app.routes.map(({ method, path }) => ({ method, path }))
  const handled = mounted.filter(
    ({ method, path }) =>
      method !== 'ALL' ||
      (!path.endsWith('*') && !mounted.some((m) => m.path === path && m.method !== 'ALL')),
  )
  const documented = Object.entries(openApiDocument().paths ?? {}).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => ({
      method: method.toUpperCase(),
      path: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    })),
  )
  const all = new Map([...handled, ...documented].map((route) => [nameOf(route), route]))
  return [...all.values()]
}

const ROUTES = routesOf()
const isTenants = ({ path }: Route) => path.includes('/:tenant')
const TENANT_ROUTES = ROUTES.filter(isTenants)

/** Of the whole deployment. Each shows nothing of a tenant, or has a door of its own. */
const DEPLOYMENT =
  /^\/(livez|readyz|healthz|openapi\.json|web\/config|_door\/.+|demo\/.+|app(\/.*)?|\*|)$/

/** Public by their standards, or the way in to signing in: they know nothing but which tenant it is. */
const PUBLIC = new Set([
  'GET /t/:tenant/oauth/jwks',
  'GET /.well-known/oauth-authorization-server/t/:tenant',
  'GET /.well-known/oauth-protected-resource/t/:tenant/mcp',
  'GET /.well-known/oauth-protected-resource/t/:tenant/tools/:server/mcp',
  'GET /.well-known/authzen-configuration/t/:tenant',
  'GET /t/:tenant/auth/login',
  'GET /app/t/:tenant/auth/login',
])
/** Signing out of where one is not signed in is a success that ends nothing; `me` of the app says that nobody is. */
const ANSWERS_ALL = new Set([
  'POST /t/:tenant/auth/logout',
  'POST /app/t/:tenant/auth/logout',
  'GET /app/t/:tenant/api/me',
])
/** The catalog is the deployment's: an id of it is nobody's. */
const SHARED = new Set(['GET /t/:tenant/api/catalog/:id'])

/** The operator's alone: to the people of any other tenant, whatever their roles, there is nothing at these addresses. */
const isOperators = ({ path }: Route) =>
  /^\/t\/:tenant\/api\/(catalog\/(services|proposals)|admin\/services)(\/|$)/.test(path)

const isApi = ({ path }: Route) => path.startsWith('/t/:tenant/api/')
const isOAuth = ({ path }: Route) => path.startsWith('/t/:tenant/oauth/')
/** What enforcement points call: neither people's, nor clients', nor agents'. */
const isEnforcement = (route: Route) =>
  route.method === 'POST' &&
  route.path.startsWith('/t/:tenant/') &&
  !isApi(route) &&
  !isOAuth(route) &&
  !/\/(mcp|auth\/\w+)$/.test(route.path)
/** The web app's pages: the same bytes for everybody (asserted below). */
const isPage = (route: Route) =>
  route.method === 'GET' &&
  /^\/t\/:tenant(\/([a-z-]+(\/:\w+)?|studio\/:template\/:version(\/try)?))?\/?$/.test(route.path) &&
  !isApi(route)

const victim = await makeVictim(lend)
const adam = await lend.userToken('adam')
const gus = await lend.userToken('gus')
const maya = await lend.start('maya')
const agent = await lend.agent()
const point = await lend.enforcementPoint()
const foreign = foreignRequests(victim, await ownIds(lend))
let before: Record<string, string>
let secretIds: ReadonlySet<string>

beforeAll(async () => {
  // Every staff role, so that no role check hides what a tenant check should do.
  await lend.rows(
    `update app_user set staff_roles = '{org_admin,auditor,builder,reviewer}' where login in ('adam', 'gus')`,
  )
  before = await hashRows(lend, 'globex')
  secretIds = await idsOf(lend, 'globex')
  expect(secretIds.size).toBeGreaterThan(30)
})

afterEach(async () => {
  expect(await hashRows(lend, 'globex')).toStrictEqual(before)
  expect(lend.bugs).toEqual([])
})

/** A path with globex's ids for its parameters. Throws where there is none: then this file has to learn it. */
function pathOf(
  route: Route,
  tenant: string,
  ids: Readonly<Record<string, string>> = victim.pathIds,
) {
  const segments = route.path.split('/')
  return segments
    .map((segment, i) => {
      if (segment === ':tenant') return tenant
      if (!segment.startsWith(':')) return segment
      const id = ids[segments[i - 1] ?? '']
      if (id === undefined) throw new Error(`no id of globex's for ${segment} in ${nameOf(route)}`)
      return encodeURIComponent(id)
    })
    .join('/')
}

const operationOf = (route: Route) => {
  const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
  const item = openApiDocument().paths?.[path] as Record<string, Operation> | undefined
  return item?.[route.method.toLowerCase()]
}
type Operation = {
  readonly requestBody?: { readonly required?: boolean }
  readonly parameters?: readonly {
    readonly in: string
    readonly name: string
    readonly required?: boolean
    readonly schema?: { readonly enum?: readonly string[]; readonly example?: string }
  }[]
}

const filtersOf = (route: Route): readonly string[] =>
  route.method === 'GET'
    ? parametersOf(route).flatMap(({ name }) => (PLAIN.has(name) ? [] : [name]))
    : []
const parametersOf = (route: Route) =>
  (operationOf(route)?.parameters ?? []).filter((p) => p.in === 'query')
/** What a route cannot do without, at the first value that it takes. */
const requiredQuery = (route: Route) =>
  new URLSearchParams(
    parametersOf(route)
      .filter(({ required }) => required)
      .map(({ name, schema }): [string, string] => [
        name,
        schema?.enum?.[0] ?? schema?.example ?? 'x',
      ]),
  )

function sentTo(route: Route): readonly Sent[] {
  const named = foreign.bodies[nameOf(route)]
  if (named !== undefined) return named()
  const nothing = foreign.namingNothing[nameOf(route)]
  if (nothing !== undefined) return [{ body: nothing() }]
  if (operationOf(route)?.requestBody !== undefined || isEnforcement(route))
    throw new Error(`${nameOf(route)} takes a body that this file does not know: add it`)
  return [{ body: undefined }]
}

const form = (): Record<string, string> => ({
  grant_type: 'refresh_token',
  refresh_token: victim.session.refresh_token,
  token: victim.session.access_token,
})
const RPC = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'iam.my_access', arguments: {} },
}

async function call(route: Route, at: string, as: Headers, body?: unknown) {
  const headers = { accept: 'application/json, text/event-stream', ...as }
  const isForm = isOAuth(route)
  const sent = isForm ? new URLSearchParams(form()) : (body ?? (isApi(route) ? undefined : RPC))
  const takesBody = route.method !== 'GET' && sent !== undefined
  const method = route.method === 'ALL' ? 'POST' : route.method
  // An event stream that opened would be one answer too many; it must not hang the test that says so.
  return lend.request(at, {
    method,
    redirect: 'manual',
    signal: AbortSignal.timeout(10_000),
    headers: takesBody && !isForm ? { ...headers, 'content-type': 'application/json' } : headers,
    ...(takesBody ? { body: isForm ? (sent as URLSearchParams) : JSON.stringify(sent) } : {}),
  })
}

/** Nothing of globex's is in an answer, but for the ids that were asked with. */
function expectNoSecrets(answer: Answer<unknown>, asked: string): void {
  const found = [...secretIds].filter((id) => answer.text.includes(id) && !asked.includes(id))
  expect(found, answer.text.slice(0, 500)).toEqual([])
}

function expectShut(answer: Answer<unknown>, statuses: readonly number[], asked: string): void {
  expect(statuses, `${answer.status} ${answer.text.slice(0, 300)}`).toContain(answer.status)
  expectNoSecrets(answer, asked)
}

type Headers = Readonly<Record<string, string>>
const nobody: Headers = {}
const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` })
const client = (of: Credentials): Headers => ({ authorization: basic(of) })
const byName = (route: Route) => [nameOf(route), route] as const
const guarded = TENANT_ROUTES.filter((route) => !PUBLIC.has(nameOf(route)) && !isPage(route))

describe('the routes of the running app', () => {
  it('are all of a tenant, or known to be the deployment’s', () => {
    const unknown = ROUTES.filter((r) => !isTenants(r) && !DEPLOYMENT.test(r.path)).map(nameOf)
    expect(unknown).toEqual([])
    expect(guarded.length).toBeGreaterThan(50)
  })

  it('that the document describes are mounted', () => {
    const mounted = new Set(lend.app.routes.map(nameOf))
    const documented = Object.entries(openApiDocument().paths ?? {}).flatMap(([path, operations]) =>
      Object.keys(operations).map(
        (m) => `${m.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`,
      ),
    )
    expect(documented.filter((name) => !mounted.has(name))).toEqual([])
  })

  it.each(TENANT_ROUTES.map(byName))('can be tried: %s', (_, route) => {
    pathOf(route, 'globex')
    sentTo(route)
  })

  it.each(
    guarded
      .filter((r) => isApi(r) && r.method === 'GET' && !r.path.endsWith('/events'))
      .map(byName),
  )('answer their own people, so that a refusal below means something: %s', async (_, route) => {
    const at = `${pathOf(route, 'globex')}?${requiredQuery(route)}`
    const answer = await call(route, at, bearer(gus))
    expect(answer.status, answer.text.slice(0, 300)).toBe(isOperators(route) ? 404 : 200)
    // An export, say, is on their record.
    before = await hashRows(lend, 'globex')
  })
})

/** A browser that adam has signed in with, at acme; its cookie under the name that another tenant's has. */
async function browserOf(tenant: string): Promise<Headers> {
  return { cookie: `${sessionCookie(tenant)}=${COOKIE}`, 'sec-fetch-site': 'same-origin' }
}
const COOKIE = 'a-browser-of-adams-at-acme'

beforeAll(async () => {
  const [provider] = await lend.rows<{ id: string }>(
    'select id from identity_provider where tenant_id = $1',
    [await lend.tenantId()],
  )
  const now = lend.clock.now() / 1000
  const tenantId = await lend.tenantId()
  const userId = (await lend.userId('adam')) as UserId
  await withTx(lend.ctx.db, 'test', (tx) =>
    insertBrowserSession(tx, {
      secret: COOKIE,
      tenantId,
      userId,
      providerId: provider?.id ?? '',
      clientId: 'lend-web',
      idToken: 'none',
      now,
      expiresAt: now + 3600,
    }),
  )
  const me = await lend.request('/t/acme/api/me', { headers: await browserOf('acme') })
  expect(me.status, me.text).toBe(200)
})

/** All that acme can show, for a request at this tenant's address. */
const strangersAt = async (tenant: string): Promise<readonly (readonly [string, Headers])[]> => [
  ['a person', bearer(adam)],
  ['a browser', await browserOf(tenant)],
  ['a session', bearer(maya.access_token)],
  ['an agent', client(agent)],
  ['an enforcement point', client(point)],
  ['nobody', nobody],
]

describe('another tenant’s people, browsers, sessions, agents and enforcement points', () => {
  it.each(guarded.map(byName))('are shut out of %s', async (_, route) => {
    for (const [who, headers] of await strangersAt('globex'))
      for (const { body } of sentTo(route)) {
        const at = pathOf(route, 'globex')
        const answer = await call(route, at, headers, body)
        const asked = `${at} ${JSON.stringify(body)}`
        if (ANSWERS_ALL.has(nameOf(route))) {
          expectNoSecrets(answer, asked)
          continue
        }
        expect(answer.status, who).toBeGreaterThanOrEqual(400)
        const known = isApi(route) || isOAuth(route) || route.path.endsWith('/mcp')
        expectShut(answer, known ? [401] : [400, 401, 403, 404], asked)
      }
  })

  it.each(guarded.map(byName))('find nothing where there is no tenant: %s', async (_, route) => {
    for (const [, headers] of await strangersAt('nowhere')) {
      const at = pathOf(route, 'nowhere')
      const answer = await call(route, at, headers, sentTo(route)[0]?.body)
      // The demo's agent app asks first who calls; it is a program beside Lend.
      if (route.path.startsWith('/app/')) expectNoSecrets(answer, at)
      else expectShut(answer, [404], at)
    }
  })
})

/** Whether anything in a request to it can name a thing of a tenant's. */
const namesSomething = (route: Route) =>
  !SHARED.has(nameOf(route)) &&
  (route.path.replace(':tenant', '').includes(':') || Object.hasOwn(foreign.bodies, nameOf(route)))
const API = guarded.filter((route) => isApi(route) && !route.path.endsWith('/events'))

describe('an admin in their own tenant', () => {
  it.each(API.filter(namesSomething).map(byName))(
    'knows none of another’s ids: %s',
    async (_, route) => {
      for (const { body, path } of sentTo(route)) {
        const at = pathOf(route, 'acme', { ...victim.pathIds, ...path })
        const answer = await call(route, at, bearer(adam), body)
        expectShut(answer, [401, 403, 404, 409, 422], `${at} ${JSON.stringify(body)}`)
      }
    },
  )

  it.each(API.filter((r) => !namesSomething(r)).map(byName))(
    'sees only their own: %s',
    async (_, route) => {
      const at = `${pathOf(route, 'acme')}?${requiredQuery(route)}`
      const answer = await call(route, at, bearer(adam), sentTo(route)[0]?.body)
      const fitting = isOperators(route) ? [404] : [200, 201, 401, 422, 503]
      expect(fitting, answer.text.slice(0, 300)).toContain(answer.status)
      expectNoSecrets(answer, at)
    },
  )

  it.each(API.filter((r) => filtersOf(r).length > 0).map(byName))(
    'is shown nothing of another’s by a filter: %s',
    async (_, route) => {
      for (const name of filtersOf(route)) {
        const value = foreign.filters[name]
        expect(value, `the filter ${name} is not known here: add it`).toBeDefined()
        const query = requiredQuery(route)
        query.set(name, value ?? '')
        const at = `${pathOf(route, 'acme')}?${query}`
        const answer = await call(route, at, bearer(adam))
        expectNoSecrets(answer, at)
        expect([200, 404, 422], answer.text).toContain(answer.status)
        if (answer.status === 200 && 'items' in answer.body)
          expect(answer.body.items, at).toStrictEqual([])
      }
    },
  )
})

describe('an enforcement point in its own tenant', () => {
  it.each(guarded.filter(isEnforcement).map(byName))(
    'learns and changes nothing of another’s session: %s',
    async (_, route) => {
      for (const { body } of sentTo(route)) {
        const at = pathOf(route, 'acme')
        const answer = await call(route, at, client(point), body)
        expectNoSecrets(answer, JSON.stringify(body))
        expect(answer.text).not.toMatch(/"(decision|active)":\s*true/)
        if ('parts' in answer.body) expect(answer.body.parts).toStrictEqual([])
      }
    },
  )
})

describe('the event stream', () => {
  it('of one tenant carries nothing of another’s', async () => {
    const stop = new AbortController()
    const stream = await fetch(`${lend.origin}/t/acme/api/events`, {
      headers: { ...bearer(adam), 'last-event-id': '1-1' },
      signal: stop.signal,
    })
    expect(stream.status).toBe(200)
    let text = ''
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()
    setTimeout(() => stop.abort(), 500)
    try {
      for (let read = await reader?.read(); read?.done === false; read = await reader?.read())
        text += read.value
    } catch {
      // Cut off by this test.
    }
    expect(text).toContain('event: ready')
    expect([...secretIds].filter((id) => text.includes(id))).toEqual([])
  })
})

describe('the pages', () => {
  it.each(TENANT_ROUTES.filter(isPage).map(byName))(
    'are the same for every tenant and everybody: %s',
    async (_, route) => {
      const bare = await call(route, pathOf(route, 'globex'), nobody)
      const other = await call(route, pathOf(route, 'globex'), bearer(adam))
      const home = await call(route, pathOf(route, 'acme'), nobody)
      expect(other.text).toBe(bare.text)
      expect(home.text).toBe(bare.text)
      expectNoSecrets(bare, '')
      expect((await call(route, pathOf(route, 'nowhere'), nobody)).status).toBe(404)
    },
  )
})

describe('what is public', () => {
  it.each(TENANT_ROUTES.filter((r) => PUBLIC.has(nameOf(r))).map(byName))(
    'tells nothing of the tenant’s, and is not there for none: %s',
    async (_, route) => {
      expect((await call(route, pathOf(route, 'nowhere'), nobody)).status).toBe(404)
      if (route.path.endsWith('/auth/login')) return
      const answer = await call(route, pathOf(route, 'globex'), bearer(adam))
      expect(answer.status).toBe(200)
      expectNoSecrets(answer, '')
    },
  )
})

describe('OAuth with one’s own client and another tenant’s tokens', () => {
  const refused = async (form: Record<string, string>) => {
    const answer = await lend.token(form, agent)
    expect(answer.status, answer.text).toBe(400)
    expectNoSecrets(answer, JSON.stringify(form))
  }
  const exchange = { grant_type: TOKEN_EXCHANGE, subject_token_type: ACCESS_TOKEN }

  it('re-issues, exchanges, claims and starts nothing', async () => {
    for (const token of [victim.session, victim.child] satisfies TokenAnswer[]) {
      await refused({ grant_type: 'refresh_token', refresh_token: token.refresh_token })
      await refused({ ...exchange, subject_token: token.access_token })
      await refused({
        ...exchange,
        subject_token: token.access_token,
        resource: lend.resource('accounts'),
      })
      await refused({
        ...exchange,
        subject_token: await lend.userToken('maya', 'app'),
        session_id: token.session_id,
      })
      await refused({
        ...exchange,
        subject_token: maya.access_token,
        session_id: token.session_id,
      })
    }
    const theirs = await lend.userToken('gus', 'app')
    await refused({ ...exchange, subject_token: theirs, template: 'renewal-briefs' })
    const ours = await lend.userToken('maya', 'app')
    await refused({ ...exchange, subject_token: ours, template: victim.template })
  })

  it('introspects to exactly inactive and revokes nothing', async () => {
    for (const token of [victim.session, victim.child] satisfies TokenAnswer[]) {
      for (const one of [token.access_token, token.refresh_token]) {
        const seen = await lend.oauth<Body>('introspect', { token: one }, point)
        expect(seen.body).toStrictEqual({ active: false })
        const revoked = await lend.oauth('revoke', { token: one }, agent)
        expect([200, 400]).toContain(revoked.status)
      }
    }
  })
})

describe('MCP with one’s own session and another tenant’s ids', () => {
  it('releases, starts and shows nothing of theirs', async () => {
    const mcp = await lend.mcp(maya.access_token)
    const grant = victim.pathIds.grants ?? ''
    const released = await mcp.raw('iam.release_access', { items: [{ grant_id: grant }] })
    expect(released.structuredContent ?? { released: [] }).toMatchObject({ released: [] })
    const started = await mcp.raw('iam.start_subagent', { template: victim.template })
    expect(started.isError).toBe(true)
    for (const tool of ['iam.my_access', 'iam.describe_permissions']) {
      const args = tool === 'iam.my_access' ? {} : { task: 'everything of globex' }
      const text = JSON.stringify(await mcp.raw(tool, args))
      expect([...secretIds].filter((id) => text.includes(id))).toEqual([])
    }
  })

  it('is shut to another tenant’s live session, which opens its own', async () => {
    const theirs = await lend.mcp(victim.session.access_token, 'globex')
    expect(await theirs.call('iam.my_access')).toHaveProperty('grants')
    await expect(lend.mcp(victim.session.access_token, 'acme')).rejects.toThrow()
  })
})
