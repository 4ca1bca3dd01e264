import type { JWK } from 'jose'
import { beforeAll, expect, test } from 'vitest'
import { verifyDatabase } from '../../src/cli/verify-activity.ts'
import type { ActivityRecord } from '../../src/core/activity.ts'
import { hashOf } from '../../src/db/activity.ts'
import { makeCheckpoint, thumbprintOf } from '../../src/flows/checkpoint.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import type { Ctx } from '../../src/ports.ts'
import { eachDatabase } from '../support/databases.ts'
import { ACME, advance, ctxOf, newKey, recorded, tampering } from './support/chain.ts'

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
    advance(60)
    expect(await makeCheckpoint(ctx, key)).toEqual(expect.any(Number))
    return session
  }

  test('anchor what moved since the last one, and nothing when nothing did', async () => {
    const { run } = database()
    const first = await anchored()
    advance(60)
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
    advance(60)
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
