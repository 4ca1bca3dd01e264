import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createEnforcer, type DataShown, type Enforcer, rowShown } from '../../src/enforce/index.ts'
import { ACCESS_TOKEN, type LiveServer, serveLend, TOKEN_EXCHANGE } from '../support/live-server.ts'

/** The published library's live checks, `asset` and `data`, against the real server, and against answers it never gives. */
let lend: LiveServer
let session: Awaited<ReturnType<LiveServer['start']>>
/** What Lend is made to answer instead, at addresses that end so. */
let instead: { readonly path: string; readonly answer: () => Response } | null = null

const fetched: typeof fetch = async (input, init) =>
  instead !== null && String(input).endsWith(instead.path) ? instead.answer() : fetch(input, init)

async function enforcerOf(service: string, credentials = true): Promise<Enforcer> {
  const { client_id, client_secret } = await lend.enforcementPoint()
  return createEnforcer({
    issuer: lend.issuer(),
    audience: lend.resource(service),
    fetch: fetched,
    ...(credentials ? { introspect: { clientId: client_id, clientSecret: client_secret } } : {}),
  })
}

const tokenFor = async (service: string): Promise<string> => {
  const form = {
    grant_type: TOKEN_EXCHANGE,
    subject_token: session.access_token,
    subject_token_type: ACCESS_TOKEN,
    resource: lend.resource(service),
  }
  return (await lend.token(form, await lend.agent())).body.access_token
}

beforeAll(async () => {
  lend = await serveLend({ jobs: false })
})
beforeEach(async () => {
  instead = null
  await lend.endSessions('maya')
  session = await lend.start('maya')
})
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

const Q3 = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
const ROWS = { permission: 'accounts.rows:my_region' }
const ACCOUNTS = { entity: 'account', action: 'read' } as const

describe('asset', () => {
  test('is granted live, and taken away live, with the same token', async () => {
    const dashboards = await enforcerOf('dashboards')
    const token = await tokenFor('dashboards')
    expect(await dashboards.asset(token, Q3)).toMatchObject({
      reason: 'not_granted',
      status: 403,
      ask: Q3,
      askable: true,
    })
    await lend.lend('maya', session.access_token, [Q3])
    expect(await dashboards.asset(token, Q3)).toMatchObject({
      allowed: true,
      session: session.session_id,
      grant: { permission: Q3.permission, identifier: Q3.resource, actions: ['view'] },
    })
    const churn = { ...Q3, resource: 'dashboard/churn' }
    expect(await dashboards.asset(token, churn)).toMatchObject({
      reason: 'not_granted',
      askable: false,
    })
    await lend.endSessions('maya')
    expect(await dashboards.asset(token, Q3)).toMatchObject({ reason: 'session_over', status: 401 })
  })

  test('takes one object, and only tokens for its own audience', async () => {
    const dashboards = await enforcerOf('dashboards')
    const token = await tokenFor('dashboards')
    for (const resource of ['dashboard/*', 'dashboard', '', 'dashboard/a/../b'])
      expect((await dashboards.asset(token, { ...Q3, resource })).reason).toBe('resource_invalid')
    for (const other of [session.access_token, await tokenFor('accounts'), 'x', null, ''])
      expect((await dashboards.asset(other, Q3)).status).toBe(401)
  })

  test('without credentials nothing can be asked, so nothing is allowed', async () => {
    const dashboards = await enforcerOf('dashboards', false)
    expect(await dashboards.asset(await tokenFor('dashboards'), Q3)).toMatchObject({
      reason: 'unavailable',
      status: 503,
    })
  })

  test.each<[string, () => Response]>([
    ['an error', () => new Response('no', { status: 500 })],
    ['no JSON', () => new Response('yes')],
    ['no decision', () => Response.json({})],
    ['a decision that is none', () => Response.json({ decision: 'true' })],
    ['one without a grant', () => Response.json({ decision: true })],
    [
      'one on another permission',
      () => Response.json({ decision: true, context: { permission: 'a:b', grant_id: 'grt_1' } }),
    ],
  ])('%s allows nothing (I19)', async (_, answer) => {
    const dashboards = await enforcerOf('dashboards')
    const token = await tokenFor('dashboards')
    instead = { path: '/access/v1/evaluation', answer }
    expect(await dashboards.asset(token, Q3)).toMatchObject({ allowed: false, status: 503 })
  })
})

describe('data', () => {
  test('is what the session shows, live', async () => {
    const accounts = await enforcerOf('accounts')
    const token = await tokenFor('accounts')
    expect(await accounts.data(token, ACCOUNTS)).toMatchObject({
      allowed: false,
      reason: 'not_granted',
      status: 403,
      parts: [],
      ask: [ROWS],
    })
    await lend.lend('maya', session.access_token, [ROWS])
    const shown = await accounts.data(token, ACCOUNTS)
    expect(shown).toMatchObject({
      allowed: true,
      masked: ['phone'],
      parts: [{ permission: ROWS.permission, rows: { region: 'emea' } }],
    })
    const row = { id: '1', region: 'emea', phone: '+1', secret: 'x' }
    expect(rowShown(shown, row)).toEqual({ id: '1', region: 'emea' })
    expect(rowShown(shown, { ...row, region: 'amer' })).toBeNull()
    await lend.endSessions('maya')
    expect(await accounts.data(token, ACCOUNTS)).toMatchObject({ status: 401, parts: [] })
  })

  const part = {
    grant_id: 'grt_1',
    permission: 'a:b',
    rows: { id: 1 },
    fields: ['id'],
    sql: { text: 'true', params: [] },
  }
  const good = () => ({
    reason: 'granted',
    session_id: session.session_id,
    ...ACCOUNTS,
    parts: [part],
    masked: [],
    blocked: [],
  })

  test('an answer as it should be is taken', async () => {
    instead = { path: '/enforce/data', answer: () => Response.json(good()) }
    const token = await tokenFor('accounts')
    expect((await (await enforcerOf('accounts')).data(token, ACCOUNTS)).parts).toEqual([part])
  })

  test.each<[string, object]>([
    ['of another session', { session_id: 'ses_other' }],
    ['about another entity', { entity: 'contract' }],
    ['about another action', { action: 'write' }],
    ['without blocks', { blocked: undefined }],
    ['without masks', { masked: undefined }],
    ['with parts that are none', { parts: {} }],
    ['with a part that lacks its rows', { parts: [{ ...part, rows: undefined }] }],
    ['with a part that lacks its fields', { parts: [{ ...part, fields: '*' }] }],
    ['with a part that lacks its values', { parts: [{ ...part, sql: { text: 'true' } }] }],
    ['with a value that is none', { parts: [{ ...part, sql: { text: '$1', params: [{}] } }] }],
  ])('%s, it shows nothing (I19)', async (_, change) => {
    const token = await tokenFor('accounts')
    instead = { path: '/enforce/data', answer: () => Response.json({ ...good(), ...change }) }
    expect(await (await enforcerOf('accounts')).data(token, ACCOUNTS)).toMatchObject({
      allowed: false,
      status: 503,
      parts: [],
    })
  })
})

describe('a row', () => {
  const one = (rows: object, fields: string[]) => ({
    grant_id: 'g',
    permission: 'a:b',
    rows: { ...rows },
    fields,
    sql: { text: '', params: [] },
  })
  const shown: DataShown = {
    parts: [one({ region: 'emea' }, ['id']), one({ open: true }, ['id', 'arr'])],
    masked: [],
    blocked: [{ owner: 'lin' }],
  }
  test.each<[object, object | null]>([
    [{ id: 1, arr: 5, region: 'emea', open: false }, { id: 1 }],
    [
      { id: 1, arr: 5, region: 'amer', open: true },
      { id: 1, arr: 5 },
    ],
    [
      { id: 1, arr: 5, region: 'emea', open: true },
      { id: 1, arr: 5 },
    ],
    [{ id: 1, arr: 5, region: 'amer', open: false }, null],
    [{ id: 1, arr: 5, region: 'emea', owner: 'lin' }, null],
    [{ id: 1, region: null }, null],
  ])('%j is shown as %j', (row, expected) => {
    expect(rowShown(shown, { ...row })).toEqual(expected)
  })
  test('nothing is shown by no parts', () => {
    expect(rowShown({ parts: [], masked: [], blocked: [] }, { id: 1 })).toBeNull()
  })
})
