import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/templates.ts'
import { LIMITS } from '../../src/core/limits.ts'
import type { Item, SessionId } from '../../src/core/vocabulary.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import { createPeople, type Json, type People } from '../support/people.ts'
import { type Login, TEMPLATES } from '../support/world-seed.ts'

/** A version that allows more waits for each person who said always (SPEC section 3). */
let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const V3 = TEMPLATES['renewal-briefs']?.versions[3]?.ceiling ?? []
const WRITES: Item = { permission: 'email-templates:write' }
type Version = {
  readonly ceiling?: readonly Item[]
  readonly modes?: readonly string[]
  readonly status?: 'published' | 'draft' | 'retired'
  readonly context?: string
  readonly limits?: object
}
/** A version that studio published past the flows. By default it adds the writing of email templates. */
const publish = (version: number, of: Version = {}) =>
  people.world.rows(
    `insert into template_version (template_id, version, status, purpose, ceiling, context, modes,
       limits, children, sensitive, sponsor, author, reviewer, published_at)
     values ('tpl_briefs', $1, $2, 'Renewal briefs', $3::text::jsonb, $4, $5, $6::text::jsonb,
       '[{"template": "email-drafter", "version": 1}]', '[]', 'usr_rhea', 'usr_bo', 'usr_rhea', now())`,
    [
      version,
      of.status ?? 'published',
      JSON.stringify(of.ceiling ?? [...V3, WRITES]),
      of.context ?? 'Be brief.',
      of.modes ?? ['ask', 'auto', 'bypass'],
      JSON.stringify(of.limits ?? LIMITS),
    ],
  )
const adopt = (version: number, as: Login = 'adam') =>
  people.call(as, 'POST', '/enablements/renewal-briefs/adopt', { body: { version } })
const adopted = async (version: number, of: Version = {}) => {
  await publish(version, of)
  const answer = await adopt(version)
  expect([answer.status, answer.body.adopted_version]).toEqual([200, version])
  return answer.body
}

const READ = { template: 'renewal-briefs', permission: 'accounts:read', effect: 'allow' }
const ROWS = { ...READ, permission: 'accounts.rows:my_region' }
const save = async (body: object, as: Login = 'maya') =>
  (await people.call(as, 'POST', '/rules', { body })).body.id as string
const list = async (path: string, as: Login = 'maya') =>
  ((await people.call(as, 'GET', path)).body.items ?? []) as Json[]
const changes = (as: Login = 'maya') => list('/template-changes', as)
/** The rows of a change’s diff. */
const itemsOf = (change: Json | undefined) => ((change?.diff ?? {}) as Json).items as Json[]
const statuses = async (as: Login = 'maya') =>
  Object.fromEntries((await list('/rules', as)).map((r) => [r.id, r.status]))
const confirm = (body: unknown, as: Login = 'maya') =>
  people.call(as, 'POST', '/template-changes/renewal-briefs/confirm', { body })
const reasonFor = async (session: SessionId, permission: string) =>
  (await people.world.ask(session, [{ permission }])).value.items[0]?.verdict.reason
const records = (type: string) =>
  people.world.rows<{ user_id: string; template: string; data: Json }>(
    'select user_id, template, data from activity where type = $1 order by n',
    [type],
  )

describe('a version that widens', () => {
  test('suspends every allow rule for that template, of this tenant, and says so to each user', async () => {
    const own = await save(READ)
    const other = await save(READ, 'omar')
    const kept = [
      await save({ ...READ, permission: 'email:send', resource: 'domain/*', effect: 'deny' }),
      await save({ ...ROWS, effect: 'ask' }),
      await save({ ...READ, template: 'board-notes' }),
    ]
    const foreign = await save(READ, 'gus')
    const answer = await adopted(4)
    expect(answer).toMatchObject({ widens: true, rules_suspended: 2 })
    expect(contract.enablementAdopted.safeParse(answer).error).toBeUndefined()
    expect(await statuses()).toEqual({
      [own]: 'suspended',
      ...Object.fromEntries(kept.map((id) => [id, 'active'])),
    })
    expect(await statuses('omar')).toEqual({ [other]: 'suspended' })
    expect(await statuses('gus')).toEqual({ [foreign]: 'active' })
    const told = await records('rule.suspended')
    expect(told.map((r) => [r.user_id, r.data.rule_id, r.template])).toEqual([
      ['usr_maya', own, 'renewal-briefs@4'],
      ['usr_omar', other, 'renewal-briefs@4'],
    ])
    expect(await records('enablement.adopted')).toMatchObject([
      {
        user_id: 'usr_adam',
        template: 'renewal-briefs@4',
        data: { version: 4, from_version: 3, widens: true, rules_suspended: 2 },
      },
    ])
  })

  test('what its rules cover prompts with reason reconsent, in sessions old and new, until confirmed', async () => {
    await save(READ)
    const old = await people.world.start('maya')
    await adopted(4)
    expect(await reasonFor(old, 'accounts:read')).toBe('reconsent')
    expect(await reasonFor(await people.world.start('maya'), 'accounts:read')).toBe('reconsent')
    const [change] = await changes()
    expect((await confirm({ version: 4, digest: change?.digest })).status).toBe(200)
    expect(await reasonFor(await people.world.start('maya'), 'accounts:read')).toBe('allow_rule')
  })

  test('is shown as a diff, with titles and risks of the catalog', async () => {
    await save(READ)
    await save(ROWS)
    await adopted(4, {
      ceiling: [
        ...V3.filter((i) => i.permission !== 'dashboard:view' && i.permission !== 'email:send'),
        { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' },
        WRITES,
      ],
      limits: { ...LIMITS, liveChildren: 3 },
      context: 'Be long.',
    })
    const [change, ...more] = await changes()
    expect(more).toEqual([])
    expect(contract.templateChange.safeParse(change).error).toBeUndefined()
    expect(change).toMatchObject({
      template: 'renewal-briefs',
      title: 'Renewal briefs',
      from_version: 3,
      to_version: 4,
      since: '2026-11-30T09:00:00.000Z',
      suspended_rules: 2,
      diff: {
        widens: true,
        modes: { added: [], removed: [] },
        limits: [{ limit: 'liveChildren', change: 'lowered', from: 10, to: 3 }],
        children: [],
        context: { from: 'Be brief.', to: 'Be long.' },
      },
    })
    expect(itemsOf(change)).toEqual([
      expect.objectContaining({
        change: 'narrowed',
        permission: 'dashboard:view',
        title: 'Dashboard · View',
        from: [{ resource: 'dashboard/*' }],
        to: [{ resource: 'dashboard/q3-pipeline' }],
      }),
      expect.objectContaining({
        change: 'removed',
        permission: 'email:send',
        risk: 'high',
        from: [{ resource: 'domain/*' }],
        to: [],
      }),
      expect.objectContaining({
        change: 'added',
        permission: 'email-templates:write',
        title: 'Email templates · Write',
        unlocks: 'Writes e-mail templates.',
        risk: 'medium',
        access: 'write',
        enforced_at: 'gateway',
        sensitive: false,
        from: [],
        to: [{}],
      }),
    ])
  })

  test('is told only to those whose rules wait, and to nobody else', async () => {
    await save(READ)
    await adopted(4)
    expect(await changes('maya')).toHaveLength(1)
    for (const as of ['omar', 'adam', 'gus'] as const) expect(await changes(as)).toEqual([])
  })

  test('is not told while the template is turned off, and again when it is on', async () => {
    await save(READ)
    await adopted(4)
    const turn = (status: string) =>
      people.world.rows(`update enablement set status = $1 where template_id = 'tpl_briefs'`, [
        status,
      ])
    await turn('off')
    expect(await changes()).toEqual([])
    expect((await confirm({ version: 4 })).status).toBe(404)
    await turn('on')
    expect(await changes()).toHaveLength(1)
  })

  test('a rule that has run out neither waits nor is confirmed', async () => {
    const short = await save({ ...READ, expires_at: '2026-11-30T10:00:00Z' })
    const gone = await save({ ...ROWS, expires_at: '2026-11-30T09:30:00Z' })
    people.world.clock.advance(2400)
    expect((await adopted(4)).rules_suspended).toBe(1)
    people.world.clock.advance(3600)
    expect(await changes()).toEqual([])
    expect((await confirm({ version: 4 })).body.rules_confirmed).toBe(0)
    const rows = await people.world.rows<{ id: string; status: string }>(
      'select id, status from consent_rule order by id',
    )
    expect(Object.fromEntries(rows.map((r) => [r.id, r.status]))).toEqual({
      [short]: 'suspended',
      [gone]: 'active',
    })
  })
})

describe('a version that only narrows, or says the same', () => {
  test.each<[string, Version]>([
    ['an item less', { ceiling: V3.slice(0, 3) }],
    ['a mode less', { ceiling: V3, modes: ['ask'] }],
    ['a lower limit', { ceiling: V3, limits: { ...LIMITS, openRequests: 1 } }],
    ['other instructions', { ceiling: V3, context: 'Be kind.' }],
  ])('asks nobody: %s', async (_, of) => {
    const rule = await save(READ)
    expect(await adopted(4, of)).toMatchObject({ widens: false, rules_suspended: 0 })
    expect(await statuses()).toEqual({ [rule]: 'active' })
    expect(await changes()).toEqual([])
    expect(await reasonFor(await people.world.start('maya'), 'accounts:read')).toBe('allow_rule')
    expect(await records('rule.suspended')).toEqual([])
  })
})

describe('POST /template-changes/{template}/confirm', () => {
  test('puts one’s own rules in force again, recorded in the same commit, and nobody else’s', async () => {
    const [read, rows, other] = [await save(READ), await save(ROWS), await save(READ, 'omar')]
    await adopted(4)
    const answer = await confirm({ version: 4 })
    expect([answer.status, answer.body]).toEqual([
      200,
      { template: 'renewal-briefs', version: 4, rules_confirmed: 2 },
    ])
    expect(await statuses()).toEqual({ [read]: 'active', [rows]: 'active' })
    expect(await statuses('omar')).toEqual({ [other]: 'suspended' })
    expect(await changes()).toEqual([])
    const told = await records('rule.confirmed')
    expect(told.map((r) => r.data.rule_id).toSorted()).toEqual([read, rows].toSorted())
    for (const record of told)
      expect(record).toMatchObject({
        user_id: 'usr_maya',
        template: 'renewal-briefs@4',
        data: { version: 4, rule_template: 'renewal-briefs', via: 'people' },
      })
  })

  test('once: a second confirmation changes nothing and is no error', async () => {
    await save(READ)
    await adopted(4)
    await confirm({ version: 4 })
    const again = await confirm({ version: 4 })
    expect([again.status, again.body.rules_confirmed]).toEqual([200, 0])
    expect(await records('rule.confirmed')).toHaveLength(1)
  })

  test('with an Idempotency-Key a repeat is answered as the first was', async () => {
    await save(READ)
    await adopted(4)
    const call = { body: { version: 4 }, headers: { 'Idempotency-Key': 'once' } }
    const path = '/template-changes/renewal-briefs/confirm'
    const first = await people.call('maya', 'POST', path, call)
    const again = await people.call('maya', 'POST', path, call)
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    expect(again.body).toEqual(first.body)
  })

  test('409 when another version was adopted meanwhile; nothing is written', async () => {
    const rule = await save(READ)
    await adopted(4)
    const [seen] = await changes()
    await adopted(5, { ceiling: [...V3, WRITES], modes: ['ask'] })
    for (const body of [{ version: 4 }, { version: 4, digest: seen?.digest }, { version: 3 }]) {
      const answer = await confirm(body)
      expect([answer.status, answer.body.code]).toEqual([409, 'change_superseded'])
    }
    expect(await statuses()).toEqual({ [rule]: 'suspended' })
    expect(await records('rule.confirmed')).toEqual([])
    expect((await confirm({ version: 5 })).body.rules_confirmed).toBe(1)
  })

  test('409 when the organisation changed what it keeps of the same version', async () => {
    await save(READ)
    await adopted(4)
    const [seen] = await changes()
    await people.world.rows(
      `update enablement set kept = '[{"permission": "accounts:read"}]' where template_id = 'tpl_briefs'`,
    )
    const late = await confirm({ version: 4, digest: seen?.digest })
    expect([late.status, late.body.code]).toEqual([409, 'change_superseded'])
    const [now] = await changes()
    expect((await confirm({ version: 4, digest: now?.digest })).status).toBe(200)
  })

  test('two widenings in a row are one diff, from what the person knew', async () => {
    await save(READ)
    await adopted(4)
    await save(ROWS)
    await adopted(5, {
      ceiling: [...V3, WRITES, { permission: 'dashboard:view', resource: 'dashboard/*/*' }],
    })
    expect(await changes()).toMatchObject([{ from_version: 3, to_version: 5, suspended_rules: 2 }])
    await confirm({ version: 5 })
    await adopted(6, { ceiling: [...V3, WRITES], modes: ['ask', 'auto'] })
    expect(await changes()).toEqual([])
  })

  test('what one confirmed, or began with, is what the next diff starts from', async () => {
    await save(READ)
    await adopted(4)
    await confirm({ version: 4 })
    await save(READ, 'omar')
    await adopted(5, {
      ceiling: [...V3, WRITES, { permission: 'dashboard:view', resource: 'dashboard/*/*' }],
    })
    for (const as of ['maya', 'omar'] as const)
      expect(await changes(as)).toMatchObject([{ from_version: 4, to_version: 5 }])
  })

  test('one who threw the waiting rule away and began anew starts from what was then', async () => {
    const rule = await save(READ)
    await adopted(4)
    await people.call('maya', 'DELETE', `/rules/${rule}`)
    expect(await changes()).toEqual([])
    people.world.clock.advance(60)
    await save(ROWS)
    await adopted(5, {
      ceiling: [...V3, WRITES, { permission: 'dashboard:view', resource: 'dashboard/*/*' }],
    })
    expect(await changes()).toMatchObject([{ from_version: 4, suspended_rules: 1 }])
  })

  test('allow_always on a reconsent prompt renews only that rule; the rest still wait', async () => {
    const [read, rows] = [await save(READ), await save(ROWS)]
    await adopted(4)
    const session = await people.world.start('maya')
    await people.world.ask(session, [{ permission: 'accounts:read' }])
    const [request] = await list('/access-requests?status=pending')
    const items = request?.items as Json[]
    const answer = await people.call('maya', 'POST', `/access-requests/${request?.id}/decision`, {
      body: {
        digest: request?.digest,
        items: items.map((i) => ({ id: i.id, decision: 'allow_always' })),
      },
    })
    expect(answer.status).toBe(200)
    expect(await statuses()).toEqual({ [read]: 'active', [rows]: 'suspended' })
    expect(await changes()).toMatchObject([{ suspended_rules: 1 }])
    expect(await reasonFor(session, 'accounts.rows:my_region')).toBe('reconsent')
  })

  test('confirming decides on no prompt that waits already', async () => {
    await save(READ)
    await adopted(4)
    await people.world.ask(await people.world.start('maya'), [{ permission: 'accounts:read' }])
    await confirm({ version: 4 })
    expect(await list('/access-requests?status=pending')).toHaveLength(1)
  })

  test('rules whose former terms nobody kept wait too, and all of it is shown as new', async () => {
    await save(READ)
    await people.world.rows(`update consent_rule set status = 'suspended'`)
    const [change] = await changes()
    expect(change).not.toHaveProperty('from_version')
    const rows = itemsOf(change)
    expect(rows.map((row) => row.change)).toEqual(V3.map(() => 'added'))
    expect((await confirm({ version: 3 })).body.rules_confirmed).toBe(1)
  })

  const bad: [string, unknown, string][] = [
    ['no version', {}, 'version'],
    ['a version of text', { version: '4' }, 'version'],
    ['half a version', { version: 3.5 }, 'version'],
    ['version none', { version: 0 }, 'version'],
    ['a version too high', { version: 1_000_000 }, 'version'],
    ['an unknown member', { version: 4, user_id: 'usr_omar' }, 'user_id'],
    ['a digest too long', { version: 4, digest: 'x'.repeat(129) }, 'digest'],
    ['an empty digest', { version: 4, digest: '' }, 'digest'],
    ['a digest that is no text', { version: 4, digest: 7 }, 'digest'],
  ]
  test.each(bad)('%s is 400 and names it', async (_, body, path) => {
    const rule = await save(READ)
    await adopted(4)
    const answer = await confirm(body)
    expect([answer.status, answer.body.code]).toEqual([400, 'request_malformed'])
    expect((answer.body.errors as Json[]).map((e) => e.path)).toEqual([path])
    expect(await statuses()).toEqual({ [rule]: 'suspended' })
  })

  test('no body is 400, another media type 415', async () => {
    const path = '/template-changes/renewal-briefs/confirm'
    expect((await people.call('maya', 'POST', path)).status).toBe(400)
    const form = { raw: 'version=4', headers: { 'Content-Type': 'text/plain' } }
    expect((await people.call('maya', 'POST', path, form)).status).toBe(415)
  })

  test.each([
    'no-such',
    'idle-job',
    'studio-secret',
    'renewal-briefs%20',
    'RENEWAL-BRIEFS',
    'renewal\u202ebriefs',
    'renewal%00briefs',
    'x'.repeat(65),
    '__proto__',
  ])('a template that is not there, not on or another’s is 404: %s', async (template) => {
    const answer = await people.call(
      'maya',
      'POST',
      `/template-changes/${encodeURI(decodeURI(template))}/confirm`,
      { body: { version: 1 } },
    )
    expect([answer.status, answer.body.code]).toEqual([404, 'not_found'])
  })

  test('nobody signed in is 401, and a query is not understood', async () => {
    expect((await people.call(null, 'GET', '/template-changes')).status).toBe(401)
    const path = '/template-changes/renewal-briefs/confirm'
    expect((await people.call(null, 'POST', path, { body: { version: 3 } })).status).toBe(401)
    const asked = await people.call('maya', 'GET', '/template-changes?user=usr_omar')
    expect([asked.status, asked.body.code]).toEqual([400, 'request_malformed'])
  })
})

describe('POST /enablements/{template}/adopt', () => {
  test('from then on only that version starts sessions, with what is new in it', async () => {
    const answer = await adopted(4)
    expect(answer.kept).toEqual([...V3, WRITES])
    const session = await people.world.start('maya', { mode: 'bypass' })
    expect(await reasonFor(session, 'email-templates:write')).toBe('mode_bypass')
    const { body } = await people.call('maya', 'GET', `/sessions/${session}`)
    expect(body.template_version).toBe(4)
  })

  test('what the organisation removed and the modes it turned off stay so (I15)', async () => {
    await people.world.rows(
      `update enablement set kept = $1::text::jsonb, modes = '{ask,bypass}'
       where template_id = 'tpl_briefs' and tenant_id = 'ten_acme'`,
      [JSON.stringify(V3.filter((i) => i.permission !== 'email:send'))],
    )
    const answer = await adopted(4)
    expect((answer.kept as Json[]).map((i) => i.permission)).toEqual([
      'accounts:read',
      'accounts.rows:my_region',
      'dashboard:view',
      'contracts.fields:pricing',
      'email-templates:write',
    ])
    expect(answer.modes).toEqual(['ask', 'bypass'])
  })

  test('live sessions lose what the version does not allow', async () => {
    const session = await people.world.start('maya', { mode: 'auto' })
    await people.world.ask(session, [{ permission: 'accounts:read' }])
    await adopted(4, { ceiling: V3.slice(1) })
    await followFeed(people.world.ctx)
    const [record] = await records('grant.ended')
    expect(record?.data).toMatchObject({ permission: 'accounts:read', reason: 'ceiling_changed' })
  })

  test('adopting what is adopted changes nothing and records nothing', async () => {
    const answer = await adopt(3)
    expect([answer.status, answer.body.widens]).toEqual([200, false])
    expect(await records('enablement.adopted')).toEqual([])
  })

  test('one may go back, and then forward again: that widens', async () => {
    const rule = await save(READ)
    await adopted(4)
    await confirm({ version: 4 })
    expect((await adopt(3)).body).toMatchObject({ widens: false })
    expect(await statuses()).toEqual({ [rule]: 'active' })
    expect((await adopt(4)).body).toMatchObject({ widens: true, rules_suspended: 1 })
  })

  test('needs an administrator', async () => {
    await publish(4)
    for (const as of ['maya', 'cleo'] as const) {
      const answer = await adopt(4, as)
      expect([answer.status, answer.body.code]).toEqual([403, 'forbidden'])
    }
    expect((await people.call(null, 'POST', '/enablements/renewal-briefs/adopt')).status).toBe(401)
  })

  test.each(['draft', 'retired', undefined] as const)(
    'a version that is not published is 422: %s',
    async (status) => {
      if (status !== undefined) await publish(4, { status })
      const answer = await adopt(4)
      expect([answer.status, answer.body.code]).toEqual([422, 'unprocessable'])
      expect((answer.body.errors as Json[])[0]?.path).toBe('version')
    },
  )

  test.each(['no-such', 'idle-job', 'studio-secret', '%00', 'a%E2%80%AEb'])(
    'a template that this organisation has not turned on is 404: %s',
    async (template) => {
      const path = `/enablements/${template}/adopt`
      const answer = await people.call('adam', 'POST', path, { body: { version: 1 } })
      expect([answer.status, answer.body.code]).toEqual([404, 'not_found'])
    },
  )

  test.each([
    [{}, 'version'],
    [{ version: '4' }, 'version'],
    [{ version: -1 }, 'version'],
    [{ version: 1e9 }, 'version'],
    [{ version: 4, kept: [] }, 'kept'],
  ])('a body that is not understood is 400: %j', async (body, path) => {
    await publish(4)
    const answer = await people.call('adam', 'POST', '/enablements/renewal-briefs/adopt', { body })
    expect([answer.status, (answer.body.errors as Json[])[0]?.path]).toEqual([400, path])
    expect(await records('enablement.adopted')).toEqual([])
  })
})
