import { createHash } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Credentials, DRAFTING, type LiveServer, serveLend } from '../support/live-server.ts'
import { expectRefused, outsider, verified, written } from '../support/oauth-client.ts'
import {
  ACCOUNTS,
  carried,
  MAIL,
  okBody,
  PIPELINE,
  ROWS,
  sessionsOf,
} from '../support/oauth-sessions.ts'

/** SPEC section 6.2: a fresh decision, every time. */

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

describe('a re-issue', () => {
  it('answers with a new token and the same refresh token, as an outside client reads it', async () => {
    const started = await lend.start('maya')
    const client = await outsider(lend, agent.client_id, { secret: agent.client_secret })
    const issued = await client.refresh(started.refresh_token)
    expect(issued.refresh_token).toBe(started.refresh_token)
    expect(issued).not.toHaveProperty('issued_token_type')
    const [before, after] = [
      await maya.control(started.access_token),
      await maya.control(issued.access_token),
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
    const issued = await maya.holding(ACCOUNTS, ROWS, PIPELINE, MAIL)
    const claims = await maya.control(issued.access_token)
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
    const started = await maya.holding(ACCOUNTS)
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => maya.refresh(started.refresh_token)),
    )
    expect(new Set(answers.map((a) => a.status))).toEqual(new Set([200]))
    expect(new Set(answers.map((a) => a.body.refresh_token))).toEqual(
      new Set([started.refresh_token]),
    )
    const claims = await Promise.all(answers.map((a) => maya.control(a.body.access_token)))
    expect(new Set(claims.map((c) => c.jti)).size).toBe(20)
    expect(new Set(claims.map((c) => `${c.sid} ${c.session_version} ${carried(c)}`)).size).toBe(1)
    for (const answer of answers) expect(await maya.isActive(answer.body.access_token)).toBe(true)
  })

  it('USER-ASKS 5, 16: is a fresh decision: what the user lost is gone, and the old token dead', async () => {
    const issued = await maya.holding(ACCOUNTS, PIPELINE)
    const before = await maya.control(issued.access_token)
    expect(carried(before)).toEqual(['accounts:read', 'dashboard:view'])
    const [lost] = await lend.rows<{ resource: string }>(
      'delete from user_permission where user_id = $1 returning resource',
      [await lend.userId('maya')],
    )
    expect(lost?.resource).toBe('dashboard/q3-pipeline')
    try {
      const after = await maya.control((await lend.reissue(issued.refresh_token)).access_token)
      expect(carried(after)).toEqual(['accounts:read'])
      expect(after.session_version).toBeGreaterThan(before.session_version)
      expect(await maya.isActive(issued.access_token)).toBe(false)
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
    const issued = await maya.holding(ACCOUNTS, ROWS)
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
    const after = await maya.control((await lend.reissue(issued.refresh_token)).access_token)
    expect(carried(after)).toEqual(['accounts.rows:my_region'])
    expect(after).not.toHaveProperty('scope')
    await cut(`'${JSON.stringify(was?.kept)}'::jsonb`)
    // Narrowed is narrowed: what comes back has to be asked for again.
    const again = await maya.control((await lend.reissue(issued.refresh_token)).access_token)
    expect(carried(again)).toEqual(['accounts.rows:my_region'])
  })

  it('carries no authority of its own: what is not held is not in it, whatever is asked', async () => {
    const started = await lend.start('maya')
    const refused = await maya.refresh(started.refresh_token, { scope: 'accounts:read' })
    expectRefused(refused, { error: 'invalid_scope', reason: 'scope_not_requested' })
    const answer = okBody(
      await maya.refresh(started.refresh_token, {
        authorization_details: JSON.stringify([{ type: 'lend_api', permission: 'accounts:read' }]),
        mode: 'bypass',
        template: 'renewal-briefs@2',
        sid: 'ses_other',
      }),
    )
    expect(answer.authorization_details).toStrictEqual([])
    expect((await maya.control(answer.access_token)).template).toBe('renewal-briefs@3')
  })

  it('is refused to any other client, and the session goes on', async () => {
    const started = await lend.start('maya')
    const invalid = { error: 'invalid_grant', reason: 'refresh_token_invalid' }
    expectRefused(
      await maya.refresh(started.refresh_token, {}, await lend.agent(DRAFTING)),
      invalid,
    )
    const globex = await lend.agent(undefined, 'globex')
    const form = { grant_type: 'refresh_token', refresh_token: started.refresh_token }
    expectRefused(await lend.token(form, globex, 'globex'), invalid)
    expectRefused(await lend.token(form, globex, 'acme'), {
      status: 401,
      error: 'invalid_client',
      reason: 'client_unauthenticated',
    })
    expect((await maya.refresh(started.refresh_token)).status).toBe(200)
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
      expectRefused(await maya.refresh(token), {
        error: 'invalid_grant',
        reason: 'refresh_token_invalid',
      })
    expect((await written(lend)).sessions).toBe(before.sessions)
  })

  it('USER-ASKS 12: is refused once the session is over, and the reason says which end it was', async () => {
    const started = await lend.start('maya')
    await lend.api(await lend.userToken('maya'), 'POST', `/sessions/${started.session_id}/end`)
    expectRefused(await maya.refresh(started.refresh_token), {
      error: 'invalid_grant',
      reason: 'session_over',
      says: /user/,
    })
  })

  it('is refused while frozen, at every scope, and works again after', async () => {
    const started = await maya.holding(ACCOUNTS)
    const targets = [
      ['tenant', await lend.tenantId()],
      ['template', 'renewal-briefs'],
      ['agent', agent.client_id],
      ['user', await lend.userId('maya')],
    ] as const
    for (const [scope, id] of targets) {
      const unfreeze = await lend.freeze(scope, id)
      const answer = await maya.refresh(started.refresh_token)
      expectRefused(answer, { error: 'invalid_grant', reason: 'frozen' })
      expect(answer.body).toMatchObject({ limit: scope })
      await unfreeze()
    }
    const claims = await maya.control((await lend.reissue(started.refresh_token)).access_token)
    expect(carried(claims)).toEqual(['accounts:read'])
  })

  it('is refused for a disabled user or agent', async () => {
    const started = await lend.start('maya')
    const set = (table: 'agent' | 'app_user', id: string, status: string) =>
      lend.rows(`update ${table} set status = $1 where id = $2`, [status, id])
    const userId = await lend.userId('maya')
    await set('app_user', userId, 'disabled')
    expectRefused(await maya.refresh(started.refresh_token), {
      error: 'invalid_grant',
      reason: 'user_disabled',
    })
    await set('app_user', userId, 'active')
    await set('agent', agent.client_id, 'disabled')
    expectRefused(await maya.refresh(started.refresh_token), {
      error: 'unauthorized_client',
      reason: 'agent_disabled',
    })
    await set('agent', agent.client_id, 'active')
    expect((await maya.refresh(started.refresh_token)).status).toBe(200)
  })

  it('may be for another audience, and then carries only what that enforces', async () => {
    const started = await maya.holding(ACCOUNTS, PIPELINE)
    const dashboards = lend.resource('dashboards')
    const issued = okBody(await maya.refresh(started.refresh_token, { resource: dashboards }))
    const claims = await verified(lend, issued.access_token, dashboards)
    expect(carried(claims)).toEqual(['dashboard:view'])
    expect(claims).not.toHaveProperty('scope')
  })
})

// Last: the clock only goes forward.
describe('I4, I5: time', () => {
  it('gives tokens 15 minutes, and at the end of a session no longer than it lives', async () => {
    const started = await lend.start('maya')
    const first = await maya.control(started.access_token)
    lend.clock.advance(16 * 60)
    expect(await maya.isActive(started.access_token)).toBe(false)
    await expect(lend.mcp(started.access_token)).rejects.toThrow()
    expectRefused(await maya.exchange({ subject_token: started.access_token }), {
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
    const claims = await maya.control(late.access_token)
    expect(claims.exp).toBeLessThanOrEqual(end)
    expect(claims.exp - first.iat).toBeLessThanOrEqual(8 * 3600)
    lend.clock.advance(301)
    // Nothing has swept it: what is past its end is over by itself.
    expectRefused(await maya.refresh(started.refresh_token), {
      error: 'invalid_grant',
      reason: 'session_over',
      says: /timeout/,
    })
    expect(await maya.isActive(late.access_token)).toBe(false)
  })
})
