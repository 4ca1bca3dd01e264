import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TenantId } from '../../src/core/vocabulary.ts'
import { tenantCtx, waitingForShares } from '../../src/db/shares.ts'
import { onTakenBack, takesBack } from '../../src/db/taken-back.ts'
import { type Db, withTx } from '../../src/db/tx.ts'
import { isOutage } from '../../src/fault.ts'
import type { Ctx } from '../../src/ports.ts'
import { openPostgres } from '../support/databases.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'

/** One tenant's flood leaves the others room: of four connections it has two, whatever it sends. */
const CONNECTIONS = 4
const SHARE = 2

describe.skipIf(postgresIsLeftOut)('connections', () => {
  let scratch: Scratch
  let db: Db
  const of = (id: string): Ctx => tenantCtx({ db } as Ctx, { id: id as TenantId })

  beforeAll(async () => {
    scratch = await scratchDatabase()
    db = openPostgres(scratch.url, CONNECTIONS)
  })
  afterAll(async () => {
    await db.close()
    await scratch.drop()
  })

  /** Transactions of a tenant that stay open until they are let go. */
  function flood(ctx: Ctx, count: number) {
    let begun = 0
    let isOver = false
    const all = Array.from({ length: count }, () =>
      withTx(ctx.db, 'flood', async (tx) => {
        await tx.sql`select 1`
        begun++
        // A transaction that says nothing is taken for lost.
        while (!isOver) {
          await new Promise((done) => setTimeout(done, 50))
          await tx.sql`select 1`
        }
      }),
    )
    const end = () => {
      isOver = true
      return Promise.all(all)
    }
    return { begun: () => begun, end }
  }
  async function until(what: () => boolean): Promise<void> {
    const end = performance.now() + 10_000
    while (!what()) {
      if (performance.now() > end) throw new Error('it never came about')
      await new Promise((done) => setTimeout(done, 5))
    }
  }
  const one = (ctx: Ctx) =>
    withTx(ctx.db, 'one', async (tx) => (await tx.sql<{ n: number }>`select 7 as n`)[0]?.n)

  test('while one tenant holds all it may, another is served at once, and so is background work', async () => {
    const ctx = { db } as Ctx
    const flooding = flood(tenantCtx(ctx, { id: 'ten_a' as TenantId }), 40)
    await until(() => flooding.begun() === SHARE)
    expect(waitingForShares(db)).toBe(40 - SHARE)
    expect(await one(tenantCtx(ctx, { id: 'ten_b' as TenantId }))).toBe(7)
    expect(await one(ctx)).toBe(7)
    expect(flooding.begun()).toBe(SHARE)
    await flooding.end()
    expect(flooding.begun()).toBe(40)
    expect(waitingForShares(db)).toBe(0)
  })

  test('a place comes free also when a transaction fails', async () => {
    const ctx = of('ten_c')
    const failing = Array.from({ length: 10 }, () =>
      withTx(ctx.db, 'fails', () => Promise.reject(new Error('no'))).catch(() => 'failed'),
    )
    expect(new Set(await Promise.all(failing))).toEqual(new Set(['failed']))
    expect(await one(ctx)).toBe(7)
  })

  test('who waits too long is told so as by a database that takes nobody more', async () => {
    const ctx = of('ten_d')
    const flooding = flood(ctx, SHARE)
    await until(() => flooding.begun() === SHARE)
    const late = await one(ctx).catch((error: unknown) => error)
    expect(isOutage(late)).toBe(true)
    await flooding.end()
    expect(await one(ctx)).toBe(7)
  }, 20_000)

  test('what is taken back through a share is heard by whoever listens to the whole', async () => {
    let heard = 0
    const stop = onTakenBack(db, async () => void heard++)
    await withTx(of('ten_a').db, 'takes', async (tx) => takesBack(tx))
    stop()
    expect(heard).toBe(1)
  })
})
