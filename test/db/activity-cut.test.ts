import type { JWK } from 'jose'
import { beforeAll, expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { makeCheckpoint, thumbprintOf } from '../../src/flows/checkpoint.ts'
import { cutOldestPart, prepareMonths } from '../../src/flows/retention.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import type { Ctx } from '../../src/ports.ts'
import { exchange } from '../race/support/instances.ts'
import { eachDatabase } from '../support/databases.ts'
import { ACME, ctxOf, newKey, recorded, tampering } from './support/chain.ts'

const CUT = '2026-12-01T00:00:00.000Z'

/** A record of November and later, with a clock that each test sets. */
function recordOf(database: Parameters<Parameters<typeof eachDatabase>[1]>[0]) {
  let now = Date.parse('2026-11-20T12:00:00Z')
  let key: JWK
  let ctx: Ctx
  const made = {
    at: (time: string): void => {
      now = Date.parse(time)
    },
    session: () => recorded(ctx, database().run),
    /** A session that is over still gets a record of whoever asks for a token of it. */
    goOn: async (sessionId: SessionId) => {
      expect((await exchange(ctx, { sessionId })).ok).toBe(false)
    },
    anchor: () => makeCheckpoint(ctx, key),
    cut: () => cutOldestPart(ctx, { key, keptMonths: 1 }),
    found: async () => {
      const trusted = [await thumbprintOf(key)]
      const { problems } = await verifyActivity(ctx, { tenantId: ACME, trusted })
      return problems.map((p) => [p.chain, p.seq, p.problem])
    },
  }
  beforeAll(async () => {
    ctx = { ...ctxOf(database()), clock: { now: () => now } }
    key = await newKey()
    await prepareMonths(ctx)
  })
  return made
}

eachDatabase('a cut after a time in which nothing ran', (database) => {
  const record = recordOf(database)

  test('what was anchored days after its month went with it, and what stays verifies', async () => {
    await record.session()
    await record.anchor()
    record.at('2026-11-30T23:59:00Z')
    await record.session()
    const across = await record.session()
    // Everything was switched off in the month's last minute, for five days.
    record.at('2026-12-05T08:00:00Z')
    await record.goOn(across)
    await record.anchor()
    record.at('2027-01-15T12:00:00Z')
    expect(await record.cut()).toBe(CUT)
    expect(await record.found()).toEqual([])
  })

  test('so did what the checkpoint of the cut itself is the first to anchor', async () => {
    const last = await record.session()
    // Nothing ran for three months.
    record.at('2027-04-15T12:00:00Z')
    await record.goOn(last)
    while ((await record.cut()) !== null);
    expect(await record.found()).toEqual([])
  })
})

eachDatabase('a cut that was made to say more than went', (database) => {
  const record = recordOf(database)
  let across: SessionId

  beforeAll(async () => {
    record.at('2026-11-30T12:00:00Z')
    across = await record.session()
    await record.anchor()
    record.at('2026-12-03T12:00:00Z')
    await record.session()
    await record.anchor()
    record.at('2027-01-15T12:00:00Z')
  })

  test('a month whose end somebody moved does not go', async () => {
    const { run } = database()
    const months = (ends: string) =>
      run(
        `update activity_months set ends = $1::text::timestamptz where part = 'activity_2026_12'`,
        [ends],
      )
    await months('2026-11-30T00:00:00Z')
    await expect(record.cut()).rejects.toThrow('a month holds what is later than its end')
    await months('2027-01-01T00:00:00Z')
    expect(await record.found()).toEqual([])
  })

  test('a record that was put in before it excuses nothing that came after', async () => {
    const { run } = database()
    await record.goOn(across)
    await record.anchor()
    // Inserting needs no more than the server's own rights.
    await run(`insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id, data, prev_hash, hash)
      select 'act_forged', tenant_id, chain, 9999, at, type, agent_id, user_id, session_id, root_session_id, data, prev_hash, 'forged'
      from activity where chain = '${across}' and seq = 1`)
    expect(await record.cut()).toBe(CUT)
    await tampering(run, `delete from activity where chain = '${across}'`)
    expect(await record.found()).toContainEqual([across, expect.any(Number), 'anchored_missing'])
  })
})

eachDatabase('a clock that was far ahead once', (database) => {
  const record = recordOf(database)

  test('does not keep what comes after from being anchored', async () => {
    record.at('2027-11-20T12:00:00Z')
    await record.session()
    expect(await record.anchor()).toBe(1)
    record.at('2026-11-20T13:00:00Z')
    const session = await record.session()
    expect(await record.anchor()).toBe(2)
    await tampering(database().run, `delete from activity where chain = '${session}'`)
    expect(await record.found()).toContainEqual([session, 6, 'anchored_missing'])
  })
})
