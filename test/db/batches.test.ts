import { describe, expect, it } from 'vitest'
import { createBatches, shareRead } from '../../src/db/batches.ts'
import type { Db } from '../../src/db/tx.ts'

const TENANT = { id: 'ten_1' }
const later = (millis = 1) => new Promise((done) => setTimeout(done, millis))

describe('work that shares a transaction', () => {
  it('one alone starts at once; what comes meanwhile goes together, in order, at most so many', async () => {
    const ran: number[][] = []
    const batches = createBatches<typeof TENANT, number, number>(
      async (_, items) => {
        ran.push([...items])
        await later()
        return items.map((n) => n * 10)
      },
      { most: 3, atOnce: 1 },
    )
    const all = await Promise.all([1, 2, 3, 4, 5].map((n) => batches(TENANT, n)))
    expect(all).toEqual([10, 20, 30, 40, 50])
    expect(ran).toEqual([[1], [2, 3, 4], [5]])
  })

  it('one that cannot be done takes no other with it', async () => {
    const batches = createBatches<typeof TENANT, number, number>(
      async (_, items) => {
        await later()
        if (items.includes(3)) throw new Error('not three')
        return items
      },
      { most: 10, atOnce: 1 },
    )
    const all = await Promise.allSettled([1, 2, 3, 4].map((n) => batches(TENANT, n)))
    expect(all.map((one) => one.status)).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
    ])
  })

  it('an outage is told to all at once: nothing is tried again that may have been committed', async () => {
    let runs = 0
    const batches = createBatches<typeof TENANT, number, number>(
      async (_, items) => {
        runs++
        await later()
        if (items.length > 1) throw Object.assign(new Error('gone'), { code: 'CONNECTION_CLOSED' })
        return items
      },
      { most: 10, atOnce: 1 },
    )
    const all = await Promise.allSettled([1, 2, 3].map((n) => batches(TENANT, n)))
    expect(all.map((one) => one.status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(runs).toBe(2)
  })

  it('tenants do not wait for each other', async () => {
    const seen: string[] = []
    const batches = createBatches<{ id: string }, number, string>(
      async ({ id }, items) => {
        await later(id === 'slow' ? 60 : 1)
        seen.push(id)
        return items.map(() => id)
      },
      { most: 10, atOnce: 1 },
    )
    await Promise.all([batches({ id: 'slow' }, 1), batches({ id: 'quick' }, 1)])
    expect(seen).toEqual(['quick', 'slow'])
  })

  it('what waits behind a batch that is held up goes on beside it, so many side by side at most', async () => {
    const running = { now: 0, most: 0 }
    let release = () => {}
    const held = new Promise<void>((done) => {
      release = done
    })
    const batches = createBatches<typeof TENANT, number, number>(
      async (_, items) => {
        running.most = Math.max(running.most, ++running.now)
        await (items.includes(3) ? later() : held)
        running.now--
        return items
      },
      { most: 10, atOnce: 3 },
    )
    const heldUp = [batches(TENANT, 1)]
    const second = batches(TENANT, 2)
    await later(80)
    heldUp.push(second)
    // The third place is taken by what comes now, and given back; what holds the other two is still held.
    await expect(batches(TENANT, 3)).resolves.toBe(3)
    expect(running).toEqual({ now: 2, most: 3 })
    release()
    await expect(Promise.all(heldUp)).resolves.toEqual([1, 2])
  })

  it('a full batch starts beside another without waiting', async () => {
    const ran: number[][] = []
    const batches = createBatches<typeof TENANT, number, number>(
      async (_, items) => {
        ran.push([...items])
        await later(items.includes(1) ? 40 : 1)
        return items
      },
      { most: 2, atOnce: 2 },
    )
    const first = batches(TENANT, 1)
    await Promise.all([2, 3].map((n) => batches(TENANT, n)))
    expect(ran).toEqual([[1], [2, 3]])
    await first
  })
})

describe('reads that come at once', () => {
  it('share a statement, but never one that began before they asked', async () => {
    let truth = 'before'
    let reads = 0
    const read = shareRead<typeof TENANT, string>(async () => {
      reads++
      const seen = truth
      await later(20)
      return seen
    })
    const db = {} as Db
    const first = read(db, TENANT)
    truth = 'after'
    const rest = [1, 2, 3].map(() => read(db, TENANT))
    expect(await first).toBe('before')
    expect(await Promise.all(rest)).toEqual(['after', 'after', 'after'])
    expect(reads).toBe(2)
  })
})
