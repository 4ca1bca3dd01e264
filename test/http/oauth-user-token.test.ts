import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  ACCESS_TOKEN,
  type Credentials,
  DRAFTING,
  type Form,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
} from '../support/live-server.ts'
import { expectRefused, verified, written } from '../support/oauth-client.ts'
import { type TestProvider, testProvider } from '../support/provider.ts'

/** SPEC section 6.1 and USER-ASKS 6: whose token starts a session, presented by which agent's app. */

let lend: LiveServer
let agent: Credentials
let provider: TestProvider

beforeAll(async () => {
  lend = await serveLend()
  agent = await lend.agent()
  provider = await testProvider()
  await register(provider.issuer)
})
afterEach(async () => {
  await lend.endSessions('maya')
  expect(lend.bugs).toEqual([])
})
afterAll(async () => {
  await lend.close()
  await provider.close()
})

/** A second provider of acme, as an admin would set it up, but past the check that it answers. */
async function register(issuer: string, createsUsers = false): Promise<void> {
  await lend.rows(
    `insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients,
       creates_users, private_network, created_at)
     values ($1, $2, $3, $4, '{people-client}', $5, true, now())`,
    [
      `idp_${crypto.randomUUID().replaceAll('-', '')}`,
      await lend.tenantId(),
      issuer,
      lend.issuer(),
      createsUsers,
    ],
  )
}

const start = (subject_token: string, form: Form = {}, credentials = agent, tenant = 'acme') =>
  lend.token(
    {
      grant_type: TOKEN_EXCHANGE,
      subject_token,
      subject_token_type: ACCESS_TOKEN,
      template: 'renewal-briefs',
      ...form,
    },
    credentials,
    tenant,
  )

const UNACCEPTABLE = { error: 'invalid_request', reason: 'subject_token_invalid' }
const ANOTHERS = { error: 'invalid_request', reason: 'subject_token_not_for_this_agent' }
const audience = () => lend.issuer()

/** Refused, and not a row was written: no session, no user, no record. */
async function expectNothing(token: string, refusal: Parameters<typeof expectRefused>[1]) {
  const before = await written(lend)
  expectRefused(await start(token), refusal)
  expect(await written(lend)).toStrictEqual(before)
}

describe('USER-ASKS 6: the app that a user’s token was issued to', () => {
  it('may exchange it: a real sign-in through the app', async () => {
    const answer = await start(await lend.userToken('maya', 'app'))
    expect(answer.status, answer.text).toBe(200)
  })

  it('is not the first-party client: a people token starts nothing', async () => {
    await expectNothing(await lend.userToken('maya', 'people'), ANOTHERS)
  })

  it('must be registered with the agent that presents it', async () => {
    const token = await lend.userToken('maya', 'app')
    expectRefused(
      await start(token, { template: 'email-drafter' }, await lend.agent(DRAFTING)),
      ANOTHERS,
    )
    const theirs = await lend.mintUserToken('maya', { client_id: 'drafting-app' })
    await expectNothing(theirs, ANOTHERS)
    const answer = await start(theirs, { template: 'email-drafter' }, await lend.agent(DRAFTING))
    expect(answer.status, answer.text).toBe(200)
  })

  it('is named by azp or client_id, which may not differ', async () => {
    const named = (claims: object) =>
      lend.mintUserToken('maya', { client_id: undefined, azp: undefined, ...claims })
    expect((await start(await named({ azp: 'renewal-app' }))).status).toBe(200)
    expect(
      (await start(await named({ azp: 'renewal-app', client_id: 'renewal-app' }))).status,
    ).toBe(200)
    await expectNothing(await named({ azp: 'renewal-app', client_id: 'other' }), UNACCEPTABLE)
    await expectNothing(await named({ azp: 'other' }), ANOTHERS)
    await expectNothing(await named({}), ANOTHERS)
    await expectNothing(await named({ azp: agent.client_id }), ANOTHERS)
    await expectNothing(await named({ azp: ['renewal-app'] }), UNACCEPTABLE)
    await expectNothing(await named({ azp: '' }), UNACCEPTABLE)
  })

  it('may be another’s if may_act names one of the agent’s, and only then', async () => {
    const named = (may_act: unknown) =>
      lend.mintUserToken('maya', { client_id: 'some-portal', may_act })
    expect((await start(await named({ sub: 'renewal-app' }))).status).toBe(200)
    await expectNothing(await named({ sub: 'drafting-app' }), ANOTHERS)
    await expectNothing(await named(undefined), ANOTHERS)
    await expectNothing(await named({ client_id: 'renewal-app' }), UNACCEPTABLE)
    await expectNothing(await named('renewal-app'), UNACCEPTABLE)
    await expectNothing(await named({ sub: ['renewal-app'] }), UNACCEPTABLE)
  })
})

describe('a subject token that is none', () => {
  it('USER-ASKS 10, 16: has been exchanged before, or is of a session: act and sid are refused', async () => {
    await expectNothing(await lend.mintUserToken('maya', { act: { sub: 'agt_x' } }), UNACCEPTABLE)
    await expectNothing(await lend.mintUserToken('maya', { sid: 'abc' }), UNACCEPTABLE)
    await expectNothing(await lend.mintUserToken('maya', { act: null }), UNACCEPTABLE)
  })

  it('is an ID token, of either client', async () => {
    await expectNothing(await lend.idToken('maya', 'app'), UNACCEPTABLE)
    await expectNothing(await lend.idToken('maya', 'people'), UNACCEPTABLE)
    await expectNothing(await lend.mintUserToken('maya', { nonce: 'n' }), UNACCEPTABLE)
  })

  it('is expired, not yet valid, or for somebody else', async () => {
    const now = Math.floor(Date.now() / 1000)
    for (const claims of [
      { exp: now - 60 },
      { exp: undefined },
      { nbf: now + 300 },
      { aud: 'https://elsewhere.example' },
      { aud: lend.issuer('globex') },
      { aud: lend.mcpUrl() },
      { aud: undefined },
      { aud: [] },
      { sub: undefined },
      { sub: '' },
      { iss: 'https://elsewhere.example' },
      { iss: undefined },
    ])
      await expectNothing(await lend.mintUserToken('maya', claims), UNACCEPTABLE)
  })

  it('is signed by nobody, by another tenant’s provider, or by a provider under another’s name', async () => {
    const good = await lend.mintUserToken('maya')
    const [header, payload, signature = ''] = good.split('.')
    const none = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')
    const flipped = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
    for (const token of [
      `${none}.${payload}.`,
      `${header}.${payload}.`,
      `${header}.${payload}.${flipped}`,
      `${good}.${signature}`,
      'garbage',
      'x'.repeat(20_000),
    ])
      await expectNothing(token, UNACCEPTABLE)
    const forged = await provider.mint({
      iss: lend.issuer().replace('/t/acme', '/demo/idp/acme'),
      sub: 'acme-maya',
      aud: audience(),
      client_id: 'renewal-app',
    })
    await expectNothing(forged, UNACCEPTABLE)
  })

  it('I17: is a user’s token of another tenant', async () => {
    await expectNothing(await lend.userToken('gus', 'app'), UNACCEPTABLE)
    const globex = await lend.agent(undefined, 'globex')
    expectRefused(
      await start(await lend.userToken('maya', 'app'), {}, globex, 'globex'),
      UNACCEPTABLE,
    )
    const answer = await start(await lend.userToken('gus', 'app'), {}, globex, 'globex')
    expect(answer.status, answer.text).toBe(200)
    await lend.endSessions('gus')
  })

  it('USER-ASKS 16: is Lend’s own, of this tenant or another: no session starts a session', async () => {
    const maya = await lend.start('maya')
    const gus = await lend.start('gus')
    const before = await written(lend)
    expectRefused(await start(gus.access_token), UNACCEPTABLE)
    expectRefused(await start(gus.access_token, { session_id: gus.session_id }), UNACCEPTABLE)
    const globex = await lend.agent(undefined, 'globex')
    expectRefused(await start(maya.access_token, {}, globex, 'globex'), UNACCEPTABLE)
    expectRefused(await start(maya.refresh_token), UNACCEPTABLE)
    expect(await written(lend)).toStrictEqual(before)
    // Its own control token is exchanged for a token of the same session, whatever template is named beside it.
    const same = await start(maya.access_token)
    expect(same.body.session_id).toBe(maya.session_id)
    expect((await written(lend)).sessions).toBe(before.sessions)
    // Even where somebody has registered Lend's own issuer as a provider.
    await register(lend.issuer('globex'))
    expectRefused(await start(gus.access_token), UNACCEPTABLE)
    await lend.endSessions('gus')
  })
})

describe('the user behind a token', () => {
  const mint = (claims: object) =>
    provider.mint({ aud: audience(), client_id: 'renewal-app', ...claims })

  it('is refused when unknown, and not guessed by login, e-mail or another provider’s subject', async () => {
    const before = await written(lend)
    for (const claims of [
      { sub: 'stranger' },
      { sub: 'acme-maya' },
      { sub: 'x', preferred_username: 'maya', email: 'maya@acme.example', email_verified: true },
    ])
      expectRefused(await start(await mint(claims)), {
        error: 'invalid_request',
        reason: 'user_unknown',
      })
    const after = await written(lend)
    expect(after).toMatchObject({ sessions: before.sessions, users: before.users })
  })

  it('is created when that provider creates users, once, with nothing, and under no one’s name', async () => {
    await lend.rows('update identity_provider set creates_users = true where issuer = $1', [
      provider.issuer,
    ])
    const token = await mint({
      sub: 'newcomer',
      preferred_username: 'maya',
      name: 'New Comer',
      email: 'maya@acme.example',
    })
    const before = await written(lend)
    const answers = await Promise.all([1, 2, 3, 4].map(() => start(token)))
    for (const answer of answers) expect(answer.status, answer.text).toBe(200)
    expect((await written(lend)).users).toBe(before.users + 1)
    const created = await lend.rows(
      `select id from activity where type = 'admin.changed' and data->>'what' = 'user.created'`,
    )
    expect(created).toHaveLength(1)
    const claims = await verified(lend, answers[0]?.body.access_token ?? '', lend.mcpUrl())
    expect(claims.on_behalf_of).not.toBe(await lend.userId('maya'))
    const [user] = await lend.rows<{ login: string; staffRoles: string[] }>(
      'select login, staff_roles as "staffRoles" from app_user where id = $1',
      [claims.on_behalf_of],
    )
    expect(user?.login).not.toBe('maya')
    expect(user?.staffRoles).toEqual([])
    // Known to nobody's groups: whatever its session asks for, this person does not have it.
    const asked = await lend.ask(answers[0]?.body.access_token ?? '', [
      { permission: 'accounts:read' },
    ])
    expect(asked.items).toMatchObject([{ outcome: 'refused', reason: 'user_lacks_access' }])
    await lend.rows('update identity_provider set creates_users = false where issuer = $1', [
      provider.issuer,
    ])
  })

  it('is refused when disabled', async () => {
    const maya = await lend.userId('maya')
    const set = (status: string) =>
      lend.rows('update app_user set status = $1 where id = $2', [status, maya])
    await set('disabled')
    const before = await written(lend)
    expectRefused(await start(await lend.userToken('maya', 'app')), {
      error: 'invalid_grant',
      reason: 'user_disabled',
    })
    expect((await written(lend)).sessions).toBe(before.sessions)
    await set('active')
  })

  it('is nobody once the tenant has stopped trusting the provider', async () => {
    const token = await lend.userToken('maya', 'app')
    const set = (status: string) =>
      lend.rows(`update identity_provider set status = $1 where issuer like '%/demo/idp/acme'`, [
        status,
      ])
    await set('disabled')
    await expectNothing(token, UNACCEPTABLE)
    await set('active')
    expect((await start(token)).status).toBe(200)
  })
})

describe('USER-ASKS 20, I19: a provider that does not answer', () => {
  it('is a 503 that says so; nothing is decided and nothing written', async () => {
    const away = await testProvider()
    await register(away.issuer, true)
    const token = await away.mint({ sub: 'x', aud: audience(), client_id: 'renewal-app' })
    await away.close()
    const before = await written(lend)
    const answer = await start(token)
    expectRefused(answer, {
      status: 503,
      error: 'temporarily_unavailable',
      reason: 'provider_unavailable',
    })
    expect(answer.headers.get('retry-after')).toMatch(/^[1-9][0-9]*$/)
    expect(await written(lend)).toStrictEqual(before)
    // Others are not held up by it.
    expect((await start(await lend.userToken('maya', 'app'))).status).toBe(200)
  })

  it('is not asked at all for a token that no signature could save', async () => {
    const before = provider.asked()
    const bad = await provider.mint({ sub: 'x', aud: 'elsewhere', client_id: 'renewal-app' })
    expectRefused(await start(bad), UNACCEPTABLE)
    expect(provider.asked()).toBe(before)
  })
})
