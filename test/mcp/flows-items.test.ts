import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from './support/agent.ts'
import { type Lend, serveLend } from './support/lend.ts'

/** What is asked for and how it comes back: SPEC sections 2 and 7, over HTTP. */
const ROWS = 'accounts.rows:my_region'
const PRICING = 'contracts.fields:pricing'
const Q3 = 'dashboard:view dashboard/q3-pipeline'

let lend: Lend
beforeAll(async () => {
  lend = await serveLend()
})
afterEach(async () => {
  await lend.tidy()
  expect(lend.bugs()).toEqual([])
})
afterAll(() => lend.close())

const maya = () => lend.person('maya')
const mail = (domain: string) => ({ permission: 'email:send', resource: `domain/${domain}` })

/** Rows that a refused call must not have left. */
async function written(agent: Agent) {
  const [row] = await lend.sql<{ requests: number; items: number; grants: number }>(
    `select
       (select count(*)::integer from access_request where session_id = $1) as requests,
       (select count(*)::integer from request_item where session_id = $1) as items,
       (select count(*)::integer from access_grant where session_id = $1) as grants`,
    [agent.sessionId],
  )
  return row
}
const NOTHING = { requests: 0, items: 0, grants: 0 }

/** The whole call is a tool error that names the member, and nothing is written. */
async function expectRefused(agent: Agent, items: Parameters<Agent['ask']>[0], path: string) {
  const before = await written(agent)
  const fault = await agent.refusedCall(items)
  expect(['request_malformed', 'item_invalid'], JSON.stringify(fault)).toContain(fault.code)
  expect(fault.errors?.map((e) => e.path)).toEqual([path])
  expect(fault.errors?.[0]?.message.length).toBeGreaterThan(5)
  expect(fault.message).toContain(path)
  expect(await written(agent)).toEqual(before)
}

describe('token_refresh: what is held differs from what the token carries', () => {
  it('is false while nothing changed, true once something did, false after a refresh', async () => {
    const agent = await lend.start('maya', { mode: 'auto' })
    expect((await agent.mine()).token_refresh).toBe(false)
    expect((await agent.ask([ROWS])).token_refresh).toBe(false)
    expect((await agent.ask(['accounts:write'])).token_refresh).toBe(false)
    expect((await agent.ask(['accounts:read'])).token_refresh).toBe(true)
    // Also when this very call changed nothing: the old token still lacks the grant.
    expect((await agent.ask(['accounts:read'])).token_refresh).toBe(true)
    expect((await agent.ask(['accounts:fly'])).token_refresh).toBe(true)
    expect((await agent.mine()).token_refresh).toBe(true)
    await agent.refresh()
    expect((await agent.ask(['accounts:read'])).token_refresh).toBe(false)
    expect((await agent.mine()).token_refresh).toBe(false)
    expect(agent.claims.scope).toBe('accounts:read')
  })

  it('after a wait, says what is held then', async () => {
    const agent = await lend.start('maya')
    const denied = agent.ask([Q3], { wait_seconds: 20 })
    await maya().answer((await maya().asked(agent)).id, 'deny')
    expect((await denied).token_refresh).toBe(false)
    const allowed = agent.ask(['accounts:read'], { wait_seconds: 20 })
    await maya().answer((await maya().asked(agent)).id, 'allow_once')
    expect((await allowed).token_refresh).toBe(true)
  })

  it('is true after a release that gave something back, false after one that did not', async () => {
    const agent = await lend.start('maya', { mode: 'auto' })
    await agent.ask(['accounts:read'])
    await agent.refresh()
    const release = (permission: string) =>
      agent.call('iam.release_access', { items: [{ permission }] })
    expect(await release(ROWS)).toEqual({ released: [], token_refresh: false })
    expect(await release('accounts:read')).toMatchObject({ token_refresh: true })
  })

  it('is true for one who holds less than the token carries', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    await agent.ask(['accounts:read', ROWS])
    await agent.refresh()
    // Past all flows: the version has not risen, so the token still opens this door.
    await lend.sql(`delete from access_grant where session_id = $1 and permission_id = $2`, [
      agent.sessionId,
      ROWS,
    ])
    expect((await agent.ask(['accounts:read'])).token_refresh).toBe(true)
  })
})

describe('nobody is asked twice', () => {
  it('an identical pending item returns the request that asks already', async () => {
    const agent = await lend.start('maya')
    const first = await agent.ask([mail('a.example'), ROWS])
    const again = await agent.ask([mail('a.example')], { reason: 'in other words' })
    expect(again).toMatchObject({
      request_id: first.request_id,
      expires_at: first.expires_at,
      review_url: first.review_url,
      items: [{ outcome: 'pending', reason: 'mode_ask', request_id: first.request_id }],
    })
    expect((await maya().pending()).filter((r) => r.session_id === agent.sessionId)).toHaveLength(1)
    expect(await written(agent)).toEqual({ requests: 1, items: 2, grants: 0 })
  })

  it('reordered, repeated and in another spelling it is the same item', async () => {
    const agent = await lend.start('maya')
    const narrow = { renewal_in_days: { $lte: 90, $gte: 0 }, region: 'emea' }
    const reordered = { region: 'emea', renewal_in_days: { $gte: 0, $lte: 90 } }
    const first = await agent.ask([{ permission: ROWS, narrow }, mail('a.example')])
    const again = await agent.ask([
      mail('A.Example.'),
      { permission: ROWS, narrow: reordered },
      mail('a.example'),
    ])
    expect(again.items.map((i) => [i.permission, i.resource, i.request_id])).toEqual([
      ['email:send', 'domain/a.example', first.request_id],
      [ROWS, undefined, first.request_id],
      ['email:send', 'domain/a.example', first.request_id],
    ])
    expect(await written(agent)).toEqual({ requests: 1, items: 2, grants: 0 })
  })

  it('a repeat within one call is one question and two equal outcomes', async () => {
    const agent = await lend.start('maya', { mode: 'auto' })
    const result = await agent.ask(['accounts:read', ROWS, 'accounts:read', ROWS])
    expect(result.items.map((i) => [i.permission, i.outcome])).toEqual([
      ['accounts:read', 'granted'],
      [ROWS, 'pending'],
      ['accounts:read', 'granted'],
      [ROWS, 'pending'],
    ])
    expect(await written(agent)).toEqual({ requests: 1, items: 2, grants: 1 })
    const shown = await maya().request(result.request_id ?? '')
    expect(shown.items).toHaveLength(2)
  })

  it('of a call with old and new questions each item names its own request', async () => {
    const agent = await lend.start('maya')
    const first = await agent.ask([ROWS])
    const second = await agent.ask([ROWS, mail('a.example')])
    expect(second.request_id).not.toBe(first.request_id)
    expect(second.items.map((i) => i.request_id)).toEqual([first.request_id, second.request_id])
    expect((await maya().request(second.request_id ?? '')).items).toHaveLength(1)
  })

  it('review_url leads to a request that waits for the user', async () => {
    const agent = await lend.start('maya', { mode: 'auto' })
    const url = (id: string | undefined) => `${lend.publicUrl}/t/acme/approvals/${id}`
    const first = await agent.ask([ROWS])
    expect(first.review_url).toBe(url(first.request_id))
    // The new part is granted at once; what is still open is the question asked before.
    const second = await agent.ask([ROWS, 'accounts:read'])
    expect(second.items.map((i) => i.outcome)).toEqual(['pending', 'granted'])
    expect(second.review_url).toBe(url(first.request_id))
    expect(second.expires_at).toBe(first.expires_at)
    expect((await agent.ask(['accounts:read'])).review_url).toBeUndefined()
    expect((await agent.ask(['accounts:write'])).expires_at).toBeUndefined()
    // A request waits until its session ends.
    expect(first.expires_at).toBe((await agent.mine()).expires_at)
  })
})

describe('narrow', () => {
  it('makes a data request smaller, and is what the user, the grant and the token show', async () => {
    const agent = await lend.start('maya')
    const narrow = { $and: [{ renewal_in_days: { $lte: 90 } }, { $not: { segment: 'smb' } }] }
    const asked = await agent.ask([{ permission: ROWS, narrow }])
    expect(asked.items).toMatchObject([{ outcome: 'pending', narrow }])
    expect((await maya().request(asked.request_id ?? '')).items).toMatchObject([{ narrow }])
    await maya().answer(asked.request_id, 'allow_once')
    expect((await agent.mine()).grants).toMatchObject([{ permission: ROWS, narrow }])
    await agent.refresh()
    expect(agent.claims.authorization_details).toMatchObject([{ permission: ROWS, narrow }])
    expect(await agent.askOne({ permission: ROWS, narrow })).toMatchObject({
      reason: 'already_held',
    })
    // Held narrow is not held whole, and not held otherwise.
    expect(await agent.askOne(ROWS)).toMatchObject({ reason: 'mode_ask' })
    const other = { renewal_in_days: { $lte: 30 } }
    expect(await agent.askOne({ permission: ROWS, narrow: other })).toMatchObject({
      reason: 'mode_ask',
    })
  })

  const at = 'items.0.narrow'
  it.each([
    ['a field the entity lacks', { salary: { $gt: 1 } }, `${at}.salary`],
    ['a field of another entity', { net_price: { $gt: 1 } }, `${at}.net_price`],
    ['a field that is masked for the user', { phone: '+44' }, `${at}.phone`],
    ['a masked field, deeper', { $or: [{ region: 'emea' }, { phone: '1' }] }, `${at}.$or.1.phone`],
    ['$user', { region: { $user: 'region' } }, `${at}.region`],
    ['$user in a comparison', { region: { $ne: { $user: 'region' } } }, `${at}.region.$ne`],
    ['an unknown operator', { name: { $regex: '.*' } }, `${at}.name.$regex`],
    ['an unknown operator at the top', { $where: 'true' }, `${at}.$where`],
    ['an empty filter', {}, at],
    ['an empty clause', { region: {} }, `${at}.region`],
    ['an empty list', { $or: [] }, `${at}.$or`],
    [
      'five deep',
      { $not: { $not: { $not: { $not: { region: 'emea' } } } } },
      `${at}.$not.$not.$not.$not`,
    ],
    ['a prototype', JSON.parse('{"__proto__": {"region": "emea"}}'), `${at}.__proto__`],
  ])('refuses %s', async (_name, narrow, path) => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    await expectRefused(agent, [{ permission: ROWS, narrow }], path)
    expect(await written(agent)).toEqual(NOTHING)
  })

  it('takes four deep, and every operator', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    for (const narrow of [
      { $not: { $not: { $not: { region: 'emea' } } } },
      { $and: [{ $or: [{ arr: { $gt: 1, $gte: 1, $lt: 9, $lte: 9 } }] }] },
      { segment: { $in: ['smb', 'mid'] }, name: { $ne: 'x' }, region: { $eq: 'emea' } },
      { arr: { $not: { $gt: 5 } } },
    ])
      expect(await agent.askOne({ permission: ROWS, narrow })).toMatchObject({
        reason: 'mode_bypass',
      })
  })

  it('is only for data', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const narrow = { region: 'emea' }
    await expectRefused(agent, [{ permission: 'accounts:read', narrow }], at)
    await expectRefused(agent, [{ ...mail('a.example'), narrow }], at)
  })

  it('one bad item refuses the whole call, and every bad one is named', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const fault = await agent.refusedCall([
      'accounts:read',
      { permission: ROWS, narrow: { salary: 1 } },
      'dashboard:view',
    ])
    expect(fault.errors?.map((e) => e.path)).toEqual(['items.1.narrow.salary', 'items.2.resource'])
    expect(await written(agent)).toEqual(NOTHING)
  })
})

describe('resources', () => {
  const decomposed = 'bu\u0308cher.example'
  it.each([
    ['CUSTOMER.Example', 'customer.example'],
    ['customer.example.', 'customer.example'],
    ['bücher.example', 'xn--bcher-kva.example'],
    [decomposed, 'xn--bcher-kva.example'],
    ['BÜCHER.EXAMPLE.', 'xn--bcher-kva.example'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ])('domain/%s is domain/%s everywhere', async (spelt, canonical) => {
    const agent = await lend.start('maya')
    const resource = `domain/${canonical}`
    const asked = await agent.ask([mail(spelt)])
    expect(asked.items).toMatchObject([{ outcome: 'pending', resource }])
    expect((await maya().request(asked.request_id ?? '')).items).toMatchObject([{ resource }])
    await maya().answer(asked.request_id, 'deny')
    expect(await agent.askOne(mail(canonical))).toMatchObject({ reason: 'denied_this_session' })
  })

  it('names of other kinds are NFC and keep their case', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const view = (name: string) => agent.askOne(`dashboard:view dashboard/${name}`)
    expect(await view('cafe\u0301')).toMatchObject({ resource: 'dashboard/caf\u00e9' })
    expect(await view('Q3-pipeline')).toMatchObject({ reason: 'user_lacks_access' })
    expect(await view('q3-pipeline')).toMatchObject({ reason: 'mode_bypass' })
  })

  it.each([
    ['accounts:read', 'dashboard/q3-pipeline'],
    [ROWS, 'accounts/1'],
    ['dashboard:view', undefined],
    ['email:send', undefined],
    ['dashboard:view', 'dashboard'],
    ['dashboard:view', 'dashboard/'],
    ['dashboard:view', 'dashboard/../q3-pipeline'],
    ['dashboard:view', 'dashboard/q3*'],
    ['dashboard:view', '*/q3-pipeline'],
    ['dashboard:view', 'dashboard/%71'],
    ['dashboard:view', 'dashboard/q3 pipeline'],
    ['dashboard:view', 'dashboard/q3\u200bpipeline'],
    ['dashboard:view', 'dashboard/\u202eq3'],
    ['email:send', 'domain/a.example/b'],
    ['email:send', 'domain/*.example'],
    ['email:send', 'domain/a..example'],
    ['email:send', 'domain/user@a.example'],
    ['email:send', 'domain/a.example:25'],
  ])('refuses %s on %j', async (permission, resource) => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const item = resource === undefined ? { permission } : { permission, resource }
    await expectRefused(agent, ['accounts:read', item], 'items.1.resource')
    expect(await written(agent)).toEqual(NOTHING)
  })

  it('a pattern covers what it matches, one segment and never the separator', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    await agent.ask(['email:send domain/*'])
    expect(await agent.askOne(mail('any.example'))).toMatchObject({ reason: 'already_held' })
    expect(await agent.askOne('dashboard:view dashboard/a/b')).toMatchObject({
      reason: 'outside_ceiling',
    })
  })
})

describe('arguments', () => {
  it.each([
    ['no reason', { items: [{ permission: 'accounts:read' }] }, 'reason'],
    ['a blank reason', { items: [{ permission: 'accounts:read' }], reason: ' ' }, 'reason'],
    ['a long reason', { items: [{ permission: 'a:b' }], reason: 'x'.repeat(501) }, 'reason'],
    ['no item', { items: [], reason: 'x' }, 'items'],
    [
      'an unknown member',
      { items: [{ permission: 'a:b', mode: 'auto' }], reason: 'x' },
      'items.0.mode',
    ],
    [
      'a long wait',
      { items: [{ permission: 'a:b' }], reason: 'x', wait_seconds: 51 },
      'wait_seconds',
    ],
    [
      'a fraction',
      { items: [{ permission: 'a:b' }], reason: 'x', wait_seconds: 1.5 },
      'wait_seconds',
    ],
  ])('%s is a tool error that names the field', async (_name, args, path) => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const fault = await agent.fault('iam.request_access', args as never)
    expect(fault).toMatchObject({ code: 'request_malformed', errors: [{ path }] })
    expect(await written(agent)).toEqual(NOTHING)
  })

  it('the longest reason and one of every kind of character reach the user as they are', async () => {
    const agent = await lend.start('maya')
    const reason = `${'é🙂'.repeat(249)}\n<`
    const { request_id } = await agent.ask([PRICING], { reason })
    expect((await maya().request(request_id ?? '')).reason).toBe(reason)
  })
})
