import { createHash } from 'node:crypto'
import { exportJWK, generateKeyPair } from 'jose'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/admin.ts'
import { type Admin, createAdmin, expectProblem, items } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const sha256 = (text: unknown) => createHash('sha256').update(String(text)).digest('hex')
const AGENT = { name: 'Notes', templates: ['board-notes'], app_clients: ['notes-app'] }
const publicKey = async () => exportJWK((await generateKeyPair('ES256')).publicKey)
const hashOf = async (table: string, id: unknown) =>
  (
    await admin.world.rows<{ secret_hash: string | null }>(
      `select secret_hash from ${table} where id = $1`,
      [id],
    )
  )[0]?.secret_hash

/** Everything that is stored, answered later or recorded, as one text. */
const everywhere = async () =>
  [
    await admin.state(),
    JSON.stringify(await admin.world.rows('select * from idempotency_key')),
    JSON.stringify((await admin.get('/admin/agents')).body),
    JSON.stringify((await admin.get('/admin/enforcement-points')).body),
    JSON.stringify((await admin.get('/activity')).body),
  ].join('\n')

describe('agents', () => {
  test('without keys a secret is answered once, kept only as its hash, and never seen again', async () => {
    const made = await admin.post('/admin/agents', AGENT)
    expect(made.status).toBe(201)
    expect(contract.agentMade.safeParse(made.body).error).toBeUndefined()
    const { client_secret, ...rest } = made.body
    expect(client_secret).toEqual(expect.any(String))
    expect(await hashOf('agent', made.body.id)).toBe(sha256(client_secret))
    expect((await admin.get(`/admin/agents/${made.body.id}`)).body).toEqual(rest)
    expect(rest).toMatchObject({
      templates: ['board-notes'],
      app_clients: ['notes-app'],
      has_secret: true,
      status: 'active',
    })
    expect(await everywhere()).not.toContain(client_secret)
  })

  test('a repeat with the same Idempotency-Key is the same agent, without its secret', async () => {
    const headers = { 'Idempotency-Key': 'once' }
    const first = await admin.call('adam', 'POST', '/admin/agents', { body: AGENT, headers })
    const again = await admin.call('adam', 'POST', '/admin/agents', { body: AGENT, headers })
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    const { client_secret, ...rest } = first.body
    expect(again.body).toEqual(rest)
    expect(await everywhere()).not.toContain(client_secret)
  })

  test('with keys there is no secret; a private key is refused', async () => {
    const key = await publicKey()
    const made = await admin.post('/admin/agents', { ...AGENT, jwks: { keys: [key] } })
    expect(made.body).toMatchObject({ has_secret: false, jwks: { keys: [key] } })
    expect(made.body).not.toHaveProperty('client_secret')
    const { privateKey } = await generateKeyPair('ES256', { extractable: true })
    const before = await admin.state()
    const refused = await admin.post('/admin/agents', {
      ...AGENT,
      name: 'Other',
      jwks: { keys: [await exportJWK(privateKey)] },
    })
    expectProblem(refused, 422, 'unprocessable', 'jwks.keys.0.d')
    expect(await admin.state()).toBe(before)
  })

  test('a rotated secret replaces the old one; an agent never goes without a credential', async () => {
    const { body } = await admin.post('/admin/agents', AGENT)
    const path = `/admin/agents/${body.id}`
    const rotated = await admin.patch(path, { rotate_secret: true })
    expect(rotated.body.client_secret).not.toBe(body.client_secret)
    expect(await hashOf('agent', body.id)).toBe(sha256(rotated.body.client_secret))
    expectProblem(await admin.patch(path, { remove_secret: true }), 422, 'unprocessable')
    const keys = { keys: [await publicKey()] }
    const moved = await admin.patch(path, { jwks: keys, remove_secret: true })
    expect(moved.body).toMatchObject({ has_secret: false, jwks: keys })
    expect(await hashOf('agent', body.id)).toBeNull()
    expectProblem(await admin.patch(path, { jwks: null }), 422, 'unprocessable', 'jwks')
    expect(await everywhere()).not.toContain(rotated.body.client_secret)
  })

  test('I11 disabled, its live sessions end in the same commit', async () => {
    const session = await admin.world.start('maya', { mode: 'bypass' })
    await admin.world.ask(session, [{ permission: 'accounts:read' }])
    const changed = await admin.patch('/admin/agents/agt_briefs', { status: 'disabled' })
    expect(changed.body.status).toBe('disabled')
    expect(
      await admin.world.rows('select status, end_reason from session where id = $1', [session]),
    ).toEqual([{ status: 'revoked', end_reason: 'agent_disabled' }])
    expect(await admin.records()).toMatchObject([
      {
        agent_id: 'agt_briefs',
        data: { what: 'agent.disabled', changes: { sessions_ended: 1, grants_ended: 1 } },
      },
    ])
    await expect(admin.world.start('maya')).rejects.toThrow('agent_disabled')
    expect((await admin.patch('/admin/agents/agt_briefs', { status: 'active' })).status).toBe(200)
    await admin.world.start('maya')
  })

  test('I6 no first-party client can be an agent’s app, nor the other way round', async () => {
    const before = await admin.state()
    expectProblem(
      await admin.post('/admin/agents', { ...AGENT, app_clients: ['people'] }),
      422,
      'unprocessable',
      'app_clients.0',
    )
    expectProblem(
      await admin.patch('/admin/agents/agt_briefs', { app_clients: ['agent-app', 'people'] }),
      422,
      'unprocessable',
      'app_clients.1',
    )
    expectProblem(
      await admin.patch('/admin/identity-providers/idp_acme', {
        first_party_clients: ['people', 'agent-app'],
      }),
      422,
      'unprocessable',
      'first_party_clients.1',
    )
    expect(await admin.state()).toBe(before)
  })

  const bad: [string, object, number, string, string][] = [
    ['no templates', { name: 'a', app_clients: [] }, 400, 'request_malformed', 'templates'],
    [
      'a template nobody published',
      { ...AGENT, templates: ['nothing'] },
      422,
      'unprocessable',
      'templates.0',
    ],
    [
      'I17 a template private to another tenant',
      { ...AGENT, templates: ['studio-secret'] },
      422,
      'unprocessable',
      'templates.0',
    ],
    ['a name too long', { ...AGENT, name: 'x'.repeat(121) }, 400, 'request_malformed', 'name'],
    [
      'an app with a NUL',
      { ...AGENT, app_clients: ['a\u0000'] },
      400,
      'request_malformed',
      'app_clients.0',
    ],
    ['keys that are no set', { ...AGENT, jwks: [] }, 400, 'request_malformed', 'jwks'],
    ['an empty key set', { ...AGENT, jwks: { keys: [] } }, 422, 'unprocessable', 'jwks.keys'],
    ['a hash of its own', { ...AGENT, secret_hash: 'x' }, 400, 'request_malformed', 'secret_hash'],
    [
      'a name that is taken',
      { ...AGENT, name: 'Renewal assistant' },
      409,
      'already_exists',
      'name',
    ],
  ]
  test.each(bad)(
    'are not made from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/agents', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('I17 another tenant’s agent is neither read nor changed', async () => {
    const before = await admin.state()
    expectProblem(await admin.get('/admin/agents/agt_globex'), 404, 'not_found')
    expectProblem(
      await admin.patch('/admin/agents/agt_globex', { status: 'disabled' }),
      404,
      'not_found',
    )
    expectProblem(
      await admin.patch('/admin/agents/agt_globex', { rotate_secret: true }),
      404,
      'not_found',
    )
    expect(await admin.state()).toBe(before)
  })
})

describe('enforcement points', () => {
  const POINT = { name: 'Gateway', services: ['accounts'] }

  test('answer their secret once and can be removed', async () => {
    const made = await admin.post('/admin/enforcement-points', POINT)
    expect(made.status).toBe(201)
    const { client_secret, ...rest } = made.body
    expect(rest).toMatchObject({ ...POINT, client_id: made.body.id })
    expect(await hashOf('enforcement_point', made.body.id)).toBe(sha256(client_secret))
    expect(items(await admin.get('/admin/enforcement-points'))).toEqual([rest])
    expect(await everywhere()).not.toContain(client_secret)
    const path = `/admin/enforcement-points/${made.body.id}`
    expectProblem(await admin.remove(path, 'gina'), 404, 'not_found')
    expect((await admin.remove(path)).status).toBe(204)
    expect(items(await admin.get('/admin/enforcement-points'))).toEqual([])
  })

  test('ask about people only when they are made to', async () => {
    const plain = await admin.post('/admin/enforcement-points', POINT)
    const asking = await admin.post('/admin/enforcement-points', {
      ...POINT,
      asks_about_users: true,
    })
    expect([plain, asking].map((made) => made.body.asks_about_users)).toEqual([false, true])
    for (const { body } of [plain, asking])
      await admin.remove(`/admin/enforcement-points/${body.id}`)
  })

  test.each([
    ['no name', { services: [] }, 400, 'request_malformed', 'name'],
    ['an unknown service', { ...POINT, services: ['nope'] }, 422, 'unprocessable', 'services.0'],
    ['a secret of its own', { ...POINT, secret: 'x' }, 400, 'request_malformed', 'secret'],
  ] as [string, object, number, string, string][])(
    'are not made from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/enforcement-points', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )
})
