import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/explanation.ts'
import { createPeople, type Json, type People } from '../support/people.ts'
import { CATALOG, type Login } from '../support/world-seed.ts'
import { expectProblem, items } from './support/admin.ts'

/** Why: each layer's answer by the same decision (SPEC section 4). */
let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const explain = (as: Login, query: Record<string, string>) =>
  people.call(as, 'GET', `/explain?${new URLSearchParams(query)}`)
const BRIEFS = { template: 'renewal-briefs', permission: 'accounts:read' }
const deciding = (body: Json) => (body.layers as Json[]).filter((one) => one.decides)
const everything = async () =>
  JSON.stringify([
    await people.world.rows('select count(*) from activity'),
    await people.world.rows('select count(*) from template_version'),
    await people.world.rows('select count(*) from session'),
    await people.world.rows('select count(*) from request_item'),
    await people.world.rows('select count(*) from consent_rule'),
  ])

const ITEMS: readonly (readonly [string, string?])[] = [
  ...Object.keys(CATALOG)
    .filter((id) => id !== 'dashboard:view' && id !== 'email:send')
    .map((id) => [id] as const),
  ['dashboard:view', 'dashboard/q3-pipeline'],
  ['dashboard:view', 'dashboard/board'],
  ['dashboard:view', 'dashboard/*'],
  ['email:send', 'domain/customer.example'],
  ['email:send', 'domain/*'],
  ['no.such:thing'],
]

describe('what would be decided', () => {
  test('is what a real request then gets, for whatever facts', async () => {
    const { world } = people
    const run = fc.record({
      login: fc.constantFrom<Login>('maya', 'omar'),
      template: fc.constantFrom('renewal-briefs', 'board-notes'),
      mode: fc.constantFrom('ask' as const, 'auto' as const, 'bypass' as const),
      item: fc.constantFrom(...ITEMS),
      off: fc.subarray(['auto', 'bypass']),
      rules: fc.array(
        fc.record({
          effect: fc.constantFrom('allow', 'deny', 'ask'),
          suspended: fc.boolean(),
          item: fc.constantFrom(...ITEMS),
        }),
        { maxLength: 4 },
      ),
    })
    await fc.assert(
      fc.asyncProperty(run, async ({ login, template, mode, item, off, rules }) => {
        await world.rows(`delete from consent_rule where tenant_id = 'ten_acme'`)
        for (const [i, one] of rules.entries()) {
          const [permission, resource] = one.item
          if (CATALOG[permission] === undefined || CATALOG[permission]?.sensitive) continue
          await world.rows(
            `insert into consent_rule (id, tenant_id, user_id, template_id, permission_id, resource, effect,
               status, created_at)
             select $1, 'ten_acme', $2, id, $3, $4, $5, $6, now() from template where name = $7
             on conflict do nothing`,
            [
              `rul_${i}`,
              `usr_${login}`,
              permission,
              resource ?? null,
              one.effect,
              one.suspended && one.effect === 'allow' ? 'suspended' : 'active',
              template,
            ],
          )
        }
        const session = await world.start(login, { template, mode })
        const modes = ['ask', 'auto', 'bypass'].filter((one) => !off.includes(one))
        await world.rows(`update enablement set modes = $1 where tenant_id = 'ten_acme'`, [modes])
        const [permission, resource] = item
        const asked = { permission, ...(resource === undefined ? {} : { resource }) }
        const said = await explain(login, { template, mode, ...asked })
        expect(said.status, JSON.stringify(said.body)).toBe(200)
        const real = (await world.ask(session, [asked])).value.items[0]?.verdict
        expect([said.body.outcome, said.body.reason, said.body.rule_id]).toEqual([
          real?.outcome,
          real?.reason,
          real?.ruleId,
        ])
        await people.call(login, 'POST', `/sessions/${session}/end`, { body: {} })
        await world.rows(
          `update enablement set modes = '{ask,auto,bypass}' where tenant_id = 'ten_acme'`,
        )
      }),
      { numRuns: 60 },
    )
  }, 120_000)

  test('names every layer, in plain sentences, and writes nothing', async () => {
    const before = await everything()
    const { body, status } = await explain('maya', { ...BRIEFS, permission: 'billing:admin' })
    expect(status).toBe(200)
    expect(contract.explanation.safeParse(body).error).toBeUndefined()
    expect(body).toMatchObject({
      outcome: 'refused',
      reason: 'outside_ceiling',
      template_version: 3,
    })
    expect(body).not.toHaveProperty('blocked')
    expect((body.layers as Json[]).map((one) => [one.layer, one.reason ?? '-'])).toEqual([
      ['catalog', '-'],
      ['ceiling', 'outside_ceiling'],
      ['never_delegable', 'never_delegable'],
      ['user_access', 'user_lacks_access'],
      ['deny_rule', '-'],
      ['held', '-'],
      ['denied', '-'],
      ['sensitive', '-'],
      ['ask_rule', '-'],
      ['reconsent', '-'],
      ['allow_rule', '-'],
      ['mode', 'mode_ask'],
    ])
    expect(deciding(body)).toMatchObject([{ layer: 'ceiling' }])
    expect(await everything()).toBe(before)
  })

  test('says what keeps any session from asking', async () => {
    await people.call('adam', 'PUT', '/enablements/renewal-briefs', { body: { status: 'off' } })
    expect((await explain('maya', BRIEFS)).body).toMatchObject({
      blocked: 'template_off',
      reason: 'outside_ceiling',
    })
    await people.call('adam', 'PUT', '/enablements/renewal-briefs', { body: { status: 'on' } })
    await people.call('adam', 'POST', '/freezes', { body: { scope: 'user', id: 'usr_maya' } })
    expect((await explain('maya', BRIEFS)).body.blocked).toBe('frozen')
  })

  test('is for oneself; of others for admins and auditors; I17 of another tenant’s people for nobody', async () => {
    for (const user of ['maya', 'usr_maya']) {
      expect((await explain('maya', { ...BRIEFS, user })).status).toBe(200)
      expect((await explain('adam', { ...BRIEFS, user })).body.user_id).toBe('usr_maya')
      expect((await explain('cleo', { ...BRIEFS, user })).status).toBe(200)
      expectProblem(await explain('omar', { ...BRIEFS, user }), 403, 'forbidden')
      expectProblem(await explain('gina', { ...BRIEFS, user }), 404, 'not_found')
    }
    expectProblem(await explain('adam', { ...BRIEFS, template: 'studio-secret' }), 404, 'not_found')
    expectProblem(
      await explain('maya', { ...BRIEFS, resource: 'a/b' }),
      422,
      'item_invalid',
      'items.0.resource',
    )
    expectProblem(
      await explain('maya', { ...BRIEFS, mode: 'yolo' }),
      400,
      'request_malformed',
      'mode',
    )
  })
})

describe('a recorded item', () => {
  test('is explained as it was decided and as it would be now', async () => {
    const session = await people.world.start('maya')
    await people.world.ask(session, [{ permission: 'dashboard:view', resource: 'dashboard/board' }])
    const [request] = await people.world.rows<{ id: string; item: string }>(
      `select r.id, i.id as item from access_request r join request_item i on i.request_id = r.id`,
    )
    const path = `/access-requests/${request?.id}/items/${request?.item}/explain`
    const { status, body } = await people.call('maya', 'GET', path)
    expect(status).toBe(200)
    expect(contract.itemExplanation.safeParse(body).error).toBeUndefined()
    expect(body).toMatchObject({
      recorded: { outcome: 'refused', reason: 'user_lacks_access' },
      now: { reason: 'user_lacks_access' },
      session_over: false,
    })
    await people.world.rows(
      `insert into user_permission values ('prm_b', 'ten_acme', 'usr_maya', 'dashboard:view', 'dashboard/board', now())`,
    )
    await people.call('maya', 'POST', `/sessions/${session}/end`, { body: {} })
    expect((await people.call('cleo', 'GET', path)).body).toMatchObject({
      recorded: { reason: 'user_lacks_access' },
      now: { outcome: 'asked', reason: 'mode_ask' },
      session_over: true,
    })
    for (const stranger of ['omar', 'gina'] as const)
      expectProblem(await people.call(stranger, 'GET', path), 404, 'not_found')
  })
})

describe('a trial of a draft', () => {
  const draft = {
    purpose: 'Tries.',
    ceiling: [
      { permission: 'accounts:read' },
      { permission: 'dashboard:view', resource: 'dashboard/*' },
    ],
    modes: ['ask', 'auto'],
    sensitive: [{ permission: 'dashboard:view', resource: 'dashboard/board' }],
    sponsor: 'bo',
  }
  const trial = (body: object, as: Login = 'bo') =>
    people.call(as, 'POST', '/templates/tried/versions/1/try', { body })
  beforeEach(async () => {
    const body = { name: 'tried', title: 'Tried', draft }
    expect((await people.call('bo', 'POST', '/templates', { body })).status).toBe(201)
  })

  test('is decided for a made-up person in each mode, and nothing is written', async () => {
    const before = await everything()
    const user = {
      permissions: [
        { permission: 'accounts:read' },
        { permission: 'dashboard:view', resource: 'dashboard/*' },
      ],
    }
    const asked = [
      { permission: 'accounts:read' },
      { permission: 'dashboard:view', resource: 'dashboard/board' },
      { permission: 'email:send', resource: 'domain/customer.example' },
    ]
    const reasons = async (mode: string) => {
      const { body } = await trial({ user, mode, items: asked })
      expect(contract.templateTried.safeParse(body).error).toBeUndefined()
      return [body.mode, ...items({ body } as never).map((one) => one.reason)]
    }
    expect(await reasons('ask')).toEqual(['ask', 'mode_ask', 'sensitive', 'outside_ceiling'])
    expect(await reasons('auto')).toEqual(['auto', 'mode_auto', 'sensitive', 'outside_ceiling'])
    // The version has no bypass, so there is none.
    expect(await reasons('bypass')).toEqual(['ask', 'mode_ask', 'sensitive', 'outside_ceiling'])
    expect(await everything()).toBe(before)
  })

  test('takes people of the own tenant only, and who has nothing gets nothing', async () => {
    const of = (login: string) => ({ user: { login }, items: [{ permission: 'accounts:read' }] })
    expectProblem(await trial(of('maya')), 422, 'unprocessable', 'user.login')
    expect(items(await trial(of('rhea')))).toMatchObject([{ reason: 'user_lacks_access' }])
    expect(items(await trial({ ...of('x'), user: { permissions: [] } }))).toMatchObject([
      { reason: 'user_lacks_access' },
    ])
    // Neither an admin's nor an auditor's: a trial is a builder's and a reviewer's.
    for (const login of ['adam', 'sol'] as const)
      expectProblem(await trial(of('bo'), login), 403, 'forbidden')
    expectProblem(await trial(of('maya'), 'maya'), 403, 'forbidden')
  })
})
