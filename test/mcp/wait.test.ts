import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from './support/agent.ts'
import { type Lend, serveLend } from './support/lend.ts'
import { pause, until } from './support/until.ts'

/**
 * `wait_seconds` (SPEC section 7): the call is held until none of its items is pending, the time is up, or the session
 * ends or is frozen. Every wait here is for 30 seconds and more than 3 is a failure, so that a wait that is not woken, and
 * only runs out, cannot pass.
 */
const WAIT = { wait_seconds: 30 }
const SOON_MILLIS = 3_000
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

/** How long after `act` the call came back, and with what. */
async function endsAfter<T>(waiting: Promise<T>, act: () => Promise<unknown>) {
  let over = false
  const done = waiting.finally(() => {
    over = true
  })
  // So that the wait has truly begun.
  await pause(300)
  expect(over).toBe(false)
  await act()
  const acted = performance.now()
  return { result: await done, millis: performance.now() - acted }
}

const limitWait = (limits: string) =>
  lend.sql(
    `update enablement e set limits = $1::text::jsonb from template t
     where t.id = e.template_id and t.name = 'renewal-briefs'`,
    [limits],
  )

describe('a wait ends', () => {
  it.each(['allow_once', 'allow_always', 'deny', 'deny_always'] as const)(
    'as soon as the user has answered %s',
    async (decision) => {
      const agent = await lend.start('maya')
      const waiting = agent.ask(['accounts:read'], WAIT)
      const { id } = await maya().asked(agent)
      const { result, millis } = await endsAfter(waiting, () => maya().answer(id, decision))
      expect(millis).toBeLessThan(SOON_MILLIS)
      const allowed = decision.startsWith('allow')
      expect(result.items).toMatchObject([
        {
          outcome: allowed ? 'granted' : 'refused',
          reason: allowed ? 'allowed_by_user' : 'denied_by_user',
          request_id: id,
        },
      ])
      expect(result.token_refresh).toBe(allowed)
    },
  )

  it('at the answer itself, not at the next look', async () => {
    const took: number[] = []
    for (let n = 0; n < 5; n++) {
      const agent = await lend.start('maya')
      const waiting = agent.ask(['accounts:read'], WAIT)
      const { id } = await maya().asked(agent)
      took.push((await endsAfter(waiting, () => maya().answer(id, 'allow_once'))).millis)
    }
    // A look every two seconds would come more than one second after most of these answers.
    expect(took.sort((a, b) => a - b)[2]).toBeLessThan(1_000)
  })

  it('when none of its items is pending any more, and not before', async () => {
    const agent = await lend.start('maya')
    const first = await agent.ask(['accounts:read'])
    const waiting = agent.ask(['accounts:read', Q3], WAIT)
    const second = await until(
      async () => (await maya().pending()).find((r) => r.id !== first.request_id),
      'the second question',
    )
    await maya().answer(first.request_id, 'allow_once')
    const { result, millis } = await endsAfter(waiting, () => maya().answer(second.id, 'deny'))
    expect(millis).toBeLessThan(SOON_MILLIS)
    expect(result.items.map((i) => i.reason)).toEqual(['allowed_by_user', 'denied_by_user'])
  })

  it('at the time asked, with what is still pending', async () => {
    const agent = await lend.start('maya')
    const before = performance.now()
    const result = await agent.ask(['accounts:read'], { wait_seconds: 2 })
    expect(performance.now() - before).toBeGreaterThanOrEqual(1_950)
    expect(result.items).toMatchObject([{ outcome: 'pending', reason: 'mode_ask' }])
    expect(result).toMatchObject({
      request_id: result.items[0]?.request_id,
      review_url: expect.stringContaining('/approvals/'),
      expires_at: expect.any(String),
      token_refresh: false,
    })
    expect(await maya().pending()).toHaveLength(1)
  })

  it('at once when nothing is pending', async () => {
    const agent = await lend.start('maya', { mode: 'bypass' })
    const before = performance.now()
    const result = await agent.ask(['accounts:read', 'accounts:write'], WAIT)
    expect(performance.now() - before).toBeLessThan(SOON_MILLIS)
    expect(result.items.map((i) => i.outcome)).toEqual(['granted', 'refused'])
  })

  it('when the session ends, by its user or with its parent', async () => {
    const root = await lend.start('maya')
    const child = await root.subagent()
    const both = Promise.all([
      root.ask(['accounts:read'], WAIT),
      child.ask(['email-templates:write'], WAIT),
    ])
    await maya().asked(root)
    await maya().asked(child)
    const { result, millis } = await endsAfter(both, () =>
      maya().must('POST', `/sessions/${root.sessionId}/end`),
    )
    expect(millis).toBeLessThan(SOON_MILLIS)
    for (const one of result) {
      expect(one.items).toMatchObject([{ outcome: 'refused', reason: 'cancelled' }])
      expect(one.review_url).toBeUndefined()
    }
  })

  it('when the agent itself ends the session on another connection', async () => {
    const agent = await lend.start('maya')
    const waiting = agent.ask(['accounts:read'], WAIT)
    await maya().asked(agent)
    const { result, millis } = await endsAfter(waiting, () => agent.call('iam.end_session', {}))
    expect(millis).toBeLessThan(SOON_MILLIS)
    expect(result.items).toMatchObject([{ reason: 'cancelled' }])
  })

  it('when the session’s time is over', async () => {
    const agent = await lend.start('maya')
    const waiting = agent.ask(['accounts:read'], WAIT)
    await maya().asked(agent)
    await lend.sql(`update session set expires_at = to_timestamp($1::text::float8) where id = $2`, [
      String(lend.now() / 1000 + 1),
      agent.sessionId,
    ])
    const { result, millis } = await endsAfter(waiting, async () => {})
    expect(millis).toBeLessThan(SOON_MILLIS + 2_000)
    expect(result.items[0]?.outcome).toBe('refused')
  })

  it.each(['tenant', 'template', 'agent', 'user'] as const)(
    'when the %s is frozen, with the question still open',
    async (scope) => {
      const agent = await lend.start('maya')
      const waiting = agent.ask(['accounts:read'], WAIT)
      const { id } = await maya().asked(agent)
      const target = {
        tenant: 'acme',
        template: 'renewal-briefs',
        agent: lend.agentId,
        user: await lend.userId('maya'),
      }[scope]
      let unfreeze = async () => {}
      try {
        const { result, millis } = await endsAfter(waiting, async () => {
          unfreeze = await lend.person('adam').freeze(scope, target)
        })
        expect(millis).toBeLessThan(SOON_MILLIS)
        expect(result.items).toMatchObject([{ outcome: 'pending', request_id: id }])
      } finally {
        await unfreeze()
      }
      const again = agent.ask(['accounts:read'], WAIT)
      await maya().answer(id, 'allow_once')
      expect((await again).items).toMatchObject([{ outcome: 'granted' }])
    },
  )

  it('when the request’s own time is over: expired, not denied', async () => {
    await limitWait('{"requestWaitSeconds": 2}')
    try {
      const agent = await lend.start('maya')
      const before = performance.now()
      const result = await agent.ask(['accounts:read'], WAIT)
      const millis = performance.now() - before
      expect(millis).toBeGreaterThan(1_900)
      expect(millis).toBeLessThan(2_000 + SOON_MILLIS)
      expect(result.items).toMatchObject([{ reason: 'expired', retry: 'later' }])
      expect(result.items[0]?.retry_after).toEqual(expect.any(Number))
    } finally {
      await limitWait('{}')
    }
  })

  it('not for what happens to others', async () => {
    const agent = await lend.start('maya')
    const waiting = agent.ask(['accounts:read'], { wait_seconds: 4 })
    const before = performance.now()
    const { id } = await maya().asked(agent)
    const other = await lend.start('maya')
    const { request_id } = await other.ask(['accounts:read'])
    await maya().answer(request_id, 'allow_once')
    const unfreeze = await lend.person('adam').freeze('user', await lend.userId('omar'))
    await maya().must('POST', `/sessions/${other.sessionId}/end`)
    const result = await waiting
    await unfreeze()
    expect(performance.now() - before).toBeGreaterThan(3_500)
    expect(result.items).toMatchObject([{ outcome: 'pending', request_id: id }])
  })

  it('of a root, not because a child’s template is frozen; of the child, then', async () => {
    const root = await lend.start('maya')
    const child = await root.subagent()
    const rootWaits = root.ask(['accounts:read'], { wait_seconds: 4 })
    const childWaits = child.ask(['email-templates:write'], WAIT)
    await maya().asked(root)
    await maya().asked(child)
    let unfreeze = async () => {}
    try {
      const began = performance.now()
      const { millis } = await endsAfter(childWaits, async () => {
        unfreeze = await lend.person('adam').freeze('template', 'email-drafter')
      })
      expect(millis).toBeLessThan(SOON_MILLIS)
      await rootWaits
      expect(performance.now() - began).toBeGreaterThan(2_000)
    } finally {
      await unfreeze()
    }
  })
})

it('does not end because a sibling of another template is frozen', async () => {
  // A version that may start two kinds of children, as a later one could.
  await lend.sql(
    `insert into template select 'tpl_notes', 'note-taker', 'Note taker', tenant_id, visibility, created_at
       from template where name = 'email-drafter'`,
  )
  await lend.sql(
    `insert into template_version
       select (jsonb_populate_record(v, '{"template_id": "tpl_notes"}')).*
       from template_version v join template t on t.id = v.template_id
       where t.name = 'email-drafter' and v.version = 1`,
  )
  await lend.sql(
    `insert into enablement select (jsonb_populate_record(e, '{"template_id": "tpl_notes"}')).*
       from enablement e join template t on t.id = e.template_id where t.name = 'email-drafter'`,
  )
  await lend.sql(
    `insert into template_version
       select (jsonb_populate_record(v, '{"version": 4, "children":
         [{"template": "email-drafter", "version": 1}, {"template": "note-taker", "version": 1}]}')).*
       from template_version v join template t on t.id = v.template_id
       where t.name = 'renewal-briefs' and v.version = 3`,
  )
  const adopt = (version: number) =>
    lend.sql(
      `update enablement e set adopted_version = $1 from template t
       where t.id = e.template_id and t.name = 'renewal-briefs'`,
      [version],
    )
  await adopt(4)
  try {
    const root = await lend.start('maya')
    const child = await root.subagent()
    await root.call('iam.start_subagent', { template: 'note-taker' })
    const began = performance.now()
    const waiting = child.ask(['email-templates:write'], { wait_seconds: 4 })
    await maya().asked(child)
    const unfreeze = await lend.person('adam').freeze('template', 'note-taker')
    await waiting
    await unfreeze()
    expect(performance.now() - began).toBeGreaterThan(3_900)
  } finally {
    await adopt(3)
  }
})

describe('several who wait', () => {
  it('for the same question are all told', async () => {
    const agent = await lend.start('maya')
    const waits = Promise.all([
      agent.ask(['accounts:read'], WAIT),
      agent.ask(['accounts:read'], { ...WAIT, reason: 'again' }),
      agent.ask(['accounts:read'], WAIT),
    ])
    const { id } = await maya().asked(agent)
    const { result, millis } = await endsAfter(waits, () => maya().answer(id, 'allow_once'))
    expect(millis).toBeLessThan(SOON_MILLIS)
    for (const one of result)
      expect(one).toMatchObject({ request_id: id, items: [{ reason: 'allowed_by_user' }] })
    const made = await lend.sql(
      `select 1 from activity where session_id = $1 and type = 'grant.created'`,
      [agent.sessionId],
    )
    expect(made).toHaveLength(1)
  })

  it('for different questions each wait for their own', async () => {
    const one = await lend.start('maya')
    const other = await lend.start('maya')
    const otherWaits = other.ask(['accounts:read'], WAIT)
    const oneWaits = one.ask(['accounts:read'], WAIT)
    const first = await maya().asked(one)
    const second = await maya().asked(other)
    const { result, millis } = await endsAfter(oneWaits, () =>
      maya().answer(first.id, 'allow_once'),
    )
    expect(millis).toBeLessThan(SOON_MILLIS)
    expect(result.items).toMatchObject([{ outcome: 'granted' }])
    const then = await endsAfter(otherWaits, () => maya().answer(second.id, 'deny'))
    expect(then.result.items).toMatchObject([{ reason: 'denied_by_user' }])
  })

  it('forty waits at once hold nobody up', async () => {
    const agents: Agent[] = []
    for (let n = 0; n < 10; n++) agents.push(await lend.start('maya'))
    const waits = agents.flatMap((agent) =>
      [0, 1, 2, 3].map(() => agent.ask(['accounts:read'], WAIT)),
    )
    for (const agent of agents) await maya().asked(agent)
    const before = performance.now()
    const other = await lend.start('omar')
    await other.ask(['accounts:read'])
    expect(performance.now() - before).toBeLessThan(SOON_MILLIS)
    for (const agent of agents) await maya().answer((await maya().asked(agent)).id, 'allow_once')
    const results = await Promise.all(waits)
    expect(results.every((r) => r.items[0]?.outcome === 'granted')).toBe(true)
  })
})

describe('a dropped connection', () => {
  const args = { items: [{ permission: 'accounts:read' }], reason: 'to write the brief', ...WAIT }

  it('cancels only the wait: the question is still open and its answer counts', async () => {
    const agent = await lend.start('maya')
    const cut = new AbortController()
    const call = agent.raw('iam.request_access', args, cut.signal)
    const response = await call
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    const { id } = await maya().asked(agent)
    cut.abort()
    await expect(response.text()).rejects.toThrow()
    await pause(300)
    expect((await maya().request(id)).status).toBe('pending')
    expect((await agent.mine()).pending).toMatchObject([{ request_id: id }])
    // Taken up again where it was left.
    const waiting = agent.ask(['accounts:read'], WAIT)
    await maya().answer(id, 'allow_once')
    expect((await waiting).items).toMatchObject([{ outcome: 'granted', request_id: id }])
    expect(await agent.held()).toEqual(['accounts:read'])
  })

  it('before anybody waits again, an answer still grants', async () => {
    const agent = await lend.start('maya')
    const cut = new AbortController()
    const response = await agent.raw('iam.request_access', args, cut.signal)
    const { id } = await maya().asked(agent)
    cut.abort()
    await expect(response.text()).rejects.toThrow()
    expect((await maya().answer(id, 'allow_once')).status).toBe(200)
    expect(await agent.held()).toEqual(['accounts:read'])
  })

  it('and a call that its client cancels are the same', async () => {
    const agent = await lend.start('maya')
    const cancel = new AbortController()
    const waiting = agent.ask(['accounts:read'], WAIT, { signal: cancel.signal })
    const { id } = await maya().asked(agent)
    cancel.abort()
    await expect(waiting).rejects.toThrow()
    expect((await maya().request(id)).status).toBe('pending')
    expect((await maya().answer(id, 'allow_once')).status).toBe(200)
    expect(await agent.held()).toEqual(['accounts:read'])
  })
})

describe('progress', () => {
  it.each(['older', 'newer'] as const)(
    'is told to the %s client when it asks, and only rises',
    async (client) => {
      const agent = await lend.start('maya', { client })
      const told: { progress: number; message?: string | undefined }[] = []
      const waiting = agent.ask(['accounts:read'], WAIT, {
        onprogress: (progress) => void told.push(progress),
      })
      const { id } = await maya().asked(agent)
      await until(async () => told.length >= 2, 'two notifications', 20)
      await maya().answer(id, 'allow_once')
      expect((await waiting).items).toMatchObject([{ outcome: 'granted' }])
      for (const one of told) expect(one.message).toMatch(/user/)
      expect(told.map((t) => t.progress)).toEqual(
        [...told.map((t) => t.progress)].sort((a, b) => a - b),
      )
      expect(new Set(told.map((t) => t.progress)).size).toBe(told.length)
    },
  )

  it('is not sent unasked, and the stream is kept alive', async () => {
    const agent = await lend.start('maya')
    const args = { items: [{ permission: 'accounts:read' }], reason: 'x', wait_seconds: 7 }
    const body = await (await agent.raw('iam.request_access', args)).text()
    expect(body).not.toContain('notifications/progress')
    expect(body).toContain('"pending"')
  })
})
