import { generateKeyPairSync } from 'node:crypto'
import { SignJWT } from 'jose'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createPeople, type People } from '../support/people.ts'

/** A service’s client with keys: it signs an assertion for each publish (RFC 7523), and no secret is kept of it. */
let people: People
let client = ''
beforeEach(async () => {
  people = await createPeople({
    verifyUser: async () => ({
      ok: true,
      value: { ...people.world.asUser('bo'), staffRoles: ['org_admin'] },
    }),
  })
  const body = { id: 'tickets', title: 'Tickets', jwks: { keys: [publicJwk('one', pair)] } }
  const made = await people.call('bo', 'POST', '/admin/services', { body })
  expect([made.status, made.body.has_secret, made.body.client_secret]).toEqual([
    201,
    false,
    undefined,
  ])
  client = String(made.body.client_id)
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const ec = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })
const [pair, other] = [ec(), ec()]
const publicJwk = (kid: string, of: ReturnType<typeof ec>) => ({
  ...of.publicKey.export({ format: 'jwk' }),
  kid,
})

const ISSUER = 'http://localhost:4000/t/studio'
let count = 0
function assertion(claims: { readonly [claim: string]: unknown } = {}, of = pair) {
  const now = Math.floor(people.world.clock.now() / 1000)
  const all = {
    ...{ iss: client, sub: client, aud: ISSUER, iat: now, exp: now + 60, jti: `j${++count}` },
    ...claims,
  }
  return new SignJWT(JSON.parse(JSON.stringify(all)))
    .setProtectedHeader({ alg: 'ES256' })
    .sign(of.privateKey)
}
const FILE = {
  permissions: [
    {
      ...{ id: 'tickets:read', kind: 'api', title: 'Tickets', access: 'read', risk: 'low' },
      description: 'Reads tickets.',
    },
  ],
}
const publish = (bearer: string, service = 'tickets') =>
  people.call(null, 'PUT', `/catalog/services/${service}`, {
    ...{ tenant: 'studio', body: FILE },
    headers: { Authorization: `Bearer ${bearer}` },
  })

test('publishes, each time with an assertion of its own', async () => {
  const first = await assertion()
  expect((await publish(first)).status).toBe(201)
  expect((await publish(first)).status).toBe(401)
  expect((await publish(await assertion())).status).toBe(200)
  const [record] = await people.world.rows<{ data: { by: string } }>(
    `select data from activity where type = 'catalog.published'`,
  )
  expect(record?.data.by).toBe(client)
})

test('refuses what another key signed, or was meant for elsewhere, or is late', async () => {
  const now = Math.floor(people.world.clock.now() / 1000)
  const wrong: [string, string][] = [
    ['another key', await assertion({}, other)],
    ['another tenant’s issuer', await assertion({ aud: 'http://localhost:4000/t/acme' })],
    ['another client', await assertion({ sub: 'scl_accounts', iss: 'scl_accounts' })],
    ['over', await assertion({ iat: now - 600, exp: now - 300 })],
    ['good for an hour', await assertion({ exp: now + 3600 })],
    ['without a jti', await assertion({ jti: undefined })],
    ['unsigned', `${(await assertion()).split('.').slice(0, 2).join('.')}.AA`],
  ]
  for (const [what, bearer] of wrong)
    expect([what, (await publish(bearer)).status]).toEqual([what, 401])
  expect((await publish(await assertion(), 'accounts')).status).toBe(403)
  expect(await people.world.rows(`select 1 from permission where service_id = 'tickets'`)).toEqual(
    [],
  )
})

test('keys that are replaced, and a client that is disabled, publish no more', async () => {
  const keys = (kid: string, of: ReturnType<typeof ec>) => ({
    body: { jwks: { keys: [publicJwk(kid, of)] } },
  })
  await people.call('bo', 'PATCH', '/admin/services/tickets', keys('two', other))
  expect((await publish(await assertion())).status).toBe(401)
  expect((await publish(await assertion({}, other))).status).toBe(201)
  await people.call('bo', 'PATCH', '/admin/services/tickets', { body: { status: 'disabled' } })
  expect((await publish(await assertion({}, other))).status).toBe(401)
  const none = await people.call('bo', 'PATCH', '/admin/services/tickets', { body: { jwks: null } })
  expect(none.status).toBe(422)
})
