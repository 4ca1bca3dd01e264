import { Hono } from 'hono'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createEnforcer, requirePermission, verdictOf } from '../../src/enforce/index.ts'
import { CREDENTIALS, GRANT, type Issuer, startIssuer } from './support/issuer.ts'

/** The middleware in a Hono app: through with the grant, answered for without. */
let lend: Issuer
beforeAll(async () => {
  lend = await startIssuer()
})
afterAll(() => lend.close())
beforeEach(() => {
  lend.live = { active: true, ...lend.claims() }
  lend.reports.length = 0
})

function appOf(introspect?: typeof CREDENTIALS) {
  const of = { issuer: lend.issuer, audience: lend.audience }
  const enforcer = createEnforcer(introspect === undefined ? of : { ...of, introspect })
  const app = new Hono()
  app.get('/accounts', requirePermission(enforcer, { permission: 'accounts:read' }), (c) =>
    c.json({ user: verdictOf(c.req.raw)?.user }),
  )
  app.get(
    '/dashboards/:id',
    requirePermission(enforcer, (c: { req: { raw: Request; param: (name: 'id') => string } }) => ({
      permission: 'dashboard:view',
      resource: `dashboard/${c.req.param('id')}`,
    })),
    (c) => c.json({ id: c.req.param('id') }),
  )
  const get = (path: string, token?: string) =>
    app.request(path, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } })
  return { enforcer, get }
}

test('lets through what is held, and says for whom', async () => {
  const answer = await appOf().get('/accounts', await lend.token())
  expect([answer.status, await answer.json()]).toEqual([200, { user: 'usr_maya' }])
})

test('names the very object to ask for', async () => {
  const { get } = appOf()
  const item = { permission: 'dashboard:view', resource: 'dashboard/q3' }
  const refused = await get('/dashboards/q3', await lend.token())
  expect(refused.status).toBe(403)
  expect(refused.headers.get('www-authenticate')).toBe('Bearer error="insufficient_scope"')
  expect(await refused.json()).toMatchObject({
    reason: 'not_granted',
    ask: { tool: 'iam.request_access', items: [item] },
  })
  const held = { ...GRANT, permission: 'dashboard:view', identifier: 'dashboard/*' }
  const token = await lend.token({ authorization_details: [held] })
  expect((await get('/dashboards/q3', token)).status).toBe(200)
})

test('challenges without a token, with a bad one, and when the session is over', async () => {
  const bare = await appOf().get('/accounts')
  expect([bare.status, bare.headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
  const bad = await appOf().get('/accounts?access_token=x', 'x.y.z')
  expect(bad.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"')
  lend.live = { active: false }
  const over = await appOf(CREDENTIALS).get('/accounts', await lend.token())
  expect([over.status, await over.json()]).toMatchObject([401, { reason: 'session_over' }])
})

test('allows nothing while Lend cannot be reached (I19)', async () => {
  lend.live = 500
  const answer = await appOf(CREDENTIALS).get('/accounts', await lend.token())
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '2'])
})

test('reports each call without its query, when it has credentials to', async () => {
  const { enforcer, get } = appOf(CREDENTIALS)
  await get('/accounts?token=secret', await lend.token())
  await get('/dashboards/q3', await lend.token())
  await get('/accounts')
  await enforcer.close()
  expect(lend.reports.flatMap(({ body }) => body.calls)).toMatchObject([
    { outcome: 'allowed', permission: 'accounts:read', target: 'GET /accounts', grant_id: 'grt_1' },
    { outcome: 'denied', permission: 'dashboard:view', target: 'GET /dashboards/q3' },
  ])
})
