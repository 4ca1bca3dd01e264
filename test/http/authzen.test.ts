import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { hashSecret } from '../../src/tokens/client-auth.ts'
import {
  ACCESS_TOKEN,
  basic,
  type Credentials,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
  type TokenAnswer,
} from '../support/live-server.ts'

/** Asset checks (SPEC section 9): the live dual check, who may ask what, and what a denial says. */
let lend: LiveServer
let point: Credentials
let session: TokenAnswer
const MAIL = { client_id: 'epc_mail', client_secret: 'of mail' }
const PEOPLE = { client_id: 'epc_people', client_secret: 'of people' }
const Q3 = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }

beforeAll(async () => {
  lend = await serveLend({ jobs: false })
  point = await lend.enforcementPoint()
  for (const [{ client_id, client_secret }, services, users] of [
    [MAIL, '{mail}', false],
    [PEOPLE, '{dashboards}', true],
  ] as const)
    await lend.rows(
      `insert into enforcement_point (id, tenant_id, name, secret_hash, services, asks_about_users, created_at)
       values ($1, $2, $1, $3, $4, $5, now())`,
      [client_id, await lend.tenantId(), hashSecret(client_secret), services, users],
    )
})
beforeEach(async () => {
  session = await lend.start('maya')
})
afterEach(() => lend.endSessions('maya'))
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

const post = (path: string, body: unknown, as: Credentials | null = point, tenant = 'acme') =>
  lend.request(`/t/${tenant}/access/v1/${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(as === null ? {} : { authorization: basic(as) }),
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

const subjectOf = (token = session.access_token, id = session.session_id) => ({
  type: 'agent_session',
  id,
  properties: { token },
})
const question = (more: object = {}) => ({
  subject: subjectOf(),
  action: { name: 'view' },
  resource: { type: 'dashboard', id: 'q3-pipeline' },
  ...more,
})
const check = async (more: object = {}, as = point) => {
  const answer = await post('evaluation', question(more), as)
  expect(answer.status, answer.text).toBe(200)
  return answer.body as { decision: boolean; context: { reason: string; ask?: unknown } }
}
const borrow = () => lend.lend('maya', session.access_token, [Q3])

describe('a session', () => {
  it('that holds nothing is denied, and told the exact item to ask for', async () => {
    expect(await check()).toEqual({
      decision: false,
      context: {
        reason: 'not_held',
        message: expect.any(String),
        ask: { tool: 'iam.request_access', items: [Q3] },
      },
    })
    await lend.lend('maya', session.access_token, [Q3])
    expect(await check()).toEqual({
      decision: true,
      context: {
        reason: 'granted',
        permission: 'dashboard:view',
        grant_id: expect.stringMatching(/^grt_/),
      },
    })
  })

  it('is looked up live: any of its tokens will do, for any audience that shares a service', async () => {
    const form = {
      grant_type: TOKEN_EXCHANGE,
      subject_token: session.access_token,
      subject_token_type: ACCESS_TOKEN,
    }
    const agent = await lend.agent()
    const tokenFor = async (name: string) =>
      (await lend.token({ ...form, resource: lend.resource(name) }, agent)).body.access_token
    const [own, other] = [await tokenFor('dashboards'), await tokenFor('accounts')]
    await borrow()
    // Before the grant, and still good: what it carries is not what counts.
    expect((await check({ subject: subjectOf(own) })).decision).toBe(true)
    expect((await check({ subject: subjectOf(own) }, PEOPLE)).decision).toBe(true)
    expect(await check({ subject: subjectOf(other) }, PEOPLE)).toMatchObject({
      decision: false,
      context: { reason: 'token_invalid' },
    })
  })

  it('the action may be named in full', async () => {
    await borrow()
    for (const name of ['view', 'dashboard:view'])
      expect((await check({ action: { name } })).decision).toBe(true)
    for (const name of ['edit', 'dashboard:edit', 'VIEW', 'accounts:read', 'dashboard:', ':view'])
      expect((await check({ action: { name } })).decision).toBe(false)
  })

  it('holds one object, and no other', async () => {
    await borrow()
    for (const id of ['q3', 'q3-pipeline-2', 'Q3-pipeline', 'churn', 'sub/q3-pipeline'])
      expect((await check({ resource: { type: 'dashboard', id } })).decision).toBe(false)
    for (const type of ['dashboards', 'Dashboard', 'report'])
      expect(await check({ resource: { type, id: 'q3-pipeline' } })).toMatchObject({
        decision: false,
        context: { reason: 'unknown_permission' },
      })
  })

  it('a denial that cannot be asked for names no item', async () => {
    const churn = await check({ resource: { type: 'dashboard', id: 'churn' } })
    expect(churn.context).toMatchObject({ reason: 'user_lacks_access' })
    // Outside the template's ceiling, whatever the user has: nothing is told of that.
    const edit = await check({ action: { name: 'edit' } })
    expect(edit.context).toMatchObject({ reason: 'not_held' })
    await lend.api(await lend.userToken('maya'), 'POST', '/rules', {
      template: 'renewal-briefs',
      ...Q3,
      effect: 'deny',
    })
    const refused = await check()
    expect(refused.context).toMatchObject({ reason: 'not_held' })
    for (const one of [churn, edit, refused]) expect(one.context).not.toHaveProperty('ask')
    await lend.rows(`delete from consent_rule where effect = 'deny'`)
  })
})

describe('what ends it, at once and without a new token', () => {
  const undo: (() => Promise<unknown>)[] = []
  beforeEach(borrow)
  afterEach(async () => {
    for (const back of undo.splice(0).toReversed()) await back()
  })
  const now = async (reason: string) =>
    expect(await check()).toMatchObject({ decision: false, context: { reason } })

  it('the user loses it, noticed by the check itself', async () => {
    const [row] = await lend.rows<Record<string, string>>(
      `delete from user_permission where permission_id = 'dashboard:view' and user_id = $1
       returning id, tenant_id, user_id, permission_id, resource, created_at::text`,
      [await lend.userId('maya')],
    )
    undo.push(() =>
      lend.rows(
        `insert into user_permission select (jsonb_populate_record(null::user_permission, $1::text::jsonb)).*`,
        [JSON.stringify(row)],
      ),
    )
    await now('user_lacks_access')
  })

  it.each(['tenant', 'user', 'agent', 'template'] as const)('a freeze of the %s', async (scope) => {
    const ids = {
      tenant: 'acme',
      user: await lend.userId('maya'),
      agent: (await lend.agent()).client_id,
      template: 'renewal-briefs',
    }
    const thaw = await lend.freeze(scope, ids[scope])
    await now('frozen')
    await thaw()
    expect((await check()).decision).toBe(true)
  })

  it('the user or the agent is disabled', async () => {
    for (const [table, id] of [
      ['app_user', await lend.userId('maya')],
      ['agent', (await lend.agent()).client_id],
    ] as const) {
      const set = (status: string) =>
        lend.rows(`update ${table} set status = $1 where id = $2`, [status, id])
      undo.push(() => set('active'))
      await set('disabled')
      await now('session_over')
      await set('active')
    }
  })

  it('the permission is retired, or leaves the ceiling, or the template is turned off', async () => {
    const retire = (yes: boolean) =>
      lend.rows(`update permission set retired = $1 where id = 'dashboard:view'`, [yes])
    undo.push(() => retire(false))
    await retire(true)
    await now('unknown_permission')
    await retire(false)

    const [kept] = await lend.rows<{ kept: string }>(
      `select e.kept::text from enablement e join template t on t.id = e.template_id
       where t.name = 'renewal-briefs' and e.tenant_id = $1`,
      [await lend.tenantId()],
    )
    const enablement = async (set: string, value: string) =>
      lend.rows(
        `update enablement set ${set} = $1::text${set === 'kept' ? '::jsonb' : ''} where tenant_id = $2
         and template_id = (select id from template where name = 'renewal-briefs')`,
        [value, await lend.tenantId()],
      )
    undo.push(() => enablement('kept', kept?.kept ?? ''))
    await enablement('kept', '[]')
    await now('not_held')
    await enablement('kept', kept?.kept ?? '')
    undo.push(() => enablement('status', 'on'))
    await enablement('status', 'off')
    await now('session_over')
  })

  it('the agent gives it back: the token from before is dead', async () => {
    const mcp = await lend.mcp(session.access_token)
    await mcp.call('iam.release_access', { items: [Q3] })
    await mcp.close()
    await now('session_over')
    const { access_token } = await lend.reissue(session.refresh_token)
    expect(await check({ subject: subjectOf(access_token) })).toMatchObject({
      decision: false,
      context: { reason: 'not_held', ask: { items: [Q3] } },
    })
  })

  it('the session ends', async () => {
    await lend.endSessions('maya')
    await now('session_over')
  })

  it('the session’s time is up', async () => {
    await lend.rows(`update session set expires_at = now() - interval '1 second' where id = $1`, [
      session.session_id,
    ])
    await now('session_over')
  })
})

describe('a subagent', () => {
  it('that reads only is allowed to look, and loses it with its parent', async () => {
    await borrow()
    const mcp = await lend.mcp(session.access_token)
    const { session_id: id } = await mcp.call<{ session_id: string }>('iam.start_subagent', {
      template: 'email-drafter',
      read_only: true,
    })
    await mcp.close()
    const claimed = await lend.token(
      {
        grant_type: TOKEN_EXCHANGE,
        subject_token: session.access_token,
        subject_token_type: ACCESS_TOKEN,
        session_id: id,
      },
      await lend.agent(),
    )
    const subject = subjectOf(claimed.body.access_token, id)
    expect((await check({ subject })).decision).toBe(true)
    // Its permission has since been made one that writes: what was lent for reading is not enough.
    const access = (to: string) =>
      lend.rows(`update permission set access = $1 where id = 'dashboard:view'`, [to])
    await access('write')
    expect(await check({ subject })).toMatchObject({ context: { reason: 'not_held' } })
    expect((await check()).decision).toBe(true)
    await access('read')
    const frozen = await lend.freeze('template', 'renewal-briefs')
    expect(await check({ subject })).toMatchObject({ context: { reason: 'frozen' } })
    await frozen()
  })
})

describe('the token', () => {
  it('is needed, and a session is asked about by its own alone', async () => {
    await borrow()
    const other = await lend.start('maya')
    const people = await lend.userToken('maya')
    for (const [token, id] of [
      [other.access_token, session.session_id],
      [session.access_token, other.session_id],
      [session.access_token, 'ses_nobody'],
      [people, session.session_id],
      [session.refresh_token, session.session_id],
      ['x', session.session_id],
      [`${session.access_token}x`, session.session_id],
    ])
      expect(await check({ subject: subjectOf(token, id) })).toMatchObject({
        decision: false,
        context: { reason: 'token_invalid' },
      })
    for (const properties of [undefined, {}, { token: '' }, { token: 7 }, { token: null }]) {
      const subject = { type: 'agent_session', id: session.session_id, properties }
      const answer = await post('evaluation', question({ subject }))
      expect(answer.status).toBe(400)
      expect(answer.text).toContain('subject.properties.token')
    }
  })

  it('of another tenant opens nothing, asked from either (I17)', async () => {
    const theirs = await lend.start('gus')
    const subject = subjectOf(theirs.access_token, theirs.session_id)
    expect(await check({ subject })).toMatchObject({ context: { reason: 'token_invalid' } })
    await borrow()
    const there = await lend.enforcementPoint(undefined, 'globex')
    expect((await post('evaluation', question(), there)).status).toBe(401)
    expect((await post('evaluation', question(), there, 'globex')).body).toMatchObject({
      decision: false,
      context: { reason: 'token_invalid' },
    })
    await lend.endSessions('gus')
  })
})

describe('who may ask', () => {
  it.each<[string, () => Promise<Credentials | null>, number]>([
    ['nobody', async () => null, 401],
    ['a wrong secret', async () => ({ ...point, client_secret: 'guess' }), 401],
    ['an agent', () => lend.agent(), 403],
  ])('not %s', async (_, as, status) => {
    for (const path of ['evaluation', 'evaluations', 'search/subject', 'search/resource'])
      expect((await post(path, question(), await as())).status).toBe(status)
  })

  it('an enforcement point only about its own services', async () => {
    await borrow()
    expect(await check({}, PEOPLE)).toMatchObject({ decision: true })
    expect(await check({}, MAIL)).toMatchObject({
      decision: false,
      context: { reason: 'unknown_permission' },
    })
  })

  it('about people only with the privilege for it', async () => {
    const maya = { type: 'user', id: await lend.userId('maya') }
    expect((await post('evaluation', question({ subject: maya }))).status).toBe(403)
    for (const path of ['search/resource', 'search/action'])
      expect((await post(path, question({ subject: maya }))).status).toBe(403)
    const found = await post('search/subject', question({ subject: { type: 'user' } }))
    expect(found.status).toBe(403)
    const batch = { evaluations: [question({ subject: maya }), question()] }
    const mixed = await post('evaluations', batch)
    expect(mixed).toMatchObject({
      status: 200,
      body: { evaluations: [{ decision: false, context: { error: { status: 403 } } }, {}] },
    })
  })
})

describe('a person, asked with the privilege', () => {
  const of = async (login: string, more: object = {}) =>
    check({ subject: { type: 'user', id: await lend.userId(login) }, ...more }, PEOPLE)

  it('is answered by what they have now, whatever any agent holds', async () => {
    expect((await of('maya')).decision).toBe(true)
    expect(await of('omar')).toMatchObject({ context: { reason: 'user_lacks_access' } })
    expect(await of('gus')).toMatchObject({ context: { reason: 'subject_unknown' } })
  })

  it('disabled or frozen is denied', async () => {
    const maya = await lend.userId('maya')
    const thaw = await lend.freeze('user', maya)
    expect(await of('maya')).toMatchObject({ context: { reason: 'frozen' } })
    await thaw()
    await lend.rows(`update app_user set status = 'disabled' where id = $1`, [maya])
    expect((await of('maya')).decision).toBe(false)
    await lend.rows(`update app_user set status = 'active' where id = $1`, [maya])
  })
})

describe('searches of a session', () => {
  const results = async (path: string, more: object = {}) => {
    const answer = await post(`search/${path}`, question(more))
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }

  it('find exactly what an evaluation allows', async () => {
    expect(await results('resource')).toMatchObject({ results: [] })
    expect(await results('action')).toMatchObject({ results: [] })
    await borrow()
    expect(await results('resource')).toEqual({
      results: [{ type: 'dashboard', id: 'q3-pipeline' }],
      page: { next_token: '', count: 1 },
    })
    expect(await results('action')).toMatchObject({ results: [{ name: 'view' }] })
    const subject = subjectOf('x')
    expect(await results('resource', { subject })).toMatchObject({ results: [] })
    expect(await results('action', { subject })).toMatchObject({ results: [] })
  })

  it('never find sessions: nobody is told of one whose token they were not shown', async () => {
    await borrow()
    expect(await results('subject', { subject: { type: 'agent_session' } })).toMatchObject({
      results: [],
    })
  })

  it('a pattern that is held is said as one, with the objects that are known', async () => {
    await lend.rows(
      `insert into user_permission (id, tenant_id, user_id, permission_id, resource, created_at)
       values ('prm_all', $1, $2, 'dashboard:view', 'dashboard/*', now())`,
      [await lend.tenantId(), await lend.userId('omar')],
    )
    const omars = await lend.start('omar')
    await lend.lend('omar', omars.access_token, [{ ...Q3, resource: 'dashboard/*' }])
    const subject = subjectOf(omars.access_token, omars.session_id)
    expect(await results('resource', { subject })).toMatchObject({
      results: [{ type: 'dashboard', id: 'q3-pipeline' }],
      context: { patterns: ['dashboard/*'] },
    })
    await lend.endSessions('omar')
    await lend.rows(`delete from user_permission where id = 'prm_all'`)
  })
})

describe('input that is not understood', () => {
  const NUL = String.fromCharCode(0)
  it.each<[string, object, string]>([
    ['an id that is empty', { resource: { type: 'dashboard', id: '' } }, 'resource.id'],
    [
      'an id that is too long',
      { resource: { type: 'dashboard', id: 'x'.repeat(257) } },
      'resource.id',
    ],
    [
      'an id that is a list',
      { resource: { type: 'dashboard', id: ['q3-pipeline'] } },
      'resource.id',
    ],
    ['a pattern', { resource: { type: 'dashboard', id: '*' } }, 'resource.id'],
    ['a star inside', { resource: { type: 'dashboard', id: 'q3-*' } }, 'resource.id'],
    ['a way out', { resource: { type: 'dashboard', id: '../q3-pipeline' } }, 'resource.id'],
    ['an empty segment', { resource: { type: 'dashboard', id: '/q3-pipeline' } }, 'resource.id'],
    ['a percent sign', { resource: { type: 'dashboard', id: 'q3%2Dpipeline' } }, 'resource.id'],
    ['a type with a slash', { resource: { type: 'dashboard/q3', id: 'x' } }, 'resource.type'],
    ['bidi', { resource: { type: 'dashboard', id: 'q3-pipeline\u202e' } }, 'resource.id'],
    ['zero width', { resource: { type: 'dashboard', id: 'q3\u200b-pipeline' } }, 'resource.id'],
    ['NUL', { resource: { type: 'dashboard', id: `q3-pipeline${NUL}` } }, 'resource.id'],
    ['half a surrogate pair', { action: { name: '\ud800' } }, 'action.name'],
    ['NUL where nothing is read', { context: { ip: NUL } }, 'context.ip'],
    ['a context that is no object', { context: 'x' }, 'context'],
    ['an action that is too long', { action: { name: 'x'.repeat(129) } }, 'action.name'],
    [
      'properties that are no object',
      { action: { name: 'view', properties: [] } },
      'action.properties',
    ],
  ])('%s is 400 and says where', async (_, more, path) => {
    await borrow()
    const answer = await post('evaluation', question(more))
    expect(answer).toMatchObject({ status: 400, body: { code: 'request_malformed' } })
    expect(JSON.stringify(answer.body.errors)).toContain(path)
    expect(answer.text).not.toContain('"decision"')
  })

  it('no JSON, no object, too much', async () => {
    for (const body of ['', '{', '[]', 'null', '"x"', '7'])
      expect((await post('evaluation', body)).status).toBe(400)
    const large = question({ context: { much: 'x'.repeat(300_000) } })
    expect((await post('evaluation', large)).status).toBe(413)
  })

  it('an unknown tenant is no address', async () => {
    expect((await post('evaluation', question(), point, 'nowhere')).status).toBe(404)
    const metadata = await lend.request('/.well-known/authzen-configuration/t/nowhere')
    expect(metadata.status).toBe(404)
  })
})

it('a batch over sessions asks each by its own token', async () => {
  await borrow()
  const other = await lend.start('maya')
  const { subject: _, ...rest } = question()
  const answer = await post('evaluations', {
    ...rest,
    evaluations: [
      { subject: subjectOf() },
      { subject: subjectOf(other.access_token, other.session_id) },
      // The token does not come along with a default's id.
      { subject: { id: other.session_id } },
    ],
  })
  expect(answer.body.evaluations).toMatchObject([
    { decision: true },
    { decision: false, context: { reason: 'not_held' } },
    { decision: false, context: { error: { status: 400 } } },
  ])
})
