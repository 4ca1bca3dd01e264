import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { hashSecret } from '../../src/tokens/client-auth.ts'
import {
  ACCESS_TOKEN,
  type AskedItem,
  type Body,
  type Credentials,
  DRAFTING,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
  type TokenAnswer,
} from '../support/live-server.ts'
import { expectRefused, outsider, verified, written } from '../support/oauth-client.ts'

/** SPEC section 6: introspection (RFC 7662) and revocation (RFC 7009), live. */

const ACCOUNTS: AskedItem = { permission: 'accounts:read' }
const PIPELINE: AskedItem = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }

let lend: LiveServer
let agent: Credentials
let point: Credentials

beforeAll(async () => {
  // Without jobs: what is dead must be dead before anything has swept or re-evaluated.
  lend = await serveLend({ jobs: false })
  agent = await lend.agent()
  point = await lend.enforcementPoint()
})
afterEach(async () => {
  await lend.endSessions('maya')
  expect(lend.bugs).toEqual([])
})
afterAll(() => lend.close())

const introspect = async (token: string, credentials = point, tenant = 'acme') => {
  const answer = await lend.oauth<Body>('introspect', { token }, credentials, tenant)
  expect(answer.status, answer.text).toBe(200)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  return answer.body
}
const DEAD = { active: false }
const revoke = (token: string, credentials: Credentials = agent) =>
  lend.oauth('revoke', { token }, credentials)

const held = (details: unknown) =>
  (details as { permission: string }[]).map((d) => d.permission).sort()

async function holding(...items: AskedItem[]): Promise<TokenAnswer> {
  const started = await lend.start('maya')
  if (items.length > 0) await lend.lend('maya', started.access_token, items)
  return items.length > 0 ? lend.reissue(started.refresh_token) : started
}

async function withChild() {
  const parent = await holding(ACCOUNTS)
  const mcp = await lend.mcp(parent.access_token)
  const { session_id } = await mcp.call<{ session_id: string }>('iam.start_subagent', {
    template: 'email-drafter',
  })
  await mcp.close()
  const child = await lend.token(
    {
      grant_type: TOKEN_EXCHANGE,
      subject_token: parent.access_token,
      subject_token_type: ACCESS_TOKEN,
      session_id,
    },
    agent,
  )
  expect(child.status, child.text).toBe(200)
  return { parent, child: child.body as TokenAnswer }
}

const statuses = async (...ids: string[]) => {
  const rows = await lend.rows<{ id: string; status: string }>(
    'select id, status from session where id = any($1::text[])',
    [ids],
  )
  return ids.map((id) => rows.find((row) => row.id === id)?.status)
}

describe('introspection', () => {
  it('tells an enforcement point the claims of a live token, as an outside client reads them', async () => {
    const issued = await holding(ACCOUNTS)
    const client = await outsider(lend, point.client_id, { secret: point.client_secret })
    const claims = await verified(lend, issued.access_token, lend.mcpUrl())
    expect(await client.introspect(issued.access_token)).toStrictEqual({
      ...claims,
      active: true,
      token_type: 'Bearer',
    })
  })

  it('works for tokens of every audience of the tenant, the control token too', async () => {
    const issued = await holding(ACCOUNTS, PIPELINE)
    for (const resource of [undefined, ...['accounts', 'reports', 'mail'].map(lend.resource)]) {
      const token = (await lend.reissue(issued.refresh_token, resource ? { resource } : {}))
        .access_token
      // All that the point enforces, whatever the token carries.
      expect(held((await introspect(token)).authorization_details)).toEqual([
        'accounts:read',
        'dashboard:view',
      ])
    }
  })

  it('is live: a grant that came after the token was issued is there', async () => {
    const started = await lend.start('maya')
    expect((await introspect(started.access_token)).authorization_details).toStrictEqual([])
    await lend.lend('maya', started.access_token, [ACCOUNTS])
    const now = await introspect(started.access_token)
    expect(held(now.authorization_details)).toEqual(['accounts:read'])
    expect(now.scope).toBe('accounts:read')
  })

  it('USER-ASKS 1: says an explicit empty list, and no scope, when nothing is held', async () => {
    const { body } = await lend.oauth<Body>(
      'introspect',
      { token: (await lend.start('maya')).access_token },
      point,
    )
    expect(body.authorization_details).toStrictEqual([])
    expect(body).not.toHaveProperty('scope')
  })

  it('shows a point only the grants of its own services', async () => {
    await lend.rows(
      `insert into enforcement_point (id, tenant_id, name, secret_hash, services, created_at)
       values ('epc_dashboards', $1, 'Dashboards only', $2, '{dashboards}', now())`,
      [await lend.tenantId(), hashSecret('its own secret')],
    )
    const only = { client_id: 'epc_dashboards', client_secret: 'its own secret' }
    const issued = await holding(ACCOUNTS, PIPELINE)
    const seen = await introspect(issued.access_token, only)
    expect(held(seen.authorization_details)).toEqual(['dashboard:view'])
    expect(seen).not.toHaveProperty('scope')
  })

  it('leaves out what the user has lost since, before anything has re-evaluated', async () => {
    const issued = await holding(ACCOUNTS, PIPELINE)
    const take = 'delete from user_permission where user_id = $1 returning id'
    const maya = await lend.userId('maya')
    expect(await lend.rows(take, [maya])).toHaveLength(1)
    expect(held((await introspect(issued.access_token)).authorization_details)).toEqual([
      'accounts:read',
    ])
    await lend.rows(
      `insert into user_permission values ('prm_again', $1, $2, 'dashboard:view', 'dashboard/q3-pipeline', now())`,
      [await lend.tenantId(), maya],
    )
  })

  it('USER-ASKS 5, 20: says exactly {"active":false} for a token from before a narrowing', async () => {
    const issued = await holding(ACCOUNTS, PIPELINE)
    const mcp = await lend.mcp(issued.access_token)
    await mcp.call('iam.release_access', { items: [ACCOUNTS] })
    expect(await introspect(issued.access_token)).toStrictEqual(DEAD)
    const fresh = await lend.reissue(issued.refresh_token)
    expect(held((await introspect(fresh.access_token)).authorization_details)).toEqual([
      'dashboard:view',
    ])
  })

  it('USER-ASKS 12: says so for a whole subtree when its root ends', async () => {
    const { parent, child } = await withChild()
    expect(await introspect(child.access_token)).toMatchObject({ active: true })
    const maya = await lend.userToken('maya')
    await lend.api(maya, 'POST', `/sessions/${parent.session_id}/end`)
    expect(await introspect(parent.access_token)).toStrictEqual(DEAD)
    expect(await introspect(child.access_token)).toStrictEqual(DEAD)
  })

  it('says so for a disabled user or agent and for a template that was turned off', async () => {
    const { child } = await withChild()
    const maya = await lend.userId('maya')
    const undo = [
      [
        `update app_user set status = 'disabled' where id = $1`,
        `update app_user set status = 'active' where id = $1`,
        maya,
      ],
      [
        `update agent set status = 'disabled' where id = $1`,
        `update agent set status = 'active' where id = $1`,
        agent.client_id,
      ],
      [
        `update enablement set status = 'off' where tenant_id = $1`,
        `update enablement set status = 'on' where tenant_id = $1`,
        await lend.tenantId(),
      ],
    ] as const
    for (const [off, on, id] of undo) {
      await lend.rows(off, [id])
      expect(await introspect(child.access_token), off).toStrictEqual(DEAD)
      await lend.rows(on, [id])
      expect(await introspect(child.access_token), on).toMatchObject({ active: true })
    }
  })

  it('says so while anything above is frozen, and not after', async () => {
    const { child } = await withChild()
    const targets = [
      ['tenant', await lend.tenantId()],
      ['template', 'renewal-briefs'],
      ['template', 'email-drafter'],
      ['agent', agent.client_id],
      ['user', await lend.userId('maya')],
    ] as const
    for (const [scope, id] of targets) {
      const unfreeze = await lend.freeze(scope, id)
      expect(await introspect(child.access_token), `${scope} ${id}`).toStrictEqual(DEAD)
      await unfreeze()
      expect(await introspect(child.access_token)).toMatchObject({ active: true })
    }
  })

  it('says so for whatever is no live session token of this tenant', async () => {
    const issued = await lend.start('maya')
    const gus = await lend.start('gus')
    const [header, payload, signature = ''] = issued.access_token.split('.')
    const flipped = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
    const tokens = [
      'garbage',
      'a.b.c',
      issued.refresh_token,
      issued.session_id,
      gus.access_token,
      `${header}.${payload}.${flipped}`,
      `${header}.${payload}.`,
      `${issued.access_token} `,
      `${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')}.${payload}.`,
      await lend.userToken('maya', 'app'),
      await lend.userToken('maya', 'people'),
      'x'.repeat(20_000),
    ]
    for (const token of tokens) expect(await introspect(token)).toStrictEqual(DEAD)
    await lend.endSessions('gus')
  })

  it('USER-ASKS 20: is for authenticated enforcement points only', async () => {
    const { access_token: token } = await lend.start('maya')
    expectRefused(await lend.oauth('introspect', { token }, agent), {
      status: 403,
      error: 'unauthorized_client',
      reason: 'forbidden',
    })
    const wrong = { ...point, client_secret: agent.client_secret }
    const theirs = await lend.enforcementPoint(undefined, 'globex')
    const unauthenticated = {
      status: 401,
      error: 'invalid_client',
      reason: 'client_unauthenticated',
    }
    for (const credentials of [null, wrong, theirs, { client_id: 'epc_no', client_secret: 'x' }])
      expectRefused(await lend.oauth('introspect', { token }, credentials), unauthenticated)
    const bearer = await lend.request('/t/acme/oauth/introspect', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: new URLSearchParams({ token }),
    })
    expectRefused(bearer, unauthenticated)
  })

  it('shows a point of another tenant nothing', async () => {
    const { access_token: token } = await lend.start('maya')
    const theirs = await lend.enforcementPoint(undefined, 'globex')
    expect(await introspect(token, theirs, 'globex')).toStrictEqual(DEAD)
  })
})

describe('revocation', () => {
  it('ends the session of an access token, as an outside client does it', async () => {
    const issued = await holding(ACCOUNTS)
    const client = await outsider(lend, agent.client_id, { secret: agent.client_secret })
    await client.revoke(issued.access_token)
    expect(await statuses(issued.session_id)).toEqual(['revoked'])
    expect(await introspect(issued.access_token)).toStrictEqual(DEAD)
    const grants = 'select id from access_grant where session_id = $1'
    expect(await lend.rows(grants, [issued.session_id])).toEqual([])
    const [ended] = await lend.rows<Body>(
      `select agent_id, user_id, data from activity where session_id = $1 and type = 'session.ended'`,
      [issued.session_id],
    )
    expect(ended).toMatchObject({
      agent_id: agent.client_id,
      user_id: await lend.userId('maya'),
      data: { reason: 'token_revoked' },
    })
  })

  it('USER-ASKS 12, 49: of a refresh token ends the whole subtree', async () => {
    const { parent, child } = await withChild()
    const answer = await revoke(parent.refresh_token)
    expect(answer.status).toBe(200)
    expect(answer.text).toBe('')
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(await statuses(parent.session_id, child.session_id)).toEqual(['revoked', 'revoked'])
    expect(await introspect(child.access_token)).toStrictEqual(DEAD)
  })

  it('of a child’s token ends only the child’s subtree', async () => {
    for (const of of ['access_token', 'refresh_token'] as const) {
      const { parent, child } = await withChild()
      expect((await revoke(child[of])).status).toBe(200)
      expect(await statuses(parent.session_id, child.session_id)).toEqual(['active', 'revoked'])
      expect(await introspect(parent.access_token)).toMatchObject({ active: true })
    }
  })

  it('of a token for another audience, or from before a narrowing, ends its session', async () => {
    const one = await holding(ACCOUNTS)
    const accounts = await lend.reissue(one.refresh_token, { resource: lend.resource('accounts') })
    expect((await revoke(accounts.access_token)).status).toBe(200)
    const two = await holding(ACCOUNTS)
    const mcp = await lend.mcp(two.access_token)
    await mcp.call('iam.release_access', { items: [ACCOUNTS] })
    expect((await revoke(two.access_token)).status).toBe(200)
    expect(await statuses(one.session_id, two.session_id)).toEqual(['revoked', 'revoked'])
  })

  it('by another client changes nothing', async () => {
    const issued = await holding(ACCOUNTS)
    const drafting = await lend.agent(DRAFTING)
    expectRefused(await revoke(issued.access_token, drafting), {
      error: 'unauthorized_client',
      reason: 'forbidden',
    })
    expect((await revoke(issued.refresh_token, drafting)).status).toBe(200)
    const globex = await lend.agent(undefined, 'globex')
    for (const token of [issued.access_token, issued.refresh_token]) {
      expect((await lend.oauth('revoke', { token }, globex, 'globex')).status).toBe(200)
      expectRefused(await lend.oauth('revoke', { token }, globex), {
        status: 401,
        error: 'invalid_client',
        reason: 'client_unauthenticated',
      })
    }
    expectRefused(await lend.oauth('revoke', { token: issued.access_token }, point), {
      error: 'unauthorized_client',
      reason: 'forbidden',
    })
    expect(await statuses(issued.session_id)).toEqual(['active'])
    expect(held((await introspect(issued.access_token)).authorization_details)).toEqual([
      'accounts:read',
    ])
  })

  it('of what is unknown or dead is a success that does nothing, however it is hinted', async () => {
    const issued = await lend.start('maya')
    const user = await lend.userToken('maya', 'app')
    const before = await written(lend)
    for (const token of ['garbage', 'a.b.c', issued.session_id, user, 'x'.repeat(20_000)])
      expect((await revoke(token)).status).toBe(200)
    expect(await written(lend)).toStrictEqual(before)
    expect(await statuses(issued.session_id)).toEqual(['active'])
    const hinted = { token: issued.access_token, token_type_hint: 'refresh_token' }
    expect((await lend.oauth('revoke', hinted, agent)).status).toBe(200)
    expect(await statuses(issued.session_id)).toEqual(['revoked'])
    const after = await written(lend)
    expect((await revoke(issued.access_token)).status).toBe(200)
    expect((await revoke(issued.refresh_token)).status).toBe(200)
    expect(await written(lend)).toStrictEqual(after)
  })

  it('USER-ASKS 20: of one session by five at once ends it once', async () => {
    const issued = await holding(ACCOUNTS)
    const answers = await Promise.all(
      [1, 2, 3, 4, 5].map((n) => revoke(n % 2 ? issued.access_token : issued.refresh_token)),
    )
    expect(new Set(answers.map((a) => a.status))).toEqual(new Set([200]))
    const ended = `select id from activity where session_id = $1 and type = 'session.ended'`
    expect(await lend.rows(ended, [issued.session_id])).toHaveLength(1)
  })

  it('stays open while frozen, and to a disabled agent', async () => {
    const [one, two] = [await lend.start('maya'), await lend.start('maya')]
    const unfreeze = await lend.freeze('tenant', await lend.tenantId())
    expect((await revoke(one.access_token)).status).toBe(200)
    await unfreeze()
    const set = (status: string) =>
      lend.rows('update agent set status = $1 where id = $2', [status, agent.client_id])
    await set('disabled')
    expect((await revoke(two.refresh_token)).status).toBe(200)
    await set('active')
    expect(await statuses(one.session_id, two.session_id)).toEqual(['revoked', 'revoked'])
  })
})
