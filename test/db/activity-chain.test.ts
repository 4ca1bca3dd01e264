import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import { beforeAll, describe, expect, test } from 'vitest'
import { verifyDatabase, verifyFile } from '../../src/cli/verify-activity.ts'
import type { ActivityRecord } from '../../src/core/activity.ts'
import type { SessionId, TenantId } from '../../src/core/vocabulary.ts'
import { hashOf, Journal } from '../../src/db/activity.ts'
import { merkleRoot } from '../../src/db/checkpoints.ts'
import { withTx } from '../../src/db/tx.ts'
import { makeCheckpoint, thumbprintOf } from '../../src/flows/checkpoint.ts'
import { verifyActivity, verifyRecords } from '../../src/flows/verify-activity.ts'
import { systemIds } from '../../src/ids.ts'
import type { Ctx } from '../../src/ports.ts'
import { asAgent, ask, must, narrowed, start } from '../race/support/instances.ts'
import { type Database, eachDatabase, type Run } from '../support/databases.ts'
import { EPOCH } from '../support/world-seed.ts'

/** USER-ASKS 44: the chain neither forks under load nor verifies what was changed. */
const ACME = 'ten_acme' as TenantId
const READ = { permission: 'accounts:read' }
let now = Date.parse(EPOCH)

const ctxOf = ({ db }: Database): Ctx => ({
  db,
  clock: { now: () => now },
  ids: systemIds,
  notify: { kick: () => {}, subscribe: () => () => {} },
  publicUrl: 'http://localhost:4000',
})

const newKey = async (): Promise<JWK> =>
  exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)

/** Runs what only somebody with the database's own rights could, past the triggers that refuse it. */
async function tampering(run: Run, sql: string): Promise<void> {
  for (const table of ['activity', 'session', 'activity_checkpoint'])
    await run(`alter table ${table} disable trigger user`)
  await run(sql)
  for (const table of ['activity', 'session', 'activity_checkpoint'])
    await run(`alter table ${table} enable trigger user`)
}

/** A session of six records: started, asked, two decisions, two grants. */
async function recorded(ctx: Ctx, run: Run): Promise<SessionId> {
  const session = await start(ctx, { mode: 'bypass' })
  must(await ask(ctx, await asAgent(run, session), [READ, narrowed(1)]))
  return session
}

const recordsOf = (run: Run, session: string) =>
  run<{ id: string; seq: number; type: string }>(
    'select id, seq, type from activity where chain = $1 order by seq',
    [session],
  )

const problems = async (ctx: Ctx, session: string) =>
  (await verifyActivity(ctx, { tenantId: ACME, session })).problems.map((p) => [p.seq, p.problem])

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
    expect(await verifyActivity(ctx, { tenantId })).toMatchObject({ ok: true, chains: 451 })
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
    now += 120_000
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

eachDatabase('signed checkpoints', (database) => {
  let ctx: Ctx
  let key: JWK
  let trusted: string[]
  beforeAll(async () => {
    ctx = ctxOf(database())
    key = await newKey()
    trusted = [await thumbprintOf(key)]
  })
  const verified = (session: string, by: readonly string[] | undefined = trusted) =>
    verifyActivity(ctx, { tenantId: ACME, session, trusted: by })
  const anchored = async () => {
    const session = await recorded(ctx, database().run)
    now += 60_000
    expect(await makeCheckpoint(ctx, key)).toEqual(expect.any(Number))
    return session
  }

  test('anchor what moved since the last one, and nothing when nothing did', async () => {
    const { run } = database()
    const first = await anchored()
    now += 60_000
    expect(await makeCheckpoint(ctx, key)).toBeNull()
    const second = await anchored()
    const rows = await run<{ n: number; heads: { chain: string; seq: number }[] }>(
      'select n, heads from activity_checkpoint order by n',
    )
    expect(rows.map((r) => [r.n, r.heads.map((h) => [h.chain, h.seq])])).toEqual([
      [1, [[first, 6]]],
      [2, [[second, 6]]],
    ])
    const { ok, checkpoint } = await verified(first)
    expect([ok, checkpoint?.n, checkpoint?.key]).toEqual([true, 2, trusted[0]])
    expect(checkpoint?.public_jwk).not.toHaveProperty('d')
    expect(JSON.stringify(await run('select * from activity_checkpoint'))).not.toContain(key.d)
  })

  test('show a tail that was cut off together with the head that named it', async () => {
    const { run } = database()
    const session = await anchored()
    await tampering(
      run,
      `with cut as (delete from activity where chain = '${session}' and seq > 4)
       update session set chain_seq = 4,
         chain_hash = (select hash from activity where chain = '${session}' and seq = 4)
       where id = '${session}'`,
    )
    expect((await verified(session)).problems).toEqual([
      { chain: session, seq: 6, problem: 'anchored_missing' },
    ])
  })

  test('show a chain that was written anew from end to end', async () => {
    const { run } = database()
    const session = await anchored()
    const rows = await run<{ record: ActivityRecord }>(
      `select jsonb_strip_nulls(to_jsonb(a) - 'n' - 'xid' - 'chain') as record from activity a
       where chain = $1 order by seq`,
      [session],
    )
    let prev = ''
    for (const { record } of rows) {
      const forged = {
        ...record,
        at: new Date(record.at).toISOString(),
        data: { ...record.data, forged: true },
        prev_hash: prev,
      }
      const { hash: _, ...rest } = forged
      prev = hashOf(rest)
      await tampering(
        run,
        `update activity set data = '${JSON.stringify(forged.data)}', prev_hash = '${rest.prev_hash}', hash = '${prev}'
         where id = '${record.id}'`,
      )
    }
    await tampering(run, `update session set chain_hash = '${prev}' where id = '${session}'`)
    expect((await verified(session)).problems).toEqual([
      { chain: session, seq: 6, problem: 'anchored_missing' },
    ])
  })

  test('show that a session was removed with all its records', async () => {
    const { run } = database()
    const session = await anchored()
    await tampering(run, `delete from activity where chain = '${session}'`)
    for (const [table, column] of [
      ['access_grant', 'session_id'],
      ['request_item', 'session_id'],
      ['access_request', 'session_id'],
      ['session', 'id'],
    ])
      await tampering(run, `delete from ${table} where ${column} = '${session}'`)
    const { problems: found } = await verifyActivity(ctx, { tenantId: ACME, trusted })
    expect(found).toContainEqual({ chain: session, seq: 6, problem: 'anchored_missing' })
  })

  test('signed with a key that is not the trusted one are told apart', async () => {
    const session = await anchored()
    const other = [await thumbprintOf(await newKey())]
    const { ok, problems: found } = await verified(session, other)
    expect(ok).toBe(false)
    expect(new Set(found.map((p) => p.problem))).toEqual(new Set(['checkpoint_key_unknown']))
  })

  test('made at once by several writers do not fork', async () => {
    await recorded(ctx, database().run)
    now += 60_000
    const made = await Promise.all(Array.from({ length: 6 }, () => makeCheckpoint(ctx, key, 0)))
    expect(made.filter((n) => n !== null).length).toBeGreaterThan(0)
    const session = await anchored()
    expect(await verified(session)).toMatchObject({ ok: true, problems: [] })
  })

  test('altered, unlinked or removed themselves show', async () => {
    const { run } = database()
    const session = await anchored()
    await anchored()
    const [last] = await run<{ n: number }>('select max(n) as n from activity_checkpoint')
    const n = (last?.n ?? 0) - 1
    const broken = async (sql: string) => {
      await run('create table kept as select * from activity_checkpoint')
      await tampering(run, sql)
      const { problems: found } = await verified(session)
      await tampering(run, 'delete from activity_checkpoint')
      await run('insert into activity_checkpoint select * from kept')
      await run('drop table kept')
      return found.map((p) => [p.seq, p.problem])
    }
    expect(await broken(`update activity_checkpoint set heads = '[]' where n = ${n}`)).toEqual([
      [n, 'checkpoint_altered'],
    ])
    expect(
      await broken(`update activity_checkpoint set at = at + interval '1 s' where n = ${n}`),
    ).toEqual([[n, 'checkpoint_altered']])
    expect(await broken(`delete from activity_checkpoint where n = ${n}`)).toEqual([
      [n + 1, 'checkpoint_missing'],
    ])
    expect(await broken(`update activity_checkpoint set prev_hash = 'x' where n = ${n}`)).toEqual([
      [n, 'checkpoint_unlinked'],
    ])
    expect(await verified(session)).toMatchObject({ ok: true })
  })
})

describe('records offline', () => {
  const chain = (length: number, session: string): ActivityRecord[] => {
    let prev = ''
    return Array.from({ length }, (_, i) => {
      const rest = {
        id: `act_${session}_${i + 1}`,
        tenant_id: 'ten_acme',
        seq: i + 1,
        at: EPOCH,
        type: 'call.allowed' as const,
        agent_id: 'agt_a',
        user_id: 'usr_maya',
        session_id: session,
        root_session_id: session,
        data: { i },
        prev_hash: prev,
      }
      prev = hashOf(rest)
      return { ...rest, hash: prev }
    })
  }
  const whole = chain(5, 'ses_a')
  const at = (i: number): ActivityRecord => {
    const record = whole[i]
    if (record === undefined) throw new Error('no such record')
    return record
  }
  const found = (records: readonly ActivityRecord[]) =>
    verifyRecords(records).problems.map((p) => [p.seq, p.problem])

  test('verify side by side', () => {
    const other = chain(5, 'ses_b')
    const mixed = whole.flatMap((record, i) => [record, other[i] ?? record])
    expect(verifyRecords(mixed)).toEqual({ ok: true, chains: 2, records: 10, problems: [] })
  })

  test.each([
    ['a removed record', whole.filter((_, i) => i !== 2), [[4, 'missing_before']]],
    [
      'lines in another order',
      [at(0), at(2), at(1), at(3), at(4)],
      [
        [3, 'missing_before'],
        [2, 'out_of_order'],
      ],
    ],
    ['a record twice', [...whole, at(4)], [[5, 'out_of_order']]],
    [
      'a tampered record',
      whole.map((r, i) => (i === 1 ? { ...r, data: { i: 7 } } : r)),
      [[2, 'altered']],
    ],
    [
      'a member that was added',
      whole.map((r, i) => (i === 1 ? { ...r, note: 'x' } : r)),
      [[2, 'altered']],
    ],
    [
      'a member that was taken away',
      whole.map(({ template: _, agent_id: __, ...r }, i) => (i === 1 ? r : at(i))),
      [[2, 'altered']],
    ],
  ] as [string, ActivityRecord[], unknown[]][])('show %s', (_, records, expected) => {
    expect(found(records)).toEqual(expected)
    expect(verifyRecords(records).ok).toBe(false)
  })

  test('of an extract may have gaps, and each alone must still be whole', () => {
    const extract = [at(1), at(4)]
    expect(verifyRecords(extract, { extract: true }).ok).toBe(true)
    expect(verifyRecords([at(1), { ...at(4), data: {} }], { extract: true }).ok).toBe(false)
  })

  test('more problems than are listed still count', () => {
    const records = Array.from({ length: 400 }, (_, i) => ({ ...at(0), id: `x${i}` }))
    const verified = verifyRecords(records)
    expect([verified.ok, verified.problems.length]).toEqual([false, 200])
  })

  test('the root covers every head and its place, in whatever order they come', () => {
    const heads = ['a', 'b', 'c', 'd', 'e'].map((chain, seq) => ({
      tenant_id: ACME,
      chain,
      seq,
      hash: 'h',
    }))
    const root = merkleRoot(heads)
    expect(merkleRoot([...heads].reverse())).toBe(root)
    const roots = [
      root,
      ...heads.map((_, i) => merkleRoot(heads.map((h, j) => (i === j ? { ...h, seq: 9 } : h)))),
      ...heads.map((_, i) => merkleRoot(heads.filter((__, j) => i !== j))),
    ]
    expect(new Set(roots).size).toBe(11)
  })

  test('from a file: 0 when good, 1 when changed, 2 when a line is no record', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lend-'))
    const file = join(folder, 'export.ndjson')
    const out: string[] = []
    const check = async (lines: readonly string[]) => {
      await writeFile(file, `${lines.join('\n')}\n`)
      return verifyFile(file, (line) => void out.push(line))
    }
    const good = whole.map((record) => JSON.stringify(record))
    expect(await check(good)).toBe(0)
    expect(await check(good.slice(1))).toBe(1)
    expect(await check(good.map((line) => line.replace('ses_a_3', 'ses_a_9')))).toBe(1)
    expect(await check([...good, '{"id": 1}'])).toBe(2)
    expect(await check(['not json'])).toBe(2)
    expect(out).toEqual([
      'ok: 5 records in 1 chains',
      'ses_a #2 (act_ses_a_2): missing_before',
      'NOT ok: 4 records in 1 chains',
      'ses_a #3 (act_ses_a_9): altered',
      'NOT ok: 5 records in 1 chains',
      'line 6 is no activity record',
      'line 1 is no activity record',
    ])
    await rm(folder, { recursive: true })
  })
})

eachDatabase('lend verify-activity on a database', (database) => {
  test('says for each tenant what it found, and by whose key it is anchored', async () => {
    const { run } = database()
    const ctx = ctxOf(database())
    const session = await recorded(ctx, run)
    const out: string[] = []
    const check = (of: { tenant?: string; trusted?: string[] } = {}) =>
      verifyDatabase(ctx, (line) => void out.push(line), of)
    expect(await check({ tenant: 'acme' })).toBe(0)
    const key = await newKey()
    await makeCheckpoint(ctx, key)
    expect(await check({ tenant: 'acme', trusted: [await thumbprintOf(key)] })).toBe(0)
    expect(await check({ tenant: 'acme', trusted: ['other'] })).toBe(1)
    await tampering(run, `delete from activity where chain = '${session}' and seq = 2`)
    expect(await check()).toBe(1)
    expect(await check({ tenant: 'nobody' })).toBe(2)
    expect(out.join('\n')).toContain(`signed with key ${await thumbprintOf(key)}`)
    expect(out).toContain('no checkpoint yet: what was cut off at the end does not show')
    expect(
      out.some((line) => line.startsWith(`${session} #3`) && line.endsWith('missing_before')),
    ).toBe(true)
  })
})
