import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from './support/agent.ts'
import { type Lend, type StartHow, serveLend } from './support/lend.ts'
import { until } from './support/until.ts'

/** The other six tools (SPEC section 7), through the newer official client and its newest revision. */
const ROWS = 'accounts.rows:my_region'
const PRICING = 'contracts.fields:pricing'
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
const start = (mode?: StartHow['mode']) =>
  lend.start('maya', { client: 'newer', ...(mode === undefined ? {} : { mode }) })

async function allow(agent: Agent, ...items: string[]): Promise<void> {
  const { request_id } = await agent.ask(items)
  expect((await maya().answer(request_id, 'allow_once')).status).toBe(200)
}

describe('iam.describe_permissions', () => {
  const ids = async (task: string, more: { kind?: 'data' | 'tool'; limit?: number } = {}) => {
    const agent = await start()
    const { permissions } = await agent.call('iam.describe_permissions', { task, ...more })
    return permissions.map((p) => p.id)
  }

  it.each([
    ['see which customers renew this quarter', [ROWS, 'accounts:read']],
    ['find accounts up for renewal', [ROWS, 'accounts:read']],
    ['list the clients in my region', [ROWS]],
    ['what do they pay', [PRICING]],
    ['look at the discounts they got', [PRICING]],
    ['mail the customer', ['email:send']],
    ['emailing clients about their renewals', ['email:send']],
    ['write an email draft', [DRAFTS]],
    ['opened pipelines on the dashboard', ['dashboard:view']],
    ['look up when the contracts end', ['contracts:read']],
    ['cancel our billing plan', ['billing:admin']],
    ['approve what agents ask', ['consent:manage']],
    ['give Omar another role', ['iam:admin']],
  ])('“%s” puts %j first', async (task, first) => {
    expect((await ids(task)).slice(0, first.length)).toEqual(first)
  })

  it('finds what is best first and leaves the rest out', async () => {
    expect(await ids('mail the customer', { limit: 2 })).toHaveLength(2)
    const tools = await ids('mail the customer', { kind: 'tool' })
    expect(tools).toEqual(['email:send'])
    expect(await ids('mail the customer', { kind: 'data' })).not.toContain('email:send')
    expect(await ids('cancel our billing plan')).not.toContain(PRICING)
    expect(await ids('what is it about')).toEqual([])
    expect(await ids('zzyzx')).toEqual([])
    // Punctuation is no operator of the search.
    expect(await ids(`'billing' & ! | ( : * -- \\`)).toEqual(['billing:admin'])
  })

  it('tells of each how it stands for this session, and why it is listed', async () => {
    const agent = await start('auto')
    await agent.ask(['accounts:read'])
    const seen = async (task: string) => {
      const { permissions } = await agent.call('iam.describe_permissions', { task })
      return new Map(permissions.map((p) => [p.id, p]))
    }
    const renewals = await seen('see which customers renew')
    expect(renewals.get('accounts:read')).toEqual({
      id: 'accounts:read',
      title: 'Accounts API · Read',
      unlocks: expect.stringContaining('look up accounts'),
      kind: 'api',
      risk: 'low',
      sensitive: false,
      delegable: true,
      in_ceiling: true,
      held: true,
      why: 'Fits “customers”, “renew” in the task.',
    })
    expect(renewals.get(ROWS)).toMatchObject({ held: false, in_ceiling: true })
    expect(renewals.get('accounts:write')).toMatchObject({ held: false, in_ceiling: false })
    expect((await seen('what do they pay')).get(PRICING)).toMatchObject({
      sensitive: true,
      delegable: true,
      in_ceiling: true,
      why: 'Fits “pay” in the task.',
    })
    expect((await seen('MAILING a customer')).get('email:send')).toMatchObject({
      kind: 'tool',
      risk: 'high',
      resource_hint: 'domain/*',
      why: 'Fits “MAILING”, “customer” in the task.',
    })
    expect((await seen('billing')).get('billing:admin')).toMatchObject({
      delegable: false,
      in_ceiling: false,
      held: false,
    })
  })

  it('asks nobody, grants nothing and is not charged', async () => {
    const agent = await start('bypass')
    for (let n = 0; n < 35; n++) await agent.call('iam.describe_permissions', { task: 'renew' })
    expect(await agent.held()).toEqual([])
    expect(await agent.askOne('accounts:read')).toMatchObject({ outcome: 'granted' })
  })
})

describe('iam.explain', () => {
  const explain = (agent: Agent, permission: string) => agent.call('iam.explain', { permission })

  it('says of each kind what it unlocks, where it is checked and what would happen', async () => {
    const agent = await start('auto')
    expect(await explain(agent, 'accounts:read')).toEqual({
      permission: 'accounts:read',
      title: 'Accounts API · Read',
      unlocks: expect.stringContaining('look up accounts'),
      kind: 'api',
      risk: 'low',
      sensitive: false,
      enforced_at: 'gateway',
      delegable: true,
      in_ceiling: true,
      held: false,
      would: { outcome: 'granted', reason: 'mode_auto', message: expect.any(String) },
    })
    expect(await explain(agent, ROWS)).toMatchObject({
      kind: 'data',
      enforced_at: 'data',
      would: { outcome: 'asked', reason: 'mode_ask' },
    })
    expect(await explain(agent, 'dashboard:view')).toMatchObject({
      kind: 'asset',
      enforced_at: 'asset',
      resource_hint: 'dashboard/*',
      would: { outcome: 'granted', reason: 'mode_auto' },
    })
    expect(await explain(agent, 'email:send')).toMatchObject({
      kind: 'tool',
      enforced_at: 'tool_gateway',
      resource_hint: 'domain/*',
      would: { outcome: 'asked', reason: 'mode_ask' },
    })
  })

  it('agrees with what then happens, class by class', async () => {
    await maya().rule({ permission: ROWS, effect: 'deny' })
    await maya().rule({ permission: 'accounts:read', effect: 'allow' })
    const agent = await start('bypass')
    const omar = await lend.start('omar', { mode: 'bypass' })
    const one: [Agent, string, string][] = [
      [agent, 'accounts:fly', 'accounts:fly'],
      [agent, 'accounts:write', 'accounts:write'],
      [agent, 'billing:admin', 'billing:admin'],
      [agent, ROWS, ROWS],
      [agent, 'accounts:read', 'accounts:read'],
      [agent, PRICING, PRICING],
      [agent, 'email:send', mail('a.example')],
      [agent, 'accounts:read', 'accounts:read'],
      [omar, 'dashboard:view', Q3],
    ]
    const reasons: string[] = []
    for (const [who, permission, item] of one) {
      const { would } = await explain(who, permission)
      const then = await who.askOne(item)
      expect([would.outcome === 'asked' ? 'pending' : would.outcome, would.reason]).toEqual([
        then.outcome,
        then.reason,
      ])
      reasons.push(would.reason)
    }
    expect(reasons).toEqual([
      'unknown_permission',
      'outside_ceiling',
      'outside_ceiling',
      'deny_rule',
      'allow_rule',
      'sensitive',
      'mode_bypass',
      'already_held',
      'user_lacks_access',
    ])
  })

  it('knows a denial and a withdrawn permission', async () => {
    const agent = await start('bypass')
    const asked = await agent.ask([PRICING])
    await maya().answer(asked.request_id, 'deny')
    expect((await explain(agent, PRICING)).would).toMatchObject({ reason: 'denied_this_session' })
    await lend.sql(`update permission set delegable = false where id = 'email:send'`)
    try {
      expect(await explain(agent, 'email:send')).toMatchObject({
        delegable: false,
        would: { outcome: 'refused', reason: 'never_delegable' },
      })
    } finally {
      await lend.sql(`update permission set delegable = true where id = 'email:send'`)
    }
  })

  it('of an unknown permission says only that, and is recorded like the others', async () => {
    const agent = await start()
    const unknown = await explain(agent, 'accounts:fly')
    expect(Object.keys(unknown).sort()).toEqual(['held', 'in_ceiling', 'permission', 'would'])
    const rows = await lend.sql<{ data: object }>(
      `select data from activity where session_id = $1 and type = 'call.allowed'`,
      [agent.sessionId],
    )
    expect(rows).toMatchObject([
      { data: { tool: 'iam.explain', permission: 'accounts:fly', would: 'unknown_permission' } },
    ])
  })
})

describe('iam.my_access', () => {
  it('shows what is held and by what, what is waited for, mode, end, template and context', async () => {
    const rule = await maya().rule({ permission: 'accounts:read', effect: 'allow' })
    const agent = await start('auto')
    const narrow = { arr: { $gte: 1000 } }
    const first = await agent.ask(['accounts:read', Q3, { permission: ROWS, narrow }])
    await maya().answer(first.request_id, 'allow_once')
    const second = await agent.ask([PRICING])
    const mine = await agent.mine()
    expect(mine).toMatchObject({
      mode: 'auto',
      template: 'renewal-briefs@3',
      context: expect.stringContaining('smallest access'),
      token_refresh: true,
    })
    const bySource = [...mine.grants].sort((a, b) => a.source.by.localeCompare(b.source.by))
    expect(bySource).toMatchObject([
      {
        permission: 'dashboard:view',
        resource: 'dashboard/q3-pipeline',
        read_only: false,
        source: { by: 'mode', request_id: first.request_id },
        uses: 0,
      },
      { permission: 'accounts:read', source: { by: 'rule', rule_id: rule.id } },
      { permission: ROWS, narrow, source: { by: 'user', request_id: first.request_id } },
    ])
    expect(mine.pending).toEqual([
      {
        request_id: second.request_id,
        permission: PRICING,
        reason: 'sensitive',
        message: second.items[0]?.message,
        since: expect.any(String),
        expires_at: second.expires_at,
        review_url: second.review_url,
      },
    ])
    const life = Date.parse(mine.expires_at) - Date.now()
    expect(life / 3_600_000).toBeGreaterThan(7.9)
    expect(life / 3_600_000).toBeLessThanOrEqual(8)
  })

  it('starts with nothing (I1) and shows only its own', async () => {
    const root = await start('bypass')
    expect(await root.mine()).toMatchObject({ grants: [], pending: [], token_refresh: false })
    const child = await root.subagent()
    await root.ask(['accounts:read'])
    await child.ask([DRAFTS])
    expect(await root.held()).toEqual(['accounts:read'])
    expect(await child.held()).toEqual([DRAFTS])
  })
})

describe('iam.release_access', () => {
  const release = (agent: Agent, ...items: object[]) =>
    agent.call('iam.release_access', { items: items as never })
  const all = ['accounts:read', mail('a.example'), mail('b.example'), ROWS].sort()

  async function holding(): Promise<Agent> {
    const agent = await start('bypass')
    await agent.ask(all)
    await agent.refresh()
    return agent
  }
  async function left(agent: Agent): Promise<string[]> {
    await agent.refresh()
    return agent.held()
  }

  it('by grant id, one and no other', async () => {
    const agent = await holding()
    const { grants } = await agent.mine()
    const one = grants.find((g) => g.resource === 'domain/a.example')
    const result = await release(agent, { grant_id: one?.id })
    expect(result).toEqual({
      released: [{ id: one?.id, permission: 'email:send', resource: 'domain/a.example' }],
      token_refresh: true,
    })
    expect(await left(agent)).toEqual(all.filter((item) => item !== mail('a.example')))
  })

  it('by permission, every grant of it', async () => {
    const agent = await holding()
    expect((await release(agent, { permission: 'email:send' })).released).toHaveLength(2)
    expect(await left(agent)).toEqual(['accounts:read', ROWS].sort())
  })

  it('by resource, in any spelling', async () => {
    const agent = await holding()
    const given = { permission: 'email:send', resource: 'domain/A.EXAMPLE.' }
    expect((await release(agent, given)).released).toMatchObject([{ resource: 'domain/a.example' }])
    expect(await left(agent)).toEqual(all.filter((item) => item !== mail('a.example')))
  })

  it('by pattern, all that it matches', async () => {
    const agent = await holding()
    const given = { permission: 'email:send', resource: 'domain/*' }
    expect((await release(agent, given)).released).toHaveLength(2)
    expect(await left(agent)).toEqual(['accounts:read', ROWS].sort())
  })

  it('whatever the narrow', async () => {
    const agent = await start('bypass')
    await agent.ask([{ permission: ROWS, narrow: { arr: { $gt: 1 } } }])
    const { released } = await release(agent, { permission: ROWS })
    expect(released).toMatchObject([{ permission: ROWS, narrow: { arr: { $gt: 1 } } }])
    expect(await left(agent)).toEqual([])
  })

  it('passes over what is not held, another session’s grant among it', async () => {
    const other = await holding()
    const agent = await start('bypass')
    await agent.ask(['accounts:read'])
    await agent.refresh()
    const theirs = (await other.mine()).grants[0]?.id
    const result = await release(
      agent,
      { grant_id: theirs },
      { permission: ROWS },
      { permission: 'no:such' },
      { permission: 'email:send', resource: 'domain/a.example' },
    )
    expect(result).toEqual({ released: [], token_refresh: false })
    expect(await agent.status()).toBe(200)
    expect(await other.held()).toEqual(all)
  })

  it('asks for what it released like anything else', async () => {
    const agent = await start()
    await allow(agent, 'accounts:read')
    await agent.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
    await agent.refresh()
    expect(await agent.askOne('accounts:read')).toMatchObject({ reason: 'mode_ask' })
  })

  it.each([
    [{ permission: 'email:send', resource: 'domain/*.example' }, 'items.0.resource'],
    [{ permission: 'email:send', grant_id: 'grt_1' }, undefined],
    [{}, undefined],
  ])('refuses %j and gives nothing back', async (item, path) => {
    const agent = await holding()
    const fault = await agent.fault('iam.release_access', { items: [item] as never })
    expect(['request_malformed', 'item_invalid']).toContain(fault.code)
    expect(fault.errors?.[0]?.path).toMatch(path ?? /^items\.0/)
    expect(await agent.held()).toEqual(all)
  })
})

describe('iam.start_subagent', () => {
  it('inherits what the child’s ceiling covers, never what is sensitive', async () => {
    const root = await start('bypass')
    await allow(root, PRICING)
    await root.ask(['accounts:read', ROWS, Q3, mail('a.example')])
    const child = await root.call('iam.start_subagent', { template: 'email-drafter' })
    expect(child).toMatchObject({
      session_id: expect.stringMatching(/^ses_/),
      template: 'email-drafter@1',
      mode: 'bypass',
      read_only: false,
      expires_at: (await root.mine()).expires_at,
    })
    const inherited = child.inherited.map((g) =>
      [g.permission, g.resource].filter(Boolean).join(' '),
    )
    expect(inherited.sort()).toEqual(['accounts:read', ROWS, Q3].sort())
    const taken = await root.takeUp(child.session_id)
    expect(await taken.held()).toEqual(inherited)
    const { grants } = await taken.mine()
    expect(new Set(grants.map((g) => JSON.stringify(g.source)))).toEqual(
      new Set([JSON.stringify({ by: 'inherited', from_session: root.sessionId })]),
    )
    // What it may ask for and did not inherit it has to ask for, and sensitive stays sensitive.
    expect(await taken.askOne(PRICING)).toMatchObject({ reason: 'sensitive' })
    expect(await taken.askOne(mail('a.example'))).toMatchObject({ reason: 'outside_ceiling' })
  })

  it('with read_only inherits only what reads, marked so; its own writes it may still ask for', async () => {
    const root = await start('bypass')
    await root.ask(['accounts:read', Q3])
    const child = await root.call('iam.start_subagent', {
      template: 'email-drafter',
      read_only: true,
    })
    expect(child.read_only).toBe(true)
    expect(child.inherited.map((g) => [g.permission, g.read_only])).toEqual([
      ['accounts:read', true],
      ['dashboard:view', true],
    ])
    const taken = await root.takeUp(child.session_id)
    expect(await taken.askOne(DRAFTS)).toMatchObject({ outcome: 'granted' })
    const own = (await taken.mine()).grants.find((g) => g.permission === DRAFTS)
    expect(own).toMatchObject({ read_only: false, source: { by: 'mode' } })
    await taken.refresh()
    const details = taken.claims.authorization_details
    expect(details.filter((d) => d.read_only).map((d) => d.permission)).toEqual([
      'accounts:read',
      'dashboard:view',
    ])
  })

  it('with read_only inherits nothing that writes', async () => {
    // A drafter that may start drafters, so that a parent can hold a write that the child’s ceiling covers.
    await lend.sql(
      `insert into template_version
         select (jsonb_populate_record(v, '{"version": 2, "children": [{"template": "email-drafter", "version": 2}]}')).*
         from template_version v join template t on t.id = v.template_id
         where t.name = 'email-drafter' and v.version = 1`,
    )
    const adopt = (version: number) =>
      lend.sql(
        `update enablement e set adopted_version = $1 from template t
         where t.id = e.template_id and t.name = 'email-drafter'`,
        [version],
      )
    await adopt(2)
    try {
      const root = await start('bypass')
      const child = await root.subagent()
      await child.ask([DRAFTS, 'accounts:read'])
      const inherited = async (read_only: boolean) => {
        const made = await child.call('iam.start_subagent', {
          template: 'email-drafter',
          read_only,
        })
        return made.inherited.map((g) => g.permission)
      }
      expect(await inherited(true)).toEqual(['accounts:read'])
      expect((await inherited(false)).sort()).toEqual(['accounts:read', DRAFTS].sort())
    } finally {
      await adopt(1)
    }
  })

  it('does not hand down what the user denies the child’s template', async () => {
    await maya().rule({ template: 'email-drafter', permission: 'accounts:read', effect: 'deny' })
    await maya().rule({
      template: 'email-drafter',
      permission: 'dashboard:view',
      resource: 'dashboard/*',
      effect: 'deny',
    })
    const root = await start('bypass')
    await root.ask(['accounts:read', ROWS, Q3])
    const child = await root.subagent()
    expect(await child.held()).toEqual([ROWS])
    expect(await child.askOne('accounts:read')).toMatchObject({ reason: 'deny_rule' })
    expect(await root.held()).toEqual(['accounts:read', ROWS, Q3].sort())
  })

  it('nothing flows up and what the parent gains later does not flow down (I9)', async () => {
    const root = await start('bypass')
    const child = await root.subagent()
    await child.ask(['accounts:read', DRAFTS])
    await root.ask([Q3])
    expect(await child.held()).toEqual(['accounts:read', DRAFTS])
    expect(await root.held()).toEqual([Q3])
  })

  it('what the parent loses the child loses, and the child’s token dies', async () => {
    const root = await start('bypass')
    await root.ask(['accounts:read', ROWS])
    await root.refresh()
    const child = await root.subagent()
    const other = await root.subagent()
    await other.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
    await other.refresh()
    const versions = [child.claims.session_version, other.claims.session_version]
    await root.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
    expect(await root.status()).toBe(401)
    expect(await child.status()).toBe(401)
    await child.refresh()
    expect(child.claims.session_version).toBe((versions[0] ?? 0) + 1)
    expect(await child.held()).toEqual([ROWS])
    // This one had given it back itself: nothing was narrowed.
    expect(await other.status()).toBe(200)
    expect(other.claims.session_version).toBe(versions[1])
  })

  it('a child’s release is its own and leaves the parent’s', async () => {
    const root = await start('bypass')
    await root.ask(['accounts:read'])
    await root.refresh()
    const child = await root.subagent()
    await child.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
    expect(await root.status()).toBe(200)
    expect(await root.held()).toEqual(['accounts:read'])
  })

  it('what its user has lost is not handed down', async () => {
    const adam = lend.person('adam')
    const mayasId = await lend.userId('maya')
    const path = `/admin/users/${mayasId}/permissions`
    const listed = await adam.must<{ items: { id: string; permission: string }[] }>('GET', path)
    const direct = listed.items.find((p) => p.permission === 'dashboard:view')
    const root = await start('bypass')
    await root.ask([Q3, 'accounts:read'])
    await root.refresh()
    await adam.must('DELETE', `${path}/${direct?.id}`)
    try {
      const lost = async () => {
        await root.refresh()
        return !(await root.held()).includes(Q3)
      }
      await until(lost, 'the dashboard is lost')
      expect(await (await root.subagent()).held()).toEqual(['accounts:read'])
    } finally {
      await adam.must('POST', path, {
        permission: 'dashboard:view',
        resource: 'dashboard/q3-pipeline',
      })
    }
  })
})

describe('iam.end_session', () => {
  it('counts what ended, all the way down', async () => {
    const root = await start('bypass')
    await root.ask(['accounts:read', ROWS, mail('a.example')])
    await root.refresh()
    const child = await root.subagent()
    await child.ask([DRAFTS])
    await root.subagent({ read_only: true })
    expect(await root.call('iam.end_session', { summary: 'Briefs written.' })).toEqual({
      sessions_ended: 3,
      // Three of its own, two inherited and one more, two inherited.
      grants_revoked: 8,
    })
    expect(await child.status()).toBe(401)
    const [ended] = await lend.sql<{ data: object }>(
      `select data from activity where session_id = $1 and type = 'session.ended'`,
      [root.sessionId],
    )
    expect(ended).toMatchObject({ data: { reason: 'agent', summary: 'Briefs written.' } })
    const { body } = await maya().call<object>('GET', `/sessions/${child.sessionId}`)
    expect(body).toMatchObject({ status: 'ended', end_reason: 'parent' })
  })

  it('of a child leaves the parent and its siblings', async () => {
    const root = await start('bypass')
    await root.ask(['accounts:read'])
    await root.refresh()
    const child = await root.subagent()
    const sibling = await root.subagent()
    expect(await child.call('iam.end_session', {})).toEqual({
      sessions_ended: 1,
      grants_revoked: 1,
    })
    expect([await root.status(), await sibling.status(), await child.status()]).toEqual([
      200, 200, 401,
    ])
  })

  it('cancels what was pending', async () => {
    const root = await start()
    const { request_id } = await root.ask(['accounts:read'])
    expect(await root.call('iam.end_session', {})).toEqual({ sessions_ended: 1, grants_revoked: 0 })
    const request = await maya().request(request_id ?? '')
    expect(request.items).toMatchObject([{ outcome: 'refused', decision_reason: 'cancelled' }])
  })

  it('by its user ends the subtree too; the children of one that ended are over with it', async () => {
    const root = await start('bypass')
    const child = await root.subagent()
    await maya().must('POST', `/sessions/${root.sessionId}/end`)
    expect(await child.status()).toBe(401)
    expect(await child.reissue()).toMatchObject({ error: 'invalid_grant' })
  })
})
