import { createHash } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { SessionClaims } from '../../src/core/claims.ts'
import {
  ACCESS_TOKEN,
  type Answer,
  type AskedItem,
  type Body,
  type Credentials,
  DRAFTING,
  type Form,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
  type TokenAnswer,
} from '../support/live-server.ts'
import { expectRefused, outsider, verified, written } from '../support/oauth-client.ts'

/** SPEC sections 6.2 to 6.4: re-issue, subagents and other audiences of a running session. */

const ACCOUNTS: AskedItem = { permission: 'accounts:read' }
const ROWS: AskedItem = { permission: 'accounts.rows:my_region' }
const PIPELINE: AskedItem = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
const MAIL: AskedItem = { permission: 'email:send', resource: 'domain/customer.example' }

let lend: LiveServer
let agent: Credentials

beforeAll(async () => {
  // Without jobs, so that what a token endpoint notices it notices by itself.
  lend = await serveLend({ jobs: false })
  agent = await lend.agent()
})
afterEach(async () => {
  await lend.endSessions('maya')
  expect(lend.bugs).toEqual([])
})
afterAll(() => lend.close())

const exchange = (form: Form, credentials: Credentials = agent) =>
  lend.token({ grant_type: TOKEN_EXCHANGE, subject_token_type: ACCESS_TOKEN, ...form }, credentials)
const refresh = (token: string, form: Form = {}, credentials: Credentials = agent) =>
  lend.token({ grant_type: 'refresh_token', refresh_token: token, ...form }, credentials)

const control = (token: string) => verified(lend, token, lend.mcpUrl())
const carried = (claims: Pick<SessionClaims, 'authorization_details'>) =>
  claims.authorization_details.map((d) => d.permission).sort()

/** A session of maya's that holds these items, and a control token that lists them. */
async function holding(...items: AskedItem[]): Promise<TokenAnswer> {
  const started = await lend.start('maya')
  if (items.length === 0) return started
  await lend.lend('maya', started.access_token, items)
  return lend.reissue(started.refresh_token)
}

const subagent = async (token: string, form: object = {}) => {
  const mcp = await lend.mcp(token)
  const child = await mcp.call<{ session_id: string; inherited: Body[] }>('iam.start_subagent', {
    template: 'email-drafter',
    ...form,
  })
  await mcp.close()
  return child
}

const claim = (parentToken: string, sessionId: string, form: Form = {}, credentials = agent) =>
  exchange({ subject_token: parentToken, session_id: sessionId, ...form }, credentials)

const ok = <T>(answer: Answer<T>): T => {
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

const isActive = async (token: string): Promise<unknown> => {
  const point = await lend.enforcementPoint()
  return (await lend.oauth<Body>('introspect', { token }, point)).body.active
}

describe('a re-issue', () => {
  it('answers with a new token and the same refresh token, as an outside client reads it', async () => {
    const started = await lend.start('maya')
    const client = await outsider(lend, agent.client_id, { secret: agent.client_secret })
    const issued = await client.refresh(started.refresh_token)
    expect(issued.refresh_token).toBe(started.refresh_token)
    expect(issued).not.toHaveProperty('issued_token_type')
    const [before, after] = [
      await control(started.access_token),
      await control(issued.access_token),
    ]
    expect(after.jti).not.toBe(before.jti)
    expect({ ...after, jti: '', iat: 0, exp: 0 }).toStrictEqual({
      ...before,
      jti: '',
      iat: 0,
      exp: 0,
    })
  })

  it('lists what is held, each grant once, with API permissions as the scope', async () => {
    const issued = await holding(ACCOUNTS, ROWS, PIPELINE, MAIL)
    const claims = await control(issued.access_token)
    expect(claims.scope).toBe('accounts:read')
    expect(issued.scope).toBe('accounts:read')
    const id = expect.stringMatching(/^grt_/)
    expect(claims.authorization_details).toStrictEqual([
      { type: 'lend_api', permission: 'accounts:read', actions: ['read'], grant_id: id },
      {
        type: 'lend_data',
        permission: 'accounts.rows:my_region',
        actions: ['my_region'],
        grant_id: id,
      },
      {
        type: 'lend_asset',
        permission: 'dashboard:view',
        actions: ['view'],
        identifier: 'dashboard/q3-pipeline',
        grant_id: id,
      },
      {
        type: 'lend_tool',
        permission: 'email:send',
        actions: ['send'],
        identifier: 'domain/customer.example',
        grant_id: id,
      },
    ])
    expect(issued.authorization_details).toStrictEqual(claims.authorization_details)
  })

  it('USER-ASKS 17: of twenty at once all succeed and none kills another', async () => {
    const started = await holding(ACCOUNTS)
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => refresh(started.refresh_token)),
    )
    expect(new Set(answers.map((a) => a.status))).toEqual(new Set([200]))
    expect(new Set(answers.map((a) => a.body.refresh_token))).toEqual(
      new Set([started.refresh_token]),
    )
    const claims = await Promise.all(answers.map((a) => control(a.body.access_token)))
    expect(new Set(claims.map((c) => c.jti)).size).toBe(20)
    expect(new Set(claims.map((c) => `${c.sid} ${c.session_version} ${carried(c)}`)).size).toBe(1)
    for (const answer of answers) expect(await isActive(answer.body.access_token)).toBe(true)
  })

  it('USER-ASKS 5, 16: is a fresh decision: what the user lost is gone, and the old token dead', async () => {
    const issued = await holding(ACCOUNTS, PIPELINE)
    const before = await control(issued.access_token)
    expect(carried(before)).toEqual(['accounts:read', 'dashboard:view'])
    const [lost] = await lend.rows<{ resource: string }>(
      'delete from user_permission where user_id = $1 returning resource',
      [await lend.userId('maya')],
    )
    expect(lost?.resource).toBe('dashboard/q3-pipeline')
    try {
      const after = await control((await lend.reissue(issued.refresh_token)).access_token)
      expect(carried(after)).toEqual(['accounts:read'])
      expect(after.session_version).toBeGreaterThan(before.session_version)
      expect(await isActive(issued.access_token)).toBe(false)
      await expect(lend.mcp(issued.access_token)).rejects.toThrow()
      const [ended] = await lend.rows(
        `select data from activity where session_id = $1 and type = 'grant.ended'`,
        [after.sid],
      )
      expect(JSON.stringify(ended)).toContain('dashboard/q3-pipeline')
    } finally {
      await lend.rows(
        `insert into user_permission values ('prm_again', $1, $2, 'dashboard:view', 'dashboard/q3-pipeline', now())`,
        [await lend.tenantId(), await lend.userId('maya')],
      )
    }
  })

  it('USER-ASKS 16: leaves out at once what the tenant cut from the ceiling', async () => {
    const issued = await holding(ACCOUNTS, ROWS)
    const cut = (kept: string) =>
      lend.rows(
        `update enablement set kept = ${kept} where tenant_id = $1
         and template_id = (select id from template where name = 'renewal-briefs')`,
        [tenantId],
      )
    const tenantId = await lend.tenantId()
    const [was] = await lend.rows<{ kept: object }>(
      `select kept from enablement where tenant_id = $1
       and template_id = (select id from template where name = 'renewal-briefs')`,
      [tenantId],
    )
    await cut(`(select jsonb_agg(i) from jsonb_array_elements(kept) i
      where i->>'permission' <> 'accounts:read')`)
    const after = await control((await lend.reissue(issued.refresh_token)).access_token)
    expect(carried(after)).toEqual(['accounts.rows:my_region'])
    expect(after).not.toHaveProperty('scope')
    await cut(`'${JSON.stringify(was?.kept)}'::jsonb`)
    // Narrowed is narrowed: what comes back has to be asked for again.
    const again = await control((await lend.reissue(issued.refresh_token)).access_token)
    expect(carried(again)).toEqual(['accounts.rows:my_region'])
  })

  it('carries no authority of its own: what is not held is not in it, whatever is asked', async () => {
    const started = await lend.start('maya')
    const refused = await refresh(started.refresh_token, { scope: 'accounts:read' })
    expectRefused(refused, { error: 'invalid_scope', reason: 'scope_not_requested' })
    const answer = ok(
      await refresh(started.refresh_token, {
        authorization_details: JSON.stringify([{ type: 'lend_api', permission: 'accounts:read' }]),
        mode: 'bypass',
        template: 'renewal-briefs@2',
        sid: 'ses_other',
      }),
    )
    expect(answer.authorization_details).toStrictEqual([])
    expect((await control(answer.access_token)).template).toBe('renewal-briefs@3')
  })

  it('is refused to any other client, and the session goes on', async () => {
    const started = await lend.start('maya')
    const invalid = { error: 'invalid_grant', reason: 'refresh_token_invalid' }
    expectRefused(await refresh(started.refresh_token, {}, await lend.agent(DRAFTING)), invalid)
    const globex = await lend.agent(undefined, 'globex')
    const form = { grant_type: 'refresh_token', refresh_token: started.refresh_token }
    expectRefused(await lend.token(form, globex, 'globex'), invalid)
    expectRefused(await lend.token(form, globex, 'acme'), {
      status: 401,
      error: 'invalid_client',
      reason: 'client_unauthenticated',
    })
    expect((await refresh(started.refresh_token)).status).toBe(200)
  })

  it('is refused for anything that is no refresh token', async () => {
    const started = await lend.start('maya')
    const hash = createHash('sha256').update(started.refresh_token).digest('hex')
    const garbage = [
      'x',
      ' ',
      'null',
      hash,
      started.access_token,
      started.session_id,
      `${started.refresh_token}x`,
      started.refresh_token.slice(1),
      'x'.repeat(10_000),
      '😀',
    ]
    const before = await written(lend)
    for (const token of garbage)
      expectRefused(await refresh(token), {
        error: 'invalid_grant',
        reason: 'refresh_token_invalid',
      })
    expect((await written(lend)).sessions).toBe(before.sessions)
  })

  it('USER-ASKS 12: is refused once the session is over, and the reason says which end it was', async () => {
    const started = await lend.start('maya')
    const maya = await lend.userToken('maya')
    await lend.api(maya, 'POST', `/sessions/${started.session_id}/end`)
    expectRefused(await refresh(started.refresh_token), {
      error: 'invalid_grant',
      reason: 'session_over',
      says: /user/,
    })
  })

  it('is refused while frozen, at every scope, and works again after', async () => {
    const started = await holding(ACCOUNTS)
    const targets = [
      ['tenant', await lend.tenantId()],
      ['template', 'renewal-briefs'],
      ['agent', agent.client_id],
      ['user', await lend.userId('maya')],
    ] as const
    for (const [scope, id] of targets) {
      const unfreeze = await lend.freeze(scope, id)
      const answer = await refresh(started.refresh_token)
      expectRefused(answer, { error: 'invalid_grant', reason: 'frozen' })
      expect(answer.body).toMatchObject({ limit: scope })
      await unfreeze()
    }
    const claims = await control((await lend.reissue(started.refresh_token)).access_token)
    expect(carried(claims)).toEqual(['accounts:read'])
  })

  it('is refused for a disabled user or agent', async () => {
    const started = await lend.start('maya')
    const set = (table: 'agent' | 'app_user', id: string, status: string) =>
      lend.rows(`update ${table} set status = $1 where id = $2`, [status, id])
    const maya = await lend.userId('maya')
    await set('app_user', maya, 'disabled')
    expectRefused(await refresh(started.refresh_token), {
      error: 'invalid_grant',
      reason: 'user_disabled',
    })
    await set('app_user', maya, 'active')
    await set('agent', agent.client_id, 'disabled')
    expectRefused(await refresh(started.refresh_token), {
      error: 'unauthorized_client',
      reason: 'agent_disabled',
    })
    await set('agent', agent.client_id, 'active')
    expect((await refresh(started.refresh_token)).status).toBe(200)
  })

  it('may be for another audience, and then carries only what that enforces', async () => {
    const started = await holding(ACCOUNTS, PIPELINE)
    const dashboards = lend.resource('dashboards')
    const issued = ok(await refresh(started.refresh_token, { resource: dashboards }))
    const claims = await verified(lend, issued.access_token, dashboards)
    expect(carried(claims)).toEqual(['dashboard:view'])
    expect(claims).not.toHaveProperty('scope')
  })
})

describe('a subagent', () => {
  it('USER-ASKS 10: is claimed by its parent, with act built from the server’s tree', async () => {
    const parent = await holding(ACCOUNTS, MAIL)
    const child = await subagent(parent.access_token)
    const issued = ok(await claim(parent.access_token, child.session_id))
    expect(issued).toMatchObject({
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      session_id: child.session_id,
      refresh_token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    })
    expect(issued.refresh_token).not.toBe(parent.refresh_token)
    const claims = await control(issued.access_token)
    const actor = { iss: lend.issuer(), sub: agent.client_id, sub_profile: 'ai_agent' }
    expect(claims).toMatchObject({
      sub: child.session_id,
      sid: child.session_id,
      root_sid: parent.session_id,
      template: 'email-drafter@1',
      on_behalf_of: await lend.userId('maya'),
    })
    expect(claims.act).toStrictEqual({
      ...actor,
      sid: child.session_id,
      template: 'email-drafter@1',
      act: { ...actor, sid: parent.session_id, template: 'renewal-briefs@3' },
    })
    // Inherited: what the drafter's own ceiling covers, under grants of its own (I9).
    expect(carried(claims)).toEqual(['accounts:read'])
    const parents = await control(parent.access_token)
    expect(claims.authorization_details[0]?.grant_id).not.toBe(
      parents.authorization_details[0]?.grant_id,
    )
  })

  it('is claimed once, also at the same time', async () => {
    const parent = await lend.start('maya')
    const child = await subagent(parent.access_token)
    const answers = await Promise.all(
      [1, 2, 3].map(() => claim(parent.access_token, child.session_id)),
    )
    expect(answers.filter((a) => a.status === 200)).toHaveLength(1)
    for (const lost of answers.filter((a) => a.status !== 200))
      expectRefused(lost, { error: 'invalid_grant', reason: 'session_claimed' })
  })

  it('re-issues by its own refresh token, and to itself alone', async () => {
    const parent = await holding(ACCOUNTS)
    const child = await subagent(parent.access_token)
    const issued = ok(await claim(parent.access_token, child.session_id))
    expect((await lend.reissue(issued.refresh_token)).session_id).toBe(child.session_id)
    expect((await lend.reissue(parent.refresh_token)).session_id).toBe(parent.session_id)
  })

  it('is unknown to a sibling, a stranger’s session, the user’s token and another client', async () => {
    const [parent, other] = [await lend.start('maya'), await lend.start('maya')]
    const child = await subagent(parent.access_token)
    const sibling = await subagent(parent.access_token)
    const unknown = { error: 'invalid_grant', reason: 'session_not_found' }
    const siblings = ok(await claim(parent.access_token, sibling.session_id))
    expectRefused(await claim(siblings.access_token, child.session_id), unknown)
    expectRefused(await claim(other.access_token, child.session_id), unknown)
    const user = await lend.userToken('maya', 'app')
    expectRefused(await claim(user, child.session_id), unknown)
    expectRefused(await claim(parent.access_token, parent.session_id), unknown)
    expectRefused(await claim(parent.access_token, other.session_id), unknown)
    expectRefused(await claim(parent.access_token, 'ses_nosuch'), unknown)
    const drafting = await lend.agent(DRAFTING)
    expectRefused(await claim(parent.access_token, child.session_id, {}, drafting), {
      error: 'invalid_request',
      reason: 'subject_token_not_for_this_agent',
    })
    expect((await claim(parent.access_token, child.session_id)).status).toBe(200)
  })

  it('is not claimed by a parent’s token that is below its version, nor by one of another audience', async () => {
    const parent = await holding(ACCOUNTS)
    const child = await subagent(parent.access_token)
    const accounts = ok(
      await exchange({ subject_token: parent.access_token, resource: lend.resource('accounts') }),
    )
    expectRefused(await claim(accounts.access_token, child.session_id), {
      error: 'invalid_request',
      reason: 'subject_token_invalid',
    })
    const mcp = await lend.mcp(parent.access_token)
    await mcp.call('iam.release_access', { items: [ACCOUNTS] })
    expectRefused(await claim(parent.access_token, child.session_id), {
      error: 'invalid_grant',
      reason: 'token_stale',
    })
    const fresh = await lend.reissue(parent.refresh_token)
    const claims = await control(ok(await claim(fresh.access_token, child.session_id)).access_token)
    // Inherited grants follow the parent's: lost there, lost here.
    expect(claims.authorization_details).toStrictEqual([])
  })

  it('is claimed by its direct parent only: the grandparent’s token is refused', async () => {
    await deepen(lend)
    const root = await lend.start('maya')
    const middle = await subagent(root.access_token)
    const middles = ok(await claim(root.access_token, middle.session_id))
    const leaf = await subagent(middles.access_token, { template: 'subject-liner' })
    expectRefused(await claim(root.access_token, leaf.session_id), {
      error: 'invalid_grant',
      reason: 'session_not_found',
    })
    const claims = await control(
      ok(await claim(middles.access_token, leaf.session_id)).access_token,
    )
    const sids: string[] = []
    for (let act: SessionClaims['act'] = claims.act; act !== undefined; act = act.act)
      sids.push(act.sid)
    expect(sids).toEqual([leaf.session_id, middle.session_id, root.session_id])
    expect(claims.root_sid).toBe(root.session_id)
    expect(claims.template).toBe('subject-liner@1')
  })

  it('USER-ASKS 12: dies with its parent, and its refresh token with it', async () => {
    const parent = await holding(ACCOUNTS)
    const child = await subagent(parent.access_token)
    const issued = ok(await claim(parent.access_token, child.session_id))
    expect(await isActive(issued.access_token)).toBe(true)
    const mcp = await lend.mcp(parent.access_token)
    await mcp.call('iam.end_session', {})
    expect(await isActive(issued.access_token)).toBe(false)
    const answer = await refresh(issued.refresh_token)
    expectRefused(answer, { error: 'invalid_grant', reason: 'session_over', says: /parent/ })
  })

  it('is frozen with its ancestors: a freeze of the root’s template stops the child', async () => {
    const parent = await lend.start('maya')
    const child = await subagent(parent.access_token)
    const issued = ok(await claim(parent.access_token, child.session_id))
    const unclaimed = await subagent(parent.access_token)
    const unfreeze = await lend.freeze('template', 'renewal-briefs')
    const frozen = { error: 'invalid_grant', reason: 'frozen' }
    expectRefused(await refresh(issued.refresh_token), frozen)
    expectRefused(await claim(parent.access_token, unclaimed.session_id), frozen)
    expect(await isActive(issued.access_token)).toBe(false)
    await unfreeze()
    expect((await refresh(issued.refresh_token)).status).toBe(200)
  })
})

describe('another audience', () => {
  const to = (token: string, resource: string | readonly string[]) =>
    exchange({ subject_token: token, resource })

  it('USER-ASKS 2, 7: gets a token with one audience, only the grants it enforces, and no refresh token', async () => {
    const held = await holding(ACCOUNTS, ROWS, PIPELINE)
    const expected = {
      accounts: ['accounts.rows:my_region', 'accounts:read'],
      dashboards: ['dashboard:view'],
      contracts: [],
      mail: [],
    }
    for (const [name, permissions] of Object.entries(expected)) {
      const issued = ok(await to(held.access_token, lend.resource(name)))
      expect(issued).not.toHaveProperty('refresh_token')
      expect(issued.issued_token_type).toBe(ACCESS_TOKEN)
      const claims = await verified(lend, issued.access_token, lend.resource(name))
      expect(claims.aud).toBe(lend.resource(name))
      expect(carried(claims)).toEqual(permissions)
      // USER-ASKS 1: nothing enforced there is an empty list, not an absent one.
      expect(claims.authorization_details).toBeInstanceOf(Array)
      expect(claims.scope).toBe(name === 'accounts' ? 'accounts:read' : undefined)
      expect(issued.authorization_details).toStrictEqual(claims.authorization_details)
    }
  })

  it('is named by sub as the user where it chose so, and all other claims are the same', async () => {
    const held = await holding(ACCOUNTS, ROWS)
    const [accounts, reports] = [lend.resource('accounts'), lend.resource('reports')]
    const plain = await verified(
      lend,
      ok(await to(held.access_token, accounts)).access_token,
      accounts,
    )
    const named = await verified(
      lend,
      ok(await to(held.access_token, reports)).access_token,
      reports,
    )
    expect(named.sub).toBe(await lend.userId('maya'))
    expect(plain.sub).toBe(held.session_id)
    const own = { sub: '', aud: '', jti: '', iat: 0, exp: 0 }
    expect({ ...named, ...own }).toStrictEqual({ ...plain, ...own })
  })

  it('without resource is the control token again, as is the MCP URL by name', async () => {
    const held = await holding(ACCOUNTS, PIPELINE)
    for (const form of [{}, { resource: lend.mcpUrl() }, { resource: '' }]) {
      const issued = ok(await exchange({ subject_token: held.access_token, ...form }))
      expect(carried(await control(issued.access_token))).toEqual([
        'accounts:read',
        'dashboard:view',
      ])
    }
  })

  it('USER-ASKS 7: is matched to the letter: anything near a registered one is invalid_target', async () => {
    const { access_token } = await lend.start('maya')
    const accounts = lend.resource('accounts')
    const near = [
      `${accounts}/`,
      `${accounts}?x=1`,
      `${accounts}#part`,
      `${accounts}#`,
      `${accounts}/../dashboards`,
      accounts.replace('http:', 'https:'),
      accounts.replace('localhost', 'LOCALHOST'),
      accounts.replace('localhost', '127.0.0.1'),
      accounts.replace('/demo/accounts', '/demo/Accounts'),
      accounts.replace('/demo/accounts', '/demo/%61ccounts'),
      lend.mcpUrl('globex'),
      `${lend.mcpUrl()}/`,
      `${lend.mcpUrl()}?tool_names=underscore`,
      lend.issuer(),
      'https://unknown.example/api',
      '/demo/accounts',
      'accounts',
      'urn:example:accounts',
      `https://long.example/${'x'.repeat(5000)}`,
    ]
    for (const resource of near)
      expectRefused(await to(access_token, resource), {
        error: 'invalid_target',
        reason: 'target_invalid',
        says: /resource/,
      })
  })

  it('is one: two resources, or a logical audience, are invalid_target', async () => {
    const { access_token } = await lend.start('maya')
    const both = [lend.resource('accounts'), lend.resource('mail')]
    for (const resource of [both, [both[0] ?? '', both[0] ?? '']])
      expectRefused(await to(access_token, resource), {
        error: 'invalid_target',
        reason: 'target_invalid',
        says: /one resource/,
      })
    expectRefused(await exchange({ subject_token: access_token, audience: 'accounts' }), {
      error: 'invalid_target',
      reason: 'target_invalid',
    })
  })

  it('gives a token that cannot be exchanged in turn, nor opens MCP', async () => {
    const held = await holding(ACCOUNTS)
    for (const name of ['accounts', 'reports']) {
      const issued = ok(await to(held.access_token, lend.resource(name)))
      for (const resource of [undefined, lend.mcpUrl(), lend.resource('mail')])
        expectRefused(await exchange({ subject_token: issued.access_token, resource }), {
          error: 'invalid_request',
          reason: 'subject_token_invalid',
        })
      await expect(lend.mcp(issued.access_token)).rejects.toThrow()
    }
  })

  it('USER-ASKS 6: is given only to the session’s own client', async () => {
    const held = await holding(ACCOUNTS)
    const form = { subject_token: held.access_token, resource: lend.resource('accounts') }
    expectRefused(await exchange(form, await lend.agent(DRAFTING)), {
      error: 'invalid_request',
      reason: 'subject_token_not_for_this_agent',
    })
  })

  it('USER-ASKS 12: is not given for a dead, stale or frozen control token', async () => {
    const held = await holding(ACCOUNTS)
    const accounts = lend.resource('accounts')
    const unfreeze = await lend.freeze('agent', agent.client_id)
    expectRefused(await to(held.access_token, accounts), {
      error: 'invalid_grant',
      reason: 'frozen',
    })
    await unfreeze()
    const mcp = await lend.mcp(held.access_token)
    await mcp.call('iam.release_access', { items: [ACCOUNTS] })
    expectRefused(await to(held.access_token, accounts), {
      error: 'invalid_grant',
      reason: 'token_stale',
    })
    const fresh = await lend.reissue(held.refresh_token)
    expect((await to(fresh.access_token, accounts)).status).toBe(200)
    await lend.endSessions('maya')
    expectRefused(await to(fresh.access_token, accounts), {
      error: 'invalid_grant',
      reason: 'session_over',
    })
  })

  it('USER-ASKS 16: is a fresh decision too', async () => {
    const held = await holding(ROWS, ACCOUNTS)
    const set = (status: string) =>
      lend.rows(`update permission set retired = $1 = 'retired' where id = 'accounts:read'`, [
        status,
      ])
    await set('retired')
    const issued = ok(await to(held.access_token, lend.resource('accounts')))
    await set('published')
    const claims = await verified(lend, issued.access_token, lend.resource('accounts'))
    expect(carried(claims)).toEqual(['accounts.rows:my_region'])
    const control = await lend.reissue(held.refresh_token)
    expect(control.authorization_details.map((d) => d.permission)).toEqual([
      'accounts.rows:my_region',
    ])
  })

  it('shows a subagent’s own chain', async () => {
    const parent = await holding(ACCOUNTS)
    const child = await subagent(parent.access_token)
    const issued = ok(await claim(parent.access_token, child.session_id))
    const reports = lend.resource('reports')
    const claims = await verified(
      lend,
      ok(await to(issued.access_token, reports)).access_token,
      reports,
    )
    expect(claims).toMatchObject({
      sub: await lend.userId('maya'),
      sid: child.session_id,
      act: { sid: child.session_id, act: { sid: parent.session_id } },
    })
    expect(carried(claims)).toEqual(['accounts:read'])
  })
})

// Last: the clock only goes forward.
describe('I4, I5: time', () => {
  it('gives tokens 15 minutes, and at the end of a session no longer than it lives', async () => {
    const started = await lend.start('maya')
    const first = await control(started.access_token)
    lend.clock.advance(16 * 60)
    expect(await isActive(started.access_token)).toBe(false)
    await expect(lend.mcp(started.access_token)).rejects.toThrow()
    expectRefused(await exchange({ subject_token: started.access_token }), {
      error: 'invalid_request',
      reason: 'subject_token_invalid',
    })
    const [row] = await lend.rows<{ end: number }>(
      `select extract(epoch from expires_at)::float8 as "end" from session where id = $1`,
      [started.session_id],
    )
    const end = row?.end ?? 0
    lend.clock.advance(end - lend.clock.now() / 1000 - 300)
    const late = await lend.reissue(started.refresh_token)
    expect(late.expires_in).toBeGreaterThan(290)
    expect(late.expires_in).toBeLessThanOrEqual(300)
    const claims = await control(late.access_token)
    expect(claims.exp).toBeLessThanOrEqual(end)
    expect(claims.exp - first.iat).toBeLessThanOrEqual(8 * 3600)
    lend.clock.advance(301)
    // Nothing has swept it: what is past its end is over by itself.
    expectRefused(await refresh(started.refresh_token), {
      error: 'invalid_grant',
      reason: 'session_over',
      says: /timeout/,
    })
    expect(await isActive(late.access_token)).toBe(false)
  })
})

/** A third level, which the demo has none of: a later version of the drafter may start one more kind of subagent. */
async function deepen(server: LiveServer): Promise<void> {
  await server.rows(`insert into template
    select 'tpl_liner', 'subject-liner', 'Subject liner', tenant_id, 'public', created_at
    from template where name = 'email-drafter'`)
  await server.rows(`insert into template_version
    select 'tpl_liner', 1, v.status, v.purpose, v.ceiling, v.context, v.modes, v.limits, v.children,
      v.sensitive, v.sponsor, v.author, v.reviewer, v.published_at
    from template_version v join template t on t.id = v.template_id
    where t.name = 'email-drafter' and v.version = 1`)
  await server.rows(`insert into template_version
    select v.template_id, 2, v.status, v.purpose, v.ceiling, v.context, v.modes, v.limits,
      '[{"template": "subject-liner", "version": 1}]', v.sensitive, v.sponsor, v.author, v.reviewer,
      v.published_at
    from template_version v join template t on t.id = v.template_id
    where t.name = 'email-drafter' and v.version = 1`)
  await server.rows(`update enablement set adopted_version = 2
    where template_id = (select id from template where name = 'email-drafter')`)
  await server.rows(`insert into enablement
    select e.tenant_id, 'tpl_liner', e.status, 1, e.kept, e.modes, e.limits, e.updated_at
    from enablement e join template t on t.id = e.template_id where t.name = 'email-drafter'`)
}
