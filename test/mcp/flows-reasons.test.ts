import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { RequestAccessResult } from '../../schema/tools.ts'
import { type Lend, type StartHow, serveLend } from './support/lend.ts'
import { until } from './support/until.ts'

/** Each row of the decision and each end of a prompt (SPEC section 4), by a real call over HTTP. */
type Outcome = RequestAccessResult['items'][number]

const PRICING = 'contracts.fields:pricing'
const MAIL = 'email:send domain/customer.example'
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
const start = (mode?: StartHow['mode']) => lend.start('maya', mode === undefined ? {} : { mode })

/** SPEC section 4's table as it is on the wire, where what is asked is `pending`. */
const TABLE = {
  unknown_permission: ['refused', 'never'],
  outside_ceiling: ['refused', 'new_template_version'],
  never_delegable: ['refused', 'never'],
  user_lacks_access: ['refused', 'user_access_changes'],
  deny_rule: ['refused', 'never'],
  already_held: ['granted', 'never'],
  denied_this_session: ['refused', 'never'],
  sensitive: ['pending', 'user_answers'],
  ask_rule: ['pending', 'user_answers'],
  reconsent: ['pending', 'user_answers'],
  allow_rule: ['granted', 'never'],
  mode_auto: ['granted', 'never'],
  mode_bypass: ['granted', 'never'],
  mode_ask: ['pending', 'user_answers'],
  allowed_by_user: ['granted', 'never'],
  denied_by_user: ['refused', 'never'],
  expired: ['refused', 'later'],
  cancelled: ['refused', 'never'],
} as const
type Reason = keyof typeof TABLE

/** Each that a test below has seen; the last test asks whether any is missing. */
const seen = new Set<Reason>()

const WAS_ASKED = new Set(['allowed_by_user', 'denied_by_user', 'expired', 'cancelled'])

function expectReason(got: Outcome | undefined, reason: Reason): void {
  const [outcome, retry] = TABLE[reason]
  expect(got).toMatchObject({ outcome, reason, retry, message: expect.stringMatching(/\w.*[.”]$/) })
  // The handle of a question is there when there is or was one, and only then.
  const asked = outcome === 'pending' || WAS_ASKED.has(reason)
  expect(got?.request_id, reason).toEqual(asked ? expect.stringMatching(/^req_/) : undefined)
  expect(got?.retry_after, reason).toEqual(retry === 'later' ? expect.any(Number) : undefined)
  seen.add(reason)
}

describe('walls, which no rule and no mode opens', () => {
  it('unknown_permission', async () => {
    for (const mode of ['ask', 'bypass'] as const)
      expectReason(await (await start(mode)).askOne('accounts:fly'), 'unknown_permission')
  })

  it('outside_ceiling, though the user has it and the mode is bypass', async () => {
    const agent = await start('bypass')
    expectReason(await agent.askOne('email-templates:write'), 'outside_ceiling')
    expectReason(await agent.askOne('dashboard:edit dashboard/q3-pipeline'), 'outside_ceiling')
    expectReason(await agent.askOne('billing:admin'), 'outside_ceiling')
    expect(await agent.held()).toEqual([])
  })

  it('never_delegable: a ceiling item that the catalog withdrew since', async () => {
    const agent = await start('bypass')
    expectReason(await agent.askOne(MAIL), 'mode_bypass')
    await agent.call('iam.release_access', { items: [{ permission: 'email:send' }] })
    await agent.refresh()
    await maya().rule({ permission: 'email:send', resource: 'domain/*', effect: 'allow' })
    const delegable = (is: boolean) =>
      lend.sql(`update permission set delegable = ${is} where id = 'email:send'`)
    await delegable(false)
    try {
      expectReason(await agent.askOne(MAIL), 'never_delegable')
    } finally {
      await delegable(true)
    }
    expectReason(await agent.askOne(MAIL), 'allow_rule')
  })

  it('user_lacks_access, checked live', async () => {
    const omar = await lend.start('omar', { mode: 'bypass' })
    expectReason(await omar.askOne(Q3), 'user_lacks_access')
    const agent = await start('bypass')
    expectReason(await agent.askOne('dashboard:view dashboard/board'), 'user_lacks_access')
    expectReason(await agent.askOne('dashboard:view dashboard/*'), 'user_lacks_access')
    expectReason(await agent.askOne(Q3), 'mode_bypass')
  })
})

describe('what the user has already said', () => {
  it('deny_rule, above bypass, for whatever overlaps', async () => {
    await maya().rule({
      permission: 'email:send',
      resource: 'domain/customer.example',
      effect: 'deny',
    })
    const agent = await start('bypass')
    expectReason(await agent.askOne(MAIL), 'deny_rule')
    expectReason(await agent.askOne('email:send domain/*'), 'deny_rule')
    expectReason(await agent.askOne('email:send domain/other.example'), 'mode_bypass')
  })

  it('already_held, for what a wider grant covers too', async () => {
    const agent = await start('bypass')
    expectReason(await agent.askOne('email:send domain/*'), 'mode_bypass')
    expectReason(await agent.askOne('email:send domain/*'), 'already_held')
    expectReason(await agent.askOne(MAIL), 'already_held')
    expect(await agent.held()).toEqual(['email:send domain/*'])
  })

  it('denied_this_session: the item, what overlaps it, and nothing else', async () => {
    const agent = await start()
    const { request_id } = await agent.ask([MAIL])
    expect((await maya().answer(request_id, 'deny')).status).toBe(200)
    expectReason(await agent.askOne(MAIL), 'denied_this_session')
    expectReason(await agent.askOne('email:send domain/*'), 'denied_this_session')
    expectReason(await agent.askOne('email:send domain/other.example'), 'mode_ask')
    // Another session of the same user starts without it.
    expectReason(await (await start()).askOne(MAIL), 'mode_ask')
  })

  it('denied_this_session, whatever the narrow', async () => {
    const agent = await start()
    const rows = 'accounts.rows:my_region'
    const narrow = { renewal_in_days: { $lte: 90 } }
    const { request_id } = await agent.ask([{ permission: rows, narrow }])
    await maya().answer(request_id, 'deny')
    expectReason(await agent.askOne(rows), 'denied_this_session')
    const other = { permission: rows, narrow: { renewal_in_days: { $gt: 90 } } }
    expectReason(await agent.askOne(other), 'denied_this_session')
  })

  it('denied_this_session for a sibling, for the parent and for a child', async () => {
    const root = await start()
    const one = await root.subagent()
    const other = await root.subagent()
    for (const item of ['email-templates:write', 'accounts:read']) {
      const { request_id } = await one.ask([item])
      await maya().answer(request_id, 'deny')
      expectReason(await other.askOne(item), 'denied_this_session')
    }
    expectReason(await root.askOne('accounts:read'), 'denied_this_session')
    const { request_id } = await root.ask([Q3])
    await maya().answer(request_id, 'deny')
    expectReason(await one.askOne(Q3), 'denied_this_session')
    expectReason(await (await root.subagent()).askOne(Q3), 'denied_this_session')
  })

  it('sensitive, in every mode, and never to be saved as allow', async () => {
    for (const mode of ['ask', 'auto', 'bypass'] as const) {
      const agent = await start(mode)
      const result = await agent.ask([PRICING])
      expectReason(result.items[0], 'sensitive')
      const answer = await maya().answer(result.request_id, 'allow_always')
      expect(answer).toMatchObject({ status: 422, body: { code: 'sensitive_not_remembered' } })
      expect(await agent.held()).toEqual([])
      expect((await maya().request(result.request_id ?? '')).status).toBe('pending')
    }
  })

  it('sensitive stays above an allow rule that stood before the mark', async () => {
    await maya().rule({ permission: 'accounts:read', effect: 'allow' })
    const mark = (is: boolean) =>
      lend.sql(`update permission set sensitive = ${is} where id = 'accounts:read'`)
    await mark(true)
    try {
      expectReason(await (await start('bypass')).askOne('accounts:read'), 'sensitive')
    } finally {
      await mark(false)
    }
  })

  it('ask_rule, above bypass', async () => {
    await maya().rule({ permission: 'email:send', resource: 'domain/*', effect: 'ask' })
    expectReason(await (await start('bypass')).askOne(MAIL), 'ask_rule')
  })

  it('reconsent, until the user has said so once more', async () => {
    const rule = await maya().rule({ permission: 'accounts:read', effect: 'allow' })
    await lend.sql(`update consent_rule set status = 'suspended' where id = $1`, [rule.id])
    const agent = await start('bypass')
    const result = await agent.ask(['accounts:read'])
    expectReason(result.items[0], 'reconsent')
    expect((await maya().answer(result.request_id, 'allow_always')).status).toBe(200)
    expectReason(await (await start()).askOne('accounts:read'), 'allow_rule')
    const rules = await maya().must<{ items: { id: string; status: string }[] }>('GET', '/rules')
    expect(rules.items).toMatchObject([{ id: rule.id, status: 'active' }])
  })

  it('allow_rule skips the question and grants within the walls only', async () => {
    const rule = await maya().rule({
      permission: 'email:send',
      resource: 'domain/*',
      effect: 'allow',
    })
    const agent = await start()
    expectReason(await agent.askOne(MAIL), 'allow_rule')
    const { grants } = await agent.mine()
    expect(grants).toMatchObject([
      { permission: 'email:send', source: { by: 'rule', rule_id: rule.id } },
    ])
    expectReason(await agent.askOne('accounts:read'), 'mode_ask')
  })
})

describe('nothing said: the mode', () => {
  it('mode_auto for low risk, mode_ask for the rest', async () => {
    const agent = await start('auto')
    expectReason(await agent.askOne('accounts:read'), 'mode_auto')
    expectReason(await agent.askOne('accounts.rows:my_region'), 'mode_ask')
    expectReason(await agent.askOne(MAIL), 'mode_ask')
  })

  it('mode_bypass whatever the risk', async () => {
    const agent = await start('bypass')
    for (const item of ['accounts:read', 'accounts.rows:my_region', MAIL])
      expectReason(await agent.askOne(item), 'mode_bypass')
    const { grants } = await agent.mine()
    expect(grants.map((g) => g.source.by)).toEqual(['mode', 'mode', 'mode'])
  })

  it('mode_ask, and a bypass that has run out', async () => {
    expectReason(await (await start()).askOne('accounts:read'), 'mode_ask')
    const mode_expires_at = new Date(Date.now() + 1500).toISOString()
    const agent = await lend.start('maya', { mode: 'bypass', mode_expires_at })
    expectReason(await agent.askOne('accounts:read'), 'mode_bypass')
    await until(async () => (await agent.mine()).mode === 'ask', 'the bypass is over')
    expectReason(await agent.askOne(MAIL), 'mode_ask')
  })

  it('nothing an agent sends touches the mode (I7)', async () => {
    const agent = await start()
    const fault = await agent.fault('iam.request_access', {
      items: [{ permission: 'accounts:read' }],
      reason: 'quick',
      mode: 'bypass',
    } as never)
    expect(fault).toMatchObject({ code: 'request_malformed', errors: [{ path: 'mode' }] })
    expect(await agent.held()).toEqual([])
  })
})

describe('the four ends', () => {
  it('allowed_by_user', async () => {
    const agent = await start()
    const waiting = agent.ask(['accounts:read'], { wait_seconds: 20 })
    await maya().answer((await maya().asked(agent)).id, 'allow_once')
    const result = await waiting
    expectReason(result.items[0], 'allowed_by_user')
    expect(result).toMatchObject({ token_refresh: true })
    expect(result.review_url).toBeUndefined()
    expect(result.expires_at).toBeUndefined()
  })

  it('denied_by_user, with the user’s own words', async () => {
    const agent = await start()
    const waiting = agent.ask(['accounts:read'], { wait_seconds: 20 })
    const note = 'Not before Friday: ask “Omar” first.'
    await maya().answer((await maya().asked(agent)).id, 'deny', { note })
    const result = await waiting
    expectReason(result.items[0], 'denied_by_user')
    expect(result.items[0]?.message).toContain(note)
    expect(result.token_refresh).toBe(false)
  })

  it('expired: nobody answered in time, which is no denial', async () => {
    const limit = (limits: string) =>
      lend.sql(
        `update enablement e set limits = $1::text::jsonb from template t, tenant o
         where t.id = e.template_id and t.name = 'renewal-briefs' and o.id = e.tenant_id
           and o.slug = 'acme'`,
        [limits],
      )
    await limit('{"requestWaitSeconds": 2}')
    try {
      const agent = await start()
      const result = await agent.ask(['accounts:read'], { wait_seconds: 20 })
      expectReason(result.items[0], 'expired')
      expect(result.token_refresh).toBe(false)
      const late = await maya().answer(result.request_id, 'allow_once')
      expect(late).toMatchObject({ status: 409, body: { code: 'request_expired' } })
      // It may be asked again, as a new question.
      const again = await agent.ask(['accounts:read'])
      expectReason(again.items[0], 'mode_ask')
      expect(again.request_id).not.toBe(result.request_id)
    } finally {
      await limit('{}')
    }
  })

  it('cancelled: the session ended before the answer', async () => {
    const agent = await start()
    const waiting = agent.ask(['accounts:read'], { wait_seconds: 20 })
    const { id } = await maya().asked(agent)
    await maya().must('POST', `/sessions/${agent.sessionId}/end`)
    expectReason((await waiting).items[0], 'cancelled')
    const late = await maya().answer(id, 'allow_once')
    expect(late).toMatchObject({ status: 409, body: { code: 'request_cancelled' } })
  })
})

describe('several items in one call', () => {
  it('each has its own outcome, in the order asked, and one request', async () => {
    await maya().rule({ permission: 'accounts.rows:my_region', effect: 'deny' })
    const agent = await start('auto')
    const result = await agent.ask([
      PRICING,
      'accounts:fly',
      'accounts:read',
      'accounts:write',
      Q3,
      'accounts.rows:my_region',
      MAIL,
    ])
    expect(result.items.map((i) => [i.permission, i.reason])).toEqual([
      [PRICING, 'sensitive'],
      ['accounts:fly', 'unknown_permission'],
      ['accounts:read', 'mode_auto'],
      ['accounts:write', 'outside_ceiling'],
      ['dashboard:view', 'mode_auto'],
      ['accounts.rows:my_region', 'deny_rule'],
      ['email:send', 'mode_ask'],
    ])
    for (const item of result.items) expectReason(item, item.reason as Reason)
    for (const item of result.items.filter((i) => i.outcome === 'pending'))
      expect(item.request_id).toBe(result.request_id)
    expect(result.token_refresh).toBe(true)
    expect(await agent.held()).toEqual(['accounts:read', Q3])
  })

  it('an answer checks the walls again: what no longer holds is refused, the rest proceeds', async () => {
    const agent = await start()
    const { request_id } = await agent.ask([MAIL, 'accounts:read'])
    const delegable = (is: boolean) =>
      lend.sql(`update permission set delegable = ${is} where id = 'email:send'`)
    await delegable(false)
    try {
      const answer = await maya().answer(request_id, 'allow_once')
      expect(answer.status).toBe(200)
      expect(answer.body.items.map((i) => [i.outcome, i.decision_reason])).toEqual([
        ['refused', 'never_delegable'],
        ['granted', 'allowed_by_user'],
      ])
      expect(await agent.held()).toEqual(['accounts:read'])
    } finally {
      await delegable(true)
    }
  })
})

it('every row of the decision and every end has been produced', () => {
  expect([...seen].sort()).toEqual(Object.keys(TABLE).sort())
})
