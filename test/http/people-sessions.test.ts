import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/people.ts'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { createPeople, type Json, type People } from '../support/people.ts'

let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const wanted = { agent_id: 'agt_briefs', template: 'renewal-briefs' }
const create = (body: object = {}) =>
  people.call('maya', 'POST', '/sessions', { body: { ...wanted, ...body } })

async function createdId(body: object = {}): Promise<SessionId> {
  const answer = await create(body)
  expect(answer.status).toBe(201)
  return answer.body.id as SessionId
}

const subagentOf = (parent: SessionId) => people.world.subagent(parent)

const items = (body: Json): Json[] => body.items as Json[]
const recordTypes = async (session: string) =>
  (
    await people.world.rows<{ type: string }>(
      'select type from activity where session_id = $1 order by seq',
      [session],
    )
  ).map((r) => r.type)

describe('POST /sessions', () => {
  test('creates an unclaimed session that holds nothing, in the mode its user chose (I1, I7)', async () => {
    const answer = await create({ mode: 'auto', task: 'Briefs for\nDecember' })
    expect(answer.status).toBe(201)
    expect(contract.session.safeParse(answer.body).error).toBeUndefined()
    expect(answer.body).toMatchObject({
      root_id: answer.body.id,
      path: ['Renewal briefs'],
      user_id: 'usr_maya',
      agent_id: 'agt_briefs',
      agent_name: 'Renewal assistant',
      template: 'renewal-briefs',
      template_version: 3,
      mode: 'auto',
      status: 'active',
      read_only: false,
      version: 1,
      claimed: false,
      task: 'Briefs for\nDecember',
      created_at: '2026-11-30T09:00:00.000Z',
      expires_at: '2026-11-30T17:00:00.000Z',
    })
    const access = await people.call('maya', 'GET', `/sessions/${answer.body.id}/access`)
    expect(access.body).toEqual({ session_id: answer.body.id, items: [], subagents: [] })
    expect(await recordTypes(String(answer.body.id))).toEqual(['session.started'])
    expect(people.world.kicks()).toBe(1)
  })

  test.each([
    ['the adopted version', { template: 'renewal-briefs@3' }, 201, undefined],
    [
      'a version that is not adopted',
      { template: 'renewal-briefs@2' },
      422,
      'template_version_not_adopted',
    ],
    [
      'a version that there is not',
      { template: 'renewal-briefs@9' },
      422,
      'template_version_not_adopted',
    ],
    ['no such template', { template: 'no-such' }, 422, 'template_unknown'],
    ['another tenant’s private template', { template: 'studio-secret' }, 422, 'template_unknown'],
    [
      'a template the agent does not list',
      { template: 'email-drafter' },
      422,
      'template_not_listed',
    ],
    ['a template nobody turned on', { template: 'idle-job' }, 422, 'template_not_enabled'],
    ['an agent there is not', { agent_id: 'agt_none' }, 404, 'not_found'],
    ['another tenant’s agent (I17)', { agent_id: 'agt_globex' }, 404, 'not_found'],
    ['a time for ask', { mode_expires_at: '2026-11-30T10:00:00Z' }, 422, 'unprocessable'],
    [
      'a time that is past',
      { mode: 'bypass', mode_expires_at: '2026-11-30T08:00:00Z' },
      422,
      'unprocessable',
    ],
    [
      'a bypass that runs out',
      { mode: 'bypass', mode_expires_at: '2026-11-30T10:00:00Z' },
      201,
      undefined,
    ],
  ])('%s', async (_name, body, status, code) => {
    const answer = await create(body)
    expect([answer.status, answer.body.code]).toEqual([status, code])
    if (status !== 201) expect(await people.world.rows('select id from session')).toEqual([])
  })

  test('a mode that the organisation turned off is not there to choose, ask always is', async () => {
    await people.world.rows(
      `update enablement set modes = array['ask'] where tenant_id = 'ten_acme' and template_id = 'tpl_briefs'`,
    )
    expect((await create({ mode: 'bypass' })).body.code).toBe('mode_not_allowed')
    expect((await create({ mode: 'ask' })).status).toBe(201)
  })

  test('a disabled agent starts nothing; a frozen one neither, and says when to come back', async () => {
    await people.world.rows(
      `insert into frozen values ('frz_1', 'ten_acme', 'agent', 'agt_briefs', 'usr_adam', now())`,
    )
    const frozen = await create()
    expect([frozen.status, frozen.body.code, frozen.body.limit]).toEqual([409, 'frozen', 'agent'])
    expect(frozen.headers.get('Retry-After')).toBe(String(frozen.body.retry_after))
    await people.world.rows(`update agent set status = 'disabled' where id = 'agt_briefs'`)
    expect((await create()).body.code).toBe('agent_disabled')
  })

  test('the 21st live session for one agent and user is refused', async () => {
    for (let i = 0; i < 20; i++) expect((await create()).status).toBe(201)
    const over = await create()
    expect([over.status, over.body.code, over.body.limit]).toEqual([
      429,
      'limit_reached',
      'liveRootsPerUser',
    ])
  })
})

describe('reading sessions', () => {
  test('one’s own only: another user’s and another tenant’s are 404, and not in the list (I17)', async () => {
    const mine = await createdId()
    for (const [as, status] of [
      ['maya', 200],
      ['omar', 404],
      ['gus', 404],
      ['gina', 404],
      ['adam', 200],
      ['cleo', 200],
    ] as const)
      for (const path of [`/sessions/${mine}`, `/sessions/${mine}/access`])
        expect([as, path, (await people.call(as, 'GET', path)).status]).toEqual([as, path, status])
    for (const as of ['omar', 'gus', 'adam'] as const)
      expect(items((await people.call(as, 'GET', '/sessions')).body)).toEqual([])
  })

  test('lists newest first, in pages that neither repeat nor leave out', async () => {
    const made: string[] = []
    for (let i = 0; i < 5; i++) {
      // Two at the same instant: the id decides.
      if (i % 2 === 0) people.world.clock.advance(60)
      made.unshift(await createdId())
    }
    const seen: string[] = []
    let next: string | undefined
    do {
      const query = next === undefined ? '?limit=2' : `?limit=2&cursor=${next}`
      const { body, status } = await people.call('maya', 'GET', `/sessions${query}`)
      expect(status).toBe(200)
      expect(contract.listOf(contract.session).safeParse(body).error).toBeUndefined()
      seen.push(...items(body).map((s) => String(s.id)))
      next = body.next as string | undefined
    } while (next !== undefined)
    expect(seen).toEqual(made)
  })

  test('past its end it reads expired before any sweep, and is not listed as active', async () => {
    const session = await createdId()
    people.world.clock.advance(8 * 3600)
    const { body } = await people.call('maya', 'GET', `/sessions/${session}`)
    expect(body).toMatchObject({
      status: 'expired',
      end_reason: 'timeout',
      ended_at: '2026-11-30T17:00:00.000Z',
    })
    const active = await people.call('maya', 'GET', '/sessions?status=active')
    expect(items(active.body)).toEqual([])
    const expired = await people.call('maya', 'GET', '/sessions?status=expired')
    expect(items(expired.body).map((s) => s.id)).toEqual([session])
  })

  test('access says what, since when and by what; a subagent’s is inherited from its parent', async () => {
    const root = await createdId({ mode: 'auto' })
    await people.world.ask(root, [{ permission: 'accounts:read' }])
    people.world.clock.advance(5)
    const child = await subagentOf(root)
    const { body } = await people.call('maya', 'GET', `/sessions/${root}/access`)
    expect(contract.sessionAccess.safeParse(body).error).toBeUndefined()
    expect(items(body)).toMatchObject([
      {
        permission: 'accounts:read',
        title: 'Accounts API · Read',
        kind: 'api',
        read_only: false,
        source: { by: 'mode' },
        since: '2026-11-30T09:00:00.000Z',
        uses: 0,
      },
    ])
    const below = body.subagents as { session: Json; items: Json[] }[]
    expect(below).toMatchObject([
      {
        session: { id: child, parent_id: root, path: ['Renewal briefs', 'Email drafter'] },
        items: [{ permission: 'accounts:read', source: { by: 'inherited', from_session: root } }],
      },
    ])
    const own = await people.call('maya', 'GET', `/sessions/${child}/access`)
    expect(items(own.body)).toHaveLength(1)
    expect(own.body.subagents).toEqual([])
  })

  test('the number of statements does not grow with the list', async () => {
    const { db } = people.world.ctx
    const count = async (path: string) => {
      const before = db.statements()
      expect((await people.call('maya', 'GET', path)).status).toBe(200)
      return db.statements() - before
    }
    const root = await createdId({ mode: 'auto' })
    const alone = [await count('/sessions'), await count(`/sessions/${root}/access`)]
    await people.world.ask(root, [{ permission: 'accounts:read' }])
    for (let i = 0; i < 4; i++) await subagentOf(root)
    expect([await count('/sessions'), await count(`/sessions/${root}/access`)]).toEqual(alone)
  })
})

describe('POST /sessions/{id}/end', () => {
  test('ends the subtree and counts what went (I11)', async () => {
    const root = await createdId({ mode: 'auto' })
    await people.world.ask(root, [
      { permission: 'accounts:read' },
      { permission: 'contracts.fields:pricing' },
    ])
    const child = await subagentOf(root)
    const answer = await people.call('maya', 'POST', `/sessions/${root}/end`)
    expect([answer.status, answer.body]).toEqual([
      200,
      { sessions_ended: 2, grants_revoked: 2, prompts_cancelled: 1 },
    ])
    expect((await people.call('maya', 'GET', `/sessions/${root}`)).body).toMatchObject({
      status: 'ended',
      end_reason: 'user',
    })
    expect((await people.call('maya', 'GET', `/sessions/${child}`)).body).toMatchObject({
      status: 'ended',
      end_reason: 'parent',
    })
    expect(await people.world.rows('select id from access_grant')).toEqual([])
    const [settled] = items(
      (await people.call('maya', 'GET', '/access-requests?status=settled')).body,
    )
    expect((settled?.items as Json[] | undefined)?.at(-1)).toMatchObject({
      decision_reason: 'cancelled',
    })
  })

  test('twice is 409; another user’s is 404; the body may be {} and nothing else', async () => {
    const session = await createdId()
    const path = `/sessions/${session}/end`
    expect((await people.call('omar', 'POST', path)).status).toBe(404)
    expect((await people.call('cleo', 'POST', path)).status).toBe(404)
    expect((await people.call('gina', 'POST', path)).status).toBe(404)
    expect((await people.call('maya', 'POST', path, { body: { why: 'x' } })).status).toBe(400)
    expect((await people.call('maya', 'POST', path, { body: {} })).status).toBe(200)
    const again = await people.call('maya', 'POST', path)
    expect([again.status, again.body.code]).toEqual([409, 'session_over'])
  })

  test('an org admin revokes it, and the record says by whom', async () => {
    const session = await createdId()
    expect((await people.call('adam', 'POST', `/sessions/${session}/end`)).status).toBe(200)
    expect((await people.call('maya', 'GET', `/sessions/${session}`)).body).toMatchObject({
      status: 'revoked',
      end_reason: 'admin',
    })
    const [record] = await people.world.rows<{ data: Json }>(
      `select data from activity where type = 'session.ended'`,
    )
    expect(record?.data).toMatchObject({ reason: 'admin', by: 'usr_adam' })
  })

  test('stays open while everything is frozen', async () => {
    const session = await createdId()
    await people.world.rows(
      `insert into frozen values ('frz_1', 'ten_acme', 'tenant', 'ten_acme', 'usr_adam', now())`,
    )
    expect((await people.call('maya', 'POST', `/sessions/${session}/end`)).status).toBe(200)
  })
})
