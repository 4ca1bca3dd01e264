import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Agent, ToolFault } from './support/agent.ts'
import { type Lend, serveLend } from './support/lend.ts'

/**
 * A limit that is hit refuses the whole call with a `code` and `retry_after` and writes nothing but its record (SPEC
 * section 3). Rate and open requests are charged to the root session, so children do not multiply them (USER-ASKS 13).
 */
const DRAFTS = 'email-templates:write'

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
const mail = (n: number) => `email:send domain/customer-${n}.example`

/** All that a tree of sessions has left in the tables, its record apart. */
async function traces(root: Agent) {
  const [row] = await lend.sql<Record<string, number>>(
    `select
       (select count(*)::integer from session where root_id = $1) as sessions,
       (select sum(version)::integer from session where root_id = $1) as versions,
       (select count(*)::integer from access_request where root_id = $1) as requests,
       (select count(*)::integer from request_item i join access_request r on r.id = i.request_id
         where r.root_id = $1) as items,
       (select count(*)::integer from access_grant g join session s on s.id = g.session_id
         where s.root_id = $1) as grants,
       (select cardinality(request_times) from session where id = $1) as charged`,
    [root.sessionId],
  )
  return row
}

const records = (root: Agent) =>
  lend.sql<{ type: string; session_id: string; data: Record<string, unknown> }>(
    'select type, session_id, data from activity where root_session_id = $1 order by n',
    [root.sessionId],
  )

/** Runs a call that must be refused; answers its fault and the only record it left. */
async function refused(root: Agent, by: Agent, call: () => Promise<ToolFault>) {
  const before = { traces: await traces(root), records: await records(root) }
  const fault = await call()
  expect(await traces(root)).toEqual(before.traces)
  const left = (await records(root)).slice(before.records.length)
  expect(left).toHaveLength(1)
  expect(left[0]).toMatchObject({ session_id: by.sessionId, data: { refused: fault.code } })
  expect(fault.retry_after).toEqual(expect.any(Number))
  return { fault, record: left[0] }
}

describe('limits', () => {
  it('20 items in one request, repeats counted', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const items = (count: number) => Array.from({ length: count }, (_, n) => mail(n))
    const { fault, record } = await refused(agent, agent, () => agent.refusedCall(items(21)))
    expect(fault).toMatchObject({ code: 'limit_reached', limit: 'itemsPerRequest' })
    expect(record).toMatchObject({ type: 'access.requested' })
    const repeats = Array.from({ length: 21 }, () => mail(0))
    expect(await agent.refusedCall(repeats)).toMatchObject({ limit: 'itemsPerRequest' })
    expect(await agent.held()).toEqual([])
    expect((await agent.ask(items(20))).items.every((i) => i.outcome === 'granted')).toBe(true)
    expect(await agent.held()).toHaveLength(20)
  })

  it('30 requests a minute for a root and its children together, iam.explain among them', async () => {
    const root = await lend.start('maya')
    const child = await root.subagent()
    const grandly = (n: number) => [root, child][n % 2] ?? root
    for (let n = 0; n < 20; n++) await grandly(n).ask(['accounts:fly'])
    for (let n = 0; n < 10; n++)
      await grandly(n).call('iam.explain', { permission: 'accounts:read' })
    for (const agent of [root, child]) {
      const { fault } = await refused(root, agent, () => agent.refusedCall(['accounts:read']))
      expect(fault).toMatchObject({ code: 'limit_reached', limit: 'requestsPerMinute' })
      expect(fault.retry_after).toBeGreaterThan(0)
      expect(fault.retry_after).toBeLessThanOrEqual(60)
    }
    const explained = await child.fault('iam.explain', { permission: 'accounts:read' })
    expect(explained).toMatchObject({ code: 'limit_reached', limit: 'requestsPerMinute' })
    // Looking costs nothing, another session is not charged, and the end is always open.
    expect((await root.mine()).pending).toEqual([])
    const other = await lend.start('maya')
    expect(await other.askOne('accounts:read')).toMatchObject({ outcome: 'pending' })
    lend.advance(61)
    expect(await child.askOne('accounts:read')).toMatchObject({ outcome: 'pending' })
  })

  it('10 open requests for a root and its children together; what asks nobody still passes', async () => {
    const root = await lend.start('maya', { mode: 'auto' })
    const child = await root.subagent()
    const first = await root.ask([mail(0)])
    for (let n = 1; n < 9; n++) await root.ask([mail(n)])
    await child.ask([DRAFTS])
    for (const [agent, item] of [
      [root, mail(10)],
      [child, 'contracts.fields:pricing'],
    ] as const) {
      const { fault } = await refused(root, agent, () => agent.refusedCall([item]))
      expect(fault).toMatchObject({ code: 'limit_reached', limit: 'openRequests' })
      expect(fault.retry_after).toBeGreaterThan(0)
    }
    // One that would ask refuses the whole call, also the part that would have been granted.
    await refused(root, root, () => root.refusedCall(['accounts:read', mail(10)]))
    expect(await root.held()).toEqual([])
    expect(await root.askOne(mail(0))).toMatchObject({ request_id: first.request_id })
    expect(await root.askOne('accounts:read')).toMatchObject({ reason: 'mode_auto' })
    expect(await root.askOne('accounts:write')).toMatchObject({ reason: 'outside_ceiling' })
    await maya().answer(first.request_id, 'allow_once')
    expect(await root.askOne(mail(10))).toMatchObject({ outcome: 'pending' })
  })

  it('10 live children; one that ends makes room', async () => {
    const root = await lend.start('maya')
    const start = () => root.call('iam.start_subagent', { template: 'email-drafter' })
    const first = await start()
    for (let n = 1; n < 10; n++) await start()
    const { fault, record } = await refused(root, root, () =>
      root.fault('iam.start_subagent', { template: 'email-drafter' }),
    )
    expect(fault).toMatchObject({ code: 'limit_reached', limit: 'liveChildren' })
    expect(record).toMatchObject({ type: 'subagent.started' })
    await (await root.takeUp(first.session_id)).call('iam.end_session', {})
    expect(await start()).toMatchObject({ template: 'email-drafter@1' })
  })

  it('depth 2 below the root, however the templates nest', async () => {
    // A drafter that may start drafters, as a later version could.
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
      const root = await lend.start('maya')
      const child = await root.subagent()
      const grandchild = await child.subagent()
      const { fault } = await refused(root, grandchild, () =>
        grandchild.fault('iam.start_subagent', { template: 'email-drafter' }),
      )
      expect(fault).toMatchObject({ code: 'limit_reached', limit: 'subagentDepth' })
      const { body } = await maya().call<{ path: string[] }>(
        'GET',
        `/sessions/${grandchild.sessionId}`,
      )
      expect(body.path).toEqual(['Renewal briefs', 'Email drafter', 'Email drafter'])
    } finally {
      await adopt(1)
    }
  })

  it('a subagent of a template that is not listed, unknown or off is refused and recorded', async () => {
    const root = await lend.start('maya')
    for (const [template, code] of [
      ['renewal-briefs', 'child_not_allowed'],
      ['no-such-job', 'template_unknown'],
      ['email-drafter@2', 'template_version_not_adopted'],
    ] as const) {
      const before = await records(root)
      expect(await root.fault('iam.start_subagent', { template })).toMatchObject({ code })
      const left = (await records(root)).slice(before.length)
      expect(left).toMatchObject([{ type: 'subagent.started', data: { template, refused: code } }])
    }
    expect(await root.fault('iam.start_subagent', { template: 'Email Drafter' })).toMatchObject({
      code: 'request_malformed',
      errors: [{ path: 'template' }],
    })
  })
})

describe('freezes', () => {
  const ids = {
    tenant: async () => 'acme',
    template: async () => 'renewal-briefs',
    agent: async () => lend.agentId,
    user: () => lend.userId('maya'),
  }

  it.each(Object.keys(ids) as (keyof typeof ids)[])(
    '%s: nothing is granted, allowed or issued; giving back, ending and denying stay open',
    async (scope) => {
      const agent = await lend.start('maya', { mode: 'bypass' })
      await agent.ask(['accounts:read', mail(1)])
      await agent.refresh()
      const asked = await agent.ask(['contracts.fields:pricing'])
      const ending = await lend.start('maya', { mode: 'bypass' })
      await ending.ask(['accounts:read'])
      await ending.refresh()
      const child = await ending.subagent()

      const unfreeze = await lend.person('adam').freeze(scope, await ids[scope]())
      try {
        for (const one of [agent, child]) {
          const { fault } = await refused(one === agent ? agent : ending, one, () =>
            one.refusedCall([mail(2)]),
          )
          expect(fault).toMatchObject({ code: 'frozen', limit: scope, retry_after: 60 })
        }
        const { fault } = await refused(agent, agent, () =>
          agent.fault('iam.start_subagent', { template: 'email-drafter' }),
        )
        expect(fault).toMatchObject({ code: 'frozen', limit: scope, retry_after: 60 })
        expect(await agent.fault('iam.explain', { permission: 'accounts:read' })).toMatchObject({
          code: 'frozen',
        })
        expect(await agent.reissue()).toMatchObject({
          error: 'invalid_grant',
          error_reason: 'frozen',
        })
        await expect(lend.start('maya')).rejects.toThrow('frozen')

        // It suspends; it ends nothing.
        expect(await agent.held()).toEqual(['accounts:read', mail(1)])
        const allow = await maya().answer(asked.request_id, 'allow_once')
        expect(allow).toMatchObject({ status: 409, body: { code: 'frozen' } })
        expect((await maya().request(asked.request_id ?? '')).status).toBe('pending')

        const deny = await maya().answer(asked.request_id, 'deny')
        expect(deny).toMatchObject({
          status: 200,
          body: { items: [{ decision_reason: 'denied_by_user' }] },
        })
        const given = await agent.call('iam.release_access', {
          items: [{ permission: 'email:send' }],
        })
        expect(given.released).toHaveLength(1)
        expect(await agent.status()).toBe(401)
        expect(await ending.call('iam.end_session', {})).toEqual({
          sessions_ended: 2,
          grants_revoked: 2,
        })
        expect(await ending.status()).toBe(401)
      } finally {
        await unfreeze()
      }

      await agent.refresh()
      expect(await agent.held()).toEqual(['accounts:read'])
      expect(await agent.askOne(mail(2))).toMatchObject({ reason: 'mode_bypass' })
      expect(await agent.askOne('contracts.fields:pricing')).toMatchObject({
        reason: 'denied_this_session',
      })
    },
  )

  it('of a child’s template stops the child and no new one starts; the parent goes on', async () => {
    const root = await lend.start('maya', { mode: 'bypass' })
    const child = await root.subagent()
    const unfreeze = await lend.person('adam').freeze('template', 'email-drafter')
    try {
      expect(await child.refusedCall(['accounts:read'])).toMatchObject({ code: 'frozen' })
      expect(await root.fault('iam.start_subagent', { template: 'email-drafter' })).toMatchObject({
        code: 'frozen',
        limit: 'template',
      })
      expect(await root.askOne('accounts:read')).toMatchObject({ outcome: 'granted' })
    } finally {
      await unfreeze()
    }
    expect(await child.askOne('accounts:read')).toMatchObject({ outcome: 'granted' })
  })

  it('of the parent’s template reaches the child, of another user nobody else', async () => {
    const root = await lend.start('maya', { mode: 'bypass' })
    const child = await root.subagent()
    const omar = await lend.start('omar', { mode: 'bypass' })
    const template = await lend.person('adam').freeze('template', 'renewal-briefs')
    expect(await child.refusedCall([DRAFTS])).toMatchObject({ code: 'frozen', limit: 'template' })
    await template()
    const user = await lend.person('adam').freeze('user', await lend.userId('omar'))
    expect(await omar.refusedCall(['accounts:read'])).toMatchObject({ code: 'frozen' })
    expect(await child.askOne(DRAFTS)).toMatchObject({ outcome: 'granted' })
    await user()
  })
})

describe('a token whose session was narrowed is dead at once', () => {
  it('after a release', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    await agent.ask(['accounts:read', mail(1)])
    await agent.refresh()
    expect(await agent.status()).toBe(200)
    await agent.call('iam.release_access', { items: [{ permission: 'email:send' }] })
    expect(await agent.status()).toBe(401)
    await expect(agent.mine()).rejects.toThrow()
    await agent.refresh()
    expect(agent.claims.authorization_details).toMatchObject([{ permission: 'accounts:read' }])
  })

  it('after the end, and it is never issued again', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const child = await agent.subagent()
    await agent.call('iam.end_session', {})
    for (const one of [agent, child]) {
      expect(await one.status()).toBe(401)
      expect(await one.reissue()).toMatchObject({ error: 'invalid_grant' })
    }
  })

  it('after deny_always, which ends what it overlaps in every live session of the template', async () => {
    const holder = await lend.start('maya', { mode: 'bypass' })
    await holder.ask([mail(1), mail(2), 'accounts:read'])
    await holder.refresh()
    const other = await lend.start('maya')
    const asked = await other.ask([mail(1)])
    await maya().answer(asked.request_id, 'deny_always')
    expect(await holder.status()).toBe(401)
    await holder.refresh()
    expect(await holder.held()).toEqual(['accounts:read', mail(2)].sort())
    expect(await holder.askOne(mail(1))).toMatchObject({ reason: 'deny_rule' })
    // It held nothing of it, so nothing of its own was narrowed.
    expect(await other.status()).toBe(200)
  })

  it('after the user took one grant back; widening and looking raise nothing', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    await agent.ask(['accounts:read'])
    const version = agent.claims.session_version
    await agent.ask([mail(1)])
    await agent.mine()
    await agent.refresh()
    expect(agent.claims.session_version).toBe(version)
    const { grants } = await agent.mine()
    await maya().must('DELETE', `/sessions/${agent.sessionId}/grants/${grants[0]?.id}`)
    expect(await agent.status()).toBe(401)
  })
})
