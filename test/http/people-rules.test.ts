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

const READ = { template: 'renewal-briefs', permission: 'accounts:read', effect: 'allow' }
const items = (body: Json): Json[] => (body.items ?? []) as Json[]
const post = (body: object, as: 'maya' | 'omar' | 'gus' = 'maya') =>
  people.call(as, 'POST', '/rules', { body })
const rules = async (query = '') => items((await people.call('maya', 'GET', `/rules${query}`)).body)
const held = async (session: SessionId) =>
  items((await people.call('maya', 'GET', `/sessions/${session}/access`)).body).map(
    (g) => g.permission,
  )
const reasonFor = async (session: SessionId, permission: string, resource?: string) =>
  (
    await people.world.ask(session, [
      { permission, ...(resource === undefined ? {} : { resource }) },
    ])
  ).value.items[0]?.verdict.reason

describe('POST /rules', () => {
  test('saves an answer for next time, on the tenant’s chain with its user (I10, I12)', async () => {
    const answer = await post({ ...READ, expires_at: '2026-12-31T00:00:00Z' })
    expect(answer.status).toBe(201)
    expect(contract.rule.safeParse(answer.body).error).toBeUndefined()
    expect(answer.body).toMatchObject({
      template: 'renewal-briefs',
      permission: 'accounts:read',
      title: 'Accounts API · Read',
      effect: 'allow',
      status: 'active',
      created_at: '2026-11-30T09:00:00.000Z',
      expires_at: '2026-12-31T00:00:00.000Z',
    })
    expect(await rules()).toEqual([answer.body])
    const [record] = await people.world.rows<{ chain: string; user_id: string; data: Json }>(
      `select chain, user_id, data from activity where type = 'rule.created'`,
    )
    expect(record).toMatchObject({
      chain: 'ten_acme',
      user_id: 'usr_maya',
      data: {
        rule_id: answer.body.id,
        effect: 'allow',
        permission: 'accounts:read',
        via: 'people',
      },
    })
    const session = await people.world.start('maya')
    expect(await held(session)).toEqual([])
    expect(await reasonFor(session, 'accounts:read')).toBe('allow_rule')
  })

  test('the same rule again is the same rule, with the new expiry, and 200', async () => {
    const first = await post(READ)
    const again = await post({ ...READ, expires_at: '2026-12-31T00:00:00Z' })
    expect([again.status, again.body.id]).toEqual([200, first.body.id])
    expect(await rules()).toHaveLength(1)
  })

  test('its resource is canonical before it is compared', async () => {
    const { body } = await post({
      ...READ,
      permission: 'email:send',
      resource: 'domain/Bücher.Example.',
    })
    expect(body.resource).toBe('domain/xn--bcher-kva.example')
  })

  test('deny ends what it overlaps in every live session of that template, and of no other', async () => {
    const briefs = await people.world.start('maya', { mode: 'auto' })
    const board = await people.world.start('maya', { mode: 'auto', template: 'board-notes' })
    await people.world.ask(briefs, [
      { permission: 'accounts:read' },
      { permission: 'accounts.rows:my_region' },
    ])
    await people.world.ask(board, [{ permission: 'accounts:read' }])
    const version = async () =>
      (await people.call('maya', 'GET', `/sessions/${briefs}`)).body.version as number
    const before = await version()
    expect((await post({ ...READ, effect: 'deny' })).status).toBe(201)
    expect(await held(briefs)).toEqual(['accounts.rows:my_region'])
    expect(await held(board)).toEqual(['accounts:read'])
    expect(await version()).toBe(before + 1)
    expect(await reasonFor(briefs, 'accounts:read')).toBe('deny_rule')
  })

  test('an ask or allow rule ends nothing', async () => {
    const session = await people.world.start('maya', { mode: 'auto' })
    await people.world.ask(session, [{ permission: 'accounts:read' }])
    await post({ ...READ, effect: 'ask' })
    await post(READ)
    expect(await held(session)).toEqual(['accounts:read'])
  })

  test.each([
    ['the catalog', { ...READ, permission: 'contracts.fields:pricing' }],
    [
      'the template',
      {
        ...READ,
        template: 'board-notes',
        permission: 'dashboard:view',
        resource: 'dashboard/board',
      },
    ],
    [
      'the template, though the pattern is wider than the mark',
      { ...READ, template: 'board-notes', permission: 'dashboard:view', resource: 'dashboard/*' },
    ],
  ])('allow for what is marked sensitive by %s is always 422 (I8)', async (_by, body) => {
    const answer = await post(body)
    expect([answer.status, answer.body.code]).toEqual([422, 'sensitive_not_remembered'])
    expect(await rules()).toEqual([])
    for (const effect of ['deny', 'ask']) expect((await post({ ...body, effect })).status).toBe(201)
  })

  test('marks of a template that is turned off still count, by its latest version', async () => {
    await people.world.rows(`delete from enablement where template_id = 'tpl_board'`)
    const answer = await post({
      ...READ,
      template: 'board-notes',
      permission: 'dashboard:view',
      resource: 'dashboard/board',
    })
    expect(answer.body.code).toBe('sensitive_not_remembered')
  })

  test.each([
    ['no such template', { template: 'no-such' }, 422, 'template_unknown', undefined],
    [
      'another tenant’s private template',
      { template: 'studio-secret' },
      422,
      'template_unknown',
      undefined,
    ],
    [
      'a permission the catalog lacks',
      { permission: 'no.such:thing' },
      422,
      'item_invalid',
      'permission',
    ],
    ['a missing resource', { permission: 'dashboard:view' }, 422, 'item_invalid', 'resource'],
    ['a resource that is not taken', { resource: 'dashboard/x' }, 422, 'item_invalid', 'resource'],
    [
      'a pattern inside a name',
      { permission: 'dashboard:view', resource: 'dashboard/q*' },
      422,
      'item_invalid',
      'resource',
    ],
    [
      'bidirectional text in a resource',
      { permission: 'dashboard:view', resource: 'dashboard/q3\u202e' },
      400,
      'request_malformed',
      'resource',
    ],
    [
      'a zero-width space in a resource',
      { permission: 'dashboard:view', resource: 'dashboard/q3\u200b' },
      400,
      'request_malformed',
      'resource',
    ],
    ['a narrow where none can be', { narrow: { region: 'emea' } }, 422, 'item_invalid', 'narrow'],
    [
      'an operator that there is not',
      { permission: 'accounts.rows:my_region', narrow: { region: { $regex: '.*' } } },
      422,
      'item_invalid',
      'narrow.region.$regex',
    ],
    [
      'a variable in a narrow',
      { permission: 'accounts.rows:my_region', narrow: { region: { $user: 'region' } } },
      422,
      'item_invalid',
      'narrow.region',
    ],
    ['a narrow that is a list', { narrow: [] }, 400, 'request_malformed', 'narrow'],
    [
      'a time that is past',
      { expires_at: '2026-11-30T08:00:00Z' },
      422,
      'unprocessable',
      'expires_at',
    ],
    ['an effect that there is not', { effect: 'maybe' }, 400, 'request_malformed', 'effect'],
    ['an unknown member', { user_id: 'usr_omar' }, 400, 'request_malformed', 'user_id'],
    ['no permission', { permission: undefined }, 400, 'request_malformed', 'permission'],
  ])('%s', async (_name, more, status, code, path) => {
    const answer = await post({ ...READ, ...more })
    expect([answer.status, answer.body.code]).toEqual([status, code])
    expect((answer.body.errors as Json[] | undefined)?.[0]?.path).toBe(path)
    expect(await rules()).toEqual([])
  })

  test('a narrow over a field that is masked for this person is refused (I14)', async () => {
    await people.world.rows(
      `insert into restriction values ('rst_1', 'ten_acme', 'usr_maya', null, 'accounts', null, array['phone'], now())`,
    )
    const answer = await post({
      ...READ,
      permission: 'accounts.rows:my_region',
      narrow: { phone: '+31' },
    })
    expect([answer.status, answer.body.code]).toEqual([422, 'item_invalid'])
  })
})

test('a number that would be stored as another value is 400 and names the member', async () => {
  const answer = await people.call('maya', 'POST', '/rules', {
    raw: '{"template":"renewal-briefs","permission":"accounts.rows:my_region","effect":"allow","narrow":{"renewal_in_days":{"$lte":1e999}}}',
    headers: { 'Idempotency-Key': 'k' },
  })
  expect([answer.status, (answer.body.errors as Json[])[0]?.path]).toEqual([
    400,
    'narrow.renewal_in_days.$lte',
  ])
})

describe('GET and DELETE /rules', () => {
  test('one’s own only: another’s is 404 and stays (I17)', async () => {
    const { body } = await post(READ)
    expect(items((await people.call('omar', 'GET', '/rules')).body)).toEqual([])
    for (const as of ['omar', 'adam', 'gus'] as const) {
      const answer = await people.call(as, 'DELETE', `/rules/${body.id}`)
      expect([answer.status, answer.body.code]).toEqual([404, 'not_found'])
    }
    expect(await rules()).toHaveLength(1)
  })

  test('deleting is 204, recorded, and ends nothing; the next request asks again', async () => {
    const { body } = await post(READ)
    const session = await people.world.start('maya')
    await people.world.ask(session, [{ permission: 'accounts:read' }])
    const answer = await people.call('maya', 'DELETE', `/rules/${body.id}`)
    expect([answer.status, answer.body]).toEqual([204, {}])
    expect(await rules()).toEqual([])
    expect(await held(session)).toEqual(['accounts:read'])
    const [record] = await people.world.rows<{ user_id: string; data: Json }>(
      `select user_id, data from activity where type = 'rule.deleted'`,
    )
    expect(record).toMatchObject({
      user_id: 'usr_maya',
      data: { rule_id: body.id, effect: 'allow' },
    })
    const next = await people.world.start('maya')
    expect(await reasonFor(next, 'accounts:read')).toBe('mode_ask')
    expect((await people.call('maya', 'DELETE', `/rules/${body.id}`)).status).toBe(404)
  })

  test('a rule that has run out is no longer listed', async () => {
    await post({ ...READ, expires_at: '2026-11-30T10:00:00Z' })
    people.world.clock.advance(3600)
    expect(await rules()).toEqual([])
  })

  test('filters by template and effect, and goes on from a cursor', async () => {
    await post(READ)
    await post({ ...READ, effect: 'ask' })
    await post({ ...READ, template: 'board-notes' })
    expect(await rules('?template=board-notes')).toHaveLength(1)
    expect(await rules('?effect=ask')).toHaveLength(1)
    const first = await people.call('maya', 'GET', '/rules?limit=2')
    const rest = await rules(`?limit=2&cursor=${first.body.next}`)
    expect(new Set([...items(first.body), ...rest].map((r) => r.id)).size).toBe(3)
    expect(rest).toHaveLength(1)
  })
})
