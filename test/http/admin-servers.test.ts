import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/admin.ts'
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
