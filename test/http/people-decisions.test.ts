import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/people.ts'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { createPeople, type Json, type People } from '../support/people.ts'
import type { Login } from '../support/world-seed.ts'

let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }
const Q3 = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
const PRICING = { permission: 'contracts.fields:pricing' }

const items = (body: Json): Json[] => (body.items ?? []) as Json[]
const list = async (query = '', as: Login = 'maya') =>
  items((await people.call(as, 'GET', `/access-requests${query}`)).body)

/** The one request that waits for Maya. */
async function pending(): Promise<Json> {
  const [request, ...more] = await list('?status=pending')
  expect(more).toEqual([])
  if (request === undefined) throw new Error('nothing is pending')
  return request
}

const decide = (request: Json, decisions: readonly (string | object)[], more: object = {}) =>
  people.call('maya', 'POST', `/access-requests/${request.id}/decision`, {
    body: {
      digest: request.digest,
      items: items(request).map((item, i) => {
        const decision = decisions[i]
        return { id: item.id, ...(typeof decision === 'string' ? { decision } : decision) }
      }),
      ...more,
    },
  })

async function askedOf(asked: readonly object[], session?: SessionId): Promise<Json> {
  const id = session ?? (await people.world.start('maya'))
  await people.world.ask(id, asked as { permission: string }[])
  return pending()
}

describe('what waits for a person', () => {
  test('is shown with the catalog’s names, the agent’s words, and the rule that Always would leave', async () => {
    const session = await people.world.start('maya')
    await people.world.ask(session, [Q3, PRICING], 'for the brief \u202e<b>now</b>')
    const request = await pending()
    expect(contract.accessRequest.safeParse(request).error).toBeUndefined()
    expect(request).toMatchObject({
      session_id: session,
      root_session_id: session,
      path: ['Renewal briefs'],
      agent: { id: 'agt_briefs', name: 'Renewal assistant' },
      template: { name: 'renewal-briefs', title: 'Renewal briefs', version: 3 },
      reason: 'for the brief \u202e<b>now</b>',
      status: 'pending',
      created_at: '2026-11-30T09:00:00.000Z',
      expires_at: '2026-11-30T17:00:00.000Z',
    })
    const [q3, pricing] = items(request)
    expect(q3).toMatchObject({
      permission: 'dashboard:view',
      resource: 'dashboard/q3-pipeline',
      title: 'Dashboard · View',
      unlocks: 'Opens one dashboard.',
      kind: 'asset',
      risk: 'low',
      sensitive: false,
      outcome: 'pending',
      decision_reason: 'mode_ask',
      can_remember: true,
      rule_preview: {
        effect: 'allow',
        template: 'renewal-briefs',
        permission: 'dashboard:view',
        resource: 'dashboard/q3-pipeline',
      },
    })
    const preview = q3?.rule_preview as Json
    expect(preview.covers).toContain('Dashboard · View on dashboard/q3-pipeline')
    expect(preview.does_not).toContain('any other resource')
    expect(pricing).toMatchObject({
      sensitive: true,
      can_remember: false,
      decision_reason: 'sensitive',
    })
    expect(pricing).not.toHaveProperty('rule_preview')
  })

  test('a subagent’s prompt is in its user’s list, labelled with the path (USER-ASKS 15)', async () => {
    const root = await people.world.start('maya')
    const child = await people.world.subagent(root)
    await people.world.ask(child, [READ])
    expect(await pending()).toMatchObject({
      session_id: child,
      root_session_id: root,
      path: ['Renewal briefs', 'Email drafter'],
      template: { name: 'email-drafter' },
    })
    expect(await list(`?session_id=${root}`)).toEqual([])
  })

  test('nobody else sees it: not another user, an admin, an auditor or another tenant (I6, I17)', async () => {
    const request = await askedOf([READ])
    for (const as of ['omar', 'adam', 'cleo', 'gus', 'gina'] as const) {
      expect(await list('', as)).toEqual([])
      expect((await people.call(as, 'GET', `/access-requests/${request.id}`)).status).toBe(404)
      const answer = await people.call(as, 'POST', `/access-requests/${request.id}/decision`, {
        body: {
          digest: request.digest,
          items: items(request).map((i) => ({ id: i.id, decision: 'allow_once' })),
        },
      })
      expect([answer.status, answer.body.code]).toEqual([404, 'not_found'])
    }
    expect((await pending()).id).toBe(request.id)
  })

  test('what was refused at once is settled, with its reason, even for an id the catalog lacks', async () => {
    const session = await people.world.start('maya')
    await people.world.ask(session, [
      { permission: 'no.such:thing' },
      { permission: 'dashboard:view', resource: 'dashboard/board' },
    ])
    expect(await list('?status=pending')).toEqual([])
    const [request] = await list('?status=settled')
    expect(contract.accessRequest.safeParse(request).error).toBeUndefined()
    expect(items(request ?? {})).toMatchObject([
      { title: 'no.such:thing', outcome: 'refused', decision_reason: 'unknown_permission' },
      { outcome: 'refused', decision_reason: 'user_lacks_access', can_remember: false },
    ])
  })

  test('a request whose time has run out is not listed as pending before any sweep (USER-ASKS 27)', async () => {
    const request = await askedOf([READ])
    people.world.clock.advance(8 * 3600)
    expect(await list('?status=pending')).toEqual([])
    const [settled] = await list('?status=settled')
    expect(settled).toMatchObject({ id: request.id, status: 'settled' })
    expect(items(settled ?? {})).toMatchObject([
      { outcome: 'refused', decision_reason: 'expired', can_remember: false },
    ])
  })
})

describe('the answer', () => {
  test('allow_once grants in this session only, and is read back item by item', async () => {
    const session = await people.world.start('maya')
    const request = await askedOf([READ, Q3], session)
    const answer = await decide(request, ['allow_once', 'deny'], { note: 'Not the dashboard' })
    expect(answer.status).toBe(200)
    expect(contract.accessRequest.safeParse(answer.body).error).toBeUndefined()
    expect(answer.body).toMatchObject({ status: 'settled', note: 'Not the dashboard' })
    expect(items(answer.body)).toMatchObject([
      { permission: 'accounts:read', outcome: 'granted', decision_reason: 'allowed_by_user' },
      { permission: 'dashboard:view', outcome: 'refused', decision_reason: 'denied_by_user' },
    ])
    const access = await people.call('maya', 'GET', `/sessions/${session}/access`)
    expect(items(access.body)).toMatchObject([
      { permission: 'accounts:read', source: { by: 'user', request_id: request.id } },
    ])
    expect(items((await people.call('maya', 'GET', '/rules')).body)).toEqual([])
    expect(await list('?status=pending')).toEqual([])
    const other = await people.world.start('maya')
    expect((await people.world.ask(other, [READ])).value.items[0]?.verdict.outcome).toBe('asked')
  })

  test('allow_always leaves exactly the rule that was shown, with its expiry (USER-ASKS 24)', async () => {
    const request = await askedOf([Q3])
    const rule_expires_at = '2026-12-31T00:00:00.000Z'
    await decide(request, [{ decision: 'allow_always', rule_expires_at }])
    const [rule, ...more] = items((await people.call('maya', 'GET', '/rules')).body)
    expect(more).toEqual([])
    const { covers: _, does_not: __, ...preview } = (items(request)[0]?.rule_preview ?? {}) as Json
    expect(preview).not.toEqual({})
    expect(rule).toMatchObject({
      ...preview,
      status: 'active',
      created_from: request.id,
      expires_at: rule_expires_at,
    })
    const next = await people.world.start('maya')
    expect((await people.world.ask(next, [Q3])).value.items[0]?.verdict.reason).toBe('allow_rule')
  })

  test('deny_always ends grants that it overlaps in another live session, children too', async () => {
    const other = await people.world.start('maya', { mode: 'auto' })
    await people.world.ask(other, [READ, ROWS])
    const child = await people.world.subagent(other)
    const omars = await people.world.start('omar', { mode: 'auto' })
    await people.world.ask(omars, [READ])
    const request = await askedOf([READ])
    expect((await decide(request, ['deny_always'])).status).toBe(200)
    const held = async (session: SessionId, as: Login = 'maya') =>
      items((await people.call(as, 'GET', `/sessions/${session}/access`)).body).map(
        (g) => g.permission,
      )
    expect(await held(other)).toEqual(['accounts.rows:my_region'])
    expect(await held(child)).toEqual(['accounts.rows:my_region'])
    expect(await held(omars, 'omar')).toEqual(['accounts:read'])
    const ended = await people.world.rows<{ reason: string }>(
      `select data->>'reason' as reason from activity where type = 'grant.ended' order by n`,
    )
    expect(ended.map((e) => e.reason).sort()).toEqual(['deny_rule', 'parent_lost'])
  })

  test('a reconsent prompt shows the rule it would renew, and Always renews that rule only', async () => {
    await decide(await askedOf([{ permission: 'email:send', resource: 'domain/*' }]), [
      'allow_always',
    ])
    await people.world.rows(`update consent_rule set status = 'suspended'`)
    const session = await people.world.start('maya')
    await people.world.ask(session, [
      { permission: 'email:send', resource: 'domain/customer.example' },
    ])
    const request = await pending()
    expect(items(request)).toMatchObject([
      {
        resource: 'domain/customer.example',
        decision_reason: 'reconsent',
        rule_preview: { resource: 'domain/*' },
      },
    ])
    await decide(request, ['allow_always'])
    const rules = items((await people.call('maya', 'GET', '/rules')).body)
    expect(rules.map((r) => [r.resource, r.status])).toEqual([['domain/*', 'active']])
  })

  test('access that the user lost meanwhile is refused with its reason, and the rest proceeds', async () => {
    const request = await askedOf([READ, Q3])
    await people.world.rows(`delete from user_permission where id = 'prm_q3'`)
    const answer = await decide(request, ['allow_once', 'allow_always'])
    expect(items(answer.body).map((i) => [i.outcome, i.decision_reason])).toEqual([
      ['granted', 'allowed_by_user'],
      ['refused', 'user_lacks_access'],
    ])
    expect(items((await people.call('maya', 'GET', '/rules')).body)).toEqual([])
  })

  test.each(['ask', 'auto', 'bypass'] as const)(
    'a sensitive item is asked in %s and never remembered as allow (I8)',
    async (mode) => {
      const session = await people.world.start('maya', { mode })
      const request = await askedOf([PRICING], session)
      const always = await decide(request, ['allow_always'])
      expect([always.status, always.body.code]).toEqual([422, 'sensitive_not_remembered'])
      expect((await pending()).id).toBe(request.id)
      expect((await decide(request, ['allow_once'])).status).toBe(200)
    },
  )
})

describe('an answer that comes wrong', () => {
  test('another digest is 409 before coverage is looked at, and nothing is written', async () => {
    const request = await askedOf([READ])
    const answer = await people.call('maya', 'POST', `/access-requests/${request.id}/decision`, {
      body: { digest: 'another', items: [] },
    })
    expect([answer.status, answer.body.code]).toEqual([409, 'digest_mismatch'])
    expect((await pending()).id).toBe(request.id)
  })

  test('a second answer is 409, whatever it says (I16)', async () => {
    const request = await askedOf([READ])
    expect((await decide(request, ['deny'])).status).toBe(200)
    for (const decision of ['deny', 'allow_once', 'allow_always']) {
      const second = await decide(request, [decision])
      expect([second.status, second.body.code]).toEqual([409, 'already_answered'])
    }
    expect(await people.world.rows('select id from access_grant')).toEqual([])
  })

  test('a late answer is 409 request_expired, before any sweep', async () => {
    const request = await askedOf([READ])
    people.world.clock.advance(8 * 3600)
    const late = await decide(request, ['allow_once'])
    expect([late.status, late.body.code]).toEqual([409, 'request_expired'])
  })

  test('an answer to an ended session is 409 request_cancelled', async () => {
    const session = await people.world.start('maya')
    const request = await askedOf([READ], session)
    await people.call('maya', 'POST', `/sessions/${session}/end`)
    const late = await decide(request, ['allow_once'])
    expect([late.status, late.body.code]).toEqual([409, 'request_cancelled'])
  })

  test('while frozen a yes is 409 and writes nothing, a no goes through', async () => {
    const request = await askedOf([READ])
    await people.world.rows(
      `insert into frozen values ('frz_1', 'ten_acme', 'user', 'usr_maya', 'usr_adam', now())`,
    )
    const yes = await decide(request, ['allow_once'])
    expect([yes.status, yes.body.code, yes.body.limit]).toEqual([409, 'frozen', 'user'])
    expect((await decide(request, ['deny'])).status).toBe(200)
  })

  test.each([
    ['an item left out', (ids: string[]) => ids.slice(1)],
    ['none at all', () => []],
    ['an item twice', (ids: string[]) => [...ids, ids[0]]],
    ['an item of another request', (ids: string[]) => [...ids, 'itm_other']],
  ])('%s is 422 and nothing is written', async (_name, pick) => {
    const request = await askedOf([READ, Q3])
    const ids = items(request).map((i) => String(i.id))
    const answer = await people.call('maya', 'POST', `/access-requests/${request.id}/decision`, {
      body: {
        digest: request.digest,
        items: pick(ids).map((id) => ({ id, decision: 'allow_once' })),
      },
    })
    expect([answer.status, answer.body.code]).toEqual([422, 'answer_incomplete'])
    expect((answer.body.errors as Json[]).length).toBeGreaterThan(0)
    expect(items(await pending()).map((i) => i.outcome)).toEqual(['pending', 'pending'])
    expect(await people.world.rows('select id from access_grant')).toEqual([])
  })

  test('a rule’s expiry without an always, or in the past, is 422 at its path', async () => {
    const request = await askedOf([READ])
    for (const item of [
      { decision: 'allow_once', rule_expires_at: '2026-12-31T00:00:00Z' },
      { decision: 'allow_always', rule_expires_at: '2026-11-30T08:00:00Z' },
    ]) {
      const { status, body } = await decide(request, [item])
      expect([status, (body.errors as Json[])[0]?.path]).toEqual([422, 'items.0.rule_expires_at'])
    }
  })

  test.each([
    [{ digest: 7 }, 'digest'],
    [{ items: {} }, 'items'],
    [{ note: 'n'.repeat(501) }, 'note'],
    [{ note: 'a\u0000' }, 'note'],
    [{ user_id: 'usr_maya' }, 'user_id'],
  ])('bad input %j is 400', async (more, path) => {
    const request = await askedOf([READ])
    const answer = await decide(request, ['deny'], more)
    expect([answer.status, (answer.body.errors as Json[])[0]?.path]).toEqual([400, path])
  })

  test('a request that there is not is 404', async () => {
    const answer = await people.call('maya', 'POST', '/access-requests/req_none/decision', {
      body: { digest: 'd', items: [] },
    })
    expect([answer.status, answer.body.code]).toEqual([404, 'not_found'])
  })
})
