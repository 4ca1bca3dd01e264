import { Hono } from 'hono'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { TenantRef } from '../../src/callers.ts'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { endSession } from '../../src/flows/end-session.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import { enforceRoutes } from '../../src/http/enforce.ts'
import { hashSecret } from '../../src/tokens/client-auth.ts'
import { createWorld, type World } from '../support/world.ts'

/**
 * `POST /t/{tenant}/enforce/calls`: what enforcement points let through and turned away is on
 * record (I12).
 */
let world: World
let app: Hono
const bugs: unknown[] = []

const secretOf = (id: string) => `secret-of-${id}`
const basic = (id: string, secret = secretOf(id)) =>
  `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`

beforeEach(async () => {
  world = await createWorld()
  bugs.length = 0
  for (const [id, tenant, services] of [
    ['epc_acme', 'ten_acme', '{accounts,dashboards}'],
    ['epc_mail', 'ten_acme', '{mail}'],
    ['epc_globex', 'ten_globex', '{accounts,dashboards}'],
  ])
    await world.rows(
      `insert into enforcement_point (id, tenant_id, name, secret_hash, services, created_at)
       values ($1, $2, $1, $3, $4, now())`,
      [id, tenant, hashSecret(secretOf(id ?? '')), services],
    )
  const tenants: Record<string, TenantRef> = {
    acme: world.tenant('acme'),
    globex: world.tenant('globex'),
  }
  app = new Hono()
  app.route(
    '/',
    enforceRoutes({
      ctx: world.ctx,
      findTenant: async (slug) => tenants[slug] ?? null,
      onBug: (error) => bugs.push(error),
    }),
  )
})
afterEach(async () => {
  await world.close()
  expect(bugs).toEqual([])
})

type Sent = {
  tenant?: string
  as?: string | null
  body?: unknown
  headers?: Record<string, string>
}

async function post({ tenant = 'acme', as = basic('epc_acme'), body, headers = {} }: Sent) {
  const answer = await app.request(`/t/${tenant}/enforce/calls`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(as === null ? {} : { authorization: as }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: answer.status, headers: answer.headers, body: await answer.json() }
}

const call = (session: string, more: object = {}) => ({
  at: new Date(world.clock.now()).toISOString(),
  session_id: session,
  permission: 'accounts:read',
  outcome: 'allowed',
  target: 'GET /accounts',
  ...more,
})

const recordsOf = (session: string) =>
  world.rows<{ type: string; data: Record<string, unknown>; agent_id: string; user_id: string }>(
    `select type, data, agent_id, user_id from activity
     where session_id = $1 and type like 'call.%' order by seq`,
    [session],
  )

async function holding(): Promise<{ session: SessionId; grant: string }> {
  const session = await world.start('maya', { mode: 'bypass' })
  await world.ask(session, [{ permission: 'accounts:read' }])
  const [row] = await world.rows<{ id: string }>(
    'select id from access_grant where session_id = $1',
    [session],
  )
  return { session, grant: row?.id ?? '' }
}

test('calls are recorded on their session’s chain, naming agent and user, and the grant is counted', async () => {
  const { session, grant } = await holding()
  const denied = { outcome: 'denied', reason: 'not_granted', permission: 'dashboard:view' }
  const answer = await post({
    body: {
      calls: [
        call(session, { grant_id: grant }),
        call(session, { grant_id: grant }),
        call(session, { ...denied, resource: 'dashboard/q4', target: 'GET /dashboards/q4' }),
      ],
    },
  })
  expect(answer).toMatchObject({ status: 200, body: { recorded: 3, refused: 0, lost: 0 } })
  const records = await recordsOf(session)
  expect(records.map((r) => r.type)).toEqual(['call.allowed', 'call.allowed', 'call.denied'])
  expect(records[0]).toMatchObject({ agent_id: 'agt_briefs', user_id: 'usr_maya' })
  expect(records[2]?.data).toEqual({
    permission: 'dashboard:view',
    resource: 'dashboard/q4',
    target: 'GET /dashboards/q4',
    reason: 'not_granted',
    called_at: expect.stringMatching(/Z$/),
    enforcement_point: 'epc_acme',
  })
  const [used] = await world.rows('select uses, last_used_at from access_grant where id = $1', [
    grant,
  ])
  expect(used).toEqual({ uses: 2, last_used_at: new Date(world.clock.now()) })
  const verified = await verifyActivity(world.ctx, { tenantId: world.tenant('acme').id })
  expect(verified).toMatchObject({ ok: true })
})

test('a child’s calls go on the child’s own chain', async () => {
  const { session } = await holding()
  const child = await world.subagent(session)
  await post({ body: { calls: [call(child), call(session), call(child)] } })
  expect(await recordsOf(child)).toHaveLength(2)
  expect(await recordsOf(session)).toHaveLength(1)
})

test('a call before the end may be told of after it', async () => {
  const { session, grant } = await holding()
  const caller = await world.asAgent(session)
  await endSession(world.ctx, caller, undefined)
  const answer = await post({ body: { calls: [call(session, { grant_id: grant })] } })
  expect(answer.body).toMatchObject({ recorded: 1 })
  expect(await recordsOf(session)).toHaveLength(1)
})

describe('what cannot be recorded is refused and counted', () => {
  test.each<[string, () => object]>([
    ['an unknown session', () => ({ session_id: 'ses_nobody' })],
    ['an unknown permission', () => ({ permission: 'nothing:here' })],
    ['another service’s permission', () => ({ permission: 'email-templates:write' })],
    ['a call of last year', () => ({ at: '2020-01-01T00:00:00Z' })],
    ['a call of tomorrow', () => ({ at: new Date(world.clock.now() + 86_400_000).toISOString() })],
  ])('%s', async (_, change) => {
    const { session } = await holding()
    const answer = await post({ body: { calls: [call(session), call(session, change())] } })
    expect(answer.body).toEqual({ recorded: 1, refused: 1, lost: 0 })
    const counted = await world.rows(`select name, count::integer from counter`)
    expect(counted).toEqual([{ name: 'calls_refused', count: 1 }])
  })

  test('another tenant’s session, whoever asks (I17)', async () => {
    const { session } = await holding()
    const as = basic('epc_globex')
    const there = await post({ tenant: 'globex', as, body: { calls: [call(session)] } })
    expect(there.body).toMatchObject({ recorded: 0, refused: 1 })
    expect((await post({ as, body: { calls: [call(session)] } })).status).toBe(401)
    expect(await recordsOf(session)).toEqual([])
  })

  test('a grant of another session is not counted', async () => {
    const mine = await holding()
    const other = await holding()
    await post({ body: { calls: [call(mine.session, { grant_id: other.grant })] } })
    const uses = await world.rows('select uses from access_grant')
    expect(uses).toEqual([{ uses: 0 }, { uses: 0 }])
  })

  test('what the enforcement point lost is counted', async () => {
    await post({ body: { calls: [], lost: 7 } })
    await post({ body: { calls: [], lost: 5 } })
    const counted = await world.rows(`select name, count::integer from counter`)
    expect(counted).toEqual([{ name: 'calls_lost', count: 12 }])
  })
})

test('a batch that is sent again under its key is recorded once', async () => {
  const { session, grant } = await holding()
  const body = { calls: [call(session, { grant_id: grant }), call('ses_nobody')], lost: 3 }
  const headers = { 'idempotency-key': 'k-1' }
  const first = await post({ body, headers })
  expect(await post({ body, headers })).toMatchObject({ status: 200, body: first.body })
  expect(await recordsOf(session)).toHaveLength(1)
  expect(await world.rows('select uses from access_grant')).toEqual([{ uses: 1 }])
  const counted = await world.rows('select name, count::integer from counter order by name')
  expect(counted).toEqual([
    { name: 'calls_lost', count: 3 },
    { name: 'calls_refused', count: 1 },
  ])
  await post({ body, headers: { 'idempotency-key': 'k-2' } })
  expect(await recordsOf(session)).toHaveLength(2)
})

describe('who may report', () => {
  test.each<[string, () => string | null]>([
    ['nobody', () => null],
    ['a wrong secret', () => basic('epc_acme', 'guess')],
    ['an unknown client', () => basic('epc_nobody')],
    ['a bearer token', () => 'Bearer abc'],
  ])('%s is challenged for Basic', async (_, as) => {
    const answer = await post({ as: as(), body: { calls: [] } })
    expect(answer).toMatchObject({ status: 401, body: { code: 'client_unauthenticated' } })
    expect(answer.headers.get('www-authenticate')).toBe('Basic realm="lend"')
  })

  test('an agent may not: it would write its own record', async () => {
    await world.rows(`update agent set secret_hash = $1 where id = 'agt_briefs'`, [
      hashSecret('agent'),
    ])
    const answer = await post({ as: basic('agt_briefs', 'agent'), body: { calls: [] } })
    expect(answer).toMatchObject({ status: 403, body: { code: 'forbidden' } })
  })

  test('an unknown tenant is no address', async () => {
    expect((await post({ tenant: 'nobody', body: { calls: [] } })).status).toBe(404)
  })
})

describe('what is not understood is refused whole', () => {
  test.each<[string, (session: string) => unknown]>([
    ['no JSON', () => '{'],
    ['no calls', () => ({})],
    ['an unknown member', (s) => ({ calls: [call(s)], note: 'x' })],
    ['an unknown member of a call', (s) => ({ calls: [call(s, { token: 'x' })] })],
    ['101 calls', (s) => ({ calls: Array.from({ length: 101 }, () => call(s)) })],
    ['another outcome', (s) => ({ calls: [call(s, { outcome: 'maybe' })] })],
    ['a query in the target', (s) => ({ calls: [call(s, { target: 'GET /a?token=x' })] })],
    ['a control character', (s) => ({ calls: [call(s, { target: 'GET /a\u0000' })] })],
    ['prose as a reason', (s) => ({ calls: [call(s, { reason: 'Because of this.' })] })],
    ['a time that is none', (s) => ({ calls: [call(s, { at: 'now' })] })],
    ['a user as the session', () => ({ calls: [call('usr_maya')] })],
    ['a negative loss', () => ({ calls: [], lost: -1 })],
  ])('%s', async (_, body) => {
    const { session } = await holding()
    const answer = await post({ body: body(session) })
    expect(answer).toMatchObject({ status: 400, body: { code: 'request_malformed' } })
    expect(await recordsOf(session)).toEqual([])
  })
})
