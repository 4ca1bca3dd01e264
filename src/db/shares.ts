import type { TenantRef } from '../callers.ts'
import type { Ctx } from '../ports.ts'
import type { Db } from './tx.ts'

/**
 * No tenant takes all connections: of those for transactions, one tenant's hold half at most, and what it has beyond
 * that waits in a line of its own. So whoever else comes finds a connection free, or a short line.
 */
const PART = 1 / 2
/** As long as anybody waits for a connection. */
const PATIENCE_MILLIS = 10_000

/** Looks to callers as every other database that takes nobody more: 503, and nothing was done (I19). */
class ShareFull extends Error {
  readonly code = '53300'
  constructor() {
    super('This tenant’s share of the connections did not become free in time.')
  }
}

type Gate = {
  readonly begin: Db['begin']
  readonly queued: () => number
}

function gateOf(db: Db, most: number): Gate {
  const waiting = new Set<() => void>()
  let inside = 0
  const enter = (): Promise<void> => {
    if (inside < most) {
      inside++
      return Promise.resolve()
    }
    return new Promise((resolve, reject) => {
      const mine = (): void => {
        clearTimeout(late)
        waiting.delete(mine)
        resolve()
      }
      const late = setTimeout(() => {
        waiting.delete(mine)
        reject(new ShareFull())
      }, PATIENCE_MILLIS)
      waiting.add(mine)
    })
  }
  /** The place goes to the next in line, or becomes free. */
  const leave = (): void => {
    const [next] = waiting
    if (next === undefined) inside--
    else next()
  }
  return {
    begin: async (label, body, planned) => {
      await enter()
      try {
        return await db.begin(label, body, planned)
      } finally {
        leave()
      }
    },
    queued: () => waiting.size,
  }
}

/** Tenants are never removed, so what is here grows with them and no further. */
const gates = new WeakMap<Db, Map<string, Gate>>()
const contexts = new WeakMap<Ctx, Map<string, Ctx>>()

function known<Of extends WeakKey, T>(
  all: WeakMap<Of, Map<string, T>>,
  at: { readonly of: Of; readonly id: string },
  make: () => T,
): T {
  const mine = all.get(at.of) ?? new Map<string, T>()
  all.set(at.of, mine)
  const found = mine.get(at.id)
  if (found !== undefined) return found
  const made = make()
  mine.set(at.id, made)
  return made
}

/**
 * The same context for one tenant's own work: its transactions take the tenant's share of the connections. For doors, once they
 * know whom they serve; background work has the whole. The embedded database has one connection and one line.
 */
export function tenantCtx(ctx: Ctx, { id }: Pick<TenantRef, 'id'>): Ctx {
  const { db } = ctx
  if (db.kind === 'embedded' || db.whole !== undefined) return ctx
  return known(contexts, { of: ctx, id }, () => {
    const most = Math.max(1, Math.floor(db.connections().most * PART))
    const { begin } = known(gates, { of: db, id }, () => gateOf(db, most))
    return { ...ctx, db: { ...db, begin, whole: db } }
  })
}

/** Transactions that wait because their tenant has all it may have. */
export const waitingForShares = (db: Db): number =>
  [...(gates.get(db)?.values() ?? [])].reduce((sum, { queued }) => sum + queued(), 0)
