import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from './support/agent.ts'
import { type Lend, type StartHow, serveLend } from './support/lend.ts'
import { until } from './support/until.ts'

/** What users of similar systems ran into (USER-ASKS), each by its number, as an agent and its user would see it here. */
const ROWS = 'accounts.rows:my_region'
const DRAFTS = 'email-templates:write'
const Q3 = 'dashboard:view dashboard/q3-pipeline'
const mail = (domain: string) => `email:send domain/${domain}`

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

/** Takes maya's dashboard away, as adam would, and gives what brings it back. */
async function takeDashboard(): Promise<() => Promise<void>> {
  const adam = lend.person('adam')
  const path = `/admin/users/${await lend.userId('maya')}/permissions`
  type Direct = { id: string; permission: string; resource?: string }
  const { items } = await adam.must<{ items: Direct[] }>('GET', path)
  const direct = items.find((p) => p.permission === 'dashboard:view')
  await adam.must('DELETE', `${path}/${direct?.id}`)
  return async () => {
    await adam.must('POST', path, { permission: direct?.permission, resource: direct?.resource })
  }
}

const setModes = (template: string, modes: string[]) =>
  lend.sql(
    `update enablement e set modes = $2::text[] from template t, tenant o
     where t.id = e.template_id and t.name = $1 and o.id = e.tenant_id and o.slug = 'acme'`,
    [template, modes],
  )

const grantsMade = (agent: Agent) =>
  lend.sql(`select 1 from activity where session_id = $1 and type = 'grant.created'`, [
    agent.sessionId,
  ])

it('13: limits are charged to the root, so children do not multiply them', async () => {
  const root = await start()
  const children = [await root.subagent(), await root.subagent()] as const
  for (let n = 0; n < 10; n++)
    for (const one of [root, ...children]) await one.ask(['accounts:fly'])
  for (const one of [root, ...children])
    expect(await one.refusedCall(['accounts:fly'])).toMatchObject({ limit: 'requestsPerMinute' })
  // A child started now brings no budget of its own.
  const late = await root.subagent()
  expect(await late.refusedCall(['accounts:fly'])).toMatchObject({ limit: 'requestsPerMinute' })
  lend.advance(61)
  const rows = (n: number) => ({ permission: ROWS, narrow: { arr: { $gt: n } } })
  for (let n = 0; n < 10; n++) await [root, ...children][n % 3]?.ask([rows(n)])
  for (const one of [root, ...children])
    expect(await one.refusedCall([rows(10)])).toMatchObject({ limit: 'openRequests' })
  expect(await maya().pending()).toHaveLength(10)
})

describe('14: a child never runs looser, and a deny is never shadowed', () => {
  const modeOfChild = async (parent: Agent) => {
    const child = await parent.call('iam.start_subagent', { template: 'email-drafter' })
    return child.mode
  }

  it('the child has the loosest mode that its template allows and its parent has', async () => {
    for (const mode of ['ask', 'auto', 'bypass'] as const)
      expect(await modeOfChild(await start(mode))).toBe(mode)
    await setModes('email-drafter', ['ask', 'auto'])
    expect(await modeOfChild(await start('bypass'))).toBe('auto')
    await setModes('email-drafter', ['ask'])
    expect(await modeOfChild(await start('bypass'))).toBe('ask')
    await setModes('email-drafter', ['ask', 'bypass'])
    expect(await modeOfChild(await start('auto'))).toBe('ask')
    await setModes('email-drafter', ['ask', 'auto', 'bypass'])
  })

  it('a parent that is tightened tightens the child; looser is refused', async () => {
    const root = await start('bypass')
    const child = await root.subagent()
    await maya().must('PATCH', `/sessions/${root.sessionId}`, { mode: 'ask' })
    expect((await child.mine()).mode).toBe('ask')
    expect(await child.askOne(DRAFTS)).toMatchObject({ reason: 'mode_ask' })
    const looser = await maya().call('PATCH', `/sessions/${child.sessionId}`, { mode: 'bypass' })
    expect(looser).toMatchObject({ status: 409, body: { code: 'mode_not_tighter' } })
  })

  it('a mode that the organisation turned off is not in force any more', async () => {
    const agent = await start('bypass')
    await setModes('renewal-briefs', ['ask', 'auto'])
    try {
      expect(await agent.askOne(mail('a.example'))).toMatchObject({ reason: 'mode_ask' })
    } finally {
      await setModes('renewal-briefs', ['ask', 'auto', 'bypass'])
    }
  })

  it('an always of the parent’s template does not reach past the child’s deny', async () => {
    await maya().rule({ permission: 'accounts:read', effect: 'allow' })
    await maya().rule({ template: 'email-drafter', permission: 'accounts:read', effect: 'deny' })
    await maya().rule({ template: 'email-drafter', permission: 'accounts:read', effect: 'allow' })
    const root = await start('bypass')
    expect(await root.askOne('accounts:read')).toMatchObject({ reason: 'allow_rule' })
    const child = await root.subagent()
    expect(await child.held()).toEqual([])
    expect(await child.askOne('accounts:read')).toMatchObject({ reason: 'deny_rule' })
  })
})

it('15: a child’s question is in the root session’s queue, with the path', async () => {
  const root = await start()
  const child = await root.subagent()
  const waiting = child.ask([DRAFTS], { wait_seconds: 20 })
  const asked = await maya().asked(child)
  expect(asked).toMatchObject({
    root_session_id: root.sessionId,
    session_id: child.sessionId,
    path: ['Renewal briefs', 'Email drafter'],
    template: { name: 'email-drafter', version: 1 },
  })
  await maya().answer(asked.id, 'allow_once')
  expect(await waiting).toMatchObject({ items: [{ reason: 'allowed_by_user' }] })
  expect(await root.held()).toEqual([])
})

it('18: access withdrawn while the agent waited is not granted by a yes', async () => {
  const agent = await start()
  const waiting = agent.ask([Q3, 'accounts:read'], { wait_seconds: 20 })
  const asked = await maya().asked(agent)
  const giveBack = await takeDashboard()
  try {
    const answer = await maya().answer(asked.id, 'allow_once')
    expect(answer.status).toBe(200)
    const result = await waiting
    expect(result.items).toMatchObject([
      { outcome: 'refused', reason: 'user_lacks_access', retry: 'user_access_changes' },
      { outcome: 'granted', reason: 'allowed_by_user' },
    ])
    expect(await agent.held()).toEqual(['accounts:read'])
    expect(await grantsMade(agent)).toHaveLength(1)
  } finally {
    await giveBack()
  }
})

it('19: access lost after the grant is gone at the next issue, and from the session in seconds', async () => {
  const agent = await start()
  const { request_id } = await agent.ask([Q3, 'accounts:read'])
  await maya().answer(request_id, 'allow_once')
  const giveBack = await takeDashboard()
  try {
    await agent.refresh()
    const carried = agent.claims.authorization_details.map((d) => d.permission)
    expect(carried).toEqual(['accounts:read'])
    expect(await agent.askOne(Q3)).toMatchObject({ reason: 'user_lacks_access' })
  } finally {
    await giveBack()
  }
  // Getting the access back does not bring the grant back.
  expect(await agent.askOne(Q3)).toMatchObject({ reason: 'mode_ask' })

  const idle = await start('bypass')
  await idle.ask([Q3])
  await idle.refresh()
  const again = await takeDashboard()
  try {
    await until(async () => (await idle.status()) === 401, 'the token is dead', 5)
  } finally {
    await again()
  }
})

describe('21: what is granted is exactly what was approved', () => {
  it('an answer names the digest of what was shown', async () => {
    const agent = await start()
    const first = await agent.ask([mail('a.example')])
    const second = await agent.ask([mail('b.example')])
    const other = await maya().request(second.request_id ?? '')
    const wrong = await maya().answer(first.request_id, 'allow_once', { digest: other.digest })
    expect(wrong).toMatchObject({ status: 409, body: { code: 'digest_mismatch' } })
    expect(await agent.held()).toEqual([])
    expect((await maya().answer(first.request_id, 'allow_once')).status).toBe(200)
    expect(await agent.held()).toEqual([mail('a.example')])
  })

  it('every part of an item is in the digest: permission, resource, narrow, and their absence', async () => {
    const digests = new Set<string>()
    const narrow = { arr: { $gt: 1 } }
    const asks = [
      [mail('a.example')],
      [mail('*')],
      [mail('a.example'), mail('b.example')],
      [ROWS],
      [{ permission: ROWS, narrow }],
      [{ permission: ROWS, narrow: { arr: { $gte: 1 } } }],
      [{ permission: ROWS, narrow: { arr: { $gt: '1' } } }],
    ]
    for (const items of asks) {
      const { request_id } = await (await start()).ask(items)
      digests.add((await maya().request(request_id ?? '')).digest)
    }
    expect(digests.size).toBe(asks.length)
  })

  it('a rule for one narrow or one resource is not a rule for any', async () => {
    const narrow = { arr: { $gt: 1 } }
    const agent = await start()
    const asked = await agent.ask([{ permission: ROWS, narrow }, mail('a.example')])
    await maya().answer(asked.request_id, 'allow_always')
    const other = await start()
    expect((await other.ask([ROWS, mail('b.example'), mail('*')])).items).toMatchObject([
      { reason: 'mode_ask' },
      { reason: 'mode_ask' },
      { reason: 'mode_ask' },
    ])
    const same = await other.ask([{ permission: ROWS, narrow }, mail('a.example')])
    expect(same.items).toMatchObject([{ reason: 'allow_rule' }, { reason: 'allow_rule' }])
  })
})

it('22: the reason’s text and the spelling of an item are not in the digest', async () => {
  const digestOf = async (items: Parameters<Agent['ask']>[0], reason: string) => {
    const { request_id } = await (await start()).ask(items, { reason })
    return (await maya().request(request_id ?? '')).digest
  }
  const first = await digestOf(
    [{ permission: ROWS, narrow: { arr: { $gt: 1, $lt: 9 }, region: 'emea' } }, mail('a.example')],
    'For the brief.',
  )
  const same = await digestOf(
    [
      { permission: ROWS, narrow: { region: 'emea', arr: { $lt: 9, $gt: 1 } } },
      mail('A.example.'),
      mail('a.example'),
    ],
    'Because of something else entirely \u202e',
  )
  expect(same).toBe(first)
})

it('23: once is this session and this grant', async () => {
  const agent = await start()
  const { request_id } = await agent.ask(['accounts:read'])
  await maya().answer(request_id, 'allow_once')
  expect(await agent.askOne('accounts:read')).toMatchObject({ reason: 'already_held' })
  const rules = await maya().must<{ items: unknown[] }>('GET', '/rules')
  expect(rules.items).toEqual([])
  expect(await (await start()).askOne('accounts:read')).toMatchObject({ reason: 'mode_ask' })
  // Given back is given back: the yes is used up.
  await agent.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
  await agent.refresh()
  expect(await agent.askOne('accounts:read')).toMatchObject({ reason: 'mode_ask' })
})

it('24: always matches again, and what was shown is what is kept', async () => {
  const agent = await start()
  const { request_id } = await agent.ask([mail('customer.example')])
  const [shown] = (await maya().request(request_id ?? '')).items
  expect(shown?.rule_preview).toMatchObject({
    effect: 'allow',
    template: 'renewal-briefs',
    permission: 'email:send',
    resource: 'domain/customer.example',
    covers: expect.stringContaining('customer.example'),
    does_not: expect.stringMatching(/\w/),
  })
  await maya().answer(request_id, 'allow_always')
  const { items } = await maya().must<{ items: object[] }>('GET', '/rules')
  const { covers: _, does_not: __, ...kept } = shown?.rule_preview ?? {}
  expect(items).toMatchObject([{ ...kept, status: 'active', created_from: request_id }])
  for (const spelt of ['customer.example', 'CUSTOMER.example.'])
    expect(await (await start()).askOne(mail(spelt))).toMatchObject({ reason: 'allow_rule' })
  expect(await (await start()).askOne(mail('customer.example.org'))).toMatchObject({
    reason: 'mode_ask',
  })
})

it('26: a partial yes grants that part, and the answer says so item by item', async () => {
  const agent = await start()
  const waiting = agent.ask(['accounts:read', mail('a.example'), ROWS], { wait_seconds: 20 })
  const { id } = await maya().asked(agent)
  const answer = await maya().answer(id, {
    'accounts:read': 'allow_once',
    'email:send': 'deny',
    [ROWS]: 'allow_once',
  })
  const says = [
    ['granted', 'allowed_by_user'],
    ['refused', 'denied_by_user'],
    ['granted', 'allowed_by_user'],
  ]
  expect(answer.body.status).toBe('settled')
  expect(answer.body.items.map((i) => [i.outcome, i.decision_reason])).toEqual(says)
  expect((await waiting).items.map((i) => [i.outcome, i.reason])).toEqual(says)
  expect(await agent.held()).toEqual(['accounts:read', ROWS].sort())
})

it('27: four ends, none of which stands for another; what is over is not listed, and late is a conflict', async () => {
  const limit = (limits: string) =>
    lend.sql(
      `update enablement e set limits = $1::text::jsonb from template t
       where t.id = e.template_id and t.name = 'renewal-briefs'`,
      [limits],
    )
  await limit('{"requestWaitSeconds": 600}')
  try {
    const agent = await start()
    const allowed = await agent.ask(['accounts:read'])
    const denied = await agent.ask([mail('a.example')])
    const expired = await agent.ask([Q3])
    expect(Date.parse(expired.expires_at ?? '') - lend.now()).toBeLessThan(601_000)
    await maya().answer(allowed.request_id, 'allow_once')
    await maya().answer(denied.request_id, 'deny')
    lend.advance(601)
    // From this moment on, whether or not the sweep has been there.
    expect(await maya().pending()).toEqual([])
    const late = await maya().answer(expired.request_id, 'allow_once')
    expect(late).toMatchObject({ status: 409, body: { code: 'request_expired' } })
    const cancelled = await agent.ask([ROWS])
    await agent.call('iam.end_session', {})
    const ends: unknown[] = []
    for (const { request_id } of [allowed, denied, expired, cancelled])
      ends.push((await maya().request(request_id ?? '')).items[0]?.decision_reason)
    expect(ends).toEqual(['allowed_by_user', 'denied_by_user', 'expired', 'cancelled'])
    const codes: unknown[] = []
    for (const { request_id } of [allowed, denied, expired, cancelled]) {
      const body = { digest: 'x', items: [] }
      const again = await maya().call('POST', `/access-requests/${request_id}/decision`, body)
      expect(again.status).toBe(409)
      codes.push((again.body as { code: string }).code)
    }
    expect(codes).toEqual([
      'already_answered',
      'already_answered',
      'request_expired',
      'request_cancelled',
    ])
    expect(await grantsMade(agent)).toHaveLength(1)
  } finally {
    await limit('{}')
  }
})

it('28: a decision is used once; a repeat with its key changes nothing, one without is a conflict', async () => {
  const agent = await start()
  const { request_id } = await agent.ask(['accounts:read'])
  const shown = await maya().request(request_id ?? '')
  const body = {
    digest: shown.digest,
    items: shown.items.map(({ id }) => ({ id, decision: 'allow_once' })),
  }
  const path = `/access-requests/${request_id}/decision`
  const send = (key?: string, sent: object = body) =>
    maya().call('POST', path, sent, key === undefined ? {} : { 'idempotency-key': key })
  const [first, second] = await Promise.all([send('one'), send('one')])
  expect([first.status, second.status]).toEqual([200, 200])
  expect(second.body).toEqual(first.body)
  expect(await send('one')).toEqual(first)
  const denied = { ...body, items: body.items.map((i) => ({ ...i, decision: 'deny' })) }
  expect((await send('one', denied)).status).toBe(422)
  for (const sent of [body, denied])
    expect(await send('two', sent)).toMatchObject({
      status: 409,
      body: { code: 'already_answered' },
    })
  expect(await grantsMade(agent)).toHaveLength(1)
  // What was released is not brought back by playing the answer again.
  await agent.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
  expect(await send('one')).toEqual(first)
  await agent.refresh()
  expect(await agent.held()).toEqual([])
})

it('29: no answer, or half of one, is no approval', async () => {
  const agent = await start()
  const { request_id } = await agent.ask(['accounts:read', mail('a.example')])
  const { digest, items } = await maya().request(request_id ?? '')
  const [first, second] = items.map(({ id }) => ({ id, decision: 'allow_once' }))
  const path = `/access-requests/${request_id}/decision`
  for (const sent of [
    [],
    [first],
    [first, first],
    [first, second, { id: 'itm_other', decision: 'allow_once' }],
    [first, { ...second, decision: 'approve' }],
    [first, { ...second, decision: null }],
    [first, { id: second?.id }],
  ]) {
    const answer = await maya().call('POST', path, { digest, items: sent })
    expect([400, 422], JSON.stringify(sent)).toContain(answer.status)
    expect((await maya().request(request_id ?? '')).status).toBe('pending')
  }
  expect((await maya().call('POST', path, { digest })).status).toBeGreaterThanOrEqual(400)
  expect(await agent.held()).toEqual([])
})

it('29: nobody else’s answer counts: not the agent’s, an admin’s or another user’s (I6)', async () => {
  const agent = await start()
  const { request_id } = await agent.ask(['accounts:read'])
  const { digest, items } = await maya().request(request_id ?? '')
  const body = { digest, items: items.map(({ id }) => ({ id, decision: 'allow_once' })) }
  const path = `/access-requests/${request_id}/decision`
  for (const login of ['omar', 'adam', 'cleo'] as const)
    expect((await lend.person(login).call('POST', path, body)).status).toBe(404)
  const own = await fetch(`${lend.publicUrl}/t/acme/api${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${agent.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(own.status).toBe(401)
  expect(await agent.held()).toEqual([])
})

it('33: asking again after a no reaches nobody, says never, and runs into the limit', async () => {
  const agent = await start()
  const { request_id } = await agent.ask([mail('a.example')])
  await maya().answer(request_id, 'deny')
  let asked = 1
  for (const reason of ['please', 'really', 'it is urgent']) {
    const again = await agent.ask([mail('a.example')], { reason, wait_seconds: 20 })
    asked++
    expect(again.items).toMatchObject([
      { outcome: 'refused', reason: 'denied_this_session', retry: 'never' },
    ])
    expect(again.items[0]?.request_id).toBeUndefined()
  }
  expect(await maya().pending()).toEqual([])
  for (; asked < 30; asked++) await agent.ask([mail('a.example')])
  const fault = await agent.refusedCall([mail('a.example')])
  expect(fault).toMatchObject({ code: 'limit_reached', limit: 'requestsPerMinute' })
  expect(fault.retry_after).toBeGreaterThan(0)
})

describe('34: a client never has to outwait a person', () => {
  it('pending comes back at once, with a handle', async () => {
    const agent = await start()
    const before = performance.now()
    const result = await agent.ask(['accounts:read'])
    expect(performance.now() - before).toBeLessThan(3_000)
    expect(result).toMatchObject({
      request_id: expect.stringMatching(/^req_/),
      review_url: expect.stringContaining('/approvals/req_'),
      items: [{ outcome: 'pending', retry: 'user_answers' }],
    })
  })

  it('no wait is longer than 50 seconds', async () => {
    const agent = await start()
    const items = [{ permission: 'accounts:read' }]
    const fault = await agent.fault('iam.request_access', { items, reason: 'x', wait_seconds: 51 })
    expect(fault).toMatchObject({ code: 'request_malformed', errors: [{ path: 'wait_seconds' }] })
  })

  it('the same call again goes on waiting for the same question, also from a new connection', async () => {
    const agent = await start()
    const first = await agent.ask(['accounts:read'], { wait_seconds: 1 })
    expect(first.items).toMatchObject([{ outcome: 'pending' }])
    const waiting = agent.ask(['accounts:read'], { wait_seconds: 20 })
    await maya().answer(first.request_id, 'allow_once')
    expect(await waiting).toMatchObject({
      request_id: first.request_id,
      items: [{ outcome: 'granted' }],
    })
    expect(await agent.held()).toEqual(['accounts:read'])
  })

  it('one who did not wait finds the outcome by looking', async () => {
    const agent = await start()
    const { request_id } = await agent.ask(['accounts:read', mail('a.example')])
    expect((await agent.mine()).pending.map((p) => p.request_id)).toEqual([request_id, request_id])
    const decisions = { 'accounts:read': 'allow_once', 'email:send': 'deny' } as const
    const note = 'Read them; I write to them myself.'
    await maya().answer(request_id, decisions, { note })
    const mine = await agent.mine()
    expect(mine.pending).toEqual([])
    expect(mine.grants).toMatchObject([{ permission: 'accounts:read' }])
    const again = await agent.ask(['accounts:read', mail('a.example'), mail('*')])
    expect(again.items.map((i) => i.reason)).toEqual([
      'already_held',
      'denied_this_session',
      'denied_this_session',
    ])
    // What the user said with the answer is not lost on one who did not wait for it.
    for (const item of again.items) expect(item.message).toContain(note)
    const other = await (await start()).ask(['accounts:read'])
    expect(other.items[0]?.message).not.toContain(note)
  })
})

it('39: what is needed is one call and one question, in a result that any client understands', async () => {
  const agent = await start()
  const items = ['accounts:read', ROWS, 'contracts.fields:pricing', 'accounts:write'].map(
    (permission) => ({ permission }),
  )
  const response = await agent.raw('iam.request_access', { items, reason: 'to write the brief' })
  // No challenge: a step-up that a client ignores or loops on.
  expect(response.status).toBe(200)
  expect(response.headers.get('www-authenticate')).toBeNull()
  const message = (await response.text())
    .split('\n')
    .find((line) => line.startsWith('{') || line.startsWith('data: '))
  const { result } = JSON.parse(message?.replace(/^data: /, '') ?? '')
  expect(result.isError ?? false).toBe(false)
  expect(JSON.parse(result.content[0].text)).toEqual(result.structuredContent)
  expect(result.structuredContent.items).toHaveLength(4)
  const pending = await maya().pending()
  expect(pending).toHaveLength(1)
  expect(pending[0]?.items.filter((i) => i.outcome === 'pending')).toHaveLength(3)
  // Allowed, the very next call of the same token works: no new sign-in is needed to go on.
  await maya().answer(pending[0]?.id, 'allow_once')
  expect(await agent.status()).toBe(200)
  expect(await agent.held()).toHaveLength(3)
})
