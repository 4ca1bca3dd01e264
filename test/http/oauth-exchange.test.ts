import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { SessionClaims } from '../../src/core/claims.ts'
import {
  ACCESS_TOKEN,
  type Credentials,
  DRAFTING,
  type LiveServer,
  serveLend,
} from '../support/live-server.ts'
import { expectRefused, verified } from '../support/oauth-client.ts'
import {
  ACCOUNTS,
  carried,
  MAIL,
  okBody,
  PIPELINE,
  ROWS,
  sessionsOf,
} from '../support/oauth-sessions.ts'

/** SPEC sections 6.3 and 6.4: subagents, and tokens for other audiences. */

let lend: LiveServer
let agent: Credentials
let maya: ReturnType<typeof sessionsOf>

beforeAll(async () => {
  // Without jobs, so that what a token endpoint notices it notices by itself.
  lend = await serveLend({ jobs: false })
  agent = await lend.agent()
  maya = sessionsOf(lend, agent)
})
afterEach(async () => {
  await lend.endSessions('maya')
  expect(lend.bugs).toEqual([])
})
afterAll(() => lend.close())

describe('a subagent', () => {
  it('USER-ASKS 10: is claimed by its parent, with act built from the server’s tree', async () => {
    const parent = await maya.holding(ACCOUNTS, MAIL)
    const child = await maya.subagent(parent.access_token)
    const issued = okBody(await maya.claim(parent.access_token, child.session_id))
    expect(issued).toMatchObject({
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      session_id: child.session_id,
      refresh_token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    })
    expect(issued.refresh_token).not.toBe(parent.refresh_token)
    const claims = await maya.control(issued.access_token)
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
    const parents = await maya.control(parent.access_token)
    expect(claims.authorization_details[0]?.grant_id).not.toBe(
      parents.authorization_details[0]?.grant_id,
    )
  })

  it('is claimed once, also at the same time', async () => {
    const parent = await lend.start('maya')
    const child = await maya.subagent(parent.access_token)
    const answers = await Promise.all(
      [1, 2, 3].map(() => maya.claim(parent.access_token, child.session_id)),
    )
    expect(answers.filter((a) => a.status === 200)).toHaveLength(1)
    for (const lost of answers.filter((a) => a.status !== 200))
      expectRefused(lost, { error: 'invalid_grant', reason: 'session_claimed' })
  })

  it('re-issues by its own refresh token, and to itself alone', async () => {
    const parent = await maya.holding(ACCOUNTS)
    const child = await maya.subagent(parent.access_token)
    const issued = okBody(await maya.claim(parent.access_token, child.session_id))
    expect((await lend.reissue(issued.refresh_token)).session_id).toBe(child.session_id)
    expect((await lend.reissue(parent.refresh_token)).session_id).toBe(parent.session_id)
  })

  it('is unknown to a sibling, a stranger’s session, the user’s token and another client', async () => {
    const [parent, other] = [await lend.start('maya'), await lend.start('maya')]
    const child = await maya.subagent(parent.access_token)
    const sibling = await maya.subagent(parent.access_token)
    const unknown = { error: 'invalid_grant', reason: 'session_not_found' }
    const siblings = okBody(await maya.claim(parent.access_token, sibling.session_id))
    expectRefused(await maya.claim(siblings.access_token, child.session_id), unknown)
    expectRefused(await maya.claim(other.access_token, child.session_id), unknown)
    const user = await lend.userToken('maya', 'app')
    expectRefused(await maya.claim(user, child.session_id), unknown)
    expectRefused(await maya.claim(parent.access_token, parent.session_id), unknown)
    expectRefused(await maya.claim(parent.access_token, other.session_id), unknown)
    expectRefused(await maya.claim(parent.access_token, 'ses_nosuch'), unknown)
    const drafting = await lend.agent(DRAFTING)
    expectRefused(await maya.claim(parent.access_token, child.session_id, drafting), {
      error: 'invalid_request',
      reason: 'subject_token_not_for_this_agent',
    })
    expect((await maya.claim(parent.access_token, child.session_id)).status).toBe(200)
  })

  it('is not claimed by a parent’s token that is below its version, nor by one of another audience', async () => {
    const parent = await maya.holding(ACCOUNTS)
    const child = await maya.subagent(parent.access_token)
    const accounts = okBody(
      await maya.exchange({
        subject_token: parent.access_token,
        resource: lend.resource('accounts'),
      }),
    )
    expectRefused(await maya.claim(accounts.access_token, child.session_id), {
      error: 'invalid_request',
      reason: 'subject_token_invalid',
    })
    const mcp = await lend.mcp(parent.access_token)
    await mcp.call('iam.release_access', { items: [ACCOUNTS] })
    expectRefused(await maya.claim(parent.access_token, child.session_id), {
      error: 'invalid_grant',
      reason: 'token_stale',
    })
    const fresh = await lend.reissue(parent.refresh_token)
    const claims = await maya.control(
      okBody(await maya.claim(fresh.access_token, child.session_id)).access_token,
    )
    // Inherited grants follow the parent's: lost there, lost here.
    expect(claims.authorization_details).toStrictEqual([])
  })

  it('is claimed by its direct parent only: the grandparent’s token is refused', async () => {
    await deepen(lend)
    const root = await lend.start('maya')
    const middle = await maya.subagent(root.access_token)
    const middles = okBody(await maya.claim(root.access_token, middle.session_id))
    const leaf = await maya.subagent(middles.access_token, 'subject-liner')
    expectRefused(await maya.claim(root.access_token, leaf.session_id), {
      error: 'invalid_grant',
      reason: 'session_not_found',
    })
    const claims = await maya.control(
      okBody(await maya.claim(middles.access_token, leaf.session_id)).access_token,
    )
    const sids: string[] = []
    for (let act: SessionClaims['act'] = claims.act; act !== undefined; act = act.act)
      sids.push(act.sid)
    expect(sids).toEqual([leaf.session_id, middle.session_id, root.session_id])
    expect(claims.root_sid).toBe(root.session_id)
    expect(claims.template).toBe('subject-liner@1')
  })

  it('USER-ASKS 12: dies with its parent, and its refresh token with it', async () => {
    const parent = await maya.holding(ACCOUNTS)
    const child = await maya.subagent(parent.access_token)
    const issued = okBody(await maya.claim(parent.access_token, child.session_id))
    expect(await maya.isActive(issued.access_token)).toBe(true)
    const mcp = await lend.mcp(parent.access_token)
    await mcp.call('iam.end_session', {})
    expect(await maya.isActive(issued.access_token)).toBe(false)
    const answer = await maya.refresh(issued.refresh_token)
    expectRefused(answer, { error: 'invalid_grant', reason: 'session_over', says: /parent/ })
  })

  it('is frozen with its ancestors: a freeze of the root’s template stops the child', async () => {
    const parent = await lend.start('maya')
    const child = await maya.subagent(parent.access_token)
    const issued = okBody(await maya.claim(parent.access_token, child.session_id))
    const unclaimed = await maya.subagent(parent.access_token)
    const unfreeze = await lend.freeze('template', 'renewal-briefs')
    const frozen = { error: 'invalid_grant', reason: 'frozen' }
    expectRefused(await maya.refresh(issued.refresh_token), frozen)
    expectRefused(await maya.claim(parent.access_token, unclaimed.session_id), frozen)
    expect(await maya.isActive(issued.access_token)).toBe(false)
    await unfreeze()
    expect((await maya.refresh(issued.refresh_token)).status).toBe(200)
  })
})

describe('another audience', () => {
  const to = (token: string, resource: string | readonly string[]) =>
    maya.exchange({ subject_token: token, resource })

  it('USER-ASKS 2, 7: gets a token with one audience, only the grants it enforces, and no refresh token', async () => {
    const held = await maya.holding(ACCOUNTS, ROWS, PIPELINE)
    const expected = {
      accounts: ['accounts.rows:my_region', 'accounts:read'],
      dashboards: ['dashboard:view'],
      contracts: [],
      mail: [],
    }
    for (const [name, permissions] of Object.entries(expected)) {
      const issued = okBody(await to(held.access_token, lend.resource(name)))
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
    const held = await maya.holding(ACCOUNTS, ROWS)
    const [accounts, reports] = [lend.resource('accounts'), lend.resource('reports')]
    const plain = await verified(
      lend,
      okBody(await to(held.access_token, accounts)).access_token,
      accounts,
    )
    const named = await verified(
      lend,
      okBody(await to(held.access_token, reports)).access_token,
      reports,
    )
    expect(named.sub).toBe(await lend.userId('maya'))
    expect(plain.sub).toBe(held.session_id)
    const own = { sub: '', aud: '', jti: '', iat: 0, exp: 0 }
    expect({ ...named, ...own }).toStrictEqual({ ...plain, ...own })
  })

  it('is never named so at Lend’s own: the control token is the session’s, whatever was registered', async () => {
    await lend.rows(
      `insert into resource_server (id, tenant_id, resource, name, subject, services, created_at)
       values ('rsv_own', $1, $2, 'Lend', 'user', '{accounts}', now())`,
      [await lend.tenantId(), lend.mcpUrl()],
    )
    const held = await maya.holding(ACCOUNTS, PIPELINE)
    const form = { subject_token: held.access_token, resource: lend.mcpUrl() }
    const claims = await maya.control(okBody(await maya.exchange(form)).access_token)
    expect(claims.sub).toBe(held.session_id)
    expect(carried(claims)).toEqual(['accounts:read', 'dashboard:view'])
  })

  it('without resource is the control token again, as is the MCP URL by name', async () => {
    const held = await maya.holding(ACCOUNTS, PIPELINE)
    for (const form of [{}, { resource: lend.mcpUrl() }, { resource: '' }]) {
      const issued = okBody(await maya.exchange({ subject_token: held.access_token, ...form }))
      expect(carried(await maya.control(issued.access_token))).toEqual([
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
    expectRefused(await maya.exchange({ subject_token: access_token, audience: 'accounts' }), {
      error: 'invalid_target',
      reason: 'target_invalid',
    })
  })

  it('gives a token that cannot be exchanged in turn, nor opens MCP', async () => {
    const held = await maya.holding(ACCOUNTS)
    for (const name of ['accounts', 'reports']) {
      const issued = okBody(await to(held.access_token, lend.resource(name)))
      for (const resource of [undefined, lend.mcpUrl(), lend.resource('mail')])
        expectRefused(await maya.exchange({ subject_token: issued.access_token, resource }), {
          error: 'invalid_request',
          reason: 'subject_token_invalid',
        })
      await expect(lend.mcp(issued.access_token)).rejects.toThrow()
    }
  })

  it('USER-ASKS 6: is given only to the session’s own client', async () => {
    const held = await maya.holding(ACCOUNTS)
    const form = { subject_token: held.access_token, resource: lend.resource('accounts') }
    expectRefused(await maya.exchange(form, await lend.agent(DRAFTING)), {
      error: 'invalid_request',
      reason: 'subject_token_not_for_this_agent',
    })
  })

  it('USER-ASKS 12: is not given for a dead, stale or frozen control token', async () => {
    const held = await maya.holding(ACCOUNTS)
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
    const held = await maya.holding(ROWS, ACCOUNTS)
    const set = (status: string) =>
      lend.rows(`update permission set retired = $1 = 'retired' where id = 'accounts:read'`, [
        status,
      ])
    await set('retired')
    const issued = okBody(await to(held.access_token, lend.resource('accounts')))
    await set('published')
    const claims = await verified(lend, issued.access_token, lend.resource('accounts'))
    expect(carried(claims)).toEqual(['accounts.rows:my_region'])
    const control = await lend.reissue(held.refresh_token)
    expect(control.authorization_details.map((d) => d.permission)).toEqual([
      'accounts.rows:my_region',
    ])
  })

  it('shows a subagent’s own chain', async () => {
    const parent = await maya.holding(ACCOUNTS)
    const child = await maya.subagent(parent.access_token)
    const issued = okBody(await maya.claim(parent.access_token, child.session_id))
    const reports = lend.resource('reports')
    const claims = await verified(
      lend,
      okBody(await to(issued.access_token, reports)).access_token,
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
