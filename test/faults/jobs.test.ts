import { exportJWK, generateKeyPair } from 'jose'
import { expect, test } from 'vitest'
import { tellAccessChanged } from '../../src/db/feed.ts'
import type { Db } from '../../src/db/tx.ts'
import { takeUserPermission } from '../../src/flows/admin/users.ts'
import { makeCheckpoint } from '../../src/flows/checkpoint.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import { sweep } from '../../src/flows/sweep.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import type { Ctx } from '../../src/ports.ts'
import { advanceKeys, createTenantKeys, rotateKeys } from '../../src/tokens/keys.ts'
import {
  ACME,
  asAgent,
  ask,
  inTx,
  must,
  person,
  start,
  twoInstances,
} from '../race/support/instances.ts'
import { expectSound } from '../race/support/sound.ts'

/** Background work on two instances at once, and stopped at every point at which it can be: between its transactions. */
const READ = { permission: 'accounts:read' }

class Killed extends Error {}

/** An instance that dies at its nth transaction: before it begins, or after its commit and before anybody hears of it. */
function dyingAt(ctx: Ctx, nth: number, when: 'before' | 'after'): Ctx {
  let count = 0
  const { db } = ctx
  const begin: Db['begin'] = async (label, body, planned) => {
    count++
    if (count > nth || (count === nth && when === 'before')) throw new Killed()
    const value = await db.begin(label, body, planned)
    if (count === nth) throw new Killed()
    return value
  }
  return { ...ctx, db: { ...db, begin } }
}

const isKilled = (error: unknown): boolean =>
  error instanceof Killed || (error instanceof AggregateError && error.errors.some(isKilled))

/** Runs `job` on instances that die, one later than the other, until one lives to its end. How many died. */
async function dyingEverywhere(ctx: Ctx, job: (ctx: Ctx) => Promise<unknown>): Promise<number> {
  for (let nth = 1, deaths = 0; nth < 60; nth++)
    for (const when of ['before', 'after'] as const)
      try {
        await job(dyingAt(ctx, nth, when))
        return deaths
      } catch (error) {
        if (!isKilled(error)) throw error
        deaths++
      }
  throw new Error('the job never came to its end')
}

twoInstances('background work', (pair) => {
  const sessions = async (count: number) => {
    const { a, run } = pair()
    const made = await Promise.all(
      Array.from({ length: count }, () => start(a, { mode: 'bypass', login: 'omar' })),
    )
    for (const one of made) must(await ask(a, await asAgent(run, one), [READ]))
    return made
  }

  test('expiry: stopped anywhere, what is left is ended by the next run, once', async () => {
    const { a, b, run, advance } = pair()
    const made = await sessions(4)
    advance(8 * 3600)
    expect(await dyingEverywhere(a, sweep)).toBeGreaterThan(3)
    await Promise.all([sweep(a), sweep(b)])
    const ended = await run<{ id: string; times: number }>(
      `select session_id as id, count(*)::int as times from activity
       where type = 'session.ended' and session_id = any($1) group by 1`,
      [made],
    )
    expect(ended.map(({ times }) => times)).toEqual(made.map(() => 1))
    expect(
      await run(`select id from session where id = any($1) and status = 'active'`, [made]),
    ).toEqual([])
    await expectSound(run)
  })

  test('retention of what is used once: two instances delete each row once, and no other', async () => {
    const { a, b, run, advance } = pair()
    await run(
      `insert into client_assertion (tenant_id, client_id, jti, expires_at)
       select 'ten_acme', 'agt_briefs', 'jti_' || n, to_timestamp($1::text::float8 + n * 3600)
       from generate_series(1, 40) as n`,
      [String(a.clock.now() / 1000)],
    )
    advance(20 * 3600)
    await Promise.all([sweep(a), sweep(b), sweep(a), sweep(b)])
    const left = await run<{ n: number }>(
      `select count(*)::int as n from client_assertion
       where expires_at > to_timestamp($1::text::float8)`,
      [String(a.clock.now() / 1000)],
    )
    expect(left).toEqual([{ n: 20 }])
  })

  test('re-evaluation: stopped anywhere, a loss is neither forgotten nor written twice', async () => {
    const { a, b, run } = pair()
    const made = await Promise.all([1, 2, 3].map(() => start(a, { mode: 'bypass' })))
    const q3 = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
    for (const one of made) must(await ask(a, await asAgent(run, one), [READ, q3]))
    const adam = person('adam')
    must(
      await inTx(a, (tx) => takeUserPermission(a, adam, { userId: 'usr_maya', id: 'prm_q3' }, tx)),
    )
    await inTx(b, (tx) =>
      tellAccessChanged(tx, { tenantId: ACME.id, users: null, what: 'all', now: 0 }),
    )
    const held = () =>
      run<{ id: string }>(
        `select distinct permission_id as id from access_grant where session_id = any($1)`,
        [made],
      )
    // The horizon is the whole server's, so a run may find that it has to wait.
    await expect
      .poll(
        async () => {
          await dyingEverywhere(a, followFeed)
          await Promise.all([followFeed(a), followFeed(b)])
          return held()
        },
        { timeout: 20_000 },
      )
      .toEqual([{ id: 'accounts:read' }])
    const ended = await run<{ times: number }>(
      `select count(*)::int as times from activity
       where type = 'grant.ended' and session_id = any($1) group by session_id`,
      [made],
    )
    expect(ended).toEqual(made.map(() => ({ times: 1 })))
    await expectSound(run)
  })

  test('key rotation: of any number of leaders one rotates, and there is one active key throughout', async () => {
    const { a, b, run, advance } = pair()
    const seconds = () => a.clock.now() / 1000
    const advanced = (ctx: Ctx) => inTx(ctx, (tx) => advanceKeys(tx, seconds()))
    const rotated = (now: number) => {
      const of = { tenantId: ACME.id, alg: 'ES256', now, vault: a.vault } as const
      return (ctx: Ctx) => inTx(ctx, (tx) => rotateKeys(tx, of))
    }
    await run(`delete from signing_key where tenant_id = $1`, [ACME.id])
    await inTx(a, (tx) =>
      createTenantKeys(tx, { tenantId: ACME.id, now: seconds(), vault: a.vault }),
    )
    const kids = async (status: string) => {
      const rows = await run<{ kid: string }>(
        `select kid from signing_key where tenant_id = $1 and alg = 'ES256' and status = $2`,
        [ACME.id, status],
      )
      return rows.map(({ kid }) => kid)
    }
    const before = await kids('active')
    // Two operators at once publish one next key, not two.
    const published = rotated(seconds())
    await Promise.all([published(a), published(b)])
    const next = await kids('next')
    expect(next).toHaveLength(1)
    for (let quarter = 0; quarter < 8; quarter++) {
      advance(900)
      await Promise.all([advanced(a), advanced(b), advanced(a), advanced(b)])
      expect(await kids('active')).toEqual(next)
    }
    // The old one is kept for as long as its tokens live, and then gone.
    expect([...(await kids('retired')), ...(await kids('next'))]).toEqual([])
    expect(before).not.toEqual(next)
  })

  test('checkpoints: of two at once one is made, and the record verifies with them', async () => {
    const { a, b, run, advance } = pair()
    const key = await exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)
    for (let round = 0; round < 5; round++) {
      await sessions(1)
      advance(60)
      const both = await Promise.all([makeCheckpoint(a, key), makeCheckpoint(b, key)])
      expect(both.filter((n) => n !== null)).toHaveLength(1)
    }
    await dyingEverywhere(a, (ctx) => makeCheckpoint(ctx, key, 0))
    const numbers = await run<{ n: number }>('select n::int from activity_checkpoint order by n')
    expect(numbers.map(({ n }) => n)).toEqual(numbers.map((_, i) => i + 1))
    const verified = await verifyActivity(a, { tenantId: ACME.id })
    expect([verified.ok, verified.problems]).toEqual([true, []])
    await expectSound(run)
  })
})
