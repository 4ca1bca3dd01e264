import { beforeAll, expect, test } from 'vitest'
import { CHAIN_START } from '../../src/core/activity.ts'
import type { SessionId, TenantId, UserId } from '../../src/core/vocabulary.ts'
import { hashOf, Journal } from '../../src/db/activity.ts'
import { withTx } from '../../src/db/tx.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import { systemIds } from '../../src/ids.ts'
import type { Ctx } from '../../src/ports.ts'
import { asAgent, ask, narrowed, start } from '../race/support/instances.ts'
import { eachDatabase } from '../support/databases.ts'
import { EPOCH } from '../support/world-seed.ts'
import { ACME, advance, ctxOf, problems, recorded, recordsOf, tampering } from './support/chain.ts'

/** USER-ASKS 44: the chain neither forks under load nor verifies what was changed. */
eachDatabase('the chain', (database) => {
  let ctx: Ctx
  beforeAll(() => {
    ctx = ctxOf(database())
  })

  test('as written verifies: no gap, every link, every hash, the head', async () => {
    const session = await recorded(ctx, database().run)
    expect(await verifyActivity(ctx, { tenantId: ACME, session })).toEqual({
      ok: true,
      chains: 1,
      records: 6,
      problems: [],
    })
  })

  test.each([
    [
      'a tampered record',
      `update activity set data = data || '{"reason": "user_has_it"}'`,
      3,
      [[3, 'altered']],
    ],
    [
      'a record given to another person',
      `update activity set user_id = 'usr_omar'`,
      4,
      [[4, 'altered']],
    ],
    [
      'a record moved in time',
      `update activity set at = at + interval '1 ms'`,
      2,
      [[2, 'altered']],
    ],
    [
      'a record hashed again after a change',
      `update activity set hash = 'f00d'`,
      3,
      [
        [3, 'altered'],
        [4, 'unlinked'],
      ],
    ],
    ['a removed record', 'delete from activity', 3, [[4, 'missing_before']]],
    ['a removed first record', 'delete from activity', 1, [[2, 'missing_before']]],
    ['a truncated tail', 'delete from activity', 6, [[6, 'missing_after']]],
  ] as [string, string, number, unknown[]][])('shows %s', async (_, sql, seq, found) => {
    const { run } = database()
    const session = await recorded(ctx, run)
    await tampering(run, `${sql} where chain = '${session}' and seq = ${seq}`)
    expect(await problems(ctx, session)).toEqual(found)
  })

  test('shows two records that changed places', async () => {
    const { run } = database()
    const session = await recorded(ctx, run)
    // The unique key is looked at row by row, so in two steps.
    const both = `where chain = '${session}' and`
    await tampering(run, `update activity set seq = -seq ${both} seq in (3, 4)`)
    await tampering(run, `update activity set seq = 7 + seq ${both} seq < 0`)
    expect(await problems(ctx, session)).toEqual([
      [3, 'altered'],
      [3, 'unlinked'],
      [4, 'altered'],
      [4, 'unlinked'],
      [5, 'unlinked'],
    ])
  })

  test('shows a record that was slipped in at the end, though it links and hashes well', async () => {
    const { run } = database()
    const session = await recorded(ctx, run)
    const [last] = await run<{ hash: string }>(
      'select hash from activity where chain = $1 and seq = 6',
      [session],
    )
    const record = {
      id: systemIds.id('activity'),
      tenant_id: ACME,
      seq: 7,
      at: EPOCH,
      type: 'call.allowed',
      agent_id: 'agt_briefs',
      user_id: 'usr_maya',
      session_id: session,
      root_session_id: session,
      data: {},
      prev_hash: last?.hash ?? '',
    } as const
    await run(
      `insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id,
         data, prev_hash, hash)
       values ($1, 'ten_acme', $2, 7, $3::timestamptz, 'call.allowed', 'agt_briefs', 'usr_maya', $2, $2, '{}', $4, $5)`,
      [record.id, session, EPOCH, record.prev_hash, hashOf(record)],
    )
    expect(await problems(ctx, session)).toEqual([[7, 'beyond_head']])
  })

  test('a thousand records and more, cut into pages at every place, are neither skipped nor doubled', async () => {
    const { run } = database()
    const tenant = 'ten_globex' as TenantId
    let counted = 0
    for (const length of [999, 1, 1, 1001, 400]) {
      counted += length
      await withTx(ctx.db, 'test', async (tx) => {
        const journal = new Journal(ctx, tenant)
        for (let i = 0; i < length; i++) journal.tenant('login.succeeded', { i })
        await journal.write(tx)
      })
      const verified = await verifyActivity(ctx, { tenantId: tenant })
      expect(verified).toMatchObject({ ok: true, records: counted, problems: [] })
    }
    await tampering(run, `delete from activity where chain = 'ten_globex' and seq = 1001`)
    expect((await verifyActivity(ctx, { tenantId: tenant })).problems).toMatchObject([
      { seq: 1002, problem: 'missing_before' },
    ])
  })

  test('many sessions, some without a record, are all looked at', async () => {
    const { run } = database()
    await run(
      `insert into agent (id, tenant_id, name, secret_hash, app_clients, template_ids, created_at)
       values ('agt_many', 'ten_studio', 'Many', 'h', '{}', '{}', $1::timestamptz)`,
      [EPOCH],
    )
    await run(
      `insert into session (id, tenant_id, root_id, depth, user_id, agent_id, template_id, template_version, mode,
         created_at, expires_at)
       select 'ses_many' || i, 'ten_studio', 'ses_many' || i, 0, 'usr_bo', 'agt_many', 'tpl_briefs', 3, 'ask',
         $1::timestamptz, $1::timestamptz + interval '8 hours'
       from generate_series(1, 450) i`,
      [EPOCH],
    )
    const tenantId = 'ten_studio' as TenantId
    // A page holds a thousand rows: the first is cut exactly where a chain ends, the next within one.
    const lengths = { ses_many1: 999, ses_many10: 1, ses_many100: 1001, ses_many101: 2500 }
    for (const [id, length] of Object.entries(lengths))
      await withTx(ctx.db, 'test', async (tx) => {
        const journal = new Journal(ctx, tenantId)
        const subject = {
          id: id as SessionId,
          rootId: id as SessionId,
          agentId: 'agt_many',
          userId: 'usr_bo' as UserId,
          template: 'renewal-briefs@3',
          head: CHAIN_START,
        }
        for (let i = 0; i < length; i++) journal.session(subject, 'call.allowed', { i })
        await journal.write(tx)
      })
    expect(await verifyActivity(ctx, { tenantId })).toEqual({
      ok: true,
      chains: 451,
      records: 4501,
      problems: [],
    })
    await tampering(
      run,
      `update session set chain_seq = 1, chain_hash = 'x' where id = 'ses_many437'`,
    )
    expect((await verifyActivity(ctx, { tenantId })).problems).toEqual([
      { chain: 'ses_many437', seq: 1, problem: 'missing_after' },
    ])
  })

  test('does not fork under many writers at once, and verifies while it grows', async () => {
    const { run } = database()
    advance(120)
    const sessions = [await start(ctx, { mode: 'bypass' }), await start(ctx, { mode: 'bypass' })]
    const agents = await Promise.all(sessions.map((session) => asAgent(run, session)))
    let writing = true
    const reading = (async () => {
      const seen: unknown[] = []
      while (writing) for (const session of sessions) seen.push(...(await problems(ctx, session)))
      return seen
    })()
    const asks = agents.flatMap((agent, s) =>
      Array.from({ length: 25 }, (_, i) => ask(ctx, agent, [narrowed(s * 100 + i)])),
    )
    const tenantWrites = Array.from({ length: 25 }, (_, i) =>
      withTx(ctx.db, 'test', async (tx) => {
        const journal = new Journal(ctx, ACME)
        journal.tenant('login.succeeded', { i })
        await journal.write(tx)
      }),
    )
    const results = await Promise.all(asks)
    await Promise.all(tenantWrites)
    writing = false
    expect(await reading).toEqual([])
    expect(results.every((result) => result.ok)).toBe(true)
    for (const session of sessions) {
      const records = await recordsOf(run, session)
      expect(records.map((r) => r.seq)).toEqual(records.map((_, i) => i + 1))
      expect(records).toHaveLength(1 + 25 * 3)
      expect(await problems(ctx, session)).toEqual([])
    }
    const [head] = await run<{ seq: number; rows: number }>(
      `select seq, (select count(*)::integer from activity where chain = 'ten_acme') as rows
       from tenant_chain where tenant_id = 'ten_acme'`,
    )
    expect(head).toEqual({ seq: 25, rows: 25 })
  })
})
