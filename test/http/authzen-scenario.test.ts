import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { authzenMetadata } from '../../src/http/authzen.ts'
import { hashSecret } from '../../src/tokens/client-auth.ts'
import { basic, type LiveServer, serveLend } from '../support/live-server.ts'

/**
 * The certification scenario of OpenID AuthZEN Authorization API 1.0, written anew from its text, against a fixture tenant of the
 * running server: every request of Basic, Batch and Search Core and of Discovery, by its number there. Of the Properties levels,
 * those decisions that need no evaluation of `properties`: Lend decides by what is held, and has no policy language
 * (STANDARDS.md).
 */
const POINT = { client_id: 'epc_cert', client_secret: 'the fixture’s own' }
const REGISTRY = 900

let lend: LiveServer
beforeAll(async () => {
  lend = await serveLend({ jobs: false })
  const run = (sql: string, params: readonly string[] = []) => lend.rows(sql, params)
  await run(`insert into tenant values ('ten_cert', 'cert', 'Certification', now())`)
  await run(`insert into tenant_chain (tenant_id) values ('ten_cert')`)
  for (const id of ['alice', 'bob'])
    await run(
      `insert into app_user (id, tenant_id, issuer, subject, login, name, created_at)
       values ($1, 'ten_cert', 'https://idp.cert.example', $1, $1, $1, now())`,
      [id],
    )
  await run(`insert into service values ('records', 'Records')`)
  await run(`insert into registry values (${REGISTRY}, 'records', now(), 'fixture')`)
  for (const [i, action] of ['read', 'write', 'delete'].entries())
    await run(
      `insert into permission (id, kind, title, description, service_id, access, risk, enforced_at, bit, asset,
         registry_version)
       values ($1, 'asset', $1, $1, 'records', $2, 'low', 'asset', ${900 + i}, '{"type": "record"}', ${REGISTRY})`,
      [`record:${action}`, action === 'read' ? 'read' : 'write'],
    )
  for (const [user, action, record] of [
    ['alice', 'read', 'record-1'],
    ['alice', 'write', 'record-1'],
    ['bob', 'read', 'record-1'],
    ['bob', 'write', 'record-2'],
  ] as const)
    await run(
      `insert into user_permission (id, tenant_id, user_id, permission_id, resource, created_at)
       values ($1, 'ten_cert', $2, $3, $4, now())`,
      [`prm_${user}_${action}`, user, `record:${action}`, `record/${record}`],
    )
  await run(
    `insert into enforcement_point (id, tenant_id, name, secret_hash, services, asks_about_users, created_at)
     values ('epc_cert', 'ten_cert', 'Harness', $1, '{records}', true, now())`,
    [hashSecret(POINT.client_secret)],
  )
})
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  lend.request(`/t/cert/access/v1/${path}`, {
    method: 'POST',
    headers: { authorization: basic(POINT), 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

const user = (id: string, properties?: object) => ({
  type: 'user',
  id,
  ...(properties && { properties }),
})
const action = (name: string, properties?: object) => ({ name, ...(properties && { properties }) })
const record = (id: string, properties?: object) => ({
  type: 'record',
  id,
  ...(properties && { properties }),
})
const ALICE_READS = { subject: user('alice'), action: action('read'), resource: record('record-1') }

describe('2 Basic: access evaluation', () => {
  it.each([
    ['2.2.1 permit (rule 1)', ALICE_READS, true],
    ['rule 2', { ...ALICE_READS, action: action('write') }, true],
    ['rule 3', { ...ALICE_READS, subject: user('bob') }, true],
    [
      '2.2.2 deny (rule 4)',
      { ...ALICE_READS, subject: user('bob'), action: action('write') },
      false,
    ],
    [
      '2.2.3 optional context',
      { ...ALICE_READS, context: { time: '2025-06-27T18:03-07:00', ip: '192.168.1.1' } },
      true,
    ],
    [
      '2.2.4 (rule 5)',
      {
        subject: user('alice'),
        action: action('write'),
        resource: record('record-2', { status: 'archived' }),
      },
      false,
    ],
    [
      '2.2.5 (rule 6)',
      {
        subject: user('bob', { role: 'admin' }),
        action: action('write'),
        resource: record('record-2', { status: 'archived' }),
      },
      true,
    ],
    ['2.2.7 (rule 8)', { ...ALICE_READS, action: action('delete', { soft: false }) }, false],
    [
      '2.2.8 additional properties',
      {
        subject: user('alice', { department: 'Sales', role: 'manager' }),
        action: action('read', { method: 'GET' }),
        resource: record('record-1', { status: 'active', owner: 'bob' }),
      },
      true,
    ],
    ['2.2.9 unknown fields', { ...ALICE_READS, foo: 'bar', futureField: { nested: true } }, true],
  ])('%s', async (_, body, decision) => {
    const answer = await post('evaluation', body)
    expect(answer).toMatchObject({ status: 200, body: { decision } })
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    expect(typeof answer.body.context).toBe('object')
  })

  it('2.2.6 (rule 7) is where we leave it: no property makes a permission that is not had', async () => {
    const body = { ...ALICE_READS, action: action('delete', { soft: true }) }
    expect((await post('evaluation', body)).body.decision).toBe(false)
  })

  const { subject: who, action: what, resource: which } = ALICE_READS
  it.each<[string, unknown]>([
    ['2.4.1 no subject', { action: what, resource: which }],
    ['2.4.1 no action', { subject: who, resource: which }],
    ['2.4.1 no resource', { subject: who, action: what }],
    ['2.4.2 subject without type', { ...ALICE_READS, subject: { id: 'alice' } }],
    ['2.4.2 subject without id', { ...ALICE_READS, subject: { type: 'user' } }],
    ['2.4.2 action without name', { ...ALICE_READS, action: {} }],
    ['2.4.2 resource without type', { ...ALICE_READS, resource: { id: 'record-1' } }],
    ['2.4.2 resource without id', { ...ALICE_READS, resource: { type: 'record' } }],
    ['2.4.4 malformed JSON', '{"subject":'],
    ['2.4.5 empty body', ''],
    ['2.4.6 subject a string', { ...ALICE_READS, subject: 'alice' }],
    ['2.4.6 action name a number', { ...ALICE_READS, action: { name: 123 } }],
  ])('%s is 400', async (_, body) => {
    expect((await post('evaluation', body)).status).toBe(400)
  })

  it('2.4.3 another content type is 400', async () => {
    const answer = await post('evaluation', ALICE_READS, { 'content-type': 'text/plain' })
    expect(answer.status).toBe(400)
  })

  it('2.5 the request id is echoed, and is no need', async () => {
    const id = 'bfe9eb29-ab87-4ca3-be83-a1d5d8305716'
    const named = await post('evaluation', ALICE_READS, { 'x-request-id': id })
    expect(named.headers.get('x-request-id')).toBe(id)
    expect((await post('evaluation', ALICE_READS)).status).toBe(200)
  })

  it('2.6 the same answer each time', async () => {
    for (let i = 0; i < 5; i++)
      expect((await post('evaluation', ALICE_READS)).body.decision).toBe(true)
  })
})

const decisions = (of: readonly boolean[]) => ({
  status: 200,
  body: { evaluations: of.map((decision) => ({ decision })) },
})

describe('3 Batch: access evaluations', () => {
  it.each<[string, object, readonly boolean[]]>([
    [
      '3.2.1 an array',
      {
        subject: user('alice'),
        action: action('read'),
        evaluations: [{ resource: record('record-1') }, { resource: record('record-2') }],
      },
      [true, false],
    ],
    [
      '3.2.2 in order (rules 3, 4)',
      {
        subject: user('bob'),
        resource: record('record-1'),
        evaluations: [{ action: action('read') }, { action: action('write') }],
      },
      [true, false],
    ],
    [
      '3.2.3 (rules 2, 5)',
      {
        subject: user('alice'),
        action: action('write'),
        evaluations: [
          { resource: record('record-1', { status: 'active' }) },
          { resource: record('record-2', { status: 'archived' }) },
        ],
      },
      [true, false],
    ],
    [
      '3.2.4 (rules 5, 6)',
      {
        action: action('write'),
        resource: record('record-2', { status: 'archived' }),
        evaluations: [{ subject: user('alice') }, { subject: user('bob', { role: 'admin' }) }],
      },
      [false, true],
    ],
    [
      '3.2.5 no defaults',
      {
        evaluations: [
          ALICE_READS,
          { ...ALICE_READS, subject: user('bob'), action: action('write') },
        ],
      },
      [true, false],
    ],
    [
      '3.2.6 context inherited',
      {
        subject: user('alice'),
        action: action('read'),
        context: { time: '2025-06-27T18:03-07:00' },
        evaluations: [
          { resource: record('record-1') },
          { resource: record('record-2'), context: { source: 'batch-override' } },
        ],
      },
      [true, false],
    ],
    [
      '3.2.7 type filled in from the default',
      {
        subject: user('alice'),
        action: action('write'),
        resource: { type: 'record' },
        evaluations: [
          { resource: { id: 'record-1', properties: { status: 'active' } } },
          { resource: record('record-2', { status: 'archived' }) },
        ],
      },
      [true, false],
    ],
    [
      '3.4.1 one that is wrong is denied alone',
      {
        subject: user('alice'),
        action: action('read'),
        evaluations: [{ resource: record('record-1') }, {}],
      },
      [true, false],
    ],
  ])('%s', async (_, body, expected) => {
    const answer = await post('evaluations', body)
    expect(answer).toMatchObject(decisions(expected))
    expect(answer.body).not.toHaveProperty('decision')
  })

  it('3.4.1 says what is wrong with it', async () => {
    const answer = await post('evaluations', { ...ALICE_READS, evaluations: [{ action: {} }] })
    expect(answer.body.evaluations).toMatchObject([
      { decision: false, context: { error: { status: 400 } } },
    ])
    expect(answer.text).toContain('action.name')
  })

  it.each<[string, object]>([
    ['3.4.2 no array', ALICE_READS],
    ['3.4.3 an empty array', { ...ALICE_READS, evaluations: [] }],
  ])('%s is one evaluation', async (_, body) => {
    const answer = await post('evaluations', body)
    expect(answer).toMatchObject({ status: 200, body: { decision: true } })
    expect(answer.body).not.toHaveProperty('evaluations')
  })

  const three = [{ subject: user('alice') }, { subject: user('nobody') }, { subject: user('bob') }]
  it.each<[string, readonly boolean[]]>([
    ['execute_all', [true, false, true]],
    ['deny_on_first_deny', [true, false]],
    ['permit_on_first_permit', [true]],
  ])('%s', async (semantic, expected) => {
    const { subject: _, ...defaults } = ALICE_READS
    const body = { ...defaults, evaluations: three, options: { evaluations_semantic: semantic } }
    const answer = await post('evaluations', body)
    expect(answer).toMatchObject(decisions(expected))
    expect(answer.body.evaluations).toHaveLength(expected.length)
  })

  it.each<[string, object]>([
    ['another semantic', { options: { evaluations_semantic: 'guess' }, evaluations: three }],
    ['no list', { evaluations: {} }],
    ['too many', { evaluations: Array.from({ length: 101 }, () => ({})) }],
    ['a default of another type', { subject: 'alice', evaluations: three }],
  ])('%s is 400', async (_, more) => {
    expect((await post('evaluations', { ...ALICE_READS, ...more })).status).toBe(400)
  })
})

const found = async (path: string, body: object) => {
  const answer = await post(`search/${path}`, body)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.results
}
const { subject: ALICE, action: READ, resource: RECORD_1 } = ALICE_READS

describe('4 Search', () => {
  it('4.2 subjects', async () => {
    const body = { subject: { type: 'user' }, action: READ, resource: RECORD_1 }
    const both = [user('alice'), user('bob')]
    expect(await found('subject', body)).toEqual(both)
    expect(await found('subject', { ...body, context: { ip: '::1' } })).toEqual(both)
    const archived = record('record-2', { status: 'archived' })
    expect(
      await found('subject', { ...body, action: action('write'), resource: archived }),
    ).toEqual([user('bob')])
  })

  it('4.3 resources', async () => {
    const body = { subject: ALICE, action: READ, resource: { type: 'record' } }
    expect(await found('resource', body)).toEqual([record('record-1')])
    const admin = { ...body, subject: user('bob', { role: 'admin' }), action: action('write') }
    expect(await found('resource', admin)).toEqual([record('record-2')])
  })

  it('4.4 actions', async () => {
    const body = { subject: ALICE, resource: RECORD_1, context: {} }
    expect(await found('action', body)).toEqual([{ name: 'read' }, { name: 'write' }])
    const bob = {
      subject: user('bob', { role: 'admin' }),
      resource: record('record-2', { status: 'archived' }),
    }
    expect(await found('action', bob)).toEqual([{ name: 'write' }])
  })

  it('4.5 pages', async () => {
    const body = { subject: { type: 'user' }, action: READ, resource: RECORD_1 }
    const first = await post('search/subject', { ...body, page: { limit: 1 } })
    expect(first.body).toMatchObject({ results: [user('alice')], page: { count: 1 } })
    const { next_token: token } = first.body.page as { next_token: string }
    expect(token).not.toBe('')
    const second = await post('search/subject', { ...body, page: { token, limit: 1 } })
    expect(second.body).toMatchObject({ results: [user('bob')], page: { next_token: '' } })
    for (const page of [{ token: '%' }, { limit: 0 }, { limit: 'all' }, { token: 7 }])
      expect((await post('search/subject', { ...body, page })).status).toBe(400)
  })

  it('4.6 nothing found is an empty list', async () => {
    expect(await found('action', { subject: user('nonexistent'), resource: RECORD_1 })).toEqual([])
    const spaceship = { subject: { type: 'spaceship' }, action: READ, resource: RECORD_1 }
    expect(await found('subject', spaceship)).toEqual([])
    const other = { subject: ALICE, action: READ, resource: { type: 'spaceship' } }
    expect(await found('resource', other)).toEqual([])
  })

  it.each<[string, string, object]>([
    ['4.7.1', 'subject', { subject: { type: 'user' }, resource: RECORD_1 }],
    ['4.7.1', 'resource', { action: READ, resource: { type: 'record' } }],
    ['4.7.1', 'action', { subject: ALICE }],
    ['4.7.2', 'subject', { subject: { type: 'user' }, action: READ, resource: { type: 'record' } }],
    [
      '4.7.2',
      'resource',
      { subject: { type: 'user' }, action: READ, resource: { type: 'record' } },
    ],
  ])('%s: %s search without what it needs is 400', async (_, path, body) => {
    expect((await post(`search/${path}`, body)).status).toBe(400)
  })
})

describe('6 Discovery', () => {
  it('metadata of the tenant, at the address of RFC 8615', async () => {
    const answer = await lend.request('/.well-known/authzen-configuration/t/cert')
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    const base = lend.issuer('cert')
    expect(answer.body).toEqual(authzenMetadata({ publicUrl: lend.publicUrl }, 'cert'))
    expect(answer.body.policy_decision_point).toBe(base)
    for (const [name, url] of Object.entries(answer.body))
      if (name !== 'policy_decision_point') {
        const path = String(url).slice(lend.publicUrl.length)
        const asked = await lend.request(path, { method: 'POST' })
        // It is there, and asks who calls.
        expect(asked.status, name).toBe(401)
      }
  })

  it('is https wherever Lend is', () => {
    const of = authzenMetadata({ publicUrl: 'https://lend.example' }, 'cert')
    for (const url of Object.values(of)) expect(url).toMatch(/^https:\/\/lend\.example\/t\/cert/)
  })
})
