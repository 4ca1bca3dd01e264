import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { createPeople, type Json, type People } from '../support/people.ts'

/** What a person can take away from a session while it runs: looseness and grants. */
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

describe('PATCH /sessions/{id}', () => {
  const patch = (session: string, body: object, as: 'maya' | 'omar' | 'adam' = 'maya') =>
    people.call(as, 'PATCH', `/sessions/${session}`, { body })
  const TEN = '2026-11-30T10:00:00.000Z'
  const ELEVEN = '2026-11-30T11:00:00.000Z'

  test.each([
    ['bypass', null, { mode: 'auto' }, 200],
    ['bypass', null, { mode: 'ask' }, 200],
    ['auto', null, { mode: 'bypass' }, 409],
    ['ask', null, { mode: 'auto' }, 409],
    ['ask', null, { mode: 'ask' }, 409],
    ['auto', null, { mode: 'auto' }, 409],
    ['auto', null, { mode: 'auto', mode_expires_at: TEN }, 200],
    ['bypass', ELEVEN, { mode: 'bypass', mode_expires_at: TEN }, 200],
    ['bypass', TEN, { mode: 'bypass', mode_expires_at: ELEVEN }, 409],
    ['bypass', TEN, { mode: 'bypass', mode_expires_at: TEN }, 409],
    // It would have dropped to ask at ten: auto until eleven is looser then.
    ['bypass', TEN, { mode: 'auto', mode_expires_at: ELEVEN }, 409],
    ['bypass', TEN, { mode: 'auto' }, 200],
    ['bypass', TEN, { mode: 'ask', mode_expires_at: TEN }, 422],
    ['bypass', TEN, { mode: 'bypass', mode_expires_at: '2026-11-30T08:59:59Z' }, 422],
  ])('from %s until %s to %j is %i: only ever tighter (I7)', async (mode, until, to, status) => {
    const session = await createdId(until === null ? { mode } : { mode, mode_expires_at: until })
    const answer = await patch(session, to)
    expect([answer.status, answer.body.code]).toEqual([
      status,
      { 200: undefined, 409: 'mode_not_tighter', 422: 'unprocessable' }[status],
    ])
    if (status === 200) expect(answer.body).toMatchObject(to)
    const changed = (await recordTypes(session)).includes('mode.changed')
    expect(changed).toBe(status === 200)
  })

  test('auto without a time of its own keeps the time that bypass had', async () => {
    const session = await createdId({ mode: 'bypass', mode_expires_at: TEN })
    expect((await patch(session, { mode: 'auto' })).body.mode_expires_at).toBe(TEN)
    people.world.clock.advance(3600)
    expect((await people.call('maya', 'GET', `/sessions/${session}`)).body.mode).toBe('ask')
  })

  test('a bypass that has run out is ask, so auto would loosen it', async () => {
    const session = await createdId({ mode: 'bypass', mode_expires_at: TEN })
    people.world.clock.advance(3600)
    expect((await patch(session, { mode: 'auto' })).body.code).toBe('mode_not_tighter')
    expect((await patch(session, { mode: 'ask' })).status).toBe(200)
  })

  test('reaches looser subagents, and what is held stays held', async () => {
    const root = await createdId({ mode: 'bypass' })
    await people.world.ask(root, [{ permission: 'accounts:read' }])
    const child = await subagentOf(root)
    expect((await patch(root, { mode: 'ask' })).status).toBe(200)
    expect((await people.call('maya', 'GET', `/sessions/${child}`)).body.mode).toBe('ask')
    expect(await recordTypes(child)).toContain('mode.changed')
    expect(await people.world.rows('select id from access_grant')).toHaveLength(2)
  })

  test('is the user’s alone: not an admin’s, not another’s, not for a session that is over', async () => {
    const session = await createdId({ mode: 'auto' })
    expect((await patch(session, { mode: 'ask' }, 'adam')).status).toBe(404)
    expect((await patch(session, { mode: 'ask' }, 'omar')).status).toBe(404)
    await people.call('maya', 'POST', `/sessions/${session}/end`)
    expect((await patch(session, { mode: 'ask' })).body.code).toBe('session_over')
  })

  test.each([
    [{}, 'mode'],
    [{ mode: 'ask', user_id: 'usr_omar' }, 'user_id'],
    [{ mode: null }, 'mode'],
  ])('bad input %j', async (body, path) => {
    const answer = await patch('ses_x', body)
    expect([answer.status, (answer.body.errors as Json[])[0]?.path]).toEqual([400, path])
  })
})

describe('DELETE /sessions/{id}/grants/{id}', () => {
  test('takes it back with what a subagent inherited, raises both versions, and counts', async () => {
    const root = await createdId({ mode: 'auto' })
    await people.world.ask(root, [{ permission: 'accounts:read' }])
    const child = await subagentOf(root)
    const [grant] = items((await people.call('maya', 'GET', `/sessions/${root}/access`)).body)
    const answer = await people.call('maya', 'DELETE', `/sessions/${root}/grants/${grant?.id}`)
    expect([answer.status, answer.body]).toEqual([200, { revoked: 2 }])
    expect(await people.world.rows('select id from access_grant')).toEqual([])
    for (const id of [root, child])
      expect((await people.call('maya', 'GET', `/sessions/${id}`)).body.version).toBe(2)
    const ended = await people.world.rows<{ data: Json }>(
      `select data from activity where type = 'grant.ended' order by n`,
    )
    expect(ended.map((r) => [r.data.reason, r.data.by])).toEqual([
      ['taken_back', 'usr_maya'],
      ['parent_lost', 'usr_maya'],
    ])
    const again = await people.call('maya', 'DELETE', `/sessions/${root}/grants/${grant?.id}`)
    expect([again.status, again.body.code]).toEqual([404, 'not_found'])
  })

  test('only of that session, and only by its user or an org admin', async () => {
    const [one, other] = [await createdId({ mode: 'auto' }), await createdId({ mode: 'auto' })]
    await people.world.ask(one, [{ permission: 'accounts:read' }])
    const [grant] = items((await people.call('maya', 'GET', `/sessions/${one}/access`)).body)
    const path = `/sessions/${one}/grants/${grant?.id}`
    expect(
      (await people.call('maya', 'DELETE', `/sessions/${other}/grants/${grant?.id}`)).status,
    ).toBe(404)
    for (const as of ['omar', 'cleo', 'gina'] as const)
      expect((await people.call(as, 'DELETE', path)).status).toBe(404)
    expect((await people.call('adam', 'DELETE', path)).body).toEqual({ revoked: 1 })
    const [ended] = await people.world.rows<{ data: Json }>(
      `select data from activity where type = 'grant.ended'`,
    )
    expect(ended?.data).toMatchObject({ reason: 'admin', by: 'usr_adam' })
  })
})
