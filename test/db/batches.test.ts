import { describe, expect, it } from 'vitest'
import { createBatches } from '../../src/flows/batches.ts'

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
})
