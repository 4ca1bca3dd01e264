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
import {
  expectRefused,
  type Outsider,
  outsider,
  verified,
  written,
} from '../support/oauth-client.ts'

/** SPEC section 6.1: how a session starts, over HTTP, as an outside client sees it. */

let lend: LiveServer
let agent: Credentials
let client: Outsider
let subject: string

beforeAll(async () => {
  lend = await serveLend()
  agent = await lend.agent()
  client = await outsider(lend, agent.client_id, { secret: agent.client_secret })
  subject = await lend.userToken('maya', 'app')
})
afterEach(async () => {
  await lend.endSessions('maya')
  await lend.endSessions('omar')
  expect(lend.bugs).toEqual([])
})
afterAll(() => lend.close())

const start = (form: Form = {}, credentials: Credentials | null = agent, tenant = 'acme') =>
  lend.token(
    {
      grant_type: TOKEN_EXCHANGE,
      subject_token: subject,
      subject_token_type: ACCESS_TOKEN,
      template: 'renewal-briefs',
      ...form,
    },
    credentials,
    tenant,
  )

type Created = { id: string; mode: string }
const create = async (login: string, more: object = {}) => {
  const body = { agent_id: agent.client_id, template: 'renewal-briefs', ...more }
  const made = await lend.api<Created>(await lend.userToken(login), 'POST', '/sessions', body)
  expect(made.status, made.text).toBe(201)
  return made.body
}

describe('a start', () => {
  it('USER-ASKS 1, I1: holds nothing and says so: an explicit empty list, no scope', async () => {
    const issued = await client.exchange({ subject_token: subject, template: 'renewal-briefs' })
    expect(issued.authorization_details).toStrictEqual([])
    expect(issued).not.toHaveProperty('scope')
    const claims = await verified(lend, issued.access_token, lend.mcpUrl())
    expect(claims.authorization_details).toStrictEqual([])
    expect(claims).not.toHaveProperty('scope')
    expect(
      await lend.rows('select id from access_grant where session_id = $1', [claims.sid]),
    ).toEqual([])
  })

  it('answers exactly what RFC 8693 section 2.2.1 and SPEC say', async () => {
    const answer = await start()
    expect(answer.status).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.body).toStrictEqual({
      access_token: expect.any(String),
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      expires_in: 900,
      session_id: expect.stringMatching(/^ses_[0-9a-f]{32}$/),
      refresh_token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      authorization_details: [],
    })
  })

  it('USER-ASKS 9: has exactly the claims of SPEC section 6, naming agent and user', async () => {
    const issued = await client.exchange({ subject_token: subject, template: 'renewal-briefs@3' })
    const claims = await verified(lend, issued.access_token, lend.mcpUrl())
    const sid = issued.session_id
    expect(claims).toStrictEqual({
      iss: lend.issuer(),
      aud: lend.mcpUrl(),
      sub: sid,
      client_id: agent.client_id,
      jti: expect.any(String),
      iat: expect.any(Number),
      exp: claims.iat + 900,
      sid,
      root_sid: sid,
      session_version: 1,
      tenant: 'acme',
      template: 'renewal-briefs@3',
      on_behalf_of: await lend.userId('maya'),
      act: {
        iss: lend.issuer(),
        sub: agent.client_id,
        sub_profile: 'ai_agent',
        sid,
        template: 'renewal-briefs@3',
      },
      authorization_details: [],
    })
    expect(issued.expires_in).toBe(claims.exp - claims.iat)
    expect(Math.abs(claims.iat - Date.now() / 1000)).toBeLessThan(10)
  })

  it('is on record, naming agent, user and session, and never a token (I12, I18)', async () => {
    const { body } = await start({ task: 'briefs for Q3' })
    const records = await lend.rows<Record<string, unknown>>(
      'select type, agent_id, user_id, session_id, data from activity where session_id = $1 order by seq',
      [body.session_id],
    )
    expect(records.map((r) => r.type)).toEqual(['session.started', 'token.issued'])
    for (const record of records)
      expect(record).toMatchObject({
        agent_id: agent.client_id,
        user_id: await lend.userId('maya'),
      })
    const text = JSON.stringify(records)
    for (const secret of [body.access_token, body.refresh_token, agent.client_secret, subject])
      expect(text).not.toContain(secret)
  })

  it('gives every start a session, token and refresh token of its own', async () => {
    const [a, b] = await Promise.all([start(), start()])
    expect(a.body.session_id).not.toBe(b.body.session_id)
    expect(a.body.refresh_token).not.toBe(b.body.refresh_token)
    expect(a.body.access_token).not.toBe(b.body.access_token)
  })

  it('keeps the refresh token only as a hash', async () => {
    const { body } = await start()
    const tables = await lend.rows<{ name: string }>(
      `select quote_ident(table_name) as name from information_schema.tables
       where table_schema = 'public' and table_type = 'BASE TABLE'`,
    )
    expect(tables.length).toBeGreaterThan(20)
    for (const { name } of tables) {
      const [found] = await lend.rows<{ n: number }>(
        `select count(*)::integer as n from ${name} t where strpos(t::text, $1) > 0`,
        [body.refresh_token],
      )
      expect(found?.n, name).toBe(0)
    }
  })

  it('may be for a registered resource server, and then still carries nothing', async () => {
    const { body } = await start({ resource: lend.resource('accounts') })
    const claims = await verified(lend, body.access_token, lend.resource('accounts'))
    expect(claims.authorization_details).toStrictEqual([])
    expect(claims.sub).toBe(body.session_id)
  })
})

describe('the template of a start', () => {
  const invalid = { error: 'invalid_request', reason: 'template_unknown' }

  it('may name the adopted version', async () => {
    expect((await start({ template: 'renewal-briefs@3' })).status).toBe(200)
  })

  it('USER-ASKS 8: is refused in any version but the adopted one', async () => {
    for (const template of ['renewal-briefs@2', 'renewal-briefs@1', 'renewal-briefs@4'])
      expectRefused(await start({ template }), {
        error: 'invalid_request',
        reason: 'template_version_not_adopted',
        says: /version 3/,
      })
  })

  it.each([
    'no-such-template',
    'renewal-briefs@',
    'renewal-briefs@x',
    'renewal-briefs@03',
    'renewal-briefs@3@3',
    'renewal-briefs@-3',
    'renewal-briefs@3 ',
    '@3',
    'Renewal-Briefs',
    'renewal-briefs@99999999999999999999',
    `${'a'.repeat(300)}`,
  ])('is invalid_request when there is none: %s', async (template) => {
    const before = await written(lend)
    expectRefused(await start({ template }), { ...invalid, says: /template/ })
    const after = await written(lend)
    expect(after.sessions).toBe(before.sessions)
  })

  it('is unauthorized_client when the agent does not list it', async () => {
    expectRefused(await start({ template: 'email-drafter' }), {
      error: 'unauthorized_client',
      reason: 'template_not_listed',
    })
  })

  it('is unauthorized_client when the tenant has not turned it on, and works once it has', async () => {
    const turn = (status: string) =>
      lend.rows(
        `update enablement set status = $1 where tenant_id = $2
         and template_id = (select id from template where name = 'renewal-briefs')`,
        [status, tenantId],
      )
    const tenantId = await lend.tenantId()
    await turn('off')
    expectRefused(await start(), { error: 'unauthorized_client', reason: 'template_not_enabled' })
    await turn('on')
    expect((await start()).status).toBe(200)
  })

  it('is unknown when it is private to another tenant, though the agent lists it', async () => {
    const [made] = await lend.rows<{ id: string }>(
      `insert into template values ('tpl_globexonly', 'globex-only', 'Globex only', $1, 'private', now())
       returning id`,
      [await lend.tenantId('globex')],
    )
    await lend.rows(`update agent set template_ids = template_ids || $1::text where id = $2`, [
      made?.id ?? '',
      agent.client_id,
    ])
    expectRefused(await start({ template: 'globex-only' }), invalid)
  })
})

describe('the task of a start', () => {
  it('is kept as it was given, at 500 characters of any kind', async () => {
    const tasks = ['x'.repeat(500), '😀'.repeat(500), 'line one\nline two', 'تقرير \u202eabc\u202c']
    for (const task of tasks) {
      const { body, status } = await start({ task })
      expect(status).toBe(200)
      expect(
        await lend.rows('select task from session where id = $1', [body.session_id]),
      ).toStrictEqual([{ task }])
    }
  })

  it('is refused at 501 and nothing is written', async () => {
    const before = await written(lend)
    expectRefused(await start({ task: 'x'.repeat(501) }), {
      error: 'invalid_request',
      reason: 'request_malformed',
      says: /task is longer than 500/,
    })
    expect(await written(lend)).toStrictEqual(before)
  })
})

describe('I7: the mode of a start', () => {
  it('is ask, and no app can claim another', async () => {
    const before = await written(lend)
    for (const mode of ['bypass', 'auto', 'BYPASS', 'anything'])
      expectRefused(await start({ mode }), {
        error: 'invalid_request',
        reason: 'mode_not_allowed',
        says: /mode/,
      })
    expect((await written(lend)).sessions).toBe(before.sessions)
    const { body } = await start()
    expect(
      await lend.rows('select mode from session where id = $1', [body.session_id]),
    ).toStrictEqual([{ mode: 'ask' }])
  })

  it('makes the server ask even where the template allows bypass', async () => {
    const { body } = await start()
    const asked = await lend.ask(body.access_token, [{ permission: 'accounts:read' }])
    expect(asked.items).toMatchObject([{ outcome: 'pending', reason: 'mode_ask' }])
  })
})

describe('a session that its user created first', () => {
  it.each(['ask', 'auto', 'bypass'])(
    'is claimed with the mode the user chose: %s',
    async (mode) => {
      const made = await create('maya', { mode, task: 'chosen by maya' })
      const answer = await start({ template: undefined, session_id: made.id })
      expect(answer.status, answer.text).toBe(200)
      expect(answer.body).toMatchObject({ session_id: made.id, authorization_details: [] })
      expect(await lend.rows('select mode from session where id = $1', [made.id])).toEqual([
        { mode },
      ])
      const claims = await verified(lend, answer.body.access_token, lend.mcpUrl())
      expect(claims).toMatchObject({ sid: made.id, on_behalf_of: await lend.userId('maya') })
      expect((await lend.reissue(answer.body.refresh_token)).session_id).toBe(made.id)
    },
  )

  it('is claimed once, also when two claim at the same time', async () => {
    const made = await create('maya')
    const answers = await Promise.all([1, 2, 3, 4].map(() => start({ session_id: made.id })))
    const won = answers.filter((a) => a.status === 200)
    expect(won).toHaveLength(1)
    for (const lost of answers.filter((a) => a.status !== 200))
      expectRefused(lost, { error: 'invalid_grant', reason: 'session_claimed' })
    expect((await lend.reissue(won[0]?.body.refresh_token ?? '')).session_id).toBe(made.id)
  })

  it('cannot be claimed loosened: a mode beside it is refused', async () => {
    const made = await create('maya')
    expectRefused(await start({ session_id: made.id, mode: 'bypass' }), {
      error: 'invalid_request',
      reason: 'mode_not_allowed',
    })
  })

  it('is unknown to another user, another agent, another tenant and nobody, alike', async () => {
    const made = await create('maya')
    const unknown = { error: 'invalid_grant', reason: 'session_not_found' }
    const omar = await lend.userToken('omar', 'app')
    expectRefused(await start({ session_id: made.id, subject_token: omar }), unknown)
    expectRefused(await start({ session_id: 'ses_nosuch' }), unknown)
    expectRefused(await start({ session_id: 'x'.repeat(5000) }), unknown)
    await lend.rows(
      `update agent set app_clients = app_clients || '{renewal-app}' where name = $1`,
      [DRAFTING],
    )
    expectRefused(await start({ session_id: made.id }, await lend.agent(DRAFTING)), unknown)
    await lend.rows(`update agent set app_clients = '{drafting-app}' where name = $1`, [DRAFTING])
    const gus = await lend.userToken('gus', 'app')
    const globex = await lend.agent(undefined, 'globex')
    expectRefused(
      await start({ session_id: made.id, subject_token: gus }, globex, 'globex'),
      unknown,
    )
    // All that left it as it was: its own user and agent still can.
    expect((await start({ session_id: made.id })).status).toBe(200)
  })

  it('is as unknown to another user when it is over', async () => {
    const made = await create('maya')
    await lend.api(await lend.userToken('maya'), 'POST', `/sessions/${made.id}/end`)
    const omar = await lend.userToken('omar', 'app')
    expectRefused(await start({ session_id: made.id, subject_token: omar }), {
      error: 'invalid_grant',
      reason: 'session_not_found',
    })
    expectRefused(await start({ session_id: made.id }), {
      error: 'invalid_grant',
      reason: 'session_over',
    })
  })

  it('must be of the template that the agent names, if it names one', async () => {
    const made = await create('maya')
    for (const template of ['renewal-briefs@2', 'email-drafter'])
      expectRefused(await start({ session_id: made.id, template }), {
        error: 'invalid_request',
        reason: 'request_malformed',
        says: /template the session runs renewal-briefs@3/,
      })
    expect((await start({ session_id: made.id, template: 'renewal-briefs@3' })).status).toBe(200)
  })

  it('cannot be a session that an app has started', async () => {
    const { body } = await start()
    expectRefused(await start({ session_id: body.session_id }), {
      error: 'invalid_grant',
      reason: 'session_claimed',
    })
  })
})

describe('limits and freezes of a start', () => {
  it('refuses the 21st live session of one agent and user, and writes only its record', async () => {
    for (let i = 0; i < 20; i++) expect((await start()).status).toBe(200)
    const before = await written(lend)
    const answer = await start()
    expectRefused(answer, { status: 429, error: 'invalid_request', reason: 'limit_reached' })
    expect(answer.body).toMatchObject({ limit: 'liveRootsPerUser', retry_after: 60 })
    expect(answer.headers.get('retry-after')).toBe('60')
    const after = await written(lend)
    expect(after).toStrictEqual({ ...before, records: before.records + 1 })
    const [last] = await lend.rows('select type, data from activity order by n desc limit 1')
    expect(last).toMatchObject({ type: 'token.refused', data: { reason: 'limit_reached' } })
  })

  it('starts nothing while tenant, template, agent or user is frozen, and starts again after', async () => {
    const made = await create('maya')
    const targets = [
      ['tenant', await lend.tenantId()],
      ['template', 'renewal-briefs'],
      ['agent', agent.client_id],
      ['user', await lend.userId('maya')],
    ] as const
    const frozen = { error: 'invalid_grant', reason: 'frozen' }
    for (const [scope, id] of targets) {
      const unfreeze = await lend.freeze(scope, id)
      const before = await written(lend)
      const answer = await start()
      expectRefused(answer, frozen)
      expect(answer.body).toMatchObject({ limit: scope, retry_after: expect.any(Number) })
      expectRefused(await start({ session_id: made.id }), frozen)
      expect((await written(lend)).sessions).toBe(before.sessions)
      await unfreeze()
    }
    expect((await start({ session_id: made.id })).status).toBe(200)
  })

  it('starts nothing for a disabled agent or user', async () => {
    const set = (table: 'agent' | 'app_user', id: string, status: string) =>
      lend.rows(`update ${table} set status = $1 where id = $2`, [status, id])
    const maya = await lend.userId('maya')
    await set('agent', agent.client_id, 'disabled')
    expectRefused(await start(), { error: 'unauthorized_client', reason: 'agent_disabled' })
    await set('agent', agent.client_id, 'active')
    await set('app_user', maya, 'disabled')
    expectRefused(await start(), { error: 'invalid_grant', reason: 'user_disabled' })
    await set('app_user', maya, 'active')
    expect((await start()).status).toBe(200)
  })
})
