import type { JWK } from 'jose'
import { beforeAll, expect, test } from 'vitest'
import { verifyDatabase } from '../../src/cli/verify-activity.ts'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { Journal } from '../../src/db/activity.ts'
import { makeCheckpoint, thumbprintOf } from '../../src/flows/checkpoint.ts'
import { cutOldestPart, prepareMonths } from '../../src/flows/retention.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import type { Ctx } from '../../src/ports.ts'
import { asAgent, ask, exchange, inTx, must, start } from '../race/support/instances.ts'
import { eachDatabase } from '../support/databases.ts'
import { EPOCH } from '../support/world-seed.ts'
import { ACME, ctxOf, newKey, recorded, tampering } from './support/chain.ts'

const HOUR = 3600
const DAY = 24 * HOUR
const DECEMBER = '2026-12-01T00:00:00.000Z'

/**
 * The record goes by whole months, and what stays verifies by what a checkpoint signed (SPEC section 11). November's last day
 * has a session that is over in it, and one that goes on into December; the organisation's own chain goes through.
 */
eachDatabase('the record’s retention', (database) => {
  let ctx: Ctx
  let key: JWK
  let trusted: string[]
  let now = Date.parse(EPOCH)
  const advance = (seconds: number): void => {
    now += seconds * 1000
  }
  const sessions: { over?: SessionId; across?: SessionId; later?: SessionId } = {}
  const named = (name: keyof typeof sessions): SessionId => {
    const id = sessions[name]
    if (id === undefined) throw new Error(`no session ${name}`)
    return id
  }
  const chainOf = (chain: string) =>
    database()
      .run<{ seq: number }>('select seq from activity where chain = $1 order by seq', [chain])
      .then((rows) => rows.map(({ seq }) => seq))
  const note = () =>
    inTx(ctx, async (tx) => {
      const journal = new Journal(ctx, ACME)
      journal.tenant('admin.changed', { what: 'test' })
      await journal.write(tx)
    })
  const anchor = async () => {
    advance(60)
    await makeCheckpoint(ctx, key)
  }
  const verify = () => verifyActivity(ctx, { tenantId: ACME, trusted })
  const found = async () => (await verify()).problems.map((p) => [p.chain, p.seq, p.problem])

  beforeAll(async () => {
    ctx = { ...ctxOf(database()), clock: { now: () => now } }
    key = await newKey()
    trusted = [await thumbprintOf(key)]
    await prepareMonths(ctx)
    const { run } = database()
    sessions.over = await recorded(ctx, run)
    await note()
    await anchor()
    advance((Date.parse(DECEMBER) - Date.parse(EPOCH)) / 1000 - HOUR)
    sessions.across = await recorded(ctx, run)
    advance(HOUR)
    // Nobody anchored it as November left it: it went on before the next checkpoint.
    must(await ask(ctx, await asAgent(run, sessions.across), [{ permission: 'accounts:read' }]))
    await note()
    await anchor()
    sessions.later = await recorded(ctx, run)
    await anchor()
  })

  test('nothing goes before its time', async () => {
    expect(await cutOldestPart(ctx, { key, keptMonths: 1 })).toBeNull()
    advance(30 * DAY)
    expect(await cutOldestPart(ctx, { key, keptMonths: 1 })).toBeNull()
    expect(await verify()).toMatchObject({ ok: true, problems: [] })
  })

  test('what goes before a checkpoint is committed has not gone', async () => {
    advance(15 * DAY)
    const { run } = database()
    const failing: Ctx = {
      ...ctx,
      db: {
        ...ctx.db,
        begin: (label, body, planned) =>
          ctx.db.begin(
            label,
            async (tx) => {
              await body(tx)
              throw new Error('killed')
            },
            planned,
          ),
      },
    }
    await expect(cutOldestPart(failing, { key, keptMonths: 1 })).rejects.toThrow('killed')
    expect(await chainOf(named('over'))).toHaveLength(6)
    expect(await run('select from activity_checkpoint where cut is not null')).toEqual([])
  })

  test('a month goes once, whole, whoever comes first, and the rest verifies', async () => {
    const before = await chainOf(named('across'))
    const cuts = await Promise.all([
      cutOldestPart(ctx, { key, keptMonths: 1 }),
      cutOldestPart(ctx, { key, keptMonths: 1 }),
    ])
    expect(cuts.toSorted()).toEqual([DECEMBER, null])
    const { run } = database()
    expect(await run('select from activity where at < $1::text::timestamptz', [DECEMBER])).toEqual(
      [],
    )
    expect(
      await run('select from activity_permission where at < $1::text::timestamptz', [DECEMBER]),
    ).toEqual([])
    expect(await chainOf(named('over'))).toEqual([])
    const after = await chainOf(named('across'))
    expect(before.slice(0, 6)).toEqual([1, 2, 3, 4, 5, 6])
    expect(after).toEqual(before.slice(6))
    expect(after.length).toBeGreaterThan(0)
    expect(await chainOf(named('later'))).toEqual([1, 2, 3, 4, 5, 6])
    expect(await verify()).toMatchObject({ ok: true, problems: [], cut_before: DECEMBER })
    const out: string[] = []
    expect(
      await verifyDatabase(ctx, (line) => void out.push(line), { tenant: 'acme', trusted }),
    ).toBe(0)
    expect(out).toContain(`records before ${DECEMBER} went with their months`)
  })

  test('a chain that went as a whole may go on', async () => {
    const refused = await exchange(ctx, { sessionId: named('over') })
    expect(refused.ok).toBe(false)
    const rows = await chainOf(named('over'))
    expect(rows).toEqual([7])
    expect(await verify()).toMatchObject({ ok: true, problems: [] })
  })

  test('the months to come have their parts', async () => {
    await prepareMonths(ctx)
    const parts = await database().run<{ part: string }>(
      'select part from activity_months order by ends',
    )
    expect(parts.map(({ part }) => part)).toEqual(
      expect.arrayContaining(['activity_2027_01', 'activity_2027_02', 'activity_2027_03']),
    )
    const session = await start(ctx)
    const [row] = await database().run<{ part: string }>(
      'select tableoid::regclass::text as part from activity where chain = $1 limit 1',
      [session],
    )
    expect(row?.part).toBe('activity_2027_01')
  })

  /** Each is undone, so that the next stands on a sound record. */
  const broken = async (sql: string): Promise<unknown[][]> => {
    const { run } = database()
    const tables = ['activity', 'activity_checkpoint']
    for (const table of tables) await run(`create table kept_${table} as select * from ${table}`)
    await tampering(run, sql)
    const problems = await found()
    for (const table of tables) {
      await tampering(run, `delete from ${table}`)
      const system = table === 'activity' ? 'overriding system value' : ''
      await tampering(run, `insert into ${table} ${system} select * from kept_${table}`)
      await run(`drop table kept_${table}`)
    }
    return problems
  }

  test('a cut does not excuse what was removed after it', async () => {
    const across = named('across')
    const later = named('later')
    const [first = 0] = await chainOf(across)
    expect(await broken(`delete from activity where chain = '${later}'`)).toContainEqual([
      later,
      6,
      'anchored_missing',
    ])
    expect(
      await broken(`delete from activity where chain = '${later}' and seq <= 2`),
    ).toContainEqual([later, 3, 'missing_before'])
    expect(
      await broken(`delete from activity where chain = '${across}' and seq = ${first}`),
    ).toContainEqual([across, first + 1, 'missing_before'])
    expect(await broken(`delete from activity where chain = '${across}'`)).toContainEqual([
      across,
      expect.any(Number),
      'anchored_missing',
    ])
    expect(await verify()).toMatchObject({ ok: true })
  })

  test('a cut that nobody signed, or that says another time or heads, shows', async () => {
    const [row] = await database().run<{ n: number }>(
      'select n from activity_checkpoint where cut is not null',
    )
    const n = row?.n ?? 0
    const altered = ['checkpoint', n, 'checkpoint_altered']
    for (const sql of [
      `update activity_checkpoint set cut = null where n = ${n}`,
      `update activity_checkpoint set cut = jsonb_set(cut, '{before}', '"2027-01-01T00:00:00.000Z"') where n = ${n}`,
      `update activity_checkpoint set cut = jsonb_set(cut, '{heads}', '[]') where n = ${n}`,
      `update activity_checkpoint set cut = jsonb_set(cut, '{heads,0,seq}', '99') where n = ${n}`,
    ])
      expect(await broken(sql)).toContainEqual(altered)
    const forged = JSON.stringify({ before: '2027-01-01T00:00:00.000Z', heads: [], root: '' })
    expect(
      await broken(
        `update activity_checkpoint set cut = '${forged}' where n = (select max(n) from activity_checkpoint)`,
      ),
    ).toContainEqual(['checkpoint', expect.any(Number), 'checkpoint_altered'])
    expect(await verify()).toMatchObject({ ok: true })
  })
})
