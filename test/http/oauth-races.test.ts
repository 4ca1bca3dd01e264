import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  ACCESS_TOKEN,
  type Answer,
  type Body,
  type Credentials,
  type Form,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
  type TokenAnswer,
} from '../support/live-server.ts'
import { expectRefused } from '../support/oauth-client.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'
import { type TestProvider, testProvider } from '../support/provider.ts'

/**
 * What happens at the same time at the token endpoint, with two instances on one Postgres server: the embedded database
 * has one connection and shows none of it.
 */
describe.skipIf(postgresIsLeftOut)(
  `the token endpoint under load, on a Postgres server${postgresIsLeftOut ? ' (left out: LEND_TEST_NO_POSTGRES=1)' : ''}`,
  () => {
    let scratch: Scratch
    let here: LiveServer
    let there: LiveServer
    let provider: TestProvider
    let agent: Credentials

    beforeAll(async () => {
      scratch = await scratchDatabase()
      here = await serveLend({ database: scratch.url })
      there = await serveLend({ database: scratch.url, publicUrl: here.publicUrl })
      provider = await testProvider()
      agent = await here.agent()
      await here.rows(
        `insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients,
           creates_users, private_network, created_at)
         values ('idp_test', $1, $2, $3, '{people-client}', true, true, now())`,
        [await here.tenantId(), provider.issuer, here.issuer()],
      )
    })
    afterEach(async () => {
      await here.endSessions('maya')
      expect([...here.bugs, ...there.bugs]).toEqual([])
    })
    afterAll(async () => {
      await there?.close()
      await here?.close()
      await provider?.close()
      await scratch?.drop()
    })

    /** As many requests at once, on the two instances by turns. */
    const atOnce = <T>(n: number, ask: (lend: LiveServer, i: number) => Promise<T>) =>
      Promise.all(Array.from({ length: n }, (_, i) => ask(i % 2 === 0 ? here : there, i)))
    const start = (lend: LiveServer, form: Form) =>
      lend.token(
        {
          grant_type: TOKEN_EXCHANGE,
          subject_token_type: ACCESS_TOKEN,
          template: 'renewal-briefs',
          ...form,
        },
        agent,
      )
    const refresh = (lend: LiveServer, refresh_token: string) =>
      lend.token({ grant_type: 'refresh_token', refresh_token }, agent)
    const succeeded = (answers: readonly Answer<unknown>[]) =>
      answers.filter((answer) => answer.status === 200).length
    const isActive = async (token: string) =>
      (await here.oauth<Body>('introspect', { token }, await here.enforcementPoint())).body.active

    it('USER-ASKS 17: gives every one of forty re-issues a live token', async () => {
      const started = await here.start('maya')
      await here.lend('maya', started.access_token, [{ permission: 'accounts:read' }])
      const answers = await atOnce(40, (lend) => refresh(lend, started.refresh_token))
      expect(succeeded(answers)).toBe(40)
      for (const { body } of answers) {
        expect(body.authorization_details).toMatchObject([{ permission: 'accounts:read' }])
        expect(await isActive(body.access_token)).toBe(true)
      }
    })

    it('USER-ASKS 20: leaves no live token when a session ends among its re-issues', async () => {
      const started = await here.start('maya')
      const maya = await here.userToken('maya')
      const [answers] = await Promise.all([
        atOnce(20, (lend) => refresh(lend, started.refresh_token)),
        there.api(maya, 'POST', `/sessions/${started.session_id}/end`),
      ])
      for (const answer of answers)
        if (answer.status === 200) expect(await isActive(answer.body.access_token)).toBe(false)
        else expectRefused(answer, { error: 'invalid_grant', reason: 'session_over' })
      expect((await refresh(here, started.refresh_token)).status).toBe(400)
    })

    it('lets one of many claim a session that its user created', async () => {
      const body = { agent_id: agent.client_id, template: 'renewal-briefs', mode: 'auto' }
      const maya = await here.userToken('maya')
      const made = await here.api<{ id: string }>(maya, 'POST', '/sessions', body)
      const subject_token = await here.userToken('maya', 'app')
      const answers = await atOnce(10, (lend) =>
        start(lend, { subject_token, session_id: made.body.id }),
      )
      expect(succeeded(answers)).toBe(1)
      for (const answer of answers.filter((a) => a.status !== 200))
        expectRefused(answer, { error: 'invalid_grant', reason: 'session_claimed' })
    })

    it('lets one of many claim a subagent', async () => {
      const parent = await here.start('maya')
      const mcp = await here.mcp(parent.access_token)
      const { session_id } = await mcp.call<TokenAnswer>('iam.start_subagent', {
        template: 'email-drafter',
      })
      const answers = await atOnce(10, (lend) =>
        start(lend, { subject_token: parent.access_token, session_id }),
      )
      expect(succeeded(answers)).toBe(1)
    })

    it('starts twenty of thirty sessions, which is the limit', async () => {
      const subject_token = await here.userToken('omar', 'app')
      const answers = await atOnce(30, (lend) => start(lend, { subject_token }))
      expect(succeeded(answers)).toBe(20)
      for (const answer of answers.filter((a) => a.status !== 200))
        expectRefused(answer, { status: 429, error: 'invalid_request', reason: 'limit_reached' })
      await here.endSessions('omar')
    })

    it('ends a session once, however many revoke it', async () => {
      const started = await here.start('maya')
      const answers = await atOnce(10, (lend, i) =>
        lend.oauth(
          'revoke',
          { token: i % 3 === 0 ? started.refresh_token : started.access_token },
          agent,
        ),
      )
      expect(succeeded(answers)).toBe(10)
      const ended = await here.rows(
        `select id from activity where session_id = $1 and type = 'session.ended'`,
        [started.session_id],
      )
      expect(ended).toHaveLength(1)
    })

    it('takes an assertion once', async () => {
      const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
      await here.rows(`update agent set jwks = $1::text::jsonb where id = $2`, [
        JSON.stringify({ keys: [await exportJWK(publicKey)] }),
        agent.client_id,
      ])
      const now = Math.floor(Date.now() / 1000)
      const client_assertion = await new SignJWT({ jti: crypto.randomUUID() })
        .setProtectedHeader({ alg: 'ES256' })
        .setIssuer(agent.client_id)
        .setSubject(agent.client_id)
        .setAudience(here.issuer())
        .setIssuedAt(now)
        .setExpirationTime(now + 60)
        .sign(privateKey)
      const started = await here.start('maya')
      const answers = await atOnce(10, (lend) =>
        lend.token(
          {
            grant_type: 'refresh_token',
            refresh_token: started.refresh_token,
            client_assertion,
            client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
          },
          null,
        ),
      )
      expect(succeeded(answers)).toBe(1)
      expect(answers.filter((a) => a.status === 401)).toHaveLength(9)
    })

    const created = () =>
      here.rows<{ id: string }>(
        `select data->>'id' as id from activity
         where type = 'admin.changed' and data->>'what' = 'user.created'`,
      )
    const newcomer = (sub: string, preferred_username: string) =>
      provider.mint({
        sub,
        preferred_username,
        aud: here.issuer(),
        client_id: 'renewal-app',
      })

    it('makes one user, on record once, of a person whose first tokens come together', async () => {
      const subject_token = await newcomer('first', 'first')
      const answers = await atOnce(10, (lend) => start(lend, { subject_token }))
      expect(succeeded(answers)).toBe(10)
      const users = await here.rows<{ id: string }>(
        `select id from app_user where subject = 'first'`,
      )
      expect(users).toHaveLength(1)
      expect(await created()).toEqual(users)
    })

    it('makes two users of two people who come together with one login', async () => {
      const before = (await created()).length
      const answers = await atOnce(8, async (lend, i) =>
        start(lend, { subject_token: await newcomer(`twin-${i}`, 'twin') }),
      )
      expect(answers.map((a) => a.text).filter((text) => text.includes('server_error'))).toEqual([])
      expect(succeeded(answers)).toBe(8)
      expect((await created()).length).toBe(before + 8)
      const logins = await here.rows<{ login: string }>(
        `select login from app_user where subject like 'twin-%'`,
      )
      expect(logins.filter((row) => row.login === 'twin')).toHaveLength(1)
      expect(new Set(logins.map((row) => row.login)).size).toBe(8)
    })
  },
)
