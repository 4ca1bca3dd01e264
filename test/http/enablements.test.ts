import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/templates.ts'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import { createPeople, type Json, type People } from '../support/people.ts'
import { type Login, TEMPLATES } from '../support/world-seed.ts'

/** A tenant turns a template on, narrows it and turns it off (SPEC section 3, I15). */
let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const V3 = TEMPLATES['renewal-briefs']?.versions[3]?.ceiling ?? []
const put = (template: string, body: unknown, as: Login = 'adam') =>
  people.call(as, 'PUT', `/enablements/${template}`, { body })
const get = (template: string, as: Login = 'adam') =>
  people.call(as, 'GET', `/enablements/${template}`)
const row = async (template = 'tpl_briefs') =>
  (
    await people.world.rows<Json>(
      `select status, adopted_version, kept, modes, limits from enablement
       where tenant_id = 'ten_acme' and template_id = $1`,
      [template],
    )
  )[0]
const records = () =>
  people.world.rows<{ data: Json }>(
    `select data from activity where type = 'enablement.changed' order by n`,
  )
const reasonFor = async (session: SessionId, permission: string, resource?: string) =>
  (await people.world.ask(session, [{ permission, ...(resource ? { resource } : {}) }])).value
    .items[0]?.verdict.reason
const held = (session: SessionId) =>
  people.world.rows<{ permission_id: string }>(
    'select permission_id from access_grant where session_id = $1 order by 1',
    [session],
  )

describe('the gallery', () => {
  test('has every published template that the tenant may see, and what it made of each', async () => {
    const { body } = await people.call('adam', 'GET', '/enablements')
    const items = body.items as Json[]
    for (const item of items) expect(contract.enablement.safeParse(item).error).toBeUndefined()
    const found = Object.fromEntries(items.map((item) => [item.template, item.status]))
    expect(found).toMatchObject({ 'renewal-briefs': 'on', 'idle-job': 'off' })
    // Private to another tenant.
    expect(found).not.toHaveProperty('studio-secret')
    expect((await get('studio-secret')).status).toBe(404)
    expect((await get('no-such-template')).status).toBe(404)
    const idle = (await get('idle-job')).body
    expect(idle).toMatchObject({ status: 'off', latest_version: 1, allows: { version: 1 } })
    expect(idle).not.toHaveProperty('adopted_version')
  })

  test('a draft is not offered', async () => {
    await people.world.rows(
      `insert into template values ('tpl_d', 'drafted', 'D', 'ten_acme', 'private', now())`,
    )
    await people.world.rows(
      `insert into template_version (template_id, version, status, purpose, ceiling, context, modes, limits,
         children, sensitive, sponsor, author)
       values ('tpl_d', 1, 'draft', 'D', '[]', '', array['ask'], '{}', '[]', '[]', 'usr_rhea', 'usr_bo')`,
    )
    expect((await get('drafted')).status).toBe(404)
    expect((await put('drafted', { status: 'on' })).status).toBe(404)
  })
})

describe('turning on', () => {
  test('takes the newest published version with all that it allows, and sessions start', async () => {
    const answer = await put('idle-job', { status: 'on' })
    expect(answer.status).toBe(200)
    expect(contract.enablementChanged.safeParse(answer.body).error).toBeUndefined()
    expect(answer.body).toMatchObject({ status: 'on', adopted_version: 1, sessions_ended: 0 })
    expect(await row('tpl_idle')).toMatchObject({
      kept: [{ permission: 'accounts:read' }],
      modes: ['ask', 'auto', 'bypass'],
    })
    const session = await people.world.start('maya', { template: 'idle-job' })
    expect(await reasonFor(session, 'accounts:read')).toBe('mode_ask')
    expect((await records()).map((r) => r.data)).toMatchObject([
      { status: 'on', version: 1, by: 'usr_adam', sessions_ended: 0 },
    ])
  })

  test('narrowed from the start: what was left out is outside the ceiling', async () => {
    await put('board-notes', { status: 'off' })
    const answer = await put('board-notes', {
      status: 'on',
      kept: [{ permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }],
      modes: [],
      limits: { openRequests: 1 },
    })
    expect(answer.body).toMatchObject({ modes: ['ask'], limits: { openRequests: 1 } })
    const session = await people.world.start('maya', { template: 'board-notes' })
    expect(await reasonFor(session, 'accounts:read')).toBe('outside_ceiling')
    expect(await reasonFor(session, 'dashboard:view', 'dashboard/forecast')).toBe('outside_ceiling')
    expect(await reasonFor(session, 'dashboard:view', 'dashboard/q3-pipeline')).toBe('mode_ask')
  })
})

describe('narrowing', () => {
  test('reaches live sessions: what is no longer kept is lost at the next look', async () => {
    const session = await people.world.start('maya', { mode: 'bypass' })
    await people.world.ask(session, [
      { permission: 'accounts:read' },
      { permission: 'accounts.rows:my_region' },
    ])
    const kept = V3.filter((item) => item.permission !== 'accounts:read')
    const answer = await put('renewal-briefs', { status: 'on', kept })
    expect(answer.body).toMatchObject({ widens: false, rules_suspended: 0, sessions_ended: 0 })
    await followFeed(people.world.ctx)
    expect(await held(session)).toEqual([{ permission_id: 'accounts.rows:my_region' }])
    expect(await reasonFor(session, 'accounts:read')).toBe('outside_ceiling')
  })

  test('taken back, it is widening: rules wait until their user has looked', async () => {
    const kept = V3.filter((item) => item.permission !== 'accounts:read')
    await people.call('maya', 'POST', '/rules', {
      body: {
        template: 'renewal-briefs',
        permission: 'accounts.rows:my_region',
        effect: 'allow',
      },
    })
    await put('renewal-briefs', { status: 'on', kept })
    const back = await put('renewal-briefs', { status: 'on', kept: V3 })
    expect(back.body).toMatchObject({ widens: true, rules_suspended: 1 })
    const session = await people.world.start('maya')
    expect(await reasonFor(session, 'accounts.rows:my_region')).toBe('reconsent')
    const { body } = await people.call('maya', 'GET', '/template-changes')
    expect(body.items).toMatchObject([
      { template: 'renewal-briefs', diff: { items: [{ permission: 'accounts:read' }] } },
    ])
  })

  test('what is left out of the body stays as it is', async () => {
    await put('renewal-briefs', {
      status: 'on',
      modes: ['ask', 'auto'],
      limits: { liveChildren: 1 },
    })
    const answer = await put('renewal-briefs', { status: 'on', limits: { openRequests: 2 } })
    expect(answer.body).toMatchObject({
      modes: ['ask', 'auto'],
      limits: { liveChildren: 1, openRequests: 2 },
    })
  })
})

describe('turning off', () => {
  test('ends its sessions, subagents of others too, and none starts', async () => {
    const briefs = await people.world.start('maya', { mode: 'bypass' })
    await people.world.ask(briefs, [{ permission: 'accounts:read' }])
    const child = await startSubagent(people.world.ctx, await people.world.asAgent(briefs), {
      template: 'email-drafter',
      readOnly: false,
    })
    if (!child.ok) throw new Error(JSON.stringify(child.fault))
    const other = await people.world.start('omar', { template: 'board-notes' })
    const drafter = await put('email-drafter', { status: 'off' })
    expect(drafter.body).toMatchObject({ status: 'off', sessions_ended: 1 })
    const state = async (id: string) =>
      (await people.world.rows('select status, end_reason from session where id = $1', [id]))[0]
    expect(await state(child.value.id)).toEqual({ status: 'revoked', end_reason: 'template_off' })
    expect(await state(briefs)).toMatchObject({ status: 'active' })

    expect((await put('renewal-briefs', { status: 'off' })).body).toMatchObject({
      sessions_ended: 1,
    })
    expect(await state(briefs)).toEqual({ status: 'revoked', end_reason: 'template_off' })
    expect(await held(briefs)).toEqual([])
    expect(await state(other)).toMatchObject({ status: 'active' })
    await expect(people.world.start('maya')).rejects.toThrow('template_not_enabled')
    // Again is harmless.
    expect((await put('renewal-briefs', { status: 'off' })).body).toMatchObject({
      sessions_ended: 0,
    })
    await put('renewal-briefs', { status: 'on' })
    await people.world.start('maya')
  })
})

describe('a bad body names its field and writes nothing', () => {
  const long = 'x'.repeat(300)
  test.each<[string, unknown, number, string]>([
    ['no status', {}, 400, 'status'],
    ['another status', { status: 'maybe' }, 400, 'status'],
    ['an unknown field', { status: 'on', keep: [] }, 400, 'keep'],
    ['kept no list', { status: 'on', kept: 'all' }, 400, 'kept'],
    [
      'an unknown field of an item',
      { status: 'on', kept: [{ permission: 'accounts:read', x: 1 }] },
      400,
      'kept.0.x',
    ],
    [
      'an item outside the version',
      { status: 'on', kept: [{ permission: 'accounts:write' }] },
      422,
      'kept.0',
    ],
    [
      'a wider place than the version has',
      { status: 'on', kept: [{ permission: 'dashboard:view', resource: '*' }] },
      422,
      'kept.0.resource',
    ],
    [
      'an item that takes no resource',
      { status: 'on', kept: [{ permission: 'accounts:read', resource: 'x/y' }] },
      422,
      'kept.0.resource',
    ],
    [
      'a long resource',
      { status: 'on', kept: [{ permission: 'dashboard:view', resource: long }] },
      400,
      'kept.0.resource',
    ],
    [
      'NUL in a permission',
      { status: 'on', kept: [{ permission: 'a\u0000b' }] },
      400,
      'kept.0.permission',
    ],
    [
      'bidi in a permission',
      { status: 'on', kept: [{ permission: 'accounts\u202e:read' }] },
      422,
      'kept.0',
    ],
    ['an unknown mode', { status: 'on', modes: ['yolo'] }, 400, 'modes.0'],
    ['an unknown limit', { status: 'on', limits: { lives: 9 } }, 400, 'limits.lives'],
    ['a raised limit', { status: 'on', limits: { openRequests: 11 } }, 422, 'limits.openRequests'],
    [
      'a negative limit',
      { status: 'on', limits: { openRequests: -1 } },
      400,
      'limits.openRequests',
    ],
    ['another version than the adopted', { status: 'on', version: 2 }, 422, 'version'],
    ['a version that is none', { status: 'on', version: 0 }, 400, 'version'],
  ])('%s', async (_, body, status, field) => {
    const before = await row()
    const answer = await put('renewal-briefs', body)
    expect([answer.status, (answer.body.errors as Json[])?.[0]?.path]).toEqual([status, field])
    expect(await row()).toEqual(before)
    expect(await records()).toEqual([])
  })

  test('off, when it was never on', async () => {
    const answer = await put('idle-job', { status: 'off' })
    expect([answer.status, (answer.body.errors as Json[])?.[0]?.path]).toEqual([422, 'status'])
    expect(await row('tpl_idle')).toBeUndefined()
  })
})
