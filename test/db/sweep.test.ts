import { afterEach, beforeEach, expect, test } from 'vitest'
import { startPeriodic } from '../../src/flows/periodic.ts'
import { followFeed, reEvaluateUser } from '../../src/flows/re-evaluate.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import { sweep } from '../../src/flows/sweep.ts'
import { createWorld, type World } from '../support/world.ts'

let world: World
beforeEach(async () => {
  world = await createWorld()
})
afterEach(() => world.close())

const HOUR = 3600
const READ = { permission: 'accounts:read' }
const NOTHING = { sessions: 0, prompts: 0, keys: 0, assertions: 0, feedRows: 0 }
const session = async (id: string) =>
  (await world.rows('select status, end_reason from session where id = $1', [id]))[0]
const ends = (id: string) =>
  world.rows(
    `select decision_reason from request_item where session_id = $1 and outcome <> 'pending'`,
    [id],
  )

test('I4 I5 a session past its end expires with all below it and all it held', async () => {
  const root = await world.start('maya', { mode: 'bypass' })
  await world.ask(root, [READ])
  const started = await startSubagent(world.ctx, await world.asAgent(root), {
    template: 'email-drafter',
    readOnly: false,
  })
  if (!started.ok) throw new Error(JSON.stringify(started.fault))
  world.clock.advance(8 * HOUR - 1)
  expect(await sweep(world.ctx)).toEqual(NOTHING)
  world.clock.advance(1)
  expect(await sweep(world.ctx)).toMatchObject({ sessions: 2 })
  expect(await session(root)).toEqual({ status: 'expired', end_reason: 'timeout' })
  const [child] = await world.rows('select status, end_reason from session where parent_id = $1', [
    root,
  ])
  expect(child).toEqual({ status: 'expired', end_reason: 'parent' })
  expect(await world.rows('select id from access_grant')).toEqual([])
  expect(await sweep(world.ctx)).toEqual(NOTHING)
})

test('a child whose own end comes first ends alone', async () => {
  const root = await world.start('maya', { mode: 'bypass' })
  const started = await startSubagent(world.ctx, await world.asAgent(root), {
    template: 'email-drafter',
    readOnly: false,
  })
  if (!started.ok) throw new Error(JSON.stringify(started.fault))
  await world.pg.query(
    `update session set expires_at = expires_at - interval '1 hour' where parent_id = $1`,
    [root],
  )
  world.clock.advance(7 * HOUR)
  expect(await sweep(world.ctx)).toMatchObject({ sessions: 1 })
  expect(await session(root)).toMatchObject({ status: 'active' })
  expect(
    await world.rows('select status, end_reason from session where parent_id = $1', [root]),
  ).toEqual([{ status: 'expired', end_reason: 'timeout' }])
})

test('USER-ASKS 27 a question whose time is up is expired, never denied; others wait on', async () => {
  const root = await world.start('maya')
  await world.ask(root, [READ])
  await world.pg.query(`update access_request set expires_at = expires_at - interval '6 hours'`)
  await world.ask(root, [{ permission: 'accounts.rows:my_region' }])
  world.clock.advance(2 * HOUR)
  const kicks = world.kicks()
  expect(await sweep(world.ctx)).toEqual({ ...NOTHING, prompts: 1 })
  expect(world.kicks()).toBe(kicks + 1)
  expect(await ends(root)).toEqual([{ decision_reason: 'expired' }])
  expect(await world.rows('select status from access_request order by id')).toEqual([
    { status: 'settled' },
    { status: 'pending' },
  ])
  expect(await session(root)).toMatchObject({ status: 'active' })
  expect(await sweep(world.ctx)).toEqual(NOTHING)
})

test('a question whose time is up is asked anew, whether or not the sweep has been here', async () => {
  const root = await world.start('maya')
  await world.ask(root, [READ])
  await world.pg.query(`update access_request set expires_at = expires_at - interval '6 hours'`)
  world.clock.advance(2 * HOUR)
  await world.ask(root, [READ])
  expect(await ends(root)).toEqual([{ decision_reason: 'expired' }])
  expect(await world.rows('select status from access_request order by created_at')).toEqual([
    { status: 'settled' },
    { status: 'pending' },
  ])
  expect(await sweep(world.ctx)).toEqual(NOTHING)
})

test('a question that waited until its session’s end expired; nobody withdrew it', async () => {
  const root = await world.start('maya')
  await world.ask(root, [READ])
  world.clock.advance(8 * HOUR)
  expect(await sweep(world.ctx)).toMatchObject({ sessions: 1, prompts: 1 })
  expect(await ends(root)).toEqual([{ decision_reason: 'expired' }])
})

test('forgets old idempotency keys and used assertions, and keeps what is still needed', async () => {
  await world.pg.query(`
    insert into idempotency_key (tenant_id, caller, route, key, body_hash, created_at) values
      ('ten_acme', 'u', 'r', 'old', 'h', '2026-11-29T08:59:00Z'),
      ('ten_acme', 'u', 'r', 'young', 'h', '2026-11-29T09:01:00Z')`)
  await world.pg.query(`
    insert into client_assertion values
      ('ten_acme', 'agt_briefs', 'old', '2026-11-30T08:59:59Z'),
      ('ten_acme', 'agt_briefs', 'young', '2026-11-30T09:00:01Z')`)
  expect(await sweep(world.ctx)).toEqual({ ...NOTHING, keys: 1, assertions: 1 })
  expect(await world.rows('select key from idempotency_key')).toEqual([{ key: 'young' }])
  expect(await world.rows('select jti from client_assertion')).toEqual([{ jti: 'young' }])
})

test('forgets rows of the feed only when they are old and every job has passed them', async () => {
  const tell = (at: string) =>
    world.pg.query(
      `insert into feed (tenant_id, user_id, topic, data, at) values ('ten_acme', 'usr_maya', 'access_changed', '{}', $1)`,
      [at],
    )
  await tell('2026-11-29T08:00:00Z')
  // Nobody follows yet, so nobody could have passed it.
  expect(await sweep(world.ctx)).toEqual(NOTHING)
  await followFeed(world.ctx)
  await world.pg.query(`insert into feed_cursor values ('a slower one', '0', 0)`)
  expect(await sweep(world.ctx)).toEqual(NOTHING)
  await world.pg.query(`delete from feed_cursor where job = 'a slower one'`)
  await tell('2026-11-29T08:30:00Z')
  expect(await sweep(world.ctx)).toEqual({ ...NOTHING, feedRows: 1 })
  await followFeed(world.ctx)
  expect(await sweep(world.ctx)).toEqual({ ...NOTHING, feedRows: 1 })
  expect(await world.rows('select id from feed')).toEqual([])
})

test('a change for the whole tenant reaches everyone in it, and nobody else (I17)', async () => {
  const sessions = {
    maya: await world.start('maya', { mode: 'bypass' }),
    omar: await world.start('omar', { mode: 'bypass' }),
    gus: await world.start('gus', { mode: 'bypass' }),
  }
  for (const id of Object.values(sessions)) await world.ask(id, [READ])
  await world.pg.query('delete from role_permission')
  await world.pg.query(
    `insert into feed (tenant_id, topic, data, at) values ('ten_acme', 'access_changed', '{}', now())`,
  )
  expect(await followFeed(world.ctx)).toEqual({ rows: 1, sessions: 2, lost: 2 })
  expect(await world.rows('select session_id from access_grant')).toEqual([
    { session_id: sessions.gus },
  ])
})

test('rows of other topics are passed, and many rows for one person are one look', async () => {
  await world.start('maya')
  await world.pg.query(`
    insert into feed (tenant_id, user_id, topic, data, at)
    select 'ten_acme', 'usr_maya', case when i % 3 = 0 then 'other' else 'access_changed' end, '{}', now()
    from generate_series(1, 450) i`)
  // Three batches of at most 200 rows, one look each.
  expect(await followFeed(world.ctx)).toEqual({ rows: 450, sessions: 3, lost: 0 })
})

test('a person or agent disabled past the flows loses their sessions at the next look', async () => {
  const mayas = await world.start('maya', { mode: 'bypass' })
  await world.ask(mayas, [READ])
  const omars = await world.start('omar')
  const of = (login: 'maya' | 'omar') => {
    const { tenant, userId } = world.asUser(login)
    return { tenantId: tenant.id, userId }
  }
  await world.pg.query(`update app_user set status = 'disabled' where id = 'usr_maya'`)
  expect(await reEvaluateUser(world.ctx, of('maya'))).toEqual({ sessions: 1, lost: 1 })
  expect(await session(mayas)).toEqual({ status: 'revoked', end_reason: 'user_disabled' })
  await world.pg.query(`update agent set status = 'disabled' where id = 'agt_briefs'`)
  await reEvaluateUser(world.ctx, of('omar'))
  expect(await session(omars)).toEqual({ status: 'revoked', end_reason: 'agent_disabled' })
})

test('I9 what a parent loses, its child loses in the same look', async () => {
  const root = await world.start('maya', { mode: 'bypass' })
  await world.ask(root, [READ])
  const started = await startSubagent(world.ctx, await world.asAgent(root), {
    template: 'email-drafter',
    readOnly: true,
  })
  if (!started.ok) throw new Error(JSON.stringify(started.fault))
  expect(await world.rows('select id from access_grant')).toHaveLength(2)
  await world.pg.query(`delete from role_permission where permission_id = 'accounts:read'`)
  const { tenant, userId } = world.asUser('maya')
  expect(await reEvaluateUser(world.ctx, { tenantId: tenant.id, userId })).toEqual({
    sessions: 2,
    lost: 2,
  })
  expect(await world.rows('select id from access_grant')).toEqual([])
})

test('a periodic job runs one at a time, hears kicks that come while it runs, and stops for good', async () => {
  const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))
  let running = 0
  let most = 0
  let runs = 0
  const wakers = new Set<() => void>()
  const job = startPeriodic({
    run: async () => {
      runs++
      most = Math.max(most, ++running)
      await pause(30)
      running--
    },
    everyMillis: 60_000,
    onBug: () => {},
    subscribe: (woken) => {
      wakers.add(woken)
      return () => void wakers.delete(woken)
    },
  })
  const kick = () => {
    for (const woken of wakers) woken()
  }
  const until = async (count: number) => {
    for (let tries = 0; tries < 500 && (runs < count || running > 0); tries++) await pause(10)
    // And no more than that: the gap between runs is over several times.
    await pause(250)
    expect([runs, most]).toEqual([count, 1])
  }
  while (running === 0) await pause(1)
  for (let i = 0; i < 20; i++) kick()
  await until(2)
  kick()
  kick()
  await until(3)
  kick()
  await job.stop()
  await pause(120)
  expect([runs, running, wakers.size]).toEqual([3, 0, 0])
})
