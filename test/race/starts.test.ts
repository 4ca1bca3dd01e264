import { expect, test } from 'vitest'
import { freeze } from '../../src/flows/freeze.ts'
import { startByExchange } from '../../src/flows/start-by-exchange.ts'
import type { Ctx } from '../../src/ports.ts'
import { BRIEFS, codeOf, inTx, must, person, twoInstances } from './support/instances.ts'
import { expectSound } from './support/sound.ts'

/** Starts that come at once share a transaction (`src/db/batches.ts`): none may answer for, or fall with, another. */
const begin = (
  ctx: Ctx,
  subject: string,
  how: { template?: string; creates?: boolean; resource?: string } = {},
) =>
  startByExchange(ctx, BRIEFS, {
    person: {
      issuer: 'https://idp.acme.example',
      subject,
      createsUsers: how.creates ?? false,
    },
    template: how.template ?? 'renewal-briefs',
    task: undefined,
    resource: how.resource,
    sessionId: undefined,
  })

const tally = (codes: readonly string[]) => {
  const counts: Record<string, number> = {}
  for (const code of codes) counts[code] = (counts[code] ?? 0) + 1
  return counts
}

twoInstances('starts that come at once', (pair) => {
  test('the good are started and the bad refused, each for its own reason', async () => {
    const { a, b, run } = pair()
    const kinds = [
      () => begin(a, 'maya'),
      () => begin(b, 'omar'),
      () => begin(a, 'nobody'),
      () => begin(b, 'maya', { template: 'no-such-template' }),
      () => begin(a, 'omar', { resource: 'https://elsewhere.example' }),
    ]
    const results = await Promise.all(Array.from({ length: 40 }, (_, i) => kinds[i % 5]?.()))
    expect(tally(results.map((one) => (one === undefined ? 'none' : codeOf(one))))).toEqual({
      ok: 16,
      user_unknown: 8,
      template_unknown: 8,
      target_invalid: 8,
    })
    const live = await run<{ user: string; count: number }>(
      `select user_id as user, count(*)::integer as count from session where status = 'active' group by 1 order by 1`,
    )
    expect(live).toEqual([
      { user: 'usr_maya', count: 8 },
      { user: 'usr_omar', count: 8 },
    ])
    const refused = await run(`select id from activity where type = 'token.refused'`)
    expect(refused).toHaveLength(24)
    // Each answer names a session of its own, with a token of its own.
    const named = results.flatMap((one) => (one?.ok ? [one.value.sessionId] : []))
    const tokens = results.flatMap((one) => (one?.ok ? [one.value.refreshToken] : []))
    expect(new Set(named).size).toBe(16)
    expect(new Set(tokens).size).toBe(16)
    await expectSound(run)
  })

  test('of somebody whom their provider brings in just now: one person, and the limit holds', async () => {
    const { a, b, run } = pair()
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        begin(i % 2 === 0 ? a : b, 'newcomer', { creates: true }),
      ),
    )
    expect(tally(results.map(codeOf))).toEqual({ ok: 20, limit_reached: 30 })
    expect(await run(`select id from app_user where subject = 'newcomer'`)).toHaveLength(1)
    await expectSound(run)
  })

  test('during a freeze: none commits after it, and all say so', async () => {
    const { a, b, run } = pair()
    const count = async () =>
      (await run(`select id from session where user_id = 'usr_omar' and status = 'active'`)).length
    const of = { scope: 'user', id: 'usr_omar' } as const
    const before = Array.from({ length: 6 }, () => begin(b, 'omar'))
    const freezing = inTx(a, (tx) => freeze(a, person('adam'), of, tx))
    const during = Array.from({ length: 6 }, () => begin(b, 'omar'))
    must(await freezing)
    const atFreeze = await count()
    const late = await Promise.all([...before, ...during])
    expect(
      Object.keys(tally(late.map(codeOf))).every((code) => ['ok', 'frozen'].includes(code)),
    ).toBe(true)
    const after = await Promise.all(Array.from({ length: 10 }, () => begin(a, 'omar')))
    expect(tally(after.map(codeOf))).toEqual({ frozen: 10 })
    expect(await count()).toBe(atFreeze)
    await expectSound(run)
  })

  test('a start reads nobody else’s live sessions, also when it was planned while none was live', async () => {
    const { a, run } = pair()
    const { sessionId } = must(await begin(a, 'maya'))
    await run(`update session set status = 'ended', end_reason = 'user', ended_at = now(), version = version + 1
      where status = 'active'`)
    await run('analyze session')
    must(await begin(a, 'maya'))
    await run(
      `insert into session (id, tenant_id, root_id, depth, user_id, agent_id, template_id, template_version, mode,
         created_at, expires_at)
       select 'ses_crowd_' || n, tenant_id, 'ses_crowd_' || n, 0, 'usr_omar', agent_id, template_id, template_version,
         'ask', created_at, expires_at
       from session, generate_series(1, 2000) n where id = $1`,
      [sessionId],
    )
    const read = async (index: string) => {
      const [row] = await run<{ scans: number; entries: number }>(
        `select idx_scan::integer as scans, idx_tup_read::integer as entries from pg_stat_user_indexes
         where indexrelname = $1`,
        [index],
      )
      return row ?? { scans: 0, entries: 0 }
    }
    const before = await read('session_live_roots')
    // Postgres tells what was read a moment later.
    const again = async () => {
      must(await begin(a, 'maya'))
      return (await read('session_live_roots')).scans
    }
    await expect.poll(again, { timeout: 15_000, interval: 1_100 }).toBeGreaterThan(before.scans)
    for (const index of [
      'session_live_by_expiry',
      'session_live_by_template',
      'session_live_by_user',
    ])
      expect([index, (await read(index)).entries]).toEqual([
        index,
        expect.toSatisfy((n) => n < 2000),
      ])
  })
})
