import { afterEach, beforeEach, expect, test } from 'vitest'
import { createPeople, type Json, type People } from '../support/people.ts'
import type { Login } from '../support/world-seed.ts'

/** A write that is sent twice happens once (USER-ASKS 28). */
let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const SESSION = { agent_id: 'agt_briefs', template: 'renewal-briefs' }
const create = (key: string, body: object = SESSION, as: Login = 'maya') =>
  people.call(as, 'POST', '/sessions', { body, headers: { 'Idempotency-Key': key } })
const count = async (table: string) =>
  (await people.world.rows<{ n: number }>(`select count(*)::integer as n from ${table}`))[0]?.n

test('a repeat answers as the first did, says so, and does nothing', async () => {
  const first = await create('k1')
  expect([first.status, first.headers.get('Idempotency-Replayed')]).toEqual([201, null])
  const kicks = people.world.kicks()
  people.world.clock.advance(600)
  // The same members in another order are the same body.
  const again = await create('k1', { template: 'renewal-briefs', agent_id: 'agt_briefs' })
  expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([201, 'true'])
  expect(again.body).toEqual(first.body)
  expect(await count('session')).toBe(1)
  expect(people.world.kicks()).toBe(kicks)
})

test('the same key with another body is 422 and does nothing', async () => {
  await create('k1')
  const other = await create('k1', { ...SESSION, mode: 'bypass' })
  expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused'])
  expect(await count('session')).toBe(1)
})

test('two at once happen once, and both are answered alike', async () => {
  const [a, b] = await Promise.all([create('k1'), create('k1')])
  expect([a.status, b.status]).toEqual([201, 201])
  expect(a.body).toEqual(b.body)
  expect(await count('session')).toBe(1)
})

test('a key belongs to its caller and its address: another’s use of it is their own', async () => {
  await create('k1')
  const omars = await create('k1', SESSION, 'omar')
  expect([omars.status, omars.body.user_id]).toEqual([201, 'usr_omar'])
  const rule = { template: 'renewal-briefs', permission: 'accounts:read', effect: 'deny' }
  const headers = { 'Idempotency-Key': 'k1' }
  expect((await people.call('maya', 'POST', '/rules', { body: rule, headers })).status).toBe(201)
  const [one, two] = [(await create('a')).body.id, (await create('b')).body.id]
  for (const id of [one, two]) {
    const ended = await people.call('maya', 'POST', `/sessions/${id}/end`, { headers })
    expect([ended.status, ended.headers.get('Idempotency-Replayed')]).toEqual([200, null])
  }
})

test('a fault is not kept: the same key works once its cause is gone', async () => {
  await people.world.rows(`update agent set status = 'disabled' where id = 'agt_briefs'`)
  expect((await create('k1')).body.code).toBe('agent_disabled')
  expect(await count('idempotency_key')).toBe(0)
  await people.world.rows(`update agent set status = 'active' where id = 'agt_briefs'`)
  const answer = await create('k1')
  expect([answer.status, answer.headers.get('Idempotency-Replayed')]).toEqual([201, null])
})

test('a bug keeps neither the key nor what was written before it', async () => {
  await people.world.rows(
    `alter table activity add constraint test_broken check (type <> 'session.started')`,
  )
  try {
    expect((await create('k1')).status).toBe(500)
    expect([await count('idempotency_key'), await count('session')]).toEqual([0, 0])
    expect(people.bugs.splice(0)).toHaveLength(1)
  } finally {
    await people.world.rows('alter table activity drop constraint test_broken')
  }
})

test('a decision that is sent again is answered, not refused as a second one (I16)', async () => {
  const session = await people.world.start('maya')
  await people.world.ask(session, [{ permission: 'accounts:read' }])
  const [request] = (await people.call('maya', 'GET', '/access-requests')).body.items as Json[]
  const decide = (key: string) =>
    people.call('maya', 'POST', `/access-requests/${request?.id}/decision`, {
      headers: { 'Idempotency-Key': key },
      body: {
        digest: request?.digest,
        items: ((request?.items ?? []) as Json[]).map((i) => ({
          id: i.id,
          decision: 'allow_once',
        })),
      },
    })
  const first = await decide('k1')
  const again = await decide('k1')
  expect([first.status, again.status]).toEqual([200, 200])
  expect(again.body).toEqual(first.body)
  expect((await decide('k2')).body.code).toBe('already_answered')
  expect(await count('access_grant')).toBe(1)
})

test('an answer without a body is given again without one', async () => {
  const rule = { template: 'renewal-briefs', permission: 'accounts:read', effect: 'deny' }
  const { body } = await people.call('maya', 'POST', '/rules', { body: rule })
  const remove = () =>
    people.call('maya', 'DELETE', `/rules/${body.id}`, { headers: { 'Idempotency-Key': 'd' } })
  expect((await remove()).status).toBe(204)
  const again = await remove()
  expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([204, 'true'])
})

test.each([
  ['empty', ''],
  ['too long', 'k'.repeat(256)],
  ['not ASCII', 'clé'],
])('a key that is %s is 400 and names the header', async (_name, key) => {
  const answer = await create(key)
  expect([answer.status, answer.body.errors]).toEqual([
    400,
    [{ path: 'Idempotency-Key', message: 'must be 1 to 255 printable ASCII characters' }],
  ])
})
