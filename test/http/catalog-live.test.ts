import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { demoSlice } from '../../src/demo/catalog.ts'
import { secretOf } from '../../src/demo/secrets.ts'
import { ask as askGateway, lentSession, reasonOf, tokenFor } from '../gateway/support/proxy.ts'
import { type Body, basic, type LiveServer, type Mcp, serveLend } from '../support/live-server.ts'
import { ACCOUNTS, carried, sessionsOf } from '../support/oauth-sessions.ts'

/**
 * What a publish does to sessions that run (SPEC section 2), as it is seen from outside: over MCP, at the token endpoint
 * and at forward-auth, on one server with everything in it.
 */
let lend: LiveServer
beforeAll(async () => {
  lend = await serveLend()
})
afterAll(() => lend.close())

const clientId = async (service: string) => {
  const sql = 'select id from service_client where service_id = $1'
  const [row] = await lend.rows<{ id: string }>(sql, [service])
  if (row === undefined) throw new Error(`no client of ${service}`)
  return row.id
}
/** As the CI of a service calls. */
async function asService(service: string, method: string, path: string, body: unknown) {
  const of = { kind: 'services', tenant: 'studio', name: service } as const
  const credentials = {
    client_id: await clientId(service),
    client_secret: secretOf(lend.secrets, of),
  }
  const answer = await lend.api(null, method, `/catalog/services/${service}${path}`, body, {
    tenant: 'studio',
    headers: { authorization: basic(credentials) },
  })
  expect([200, 201], answer.text).toContain(answer.status)
  return answer.body
}
/** Publishes the demo's own file of a service, with changes to one permission. */
const publish = (service: string, id = '', change: object = {}) => {
  const { permissions, endpoints } = demoSlice(service)
  const changed = permissions.map((p) => (p.id === id ? { ...p, ...change } : p))
  return asService(service, 'PUT', '', { permissions: changed, endpoints })
}
const rollBack = (service: string, version: number) =>
  asService(service, 'POST', '/rollback', { version })

const review = async (login: string, proposal: unknown, tenant = 'studio') =>
  lend.api(
    await lend.userToken(login),
    'POST',
    `/catalog/proposals/${proposal}/review`,
    { verdict: 'approve' },
    { tenant },
  )
const approve = async (proposal: unknown) => {
  const answer = await review('rhea', proposal)
  expect([answer.status, answer.body.status], answer.text).toEqual([200, 'approved'])
}

afterEach(async () => {
  const { proposal } = await publish('accounts')
  if (proposal !== undefined) await approve(proposal)
  for (const id of await rules()) await asMaya('DELETE', `/rules/${id}`)
  await lend.endSessions('maya')
  expect(lend.bugs).toEqual([])
})

const asMaya = async <T = Body>(method: string, path: string, body?: unknown) => {
  const answer = await lend.api<T>(await lend.userToken('maya'), method, path, body)
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.body
}
const rules = async () =>
  (await asMaya<{ items: { id: string }[] }>('GET', '/rules')).items.map((rule) => rule.id)

/** An agent's connection to a session that maya began in this mode, before whatever comes. */
async function connected(mode: string): Promise<Mcp> {
  const agent = (await lend.agent()).client_id
  const made = await asMaya('POST', '/sessions', {
    ...{ agent_id: agent, template: 'renewal-briefs', mode },
  })
  const form = { session_id: String(made.id), template: undefined }
  return lend.mcp((await lend.start('maya', { form })).access_token)
}
const asks = async (mcp: Mcp, permission: string) => {
  const items = [{ permission }]
  const answer = await mcp.call<{ items: { outcome: string; reason: string }[] }>(
    'iam.request_access',
    { items, reason: 'to write the brief' },
  )
  return `${answer.items[0]?.outcome} ${answer.items[0]?.reason}`
}

test('a risk that is raised: what a live session in auto got by itself, it asks for now', async () => {
  const [before, after] = [await connected('auto'), await connected('auto')]
  expect(await asks(before, 'accounts:read')).toBe('granted mode_auto')
  await publish('accounts', 'accounts:read', { risk: 'high' })
  expect(await asks(after, 'accounts:read')).toBe('pending mode_ask')
  // Tightening what may be lent without a question ends nothing that was lent before.
  expect(await asks(before, 'accounts:read')).toBe('granted already_held')
})

test('a sensitive mark: bypass asks, and an allow rule does not skip the question', async () => {
  const rule = { template: 'renewal-briefs', permission: 'accounts:read', effect: 'allow' }
  await asMaya('POST', '/rules', rule)
  const [ruled, bypass, asking] = [
    await connected('ask'),
    await connected('bypass'),
    await connected('ask'),
  ]
  expect(await asks(ruled, 'accounts:read')).toBe('granted allow_rule')
  await publish('accounts', 'accounts:read', { sensitive: true })
  expect(await asks(bypass, 'accounts:read')).toBe('pending sensitive')
  expect(await asks(asking, 'accounts:read')).toBe('pending sensitive')
  type Asked = { items: { digest: string; id: string; items: Body[] }[] }
  const { items } = await asMaya<Asked>('GET', '/access-requests?status=pending')
  expect(items.map((request) => request.items.map((item) => item.can_remember))).toEqual([
    [false],
    [false],
  ])
  const [one] = items
  const answer = await lend.api(
    await lend.userToken('maya'),
    'POST',
    `/access-requests/${one?.id}/decision`,
    { digest: one?.digest, items: [{ id: one?.items[0]?.id, decision: 'allow_always' }] },
  )
  expect(answer.status).toBe(422)
})

test('never delegable: grants end, no token carries it again, and the gateway refuses the old one', async () => {
  const of = sessionsOf(lend, await lend.agent())
  const { started, control, token } = await lentSession(lend)
  const child = await of.subagent(control)
  expect(child.inherited).toMatchObject([{ permission: 'accounts:read' }])
  const childs = (await of.claim(control, child.session_id)).body
  const childToken = await tokenFor(lend, childs.access_token)
  const atGateway = async (bearer: string) => reasonOf(await askGateway(lend, { token: bearer }))
  for (const one of [token, childToken]) await expect.poll(() => atGateway(one)).toBe('allowed')

  const published = await publish('accounts', 'accounts:read', { delegable: false })
  expect(published).toMatchObject({ published: true, grants_ended: 2, sessions_narrowed: 2 })

  // At once: the answer to the publish is held until this instance knows.
  expect(await atGateway(token)).toBe('SESSION_VERSION_STALE')
  expect(await atGateway(childToken)).toBe('SESSION_VERSION_STALE')
  expect(await of.isActive(token)).toBe(false)
  await expect(lend.mcp(control)).rejects.toThrow()
  for (const { refresh_token } of [started, childs]) {
    const again = await lend.reissue(refresh_token)
    expect(carried(await of.control(again.access_token))).toEqual([])
    expect(again.authorization_details).toEqual([])
    expect(await atGateway(await tokenFor(lend, again.access_token))).toBe('PERMISSION_MISSING')
    const asked = await lend.ask(again.access_token, [ACCOUNTS])
    expect(asked.items).toMatchObject([{ outcome: 'refused', reason: 'never_delegable' }])
  }
  const access = await asMaya<{ items: Body[] }>('GET', `/sessions/${started.session_id}/access`)
  expect(access.items).toEqual([])
  const record = await lend.api<{ items: { data: Body }[] }>(
    await lend.userToken('cleo'),
    'GET',
    `/activity?root=${started.session_id}&type=grant.ended`,
  )
  expect(record.body.items.map((one) => one.data.reason)).toEqual([
    'catalog_changed',
    'catalog_changed',
  ])
})

test('a loosening waits for a reviewer of the operator’s tenant, and then takes effect', async () => {
  await publish('accounts', 'accounts:read', { delegable: false, risk: 'high' })
  const { proposal, published } = await publish('accounts')
  expect([published, typeof proposal]).toEqual([false, 'string'])
  const waiting = await connected('auto')
  expect(await asks(waiting, 'accounts:read')).toBe('refused never_delegable')
  for (const [login, tenant, status] of [
    ['bo', 'studio', 403],
    ['adam', 'acme', 403],
    ['rhea', 'acme', 401],
    ['maya', 'acme', 403],
  ] as const)
    expect([login, (await review(login, proposal, tenant)).status]).toEqual([login, status])
  expect(await asks(waiting, 'accounts:read')).toBe('refused never_delegable')
  await approve(proposal)
  expect(await asks(waiting, 'accounts:read')).toBe('granted mode_auto')
})

test('a rollback that tightens takes effect at once; one that loosens waits', async () => {
  const ROWS = 'accounts.rows:my_region'
  const first = Number((await publish('accounts')).version)
  await approve((await publish('accounts', ROWS, { risk: 'low' })).proposal)
  const [before, after, later] = [
    await connected('auto'),
    await connected('auto'),
    await connected('auto'),
  ]
  expect(await asks(before, ROWS)).toBe('granted mode_auto')
  const back = await rollBack('accounts', first)
  expect(back).toMatchObject({ published: true, version: first + 2 })
  expect(await asks(after, ROWS)).toBe('pending mode_ask')
  const forth = await rollBack('accounts', first + 1)
  expect(forth).toMatchObject({ published: false, version: first + 2 })
  expect(await asks(later, ROWS)).toBe('pending mode_ask')
  await approve(forth.proposal)
  expect(await asks(await connected('auto'), ROWS)).toBe('granted mode_auto')
})
