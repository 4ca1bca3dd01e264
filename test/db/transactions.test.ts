import { type AddressInfo, createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sqlState } from '../../src/db/sql-error.ts'
import { type Db, hotTx, postgresDb, type Tx, withRead, withTx } from '../../src/db/tx.ts'
import { eachDatabase } from '../support/databases.ts'
import { postgresIsLeftOut, scratchDatabase } from '../support/postgres.ts'
import { through, wireTo } from '../support/wire.ts'

const rows = async (db: Db): Promise<number[]> =>
  (await db.alone.sql<{ n: number }>`select n from counted order by n`).map((row) => row.n)

/** What `withTx` answered, or the SQLSTATE or message of what it threw. */
const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    (value) => value,
    (error) => sqlState(error) ?? (error as Error).message,
  )

eachDatabase('a transaction', (database) => {
  beforeAll(async () => {
    await database().run('create table if not exists counted (n integer primary key)')
  })

  it('keeps what was deferred with what was awaited', async () => {
    const { db } = database()
    const value = await withTx(db, 'test', async (tx) => {
      tx.later`insert into counted values (1)`
      await tx.sql`insert into counted values (2)`
      tx.later`insert into counted values (3)`
      return 'kept'
    })
    expect(value).toBe('kept')
    expect(await rows(db)).toEqual([1, 2, 3])
  })

  it('keeps nothing when a deferred statement fails, and says which', async () => {
    const { db } = database()
    const before = await rows(db)
    const failed = withTx(db, 'test', async (tx) => {
      await tx.sql`insert into counted values (10)`
      tx.later`insert into counted values (1)`
      return 'not reached'
    })
    expect(await outcome(failed)).toBe('23505')
    expect(await rows(db)).toEqual(before)
  })

  it('names the deferred statement that failed, not the one that found the transaction aborted', async () => {
    const { db } = database()
    const before = await rows(db)
    const failed = withTx(db, 'test', async (tx) => {
      tx.later`insert into counted values (1)`
      await tx.sql`insert into counted values (11)`
    })
    expect(await outcome(failed)).toBe('23505')
    expect(await rows(db)).toEqual(before)
  })

  it('is no success when its body swallowed an error', async () => {
    const { db } = database()
    const before = await rows(db)
    const failed = withTx(db, 'test', async (tx) => {
      await tx.sql`insert into counted values (12)`
      await tx.sql`insert into counted values (1)`.catch(() => undefined)
      return 'swallowed'
    })
    expect(await outcome(failed)).not.toBe('swallowed')
    expect(await rows(db)).toEqual(before)
  })

  it('undoes everything when its body throws, and the next one is untouched by it', async () => {
    const { db } = database()
    const before = await rows(db)
    const failed = withTx(db, 'test', async (tx) => {
      tx.later`insert into counted values (13)`
      throw new Error('changed my mind')
    })
    expect(await outcome(failed)).toBe('changed my mind')
    expect(await rows(db)).toEqual(before)
    await withTx(db, 'test', (tx) => tx.sql`insert into counted values (14)`)
    expect(await rows(db)).toEqual([...before, 14])
  })
})

describe.skipIf(postgresIsLeftOut)('connections of transactions on a Postgres server', () => {
  let scratch: Awaited<ReturnType<typeof scratchDatabase>>
  const opened: Db[] = []
  const open = (seats: number): Db => {
    const db = postgresDb(scratch.url, { readers: 1, seats })
    opened.push(db)
    return db
  }
  const killOther = (db: Db, pid: number) => db.alone.sql`select pg_terminate_backend(${pid}::int)`
  const pidIn = async (tx: Tx): Promise<number> =>
    (await tx.sql<{ pid: number }>`select pg_backend_pid() as pid`)[0]?.pid ?? 0

  beforeAll(async () => {
    scratch = await scratchDatabase()
    const db = open(1)
    await db.begin('test', (tx) => tx.sql`create table counted (n integer primary key)`)
  })
  afterAll(async () => {
    for (const db of opened) await db.close()
    await scratch.drop()
  })

  it('a connection lost in the middle: nothing before or after the loss is kept, and the next transaction works', async () => {
    const db = open(1)
    let afterwards: Promise<unknown> | undefined
    const lost = db.begin('test', async (tx) => {
      await tx.sql`insert into counted values (20)`
      const pid = await pidIn(tx)
      await killOther(db, pid)
      // Longer than it takes to notice and, were it tried, to connect again.
      await new Promise((done) => setTimeout(done, 300))
      afterwards = outcome(tx.sql`insert into counted values (21)`)
      await afterwards
      return 'went on'
    })
    expect(['57P01', 'CONNECTION_CLOSED']).toContain(await outcome(lost))
    await new Promise((done) => setTimeout(done, 400))
    expect(await afterwards).not.toEqual([])
    expect(await rows(db)).toEqual([])
    expect(
      await outcome(db.begin('test', (tx) => tx.sql`insert into counted values (22)`)),
    ).toEqual([])
    await db.begin('test', (tx) => tx.sql`delete from counted`)
  })

  it('a connection lost between two transactions is replaced', async () => {
    const db = open(1)
    const pid = await db.begin('test', pidIn)
    await killOther(db, pid)
    await new Promise((done) => setTimeout(done, 100))
    expect(await db.begin('test', pidIn)).not.toBe(pid)
  })

  it('a hot flow’s statements are planned once, and the connection is as it was afterwards', async () => {
    const db = open(1)
    const one = (tx: Tx, n: number) =>
      tx.sql`select n from counted where n = any(${[n]}::integer[])`
    const plans = (tx: Tx) =>
      tx.sql<{ generic: number; custom: number }>`
        select generic_plans::integer as generic, custom_plans::integer as custom
        from pg_prepared_statements where statement like 'select n from counted where n = any%'`
    for (let n = 0; n < 8; n++) await hotTx(db, 'test', (tx) => one(tx, n))
    expect(await withTx(db, 'test', plans)).toEqual([{ generic: 8, custom: 0 }])
    await expect(hotTx(db, 'test', (tx) => tx.sql`select 1 / 0`)).rejects.toThrow(
      'division by zero',
    )
    for (const open of [withTx, hotTx])
      await open(db, 'test', async (tx) => {
        const [set] = await tx.sql<{ mode: string; cost: string }>`
          select current_setting('plan_cache_mode') as mode, current_setting('random_page_cost') as cost`
        expect(set?.mode).toBe(open === hotTx ? 'force_generic_plan' : 'auto')
      })
  })

  it('those that find no connection free wait in line and all come through', async () => {
    const db = open(2)
    const all = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        db.begin('test', async (tx) => {
          await tx.sql`insert into counted values (${i})`
          return i
        }),
      ),
    )
    expect(all).toHaveLength(30)
    expect(await rows(db)).toHaveLength(30)
    await db.begin('test', (tx) => tx.sql`delete from counted`)
  })

  it('losing every connection strands nobody who waits in line', async () => {
    const db = open(2)
    const killed = Array.from({ length: 12 }, () =>
      outcome(
        db.begin('test', async (tx) => {
          const pid = await pidIn(tx)
          await killOther(db, pid)
          await tx.sql`select pg_sleep(5)`
        }),
      ),
    )
    for (const one of await Promise.all(killed))
      expect(['57P01', 'CONNECTION_CLOSED']).toContain(one)
    expect(await db.begin('test', pidIn)).toBeGreaterThan(0)
  })

  it('no server: everyone in line is told so', async () => {
    const nowhere = postgresDb('postgres://postgres@127.0.0.1:1/none', { readers: 1, seats: 2 })
    const told = await Promise.all(
      Array.from({ length: 6 }, () => outcome(nowhere.begin('test', async () => 'begun'))),
    )
    for (const one of told) expect(one).toBe('ECONNREFUSED')
    await nowhere.close()
  })

  it('a server that hangs up without a word: everyone is told so, whatever they asked', async () => {
    const rude = createServer((socket) => socket.end())
    await new Promise<void>((done) => rude.listen(0, '127.0.0.1', done))
    const { port } = rude.address() as AddressInfo
    const db = postgresDb(`postgres://postgres@127.0.0.1:${port}/none`, { readers: 1, seats: 2 })
    const told = await Promise.all([
      ...Array.from({ length: 6 }, () => outcome(db.begin('test', async () => 'begun'))),
      ...Array.from({ length: 6 }, () => outcome(withRead(db, 'test', pidIn))),
    ])
    for (const one of told) expect(one).toBe('CONNECTION_CLOSED')
    await db.close()
    rude.close()
  })

  it('a server that falls silent is waited for so long and no longer, and is found again', async () => {
    const wire = await wireTo(Number(new URL(scratch.url).port || 5432))
    const url = through(scratch.url, wire.port)
    const db = postgresDb(url, { readers: 1, seats: 2, patienceMillis: 300 })
    const all = (count: number) =>
      Promise.all([
        ...Array.from({ length: count }, () => outcome(db.begin('test', pidIn))),
        ...Array.from({ length: count }, () => outcome(withRead(db, 'test', pidIn))),
      ])
    for (const one of await all(3)) expect(one).toBeGreaterThan(0)
    wire.stall()
    // Those on a connection, those in line, and those who come when it has been given up.
    for (let round = 0; round < 3; round++)
      for (const one of await all(6))
        expect(['CONNECTION_CLOSED', 'CONNECT_TIMEOUT']).toContain(one)
    wire.mend()
    await expect
      .poll(async () => (await all(1)).every(Number.isInteger), { timeout: 5_000 })
      .toBe(true)
    await db.close()
    await wire.close()
  })

  it('a connection that is made for who waited long in line is theirs, and stays in use', async () => {
    const wire = await wireTo(Number(new URL(scratch.url).port || 5432))
    const url = through(scratch.url, wire.port)
    const db = postgresDb(url, { readers: 1, seats: 1, patienceMillis: 1_000 })
    const wait = (millis: number) => new Promise((done) => setTimeout(done, millis))
    let isSilent = false
    const silent = outcome(
      db.begin('test', async (tx) => {
        await pidIn(tx)
        isSilent = true
        await wait(5_000)
      }),
    )
    await expect.poll(() => isSilent).toBe(true)
    await wait(200)
    // Its turn comes when the silent one is given up, and the new connection takes longer than it would still have waited.
    const [first, second] = [outcome(db.begin('test', pidIn)), outcome(db.begin('test', pidIn))]
    wire.slow(100)
    expect(await silent).toBe('CONNECTION_CLOSED')
    expect(await first).toBeGreaterThan(0)
    wire.mend()
    // Who stood behind has either had the connection or run out of patience; it did not take the place of another.
    expect([true, 'CONNECTION_CLOSED']).toContain(
      await second.then((one) => Number(one) > 0 || one),
    )
    expect(await outcome(db.begin('test', pidIn))).toBeGreaterThan(0)
    expect(db.connections()).toMatchObject({ open: 1, busy: 0, waiting: 0 })
    await db.close()
    await wire.close()
  }, 20_000)

  it('a statement after the end of its transaction is refused, so nothing is written beside it', async () => {
    const db = open(1)
    const kept = await db.begin('test', async (tx) => tx)
    await expect(kept.sql`insert into counted values (99)`).rejects.toThrow('over')
    expect(await rows(db)).toEqual([])
  })
})
