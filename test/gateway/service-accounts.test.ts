import { generateKeyPairSync } from 'node:crypto'
import { exportJWK, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as contract from '../../schema/service-accounts.ts'
import { createEnforcer } from '../../src/enforce/index.ts'
import {
  ACCESS_TOKEN,
  type Body,
  basic,
  type Credentials,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
} from '../support/live-server.ts'
import { ask, lentSession, linesOf, reasonOf } from './support/proxy.ts'

/** A tenant's backend programs: made by an admin's calls alone, seen through the public doors. */
let lend: LiveServer
let admins: string

beforeAll(async () => {
  lend = await serveLend()
  admins = await lend.userToken('adam')
})
afterAll(async () => {
  expect(lend.bugs).toEqual([])
  await lend.close()
})

const admin = (method: string, path: string, body?: unknown) =>
  lend.request<Body>(`/t/acme/api/admin/service-accounts${path}`, {
    method,
    headers: {
      authorization: `Bearer ${admins}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

type Account = Credentials & { readonly permissionIds: readonly string[] }
let named = 0
async function made(permissions: readonly string[] = ['accounts:read']): Promise<Account> {
  named += 1
  const answer = await admin('POST', '', { name: `Nightly ${named}` })
  expect(answer.status, answer.text).toBe(201)
  expect(contract.serviceAccountMade.safeParse(answer.body).error).toBeUndefined()
  const id = String(answer.body.id)
  const permissionIds: string[] = []
  for (const permission of permissions) {
    const given = await admin('POST', `/${id}/permissions`, { permission })
    expect(given.status, given.text).toBe(201)
    expect(contract.servicePermission.safeParse(given.body).error).toBeUndefined()
    permissionIds.push(String(given.body.id))
  }
  return { client_id: id, client_secret: String(answer.body.client_secret), permissionIds }
}

const request = (account: Credentials, form: Record<string, string> = {}) =>
  lend.token(
    { grant_type: 'client_credentials', resource: lend.resource('accounts'), ...form },
    account,
  )
async function tokenOf(account: Credentials, form: Record<string, string> = {}): Promise<string> {
  const answer = await request(account, form)
  expect(answer.status, answer.text).toBe(200)
  return answer.body.access_token
}
const reason = async (token: string, target = '/demo/accounts/accounts') =>
  reasonOf(await ask(lend, { token, target }))
const becomes = (token: string, expected: string) =>
  expect.poll(() => reason(token), { timeout: 2000, interval: 50 }).toBe(expected)
const patched = (account: Account, body: object) => admin('PATCH', `/${account.client_id}`, body)
const claimsIn = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

describe('a service account', () => {
  test('passes its gateway as itself, and the line and the record say so', async () => {
    const account = await made()
    const answer = await request(account)
    expect(answer.body).toMatchObject({ token_type: 'Bearer', scope: 'accounts:read' })
    expect(answer.body.refresh_token).toBeUndefined()
    const token = answer.body.access_token
    await becomes(token, 'allowed')
    const target = `/demo/accounts/accounts/${account.client_id}`
    const passed = await ask(lend, { token, target })
    expect(passed.headers).toMatchObject({
      'x-identity-type': 'service',
      'x-identity-id': account.client_id,
      'x-session-id': '',
      'x-agent-id': '',
      'x-on-behalf-of': '',
    })
    const [line] = await linesOf(lend, passed.headers['x-request-id'])
    expect(line).toMatchObject({
      ...{ identity_type: 'service', identity_id: account.client_id, permission: 'accounts:read' },
      ...{ session_id: null, agent_id: null, user_id: null, grant_id: null, decision: 'allow' },
    })
    await expect
      .poll(
        async () => {
          await lend.gateway.flush()
          return lend.rows(
            `select data ->> 'target' as target, session_id from activity
             where type = 'call.allowed' and data ->> 'service_account' = $1
               and data ->> 'target' like '%svc%'`,
            [account.client_id],
          )
        },
        { timeout: 5000 },
      )
      .toEqual([{ target: `GET ${target}`, session_id: null }])
    const issued = await lend.rows(
      `select data ->> 'how' as how, data -> 'permissions' as permissions from activity
       where type = 'token.issued' and data ->> 'service_account' = $1`,
      [account.client_id],
    )
    expect(issued).toEqual([{ how: 'client_credentials', permissions: ['accounts:read'] }])
  })

  test('has a token that is no session’s', async () => {
    const claims = claimsIn(await tokenOf(await made()))
    const sessions = ['sid', 'root_sid', 'session_version', 'act', 'on_behalf_of', 'template']
    expect(Object.keys(claims).filter((name) => sessions.includes(name))).toEqual([])
    expect(claims).toMatchObject({ service_version: 1, aud: lend.resource('accounts') })
    expect(claims.sub).toBe(claims.client_id)
    expect(Number(claims.exp) - Number(claims.iat)).toBeLessThanOrEqual(900)
  })

  test('holds nothing until it is given something, and only what its audience enforces', async () => {
    const bare = await made([])
    const token = await tokenOf(bare)
    expect(claimsIn(token)).toMatchObject({ authorization_details: [] })
    await becomes(token, 'PERMISSION_MISSING')
    const elsewhere = await made(['email-templates:write'])
    expect(claimsIn(await tokenOf(elsewhere)).authorization_details).toEqual([])
  })

  test('names one registered resource server, and none of Lend’s own addresses', async () => {
    const account = await made()
    const bad = async (form: Record<string, string>) => (await request(account, form)).body
    expect(await bad({ resource: '' })).toMatchObject({ error: 'invalid_request' })
    for (const resource of [
      `${lend.publicUrl}/t/acme/mcp`,
      `${lend.publicUrl}/t/acme/tools/mail/mcp`,
      'https://unknown.example',
    ])
      expect(await bad({ resource })).toMatchObject({ error: 'invalid_target' })
    expect(await bad({ scope: 'accounts:write' })).toMatchObject({ error: 'invalid_scope' })
  })

  test('authenticates with a key of its own, once an assertion', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] }
    const answer = await admin('POST', '', { name: 'Keyed', jwks })
    expect(answer.body.client_secret).toBeUndefined()
    const id = String(answer.body.id)
    const assertion = await new SignJWT()
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .setIssuer(id)
      .setSubject(id)
      .setAudience(`${lend.publicUrl}/t/acme`)
      .setJti('once')
      .setIssuedAt(Math.floor(lend.clock.now() / 1000))
      .setExpirationTime(Math.floor(lend.clock.now() / 1000) + 60)
      .sign(privateKey)
    const send = () =>
      lend.request<Body>('/t/acme/oauth/token', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({
          grant_type: 'client_credentials',
          resource: lend.resource('accounts'),
          client_assertion: assertion,
          client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        }).toString(),
      })
    expect((await send()).status).toBe(200)
    expect((await send()).status).toBe(401)
  })
})

describe('what an admin takes back', () => {
  test('is refused at the gateway within two seconds: a permission', async () => {
    const account = await made(['accounts:read', 'accounts:write'])
    const token = await tokenOf(account)
    await becomes(token, 'allowed')
    const at = `/${account.client_id}/permissions/${account.permissionIds[0]}`
    expect((await admin('DELETE', at)).status).toBe(204)
    await becomes(token, 'SERVICE_VERSION_STALE')
    expect((await admin('DELETE', at)).status).toBe(404)
    await becomes(await tokenOf(account), 'PERMISSION_MISSING')
  })

  test('is refused at the gateway of this instance at once: the account', async () => {
    const account = await made()
    const token = await tokenOf(account)
    await becomes(token, 'allowed')
    await patched(account, { status: 'disabled' })
    // Where it was made, it counts once it has answered.
    expect(await reason(token)).toMatch(/^SERVICE_(DISABLED|VERSION_STALE)$/)
    expect((await request(account)).body).toMatchObject({ error: 'unauthorized_client' })
    const refused = await lend.rows(
      `select data ->> 'reason' as reason from activity
       where type = 'token.refused' and data ->> 'service_account' = $1`,
      [account.client_id],
    )
    expect(refused).toEqual([{ reason: 'service_account_disabled' }])
    // Turned on again, its old tokens stay dead.
    await patched(account, { status: 'active' })
    await becomes(await tokenOf(account), 'allowed')
    expect(await reason(token)).toBe('SERVICE_VERSION_STALE')
  })

  test('is refused at the gateway within two seconds: the secret', async () => {
    const account = await made()
    const token = await tokenOf(account)
    await becomes(token, 'allowed')
    const rotated = await patched(account, { rotate_secret: { overlap_seconds: 60 } })
    await becomes(token, 'SERVICE_VERSION_STALE')
    const renewed = { ...account, client_secret: String(rotated.body.client_secret) }
    await becomes(await tokenOf(renewed), 'allowed')
    expect((await request(account)).status).toBe(200)
    lend.clock.advance(61)
    expect((await request(account)).status).toBe(401)
    await patched(account, { rotate_secret: { overlap_seconds: 0 } })
    expect((await request(renewed)).status).toBe(401)
  })

  test('a permission that becomes never delegable is no program’s any more', async () => {
    const account = await made(['accounts:read'])
    const token = await tokenOf(account)
    await becomes(token, 'allowed')
    const set = (delegable: boolean) =>
      lend.rows(`update permission set delegable = $1 where id = 'accounts:read' returning id`, [
        String(delegable),
      ])
    await set(false)
    await becomes(token, 'SERVICE_VERSION_STALE')
    expect(claimsIn(await tokenOf(account)).authorization_details).toEqual([])
    await set(true)
  })

  test('an account that is gone is unknown, and a frozen tenant issues and allows nothing', async () => {
    const account = await made()
    const token = await tokenOf(account)
    await becomes(token, 'allowed')
    const freezes = (method: string, path = '', body?: object) =>
      lend.request<Body>(`/t/acme/api/freezes${path}`, {
        method,
        headers: { authorization: `Bearer ${admins}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    const frozen = await freezes('POST', '', { scope: 'tenant', id: 'acme' })
    expect(frozen.status, frozen.text).toBe(201)
    await becomes(token, 'SERVICE_FROZEN')
    expect((await request(account)).body).toMatchObject({ error_reason: 'frozen' })
    await freezes('DELETE', `/${frozen.body.id}`)
    await becomes(token, 'allowed')
    await lend.rows('delete from service_account where id = $1', [account.client_id])
    await becomes(token, 'SERVICE_UNKNOWN')
  })
})

describe('the doors of others', () => {
  test('give no token to an agent, a person’s app or an enforcement point by client credentials', async () => {
    for (const client of [await lend.agent(), await lend.enforcementPoint()]) {
      const answer = await request(client)
      expect([answer.status, answer.body]).toMatchObject([400, { error: 'unauthorized_client' }])
    }
  })

  test('are shut to a service account’s client', async () => {
    const account = await made()
    const session = await lentSession(lend)
    const forms = [
      { grant_type: 'refresh_token', refresh_token: session.started.refresh_token },
      {
        grant_type: TOKEN_EXCHANGE,
        subject_token: session.control,
        subject_token_type: ACCESS_TOKEN,
      },
      {
        grant_type: TOKEN_EXCHANGE,
        subject_token: await lend.userToken('maya', 'app'),
        subject_token_type: ACCESS_TOKEN,
        template: 'renewal-briefs',
      },
    ]
    for (const form of forms) expect((await lend.token(form, account)).status).toBe(400)
    for (const path of ['introspect', 'revoke'] as const) {
      const answer = await lend.oauth<Body>(path, { token: session.control }, account)
      expect([400, 403]).toContain(answer.status)
    }
    const calls = await lend.request<Body>('/t/acme/enforce/calls', {
      method: 'POST',
      headers: { authorization: basic(account), 'content-type': 'application/json' },
      body: JSON.stringify({ calls: [] }),
    })
    expect(calls.status).toBe(403)
  })

  test('are shut to its token: MCP, the tools, the People API, exchange, offline checks', async () => {
    const token = await tokenOf(await made())
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
    for (const path of ['mcp', 'tools/mail/mcp'])
      expect(
        (await lend.request<Body>(`/t/acme/${path}`, { method: 'POST', headers, body })).status,
      ).toBe(401)
    for (const path of ['me', 'sessions', 'admin/service-accounts'])
      expect((await lend.request<Body>(`/t/acme/api/${path}`, { headers })).status).toBe(401)
    const exchanged = await lend.token(
      { grant_type: TOKEN_EXCHANGE, subject_token: token, subject_token_type: ACCESS_TOKEN },
      await lend.agent(),
    )
    expect(exchanged.status).toBe(400)
    const enforcer = createEnforcer({
      issuer: `${lend.publicUrl}/t/acme`,
      audience: lend.resource('accounts'),
      now: lend.clock.now,
    })
    expect(await enforcer.check(token, { permission: 'accounts:read' })).toMatchObject({
      allowed: false,
      reason: 'token_invalid',
    })
  })

  test('lend/enforce takes them where its owner says so, live, for what they hold and nothing else', async () => {
    const point = await lend.enforcementPoint()
    const options = {
      issuer: lend.issuer(),
      audience: lend.resource('accounts'),
      introspect: { clientId: point.client_id, clientSecret: point.client_secret },
    }
    const account = await made()
    const token = await tokenOf(account)
    const wanted = { permission: 'accounts:read' }
    const takes = createEnforcer({ ...options, serviceAccounts: true, follow: {} })
    try {
      expect(await takes.check(token, wanted)).toMatchObject({
        ...{ allowed: true, status: 200, service: account.client_id },
        ...{ session: null, agent: null, user: null, grant: null },
      })
      // Another permission, an object that an API permission does not take, and a live check of one.
      const others = [{ permission: 'accounts.rows:my_region' }, { ...wanted, resource: 'thing/1' }]
      for (const other of others)
        expect(await takes.check(token, other)).toMatchObject({ allowed: false, status: 403 })
      expect((await takes.asset(token, { ...wanted, resource: 'thing/1' })).status).toBe(401)
      expect((await takes.data(token, { entity: 'account', action: 'read' })).status).toBe(401)
      // For another audience, forged, and by a service that did not say that it takes them.
      const elsewhere = createEnforcer({
        ...options,
        serviceAccounts: true,
        audience: lend.resource('mail'),
      })
      expect((await elsewhere.check(token, wanted)).reason).toBe('token_invalid')
      const forged = `${token.slice(0, -20)}${token.at(-20) === 'A' ? 'B' : 'A'}${token.slice(-19)}`
      expect((await takes.check(forged, wanted)).reason).toBe('token_invalid')
      expect((await createEnforcer(options).check(token, wanted)).reason).toBe('token_invalid')
      await patched(account, { status: 'disabled' })
      expect(await takes.check(token, wanted)).toMatchObject({
        reason: 'session_over',
        status: 401,
      })
    } finally {
      await takes.close()
    }
    const { introspect: _, ...without } = options
    expect(() => createEnforcer({ ...without, serviceAccounts: true })).toThrow('credentials')
  })

  test('introspection knows it, live, and only for a service of the one who asks', async () => {
    const account = await made(['accounts:read'])
    const token = await tokenOf(account)
    const point = await lend.enforcementPoint()
    const seen = await lend.oauth<Body>('introspect', { token }, point)
    expect(seen.body).toMatchObject({
      ...{ active: true, sub: account.client_id, scope: 'accounts:read', token_type: 'Bearer' },
    })
    await admin('DELETE', `/${account.client_id}/permissions/${account.permissionIds[0]}`)
    const after = await lend.oauth<Body>('introspect', { token }, point)
    expect(after.body).toEqual({ active: false })
  })

  test('an audience that is not the endpoint’s is refused', async () => {
    const token = await tokenOf(await made(), { resource: lend.resource('contracts') })
    await becomes(token, 'AUDIENCE_MISMATCH')
  })
})

describe('a permission for a program', () => {
  test.each([
    ['billing:admin', 422],
    ['accounts.rows:my_region', 422],
    ['dashboard:view', 422],
    ['nothing:here', 422],
  ])('%s is refused, naming the field', async (permission, status) => {
    const account = await made([])
    const answer = await admin('POST', `/${account.client_id}/permissions`, { permission })
    expect(answer.status, answer.text).toBe(status)
    expect(answer.body.errors).toMatchObject([{ path: 'permission' }])
  })

  test('is given once, and never leaves an account without a credential', async () => {
    const account = await made()
    const again = { permission: 'accounts:read' }
    expect((await admin('POST', `/${account.client_id}/permissions`, again)).status).toBe(409)
    const removed = await patched(account, { remove_secret: true })
    expect(removed.status).toBe(422)
    expect(removed.body.errors).toMatchObject([{ path: 'remove_secret' }])
  })
})
