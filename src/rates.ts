import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import { rateStore } from './db/rate-store.ts'
import type { Db } from './db/tx.ts'
import { type Observe, RATE_LIMITS, type RateLimit, type Rates } from './ports.ts'

/** Requests a minute (`LEND_RATE_LIMITS`). */
export type RatesAMinute = Readonly<Record<RateLimit, number>>

const WINDOW_SECONDS = 60
/** After each such part of a limit an instance tells the others: what it counted before that, they do not know of. */
const PART = 10

type Limiter = {
  readonly points: number
  readonly consume: (key: string, points: number) => Promise<RateLimiterRes>
}

const waitOf = (now: RateLimiterRes): number => Math.max(1, Math.ceil(now.msBeforeNext / 1000))

/** The part of a limit that an instance counts by itself before it tells the store. */
const blockOf = (points: number): number => Math.max(1, Math.floor(points / PART))

/**
 * Counts of the last minute in this process, with a shared count behind them. The way of a request ends in this process: after
 * each tenth of the limit the store is told in the background, and a key that is over the limit on all instances together is
 * then blocked here until its minute ends. So a limit is exceeded by a tenth an instance at most, and a key that asks rarely
 * costs no statement. While the store does not answer, each instance holds the limit by itself: what cannot be counted
 * together opens nothing and stops nothing (I19).
 */
function counterOf(of: {
  readonly here: RateLimiterMemory
  readonly shared: Limiter | null
  readonly onRefused: () => void
  readonly onUnshared: () => void
}) {
  const { here, shared } = of
  const block = blockOf(here.points)
  /** What waits to be told, by key; a key is told of once at a time, so a slow store is not flooded. */
  const untold = new Map<string, number>()

  async function tell(key: string, store: Limiter): Promise<void> {
    for (let told = untold.get(key) ?? 0; told > 0; told = untold.get(key) ?? 0) {
      await store.consume(key, told)
      const left = (untold.get(key) ?? 0) - told
      if (left <= 0) break
      untold.set(key, left)
    }
  }
  function share(key: string): void {
    if (shared === null) return
    const waiting = untold.get(key)
    untold.set(key, (waiting ?? 0) + block)
    if (waiting !== undefined) return
    tell(key, shared)
      .catch(async (refused: unknown) => {
        if (refused instanceof RateLimiterRes) await here.block(key, waitOf(refused))
        else of.onUnshared()
      })
      .finally(() => untold.delete(key))
  }
  return {
    take: async (key: string): Promise<number | null> => {
      try {
        const { consumedPoints } = await here.consume(key)
        if (consumedPoints % block === 0) share(key)
        return null
      } catch (refused) {
        if (!(refused instanceof RateLimiterRes)) throw refused
        of.onRefused()
        return waitOf(refused)
      }
    },
    look: async (key: string): Promise<number | null> => {
      const now = await here.get(key)
      if (now === null || now.consumedPoints < here.points || now.msBeforeNext <= 0) return null
      of.onRefused()
      return waitOf(now)
    },
  }
}

/**
 * Limits on how often, shared by the instances on one Postgres server. The embedded database has one process, which counts
 * for itself.
 */
export function createRates(of: {
  readonly aMinute: RatesAMinute
  readonly db: Db
  readonly observe?: Pick<Observe, 'rateLimited' | 'rateUnshared'>
}): Rates {
  const counterFor = (limit: RateLimit) => {
    const points = of.aMinute[limit]
    const how = { keyPrefix: limit, points, duration: WINDOW_SECONDS }
    return counterOf({
      here: new RateLimiterMemory(how),
      shared:
        of.db.kind === 'embedded'
          ? null
          : new RateLimiterPostgres({
              ...how,
              storeClient: rateStore(of.db),
              storeType: 'pool',
              tableName: 'rate_count',
              tableCreated: true,
              clearExpiredByTimeout: false,
            }),
      onRefused: () => of.observe?.rateLimited(limit),
      onUnshared: () => of.observe?.rateUnshared(),
    })
  }
  const counters = new Map(RATE_LIMITS.map((limit) => [limit, counterFor(limit)]))
  return {
    take: async (limit, key) => (await counters.get(limit)?.take(key)) ?? null,
    look: async (limit, key) => (await counters.get(limit)?.look(key)) ?? null,
  }
}
