import { afterEach, beforeEach, expect, test } from 'vitest'
import * as contract from '../../schema/studio.ts'
import { decide } from '../../src/core/decide.ts'
import { factsOf } from '../../src/core/facts.ts'
import { replay } from '../../src/core/replay.ts'
import type { Item, Permission, SessionId } from '../../src/core/vocabulary.ts'
import { createPeople, type Json, type People } from '../support/people.ts'
import { TEMPLATES } from '../support/world-seed.ts'
import { expectProblem } from './support/admin.ts'

/** Recorded requests decided again under a draft: what would come out differently, and for whom that may be told. */
let people: People
let mayas: SessionId
beforeEach(async () => {
  people = await createPeople()
  const { world } = people
  mayas = await world.start('maya', { mode: 'bypass' })
  await world.ask(mayas, [
    { permission: 'accounts:read' },
    { permission: 'contracts.fields:pricing' },
    { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' },
    { permission: 'email:send', resource: 'domain/secret-customer.example' },
    { permission: 'email-templates:write' },
  ])
  const draft = {
    base: 'published',
    ceiling: [
      ...V3.filter((one) => one.permission !== 'email:send'),
      { permission: 'email-templates:write' },
    ],
    sensitive: [{ permission: 'accounts:read' }],
  }
  const put = await people.call('bo', 'PUT', '/templates/renewal-briefs/versions/4', {
    body: draft,
  })
  expect(put.status).toBe(200)
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})
const V3 = TEMPLATES['renewal-briefs']?.versions[3]?.ceiling ?? []
const PATH = '/templates/renewal-briefs/versions/4/replay'

test('I17 the publisher sees other organisations’ requests as counts by permission and reason only', async () => {
  const { status, body } = await people.call('rhea', 'GET', PATH)
  expect(status).toBe(200)
  expect(contract.templateReplay.safeParse(body).error).toBeUndefined()
  expect(body).toMatchObject({
    days: 30,
    items: 5,
    truncated: false,
    changed: { refused: 1, asked: 1, granted: 1 },
    own: [],
  })
  const others = (body.others as Json[]).map((one) => [one.permission, one.reason, one.count])
  expect(others.sort()).toEqual([
    ['accounts:read', 'sensitive', 1],
    ['email-templates:write', 'mode_bypass', 1],
    ['email:send', 'outside_ceiling', 1],
  ])
  for (const secret of ['secret-customer', 'maya', 'acme', mayas, 'req_', 'itm_'])
    expect(JSON.stringify(body)).not.toContain(secret)
  expectProblem(await people.call('adam', 'GET', PATH), 404, 'not_found')
  expectProblem(await people.call('maya', 'GET', PATH), 403, 'forbidden')
})

test('an admin’s preview has their own organisation’s, in detail, within what they kept', async () => {
  await people.call('bo', 'POST', '/templates/renewal-briefs/versions/4/submit')
  await people.call('rhea', 'POST', '/templates/renewal-briefs/versions/4/review', {
    body: { verdict: 'approve' },
  })
  const preview = async (as: 'adam' | 'gina') =>
    (await people.call(as, 'GET', '/enablements/renewal-briefs/preview?version=4')).body
  const { replay: own } = await preview('adam')
  expect((own as Json).own).toMatchObject(
    expect.arrayContaining([
      expect.objectContaining({
        permission: 'email:send',
        resource: 'domain/secret-customer.example',
        session_id: mayas,
        user_id: 'usr_maya',
        was: { outcome: 'granted', reason: 'mode_bypass' },
        now: expect.objectContaining({ outcome: 'refused', reason: 'outside_ceiling' }),
      }),
    ]),
  )
  expect((await preview('gina')).replay).toMatchObject({ items: 0, own: [] })
})

test('looks no further back than it is asked to', async () => {
  people.world.clock.advance(40 * 86_400)
  expect((await people.call('rhea', 'GET', PATH)).body.items).toBe(0)
  expect((await people.call('rhea', 'GET', `${PATH}?days=60`)).body.items).toBe(5)
  for (const days of ['0', '91', 'x'])
    expectProblem(
      await people.call('rhea', 'GET', `${PATH}?days=${days}`),
      400,
      'request_malformed',
      'days',
    )
})

test('under the terms that were in force, everything comes out as it did', async () => {
  const { body } = await people.call('rhea', 'GET', '/templates/renewal-briefs/versions/3/replay')
  expect(body).toMatchObject({ items: 5, changed: { refused: 0, asked: 0, granted: 0 } })
})

test('is the decision itself, for every reason that can be recorded', () => {
  const row: Permission = {
    id: 'a:read',
    kind: 'api',
    access: 'read',
    risk: 'low',
    sensitive: false,
    delegable: true,
    takesResource: false,
  }
  const item: Item = { permission: 'a:read' }
  const catalog = new Map([[row.id, row]])
  const rule = (effect: 'allow' | 'deny' | 'ask', suspended = false) => ({
    id: 'rul_x' as never,
    effect,
    suspended,
    item,
  })
  const world = {
    catalog,
    ceilings: [[item]],
    sensitiveMarks: [],
    userAccess: [item],
    rules: [],
    held: [],
    denied: [],
    mode: 'ask' as const,
  }
  const worlds = [
    world,
    { ...world, ceilings: [[]] },
    { ...world, userAccess: [] },
    { ...world, rules: [rule('deny')] },
    { ...world, rules: [rule('ask')] },
    { ...world, rules: [rule('allow')] },
    { ...world, rules: [rule('allow', true)] },
    { ...world, held: [item] },
    { ...world, denied: [item] },
    { ...world, sensitiveMarks: [item] },
    { ...world, mode: 'auto' as const },
    { ...world, mode: 'bypass' as const },
  ]
  const reasons = worlds.map((one) => {
    const was = decide(factsOf(one, item))
    const recorded = { item, reason: was.reason, ruleId: was.ruleId ?? null, mode: one.mode }
    const terms = {
      ceiling: one.ceilings[0] ?? [],
      sensitive: one.sensitiveMarks,
      modes: ['ask', 'auto', 'bypass'] as const,
    }
    expect(replay(recorded, terms, catalog)).toEqual(was)
    return was.reason
  })
  expect(new Set(reasons).size).toBe(12)
})
