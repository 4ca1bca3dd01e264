import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/admin.ts'
import { webProvider } from '../../src/db/browser-sessions.ts'
import { type Kept, opened } from '../../src/db/sealed.ts'
import { withTx } from '../../src/db/tx.ts'
import type { Json } from '../support/people.ts'
import { type Admin, createAdmin, expectProblem, items } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

describe('resource servers', () => {
  const SERVER = { resource: 'https://accounts.example', name: 'Accounts', services: ['accounts'] }

  test('are registered, changed and removed', async () => {
    const made = await admin.post('/admin/resource-servers', SERVER)
    expect(made.body).toMatchObject({ ...SERVER, subject: 'session' })
    expect(contract.resourceServer.safeParse(made.body).error).toBeUndefined()
    const path = `/admin/resource-servers/${made.body.id}`
    const changed = await admin.patch(path, { subject: 'user', services: ['accounts', 'mail'] })
    expect(changed.body).toMatchObject({ subject: 'user', services: ['accounts', 'mail'] })
    expect(items(await admin.get('/admin/resource-servers'))).toEqual([changed.body])
    expect((await admin.remove(path)).status).toBe(204)
    expectProblem(await admin.remove(path), 404, 'not_found')
    expect((await admin.records()).map((r) => (r.data as Json).what)).toEqual([
      'resource_server.created',
      'resource_server.changed',
      'resource_server.removed',
    ])
  })

  const ours = [
    'http://localhost:4000/t/acme/mcp',
    'http://localhost:4000/t/globex/mcp',
    'https://localhost:4000/t/acme',
    'http://localhost:4000/t',
    'http://localhost:4000/t/acme/tools/mail/mcp',
  ]
  const bad: [string, object, number, string, string][] = [
    ...ours.map((resource): [string, object, number, string, string] => [
      `Lend’s own address ${resource}`,
      { ...SERVER, resource },
      422,
      'unprocessable',
      'resource',
    ]),
    [
      'its own address in other spelling',
      { ...SERVER, resource: 'http://LOCALHOST:4000/x/../t/acme/mcp' },
      422,
      'unprocessable',
      'resource',
    ],
    [
      'a fragment',
      { ...SERVER, resource: 'https://a.example/#x' },
      422,
      'unprocessable',
      'resource',
    ],
    [
      'an empty fragment',
      { ...SERVER, resource: 'https://a.example/#' },
      422,
      'unprocessable',
      'resource',
    ],
    ['a relative address', { ...SERVER, resource: '/accounts' }, 422, 'unprocessable', 'resource'],
    [
      'credentials in the address',
      { ...SERVER, resource: 'https://u:p@a.example/' },
      422,
      'unprocessable',
      'resource',
    ],
    [
      'an unknown service',
      { ...SERVER, services: ['accounts', 'nope'] },
      422,
      'unprocessable',
      'services.1',
    ],
    ['an unknown subject', { ...SERVER, subject: 'agent' }, 400, 'request_malformed', 'subject'],
    [
      'no services',
      { resource: 'https://a.example', name: 'A' },
      400,
      'request_malformed',
      'services',
    ],
  ]
  test.each(bad)(
    'are not registered from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/resource-servers', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('a resource is registered once in a tenant; I17 another tenant’s is out of reach', async () => {
    const theirs = await admin.post('/admin/resource-servers', SERVER, 'gina')
    const made = await admin.post('/admin/resource-servers', SERVER)
    expect([theirs.status, made.status]).toEqual([201, 201])
    const before = await admin.state()
    expectProblem(
      await admin.post('/admin/resource-servers', SERVER),
      409,
      'already_exists',
      'resource',
    )
    const path = `/admin/resource-servers/${theirs.body.id}`
    expectProblem(await admin.patch(path, { name: 'x' }), 404, 'not_found')
    expectProblem(await admin.remove(path), 404, 'not_found')
    expect(await admin.state()).toBe(before)
  })
})

describe('identity providers', () => {
  const NEW = { issuer: 'https://login.example', audience: 'lend', first_party_clients: ['web'] }

  test('are trusted, changed, and never renamed', async () => {
    const made = await admin.post('/admin/identity-providers', NEW)
    expect(made.body).toMatchObject({
      ...NEW,
      creates_users: false,
      private_network: false,
      status: 'active',
    })
    expect(contract.identityProvider.safeParse(made.body).error).toBeUndefined()
    const path = `/admin/identity-providers/${made.body.id}`
    const changed = await admin.patch(path, { status: 'disabled', creates_users: true })
    expect(changed.body).toMatchObject({ status: 'disabled', creates_users: true })
    expectProblem(
      await admin.patch(path, { issuer: 'https://other.example' }),
      400,
      'request_malformed',
      'issuer',
    )
    expect(items(await admin.get('/admin/identity-providers'))).toHaveLength(2)
  })

  const WEB = { web_client_id: 'web', web_client_secret: 'k3pt-between~us' }
  const openedFor = (id: string, kept: Kept) => {
    const row = { kind: 'identity_provider', tenantId: 'ten_acme', id } as const
    return opened(admin.world.ctx.vault, row, kept)
  }
  /** As it is presented to the provider. It never lies in clear. */
  const secretOf = async (id: string) => {
    const [kept] = await admin.world.rows<Kept>(
      `select sealed_web_client_secret as sealed, web_client_secret as clear from identity_provider where id = $1`,
      [id],
    )
    expect(kept?.clear).toBeNull()
    return kept === undefined ? undefined : openedFor(id, kept)
  }

  test('Lend’s own client there is set, changed and taken away; its secret is never answered or recorded', async () => {
    const made = await admin.post('/admin/identity-providers', { ...NEW, ...WEB })
    expect(made.body).toMatchObject({ web_client_id: 'web', has_web_client_secret: true })
    expect(contract.identityProvider.safeParse(made.body).error).toBeUndefined()
    const id = String(made.body.id)
    const path = `/admin/identity-providers/${id}`
    const said = [made]
    const patch = async (body: object) => {
      said.push(await admin.patch(path, body))
      return said.at(-1)?.body
    }
    // What is not named stays.
    await patch({ creates_users: true })
    expect(await secretOf(id)).toBe(WEB.web_client_secret)
    await patch({ web_client_secret: 'another secret' })
    expect(await secretOf(id)).toBe('another secret')
    await patch({ first_party_clients: ['web', 'cli'] })
    const moved = await patch({ web_client_id: 'cli', web_client_secret: 'of cli' })
    expect(moved).toMatchObject({ web_client_id: 'cli', has_web_client_secret: true })
    const gone = await patch({ web_client_id: null })
    expect(gone).toMatchObject({ has_web_client_secret: false })
    expect(gone).not.toHaveProperty('web_client_id')
    expect(await secretOf(id)).toBeNull()

    said.push(await admin.get('/admin/identity-providers'))
    const told = JSON.stringify([said.map((one) => one.body), await admin.records()])
    for (const secret of [WEB.web_client_secret, 'another secret', 'of cli'])
      expect(told).not.toContain(secret)
    const [record] = await admin.records()
    expect(record?.data).toMatchObject({
      changes: { web_client_id: 'web', has_web_client_secret: true },
    })
  })

  test('a repeat of the same write is answered without it too, and stores no secret', async () => {
    const call = { body: { ...NEW, ...WEB }, headers: { 'Idempotency-Key': 'once' } }
    const first = await admin.call('adam', 'POST', '/admin/identity-providers', call)
    const again = await admin.call('adam', 'POST', '/admin/identity-providers', call)
    expect(again.body).toEqual(first.body)
    const stored = await admin.world.rows('select * from idempotency_key')
    expect(JSON.stringify(stored)).not.toContain(WEB.web_client_secret)
  })

  test.each<[string, object, number, string]>([
    ['another client without its secret', { web_client_id: 'cli' }, 422, 'web_client_secret'],
    [
      'a client that is not first-party',
      { web_client_id: 'elsewhere', web_client_secret: 's' },
      422,
      'web_client_id',
    ],
    [
      'no client, with a secret',
      { web_client_id: null, web_client_secret: 's' },
      422,
      'web_client_secret',
    ],
    ['first-party clients without it', { first_party_clients: ['cli'] }, 422, 'web_client_id'],
    ['an empty secret', { web_client_secret: '' }, 400, 'web_client_secret'],
    ['a secret too long', { web_client_secret: 'x'.repeat(513) }, 400, 'web_client_secret'],
    ['a secret that is no text', { web_client_secret: 7 }, 400, 'web_client_secret'],
    ['a null secret', { web_client_secret: null }, 400, 'web_client_secret'],
    ['a secret with a line break', { web_client_secret: 'a\nb' }, 400, 'web_client_secret'],
    [
      'a secret with what cannot be seen',
      { web_client_secret: 'a\u200bb' },
      400,
      'web_client_secret',
    ],
    ['a client of bidirectional text', { web_client_id: 'w\u202eb' }, 400, 'web_client_id'],
    ['a client too long', { web_client_id: 'x'.repeat(256) }, 400, 'web_client_id'],
  ])('its client is not changed to %s', async (_, body, status, path) => {
    const made = await admin.post('/admin/identity-providers', {
      ...NEW,
      first_party_clients: ['web', 'cli'],
      ...WEB,
    })
    const before = await admin.state()
    const answer = await admin.patch(`/admin/identity-providers/${made.body.id}`, body)
    expectProblem(answer, status, status === 400 ? 'request_malformed' : 'unprocessable', path)
    expect(await admin.state()).toBe(before)
  })

  test.each<[string, object, string]>([
    ['a client without a secret', { web_client_id: 'web' }, 'web_client_secret'],
    ['a secret without a client', { web_client_secret: 's' }, 'web_client_secret'],
    ['an agent’s app', { web_client_id: 'agent-app', web_client_secret: 's' }, 'web_client_id'],
  ])('is not trusted with %s', async (_, body, path) => {
    const before = await admin.state()
    const answer = await admin.post('/admin/identity-providers', { ...NEW, ...body })
    expectProblem(answer, 422, 'unprocessable', path)
    expect(await admin.state()).toBe(before)
  })

  test('with the client people can sign in to the page: the provider is found by it', async () => {
    const acme = admin.world.tenant('acme').id
    const find = () => withTx(admin.world.ctx.db, 'test', (tx) => webProvider(tx, acme))
    expect(await find()).toBeNull()
    await admin.patch('/admin/identity-providers/idp_acme', {
      web_client_id: 'people',
      web_client_secret: 's3cret',
    })
    const found = await find()
    expect(found).toMatchObject({ id: 'idp_acme', clientId: 'people' })
    expect(found && openedFor('idp_acme', found.clientSecret)).toBe('s3cret')
  })

  test('plain http needs the private network, and cannot lose it', async () => {
    const inside = { ...NEW, issuer: 'http://idp.internal', private_network: true }
    const made = await admin.post('/admin/identity-providers', inside)
    expect(made.status).toBe(201)
    expectProblem(
      await admin.patch(`/admin/identity-providers/${made.body.id}`, { private_network: false }),
      422,
      'unprocessable',
      'private_network',
    )
  })

  test.each([
    ['plain http', { ...NEW, issuer: 'http://login.example' }, 422, 'unprocessable', 'issuer'],
    [
      'Lend’s own issuer',
      { ...NEW, issuer: 'http://localhost:4000/t/acme', private_network: true },
      422,
      'unprocessable',
      'issuer',
    ],
    [
      'another tenant’s issuer of Lend',
      { ...NEW, issuer: 'https://localhost:4000/t/globex' },
      422,
      'unprocessable',
      'issuer',
    ],
    [
      'an issuer with a query',
      { ...NEW, issuer: 'https://login.example/?a=b' },
      422,
      'unprocessable',
      'issuer',
    ],
    [
      'an issuer trusted already',
      { ...NEW, issuer: 'https://idp.acme.example' },
      409,
      'already_exists',
      'issuer',
    ],
    ['an audience that is a client', { ...NEW, audience: 'web' }, 422, 'unprocessable', 'audience'],
    [
      'an audience that is an agent’s app',
      { ...NEW, audience: 'agent-app' },
      422,
      'unprocessable',
      'audience',
    ],
    [
      'a flag of the wrong type',
      { ...NEW, creates_users: 'yes' },
      400,
      'request_malformed',
      'creates_users',
    ],
    [
      'no clients',
      { issuer: NEW.issuer, audience: 'x' },
      400,
      'request_malformed',
      'first_party_clients',
    ],
  ] as [string, object, number, string, string][])(
    'are not trusted from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/identity-providers', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('I17 another tenant’s is not there', async () => {
    const before = await admin.state()
    expectProblem(
      await admin.patch('/admin/identity-providers/idp_globex', { status: 'disabled' }),
      404,
      'not_found',
    )
    expect(await admin.state()).toBe(before)
  })
})
