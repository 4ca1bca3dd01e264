import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFollower } from '../../src/gateway/follow.ts'
import { createRevocations } from '../../src/gateway/revocations.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'
import { ask, lentSession, reasonOf, tokenFor } from './support/proxy.ts'

const PROMISED_MILLIS = 2000

/** Three instances on one Postgres: what is taken back at one is refused at all (SPEC section 9, I11). */
describe.skipIf(postgresIsLeftOut)('what is taken back, at three instances', () => {
  let scratch: Scratch
  let all: LiveServer[]
  let one: LiveServer
  beforeAll(async () => {
    scratch = await scratchDatabase()
    one = await serveLend({ database: scratch.url })
    const more = { database: scratch.url, publicUrl: one.publicUrl }
    all = [one, await serveLend(more), await serveLend(more)]
  })
  afterAll(async () => {
    for (const lend of all) await lend.close()
    await scratch.drop()
  })

  const everywhere = async (token: string) =>
    Promise.all(all.map(async (lend) => reasonOf(await ask(lend, { token }))))

  /** Allowed everywhere; then the change; then refused everywhere, in time. Answers how long the last took. */
  async function refusedAfter(token: string, change: () => Promise<unknown>, why: string) {
    await expect.poll(() => everywhere(token), { timeout: 5000 }).toEqual(all.map(() => 'allowed'))
    await change()
    const began = performance.now()
    // A tight loop, since the poll of a test would measure its own pause.
    for (;;) {
      const now = await everywhere(token)
      if (now.every((reason) => reason !== 'allowed')) {
        expect(now).toEqual(all.map(() => why))
        const took = performance.now() - began
        expect(took).toBeLessThan(PROMISED_MILLIS)
        return took
      }
      if (performance.now() - began > 3 * PROMISED_MILLIS) throw new Error(`still ${now}`)
    }
  }
  const [two, three] = [1, 2].map((i) => () => all[i] ?? one)

  test('where it is taken back, nothing is let through once the answer is there', async () => {
    const maya = await one.userToken('maya')
    const adam = await one.userToken('adam')
    const reason = async (token: string) => reasonOf(await ask(one, { token }))
    for (let i = 0; i < 5; i++) {
      const { started, control, token } = await lentSession(one)
      await expect.poll(() => reason(token)).toBe('allowed')
      if (i % 2 === 0) await one.api(maya, 'POST', `/sessions/${started.session_id}/end`, {})
      else {
        const mcp = await one.mcp(control)
        await mcp.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
      }
      expect(await reason(token)).toBe(i % 2 === 0 ? 'SESSION_ENDED' : 'SESSION_VERSION_STALE')
    }
    const { token } = await lentSession(one)
    await expect.poll(() => reason(token)).toBe('allowed')
    const id = await one.userId('maya')
    const frozen = await one.api<{ id: string }>(adam, 'POST', '/freezes', { scope: 'user', id })
    expect(await reason(token)).not.toBe('allowed')
    await one.api(adam, 'DELETE', `/freezes/${frozen.body.id}`)
    await expect.poll(() => reason(token)).toBe('allowed')
  })

  test('the end of a session', async () => {
    const { started, token } = await lentSession(one)
    const maya = await one.userToken('maya')
    await refusedAfter(
      token,
      () => one.api(maya, 'POST', `/sessions/${started.session_id}/end`, {}),
      'SESSION_ENDED',
    )
  })

  test('a release kills the older token; the next one is cut, not dead', async () => {
    const { started, control, token } = await lentSession(one)
    const mcp = await one.mcp(control)
    const items = [{ permission: 'accounts:read' }]
    await refusedAfter(
      token,
      () => mcp.call('iam.release_access', { items }),
      'SESSION_VERSION_STALE',
    )
    const again = await one.reissue(started.refresh_token)
    const cut = await tokenFor(one, again.access_token)
    expect(await everywhere(cut)).toEqual(all.map(() => 'PERMISSION_MISSING'))
  })

  test('the end of a parent takes its child along', async () => {
    const { started, control } = await lentSession(one)
    const mcp = await one.mcp(control)
    const child = await mcp.call<{ session_id: string }>('iam.start_subagent', {
      template: 'email-drafter',
    })
    const claimed = await one.token(
      {
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token: control,
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        session_id: child.session_id,
      },
      await one.agent(),
    )
    const token = await tokenFor(one, claimed.body.access_token)
    const maya = await one.userToken('maya')
    await refusedAfter(
      token,
      () => (three?.() ?? one).api(maya, 'POST', `/sessions/${started.session_id}/end`, {}),
      'SESSION_ENDED',
    )
  })

  test('a parent that is narrowed: its older token and its child’s', async () => {
    const { started, control, token } = await lentSession(one)
    const mcp = await one.mcp(control)
    const child = await mcp.call<{ session_id: string }>('iam.start_subagent', {
      template: 'email-drafter',
    })
    const claimed = await one.token(
      {
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token: control,
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        session_id: child.session_id,
      },
      await one.agent(),
    )
    const childs = await tokenFor(one, claimed.body.access_token)
    expect(await everywhere(childs)).toEqual(all.map(() => 'allowed'))
    const maya = await one.userToken('maya')
    const access = await one.api<{ items: { id: string }[] }>(
      maya,
      'GET',
      `/sessions/${started.session_id}/access`,
    )
    const [grant] = access.body.items
    await refusedAfter(
      token,
      () => one.api(maya, 'DELETE', `/sessions/${started.session_id}/grants/${grant?.id}`),
      'SESSION_VERSION_STALE',
    )
    expect(await everywhere(childs)).toEqual(all.map(() => 'SESSION_VERSION_STALE'))
  })

  test.each(['tenant', 'template', 'agent', 'user'] as const)(
    'a frozen %s, and its thaw',
    async (scope) => {
      const { token } = await lentSession(one)
      const own = await one.mintUserToken('maya', { aud: one.resource('accounts') })
      expect(await everywhere(own)).toEqual(all.map(() => 'allowed'))
      const ids = {
        tenant: 'acme',
        template: 'renewal-briefs',
        agent: (await one.agent()).client_id,
        user: await one.userId('maya'),
      }
      let thaw = async () => {}
      await refusedAfter(
        token,
        async () => {
          thaw = await (two?.() ?? one).freeze(scope, ids[scope])
        },
        'SESSION_FROZEN',
      )
      // Their own token too, where they or all are frozen; what an agent may do is another thing.
      const theirs = scope === 'tenant' || scope === 'user' ? 'USER_FROZEN' : 'allowed'
      expect(await everywhere(own)).toEqual(all.map(() => theirs))
      await thaw()
      await expect
        .poll(() => everywhere(token), { timeout: 2000 })
        .toEqual(all.map(() => 'allowed'))
    },
  )

  test('a lost role: the session, and the person’s own token', async () => {
    const { token } = await lentSession(one)
    const own = await one.mintUserToken('maya', { aud: one.resource('accounts') })
    expect(await everywhere(own)).toEqual(all.map(() => 'allowed'))
    const adam = await one.userToken('adam')
    const [group] = await one.rows<{ id: string }>(
      `select g.id from user_group g join tenant t on t.id = g.tenant_id where t.slug = 'acme'`,
    )
    const maya = await one.userId('maya')
    const without = await one.rows<{ id: string }>(
      'select user_id as id from group_member where group_id = $1 and user_id <> $2',
      [group?.id ?? '', maya],
    )
    const members = (ids: readonly string[]) =>
      one.api(adam, 'PATCH', `/admin/groups/${group?.id}`, { members: ids })
    await refusedAfter(
      token,
      async () => expect((await members(without.map((row) => row.id))).status).toBe(200),
      'SESSION_VERSION_STALE',
    )
    expect(await everywhere(own)).toEqual(all.map(() => 'PERMISSION_MISSING'))
    await members([...without.map((row) => row.id), maya])
  })

  test('a person who is disabled: their sessions, and their own token', async () => {
    const { token } = await lentSession(one)
    const own = await one.mintUserToken('maya', { aud: one.resource('accounts') })
    await expect.poll(() => everywhere(own), { timeout: 40_000 }).toEqual(all.map(() => 'allowed'))
    const adam = await one.userToken('adam')
    const patch = async (status: string) =>
      one.api(adam, 'PATCH', `/admin/users/${await one.userId('maya')}`, { status })
    await refusedAfter(token, () => patch('disabled'), 'SESSION_ENDED')
    expect(await everywhere(own)).toEqual(all.map(() => 'USER_DISABLED'))
    await patch('active')
  })

  test('with every kick lost, still in time', async () => {
    const { started, token } = await lentSession(one)
    await refusedAfter(
      token,
      // Past every flow, so nobody is woken.
      () =>
        one.rows(`update session set version = version + 1 where id = $1`, [started.session_id]),
      'SESSION_VERSION_STALE',
    )
  })

  test('behind a transaction that stays open, at once; and the open one’s own, once it commits', async () => {
    const slow = await lentSession(one)
    const quick = await lentSession(one)
    let letGo = () => {}
    const gate = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const raise = 'update session set version = version + 1 where id = $1'
    let begun = () => {}
    const started = new Promise<void>((resolve) => {
      begun = resolve
    })
    const open = one.ctx.db.begin('test', async (tx) => {
      await tx.sql`update session set version = version + 1 where id = ${slow.started.session_id}`
      begun()
      await gate
    })
    await started
    await refusedAfter(
      quick.token,
      () => one.rows(raise, [quick.started.session_id]),
      'SESSION_VERSION_STALE',
    )
    expect(await everywhere(slow.token)).toEqual(all.map(() => 'allowed'))
    await refusedAfter(
      slow.token,
      async () => {
        letGo()
        await open
      },
      'SESSION_VERSION_STALE',
    )
  })

  test('by a follower that slept until the rows were gone', async () => {
    const { started } = await lentSession(one)
    const revocations = createRevocations()
    const nothing = () => {}
    const follower = createFollower({
      ctx: one.ctx,
      revocations,
      ...{ onPerson: nothing, onMetadata: nothing, onResync: nothing },
    })
    await follower.catchUp()
    const size = revocations.size()
    await one.rows('update session set version = version + 1 where id = $1', [started.session_id])
    await one.rows('delete from gateway_feed')
    await one.rows('update session set version = version + 1 where id = $1', [started.session_id])
    await follower.catchUp()
    expect(follower.resyncs()).toBe(1)
    expect(revocations.size()).toBe(size + 1)
    await follower.catchUp()
    expect(follower.resyncs()).toBe(1)
  })

  test('known to an instance that starts afterwards, before it is ready', async () => {
    const { started, token } = await lentSession(one)
    const maya = await one.userToken('maya')
    await one.api(maya, 'POST', `/sessions/${started.session_id}/end`, {})
    const late = await serveLend({ database: scratch.url, publicUrl: one.publicUrl })
    try {
      expect(late.gateway.ready()).toBe(true)
      expect(reasonOf(await ask(late, { token }))).toBe('SESSION_ENDED')
    } finally {
      await late.close()
    }
  })
})
