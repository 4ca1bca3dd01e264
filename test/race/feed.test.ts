import { exportJWK, generateKeyPair } from 'jose'
import { expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { tellAccessChanged } from '../../src/db/feed.ts'
import { changeUser, takeUserPermission } from '../../src/flows/admin/users.ts'
import { makeCheckpoint } from '../../src/flows/checkpoint.ts'
import { freeze } from '../../src/flows/freeze.ts'
import { followFeed, startFeedJob } from '../../src/flows/re-evaluate.ts'
import { sweep } from '../../src/flows/sweep.ts'
import type { Ctx } from '../../src/ports.ts'
import type { Run } from '../support/databases.ts'
import {
  ACME,
  asAgent,
  ask,
  both,
  codeOf,
  inTx,
  must,
  pause,
  person,
  start,
  twoInstances,
} from './support/instances.ts'
import { expectSound } from './support/sound.ts'

const READ = { permission: 'accounts:read' }
const Q3 = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }

const held = async (run: Run, session: SessionId) =>
  (
    await run<{ id: string }>(
      'select permission_id as id from access_grant where session_id = $1 order by 1',
      [session],
    )
  ).map((row) => row.id)

/**
 * Follows until every change has been passed, and sums what it did. The horizon is the whole server's: a transaction in
 * some other database may hold it back for a while.
 */
async function caughtUp(ctx: Ctx, run: Run) {
  const sum = { rows: 0, lost: 0 }
  for (let tries = 0; tries < 500; tries++) {
    const { rows, lost } = await followFeed(ctx)
    sum.rows += rows
    sum.lost += lost
    const behind = await run(
      `select f.id from feed f join feed_cursor c on c.job = 're-evaluate' and (f.xid, f.id) > (c.xid, c.id)`,
    )
    if (behind.length === 0) return sum
    await pause(20)
  }
  throw new Error('the feed was never caught up with')
}

/** What following the feed throws, once it does. */
async function failure(ctx: Ctx): Promise<string> {
  for (let tries = 0; tries < 500; tries++) {
    try {
      await followFeed(ctx)
    } catch (error) {
      return String(error)
    }
    await pause(20)
  }
  return 'nothing'
}

/** Opens a transaction that waits until it is let go. */
async function paused(ctx: Ctx, body: Parameters<typeof inTx<void>>[1]) {
  let letGo = () => {}
  let begun = () => {}
  const gate = new Promise<void>((resolve) => {
    letGo = resolve
  })
  const started = new Promise<void>((resolve) => {
    begun = resolve
  })
  const done = inTx(ctx, async (tx) => {
    await body(tx)
    begun()
    await gate
  })
  await started
  return {
    commit: async () => {
      letGo()
      await done
    },
  }
}

twoInstances('the feed', (pair) => {
  test('does not skip a change that commits after a later one was followed', async () => {
    const { a, b, run } = pair()
    await caughtUp(a, run)
    const session = await start(a, { mode: 'bypass' })
    must(await ask(a, await asAgent(run, session), [READ, Q3]))
    // The slow change has the lower number and is not there yet.
    const slow = await paused(a, async (tx) => {
      await tx.sql`delete from user_permission where id = 'prm_q3'`
      await tellAccessChanged(tx, {
        tenantId: ACME.id,
        users: [person('maya').userId],
        what: 'slow',
        now: a.clock.now() / 1000,
      })
    })
    const quick = { tenantId: ACME.id, users: [person('omar').userId], what: 'quick', now: 0 }
    await inTx(b, (tx) => tellAccessChanged(tx, quick))
    await followFeed(b)
    expect(await held(run, session)).toEqual(['accounts:read', 'dashboard:view'])
    await slow.commit()
    expect(await caughtUp(b, run)).toEqual({ rows: 2, lost: 1 })
    expect(await held(run, session)).toEqual(['accounts:read'])
    expect(await followFeed(a)).toEqual({ rows: 0, sessions: 0, lost: 0 })
    await run(
      `insert into user_permission values ('prm_q3', 'ten_acme', 'usr_maya', 'dashboard:view',
         'dashboard/q3-pipeline', now())`,
    )
  })

  test('followed by two instances at once ends each grant once', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < 8; round++) {
      const session = await start(a, { mode: 'bypass' })
      must(await ask(a, await asAgent(run, session), [READ, Q3]))
      must(
        await inTx(a, (tx) =>
          takeUserPermission(a, person('adam'), { userId: 'usr_maya', id: 'prm_q3' }, tx),
        ),
      )
      await both(caughtUp(a, run), caughtUp(b, run))
      expect(await held(run, session)).toEqual(['accounts:read'])
      const ended = await run(
        `select id from activity where session_id = $1 and type = 'grant.ended'`,
        [session],
      )
      expect(ended).toHaveLength(1)
      await run(
        `insert into user_permission values ('prm_q3', 'ten_acme', 'usr_maya', 'dashboard:view',
           'dashboard/q3-pipeline', now())`,
      )
    }
    await expectSound(run)
  })

  test('I19 a session that cannot be re-evaluated neither blocks the others nor is forgotten', async () => {
    const { a, run } = pair()
    await caughtUp(a, run)
    const mayas = await start(a, { mode: 'bypass' })
    const omars = await start(a, { mode: 'bypass', login: 'omar' })
    must(await ask(a, await asAgent(run, mayas), [READ]))
    must(await ask(a, await asAgent(run, omars), [READ]))
    await run(
      `delete from role_permission where role_id = 'rol_manager_acme' and permission_id = 'accounts:read'`,
    )
    const users = [person('maya').userId, person('omar').userId]
    await inTx(a, (tx) => tellAccessChanged(tx, { tenantId: ACME.id, users, what: 'x', now: 0 }))
    // Maya's tree cannot be written: the head of its chain has been made to collide with a record.
    const [head] = await run<{ seq: number }>(
      'select chain_seq as seq from session where id = $1',
      [mayas],
    )
    await run('alter table session disable trigger user')
    await run('update session set chain_seq = chain_seq - 1 where id = $1', [mayas])
    expect(await failure(a)).toContain('1 people')
    expect(await held(run, omars)).toEqual([])
    expect(await held(run, mayas)).toEqual(['accounts:read'])
    expect(await failure(a)).toContain('1 people')
    await run('update session set chain_seq = $1 where id = $2', [head?.seq ?? 0, mayas])
    await run('alter table session enable trigger user')
    expect(await caughtUp(a, run)).toMatchObject({ lost: 1 })
    expect(await held(run, mayas)).toEqual([])
    await run(`insert into role_permission values ('rol_manager_acme', 'accounts:read', null)`)
  })

  test('the job goes on after an outage, tells of it, and stops when told', async () => {
    const { a, b, run } = pair()
    await caughtUp(a, run)
    const session = await start(a, { mode: 'bypass' })
    must(await ask(a, await asAgent(run, session), [READ, Q3]))
    const bugs: unknown[] = []
    let down = true
    const flaky = {
      ...b,
      db: {
        ...b.db,
        begin: (...args: Parameters<typeof b.db.begin>) =>
          down ? Promise.reject(new Error('the database is away')) : b.db.begin(...args),
      },
    } as typeof b
    const job = startFeedJob(flaky, (error) => void bugs.push(error), 10)
    const of = { userId: 'usr_maya', id: 'prm_q3' }
    must(await inTx(a, (tx) => takeUserPermission(a, person('adam'), of, tx)))
    await pause(100)
    expect(bugs.length).toBeGreaterThan(1)
    down = false
    for (let i = 0; i < 100 && (await held(run, session)).length > 1; i++) await pause(20)
    expect(await held(run, session)).toEqual(['accounts:read'])
    await job.stop()
    const told = bugs.length
    down = true
    await pause(100)
    expect(bugs).toHaveLength(told)
    await run(
      `insert into user_permission values ('prm_q3', 'ten_acme', 'usr_maya', 'dashboard:view',
         'dashboard/q3-pipeline', now())`,
    )
  })
})

twoInstances('an admin', (pair) => {
  test('USER-ASKS 42 once a freeze has answered, nothing decided before can still commit', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < 10; round++) {
      const session = await start(a, { mode: 'bypass' })
      const agent = await asAgent(run, session)
      const asking = Promise.all(
        Array.from({ length: 5 }, (_, i) =>
          ask(b, agent, [
            { permission: 'accounts.rows:my_region', narrow: { renewal_in_days: { $lt: i } } },
          ]),
        ),
      )
      const frozen = must(
        await inTx(a, (tx) => freeze(a, person('adam'), { scope: 'user', id: 'usr_maya' }, tx)),
      )
      const count = async () => (await held(run, session)).length
      const whenFrozen = await count()
      const outcomes = (await asking).map(codeOf)
      expect(await count()).toBe(whenFrozen)
      expect(outcomes.filter((code) => code === 'ok')).toHaveLength(whenFrozen)
      expect(outcomes.every((code) => code === 'ok' || code === 'frozen')).toBe(true)
      await run('delete from frozen where id = $1', [frozen.id])
    }
  })

  test('I11 disables a person while their agent asks: no session and no grant outlives it', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < 8; round++) {
      const session = await start(a, { mode: 'bypass', login: 'omar' })
      const agent = await asAgent(run, session)
      const [disabled] = await Promise.all([
        inTx(a, (tx) => changeUser(a, person('adam'), 'usr_omar', { status: 'disabled' }, tx)),
        Promise.all([ask(b, agent, [READ]), start(b, { login: 'omar' }).catch(() => null)]),
      ])
      must(disabled)
      expect(
        await run(`select id from session where user_id = 'usr_omar' and status = 'active'`),
      ).toEqual([])
      expect(await held(run, session)).toEqual([])
      must(
        await inTx(a, (tx) => changeUser(a, person('adam'), 'usr_omar', { status: 'active' }, tx)),
      )
    }
    await expectSound(run)
  })

  test('and another who disable each other: one stays', async () => {
    const { a, b, run } = pair()
    const cleo = { ...person('adam'), userId: 'usr_cleo' as ReturnType<typeof person>['userId'] }
    for (let round = 0; round < 10; round++) {
      await run(
        `update app_user set status = 'active', staff_roles = array['org_admin'] where id in ('usr_adam', 'usr_cleo')`,
      )
      const off = { status: 'disabled' } as const
      const results = await both(
        inTx(a, (tx) => changeUser(a, person('adam'), 'usr_cleo', off, tx)),
        inTx(b, (tx) => changeUser(b, cleo, 'usr_adam', off, tx)),
      )
      expect(results.map(codeOf).toSorted()).toEqual(['ok', 'still_in_use'])
    }
  })
})

twoInstances('the sweep and the checkpoints', (pair) => {
  test('I5 what is over ends once, whoever sweeps', async () => {
    const { a, b, run, advance } = pair()
    const sessions = await Promise.all(Array.from({ length: 10 }, () => start(a, { mode: 'ask' })))
    for (const session of sessions) must(await ask(a, await asAgent(run, session), [READ]))
    advance(8 * 3600)
    const swept = await Promise.all([sweep(a), sweep(b), sweep(a)])
    expect(swept.reduce((sum, one) => sum + one.sessions, 0)).toBe(10)
    expect(swept.reduce((sum, one) => sum + one.prompts, 0)).toBe(10)
    expect(
      await run('select distinct status, end_reason from session where id = any($1::text[])', [
        sessions,
      ]),
    ).toEqual([{ status: 'expired', end_reason: 'timeout' }])
    await expectSound(run)
  })

  test('a record that commits after a checkpoint was made is in the next one', async () => {
    const { a, run, advance } = pair()
    const key = await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)
    const slow = await start(a)
    const quick = await start(a, { login: 'omar' })
    await makeCheckpoint(a, key, 0)
    const open = await paused(a, async (tx) => {
      await tx.sql`
        insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id,
          data, prev_hash, hash)
        select 'act_slow', tenant_id, chain, 2, at, 'call.allowed', agent_id, user_id, session_id, root_session_id,
          '{}', hash, 'slow' from activity where chain = ${slow} and seq = 1`
      await tx.sql`update session set chain_seq = 2, chain_hash = 'slow' where id = ${slow}`
    })
    must(await ask(a, await asAgent(run, quick), [READ]))
    advance(60)
    const during = await makeCheckpoint(a, key, 0)
    await open.commit()
    advance(60)
    const after = await makeCheckpoint(a, key, 0)
    const heads = async (n: number | null) =>
      (
        await run<{ chain: string }>(
          `select h.chain from activity_checkpoint c, jsonb_to_recordset(c.heads) as h (chain text) where c.n = $1`,
          [n],
        )
      ).map((row) => row.chain)
    expect(await heads(during)).toContain(quick)
    expect(await heads(during)).not.toContain(slow)
    expect(await heads(after)).toContain(slow)
  })
})
