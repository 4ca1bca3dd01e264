import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Db } from '../../src/db/tx.ts'
import { RATE_LIMITS, type RateLimit } from '../../src/ports.ts'
import { createRates } from '../../src/rates.ts'
import { openPostgres, runOn } from '../support/databases.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'

/** Limits over instances: what one has counted stops the others, and a store that is gone opens and stops nothing. */
const LIMIT = 100
/** What an instance may let through before it tells: a tenth. */
const PART = LIMIT / 10
const aMinute = Object.fromEntries(RATE_LIMITS.map((limit) => [limit, LIMIT])) as Record<
  RateLimit,
  number
>

const spend = async (rates: ReturnType<typeof createRates>, key: string, times: number) => {
  let through = 0
  for (let i = 0; i < times; i++) if ((await rates.take('person', key)) === null) through++
  return through
}

async function until(what: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 10_000
  while (!(await what())) {
    if (performance.now() > end) throw new Error('it never came about')
    await new Promise((done) => setTimeout(done, 10))
  }
}

describe.skipIf(postgresIsLeftOut)('instances on one server', () => {
  let scratch: Scratch
  let one: Db
  let two: Db
  beforeAll(async () => {
    scratch = await scratchDatabase()
    one = openPostgres(scratch.url, 2)
    two = openPostgres(scratch.url, 2)
  })
  afterAll(async () => {
    await Promise.all([one.close(), two.close()])
    await scratch.drop()
  })
  const told = async (key: string) => {
    const rows = await runOn(one)<{ points: number }>(
      'select points from rate_count where key = $1',
      [`person:${key}`],
    )
    return rows[0]?.points ?? 0
  }

  test('what one has let through, the other does not let through again', async () => {
    const [a, b] = [createRates({ aMinute, db: one }), createRates({ aMinute, db: two })]
    expect(await spend(a, 'usr_1', LIMIT + 5)).toBe(LIMIT)
    await until(async () => (await told('usr_1')) === LIMIT)
    expect(await spend(b, 'usr_1', PART)).toBe(PART)
    await until(async () => (await b.look('person', 'usr_1')) !== null)
    expect(await spend(b, 'usr_1', 50)).toBe(0)
    const wait = await b.take('person', 'usr_1')
    expect(wait).toBeGreaterThanOrEqual(1)
    expect(wait).toBeLessThanOrEqual(60)
    expect(await spend(b, 'usr_2', 5)).toBe(5)
  })

  test('whoever asks rarely costs no statement, and others one in ten requests', async () => {
    const rates = createRates({ aMinute, db: one })
    const before = one.statements()
    await spend(rates, 'usr_rare', PART - 1)
    expect(one.statements()).toBe(before)
    await spend(rates, 'usr_often', 50)
    await until(async () => (await told('usr_often')) === 50)
    const rows = await runOn(one)(`select 1 from rate_count where key = 'person:usr_rare'`)
    expect(rows).toEqual([])
  })

  test('counts whose minute is over are swept away', async () => {
    const { deleteOldRates } = await import('../../src/db/rate-store.ts')
    await runOn(one)(`insert into rate_count values ('person:usr_old', 5, 1000)`)
    const gone = await one.begin('test', (tx) => deleteOldRates(tx, { before: 2, limit: 10 }))
    expect(gone).toBe(1)
    expect(await told('usr_1')).toBeGreaterThan(0)
  })
})

describe('a store that is not there', () => {
  const failing = (begin: Db['begin']): Db => ({ kind: 'server', begin }) as Partial<Db> as Db

  test('fails: each instance holds the whole limit by itself, and says that it does', async () => {
    let unshared = 0
    const rates = createRates({
      aMinute,
      db: failing(() => Promise.reject(new Error('gone'))),
      observe: { rateLimited: () => {}, rateUnshared: () => unshared++ },
    })
    expect(await spend(rates, 'usr_1', LIMIT * 2)).toBe(LIMIT)
    expect(unshared).toBeGreaterThan(0)
  })

  test('never answers: nobody waits for it, and it is asked once at a time for a key', async () => {
    let asked = 0
    const begin = () => {
      asked++
      return new Promise<never>(() => {})
    }
    const rates = createRates({ aMinute, db: failing(begin) })
    expect(await spend(rates, 'usr_1', LIMIT * 2)).toBe(LIMIT)
    expect(asked).toBe(1)
  })
})
