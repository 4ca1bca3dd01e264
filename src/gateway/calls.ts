import { randomUUID } from 'node:crypto'
import type { TenantRef } from '../callers.ts'
import { type ReportedCall, reportCalls } from '../flows/report-calls.ts'
import type { Ctx } from '../ports.ts'

/** Who decided a call, and for which services it may say so. */
export type Reporter = {
  readonly tenant: TenantRef
  readonly proxyId: string
  readonly services: readonly string[]
}

type Uncounted<Reported> = Reported extends unknown ? Omit<Reported, 'count' | 'at'> : never
export type Call = Uncounted<ReportedCall>

export type Calls = {
  /** Notes one call; never waits, never throws. */
  readonly add: (by: Reporter, call: Call) => void
  /** Writes what there is, and resolves when it is written or has failed. */
  readonly flush: () => Promise<void>
  /** The last flush. What then cannot be written is counted in the log, since nowhere else is left. */
  readonly stop: () => Promise<number>
  /** Waiting to be told of with the next batch. */
  readonly lost: () => number
  /** All that were ever lost in this process. */
  readonly lostEver: () => number
}

const DIFFERENT_MAX = 20_000
const BATCH_MAX = 200
const EVERY_MILLIS = 1000
const BACKOFF_MILLIS_MAX = 30_000

type Open = { readonly by: Reporter; readonly call: Call; readonly at: number; count: number }

/** Calls that are one record: of one caller to one target through one proxy, ended alike. */
const isLike = ({ by, call }: Open, other: Reporter, one: Call): boolean =>
  by.proxyId === other.proxyId &&
  call.outcome === one.outcome &&
  call.grantId === one.grantId &&
  call.reason === one.reason

/** By caller and target, which are told apart without a key being made of them for each call. */
function createOpen() {
  let targetsOf = new Map<string | undefined, Map<string | undefined, Open[]>>()
  let inOrder: Open[] = []
  return {
    size: () => inOrder.length,
    /** Counts it with one that is like it; false when there is none. */
    count: (by: Reporter, call: Call): boolean => {
      const alike = targetsOf.get(call.sessionId ?? call.serviceAccountId)?.get(call.target)
      const same = alike?.find((one) => isLike(one, by, call))
      if (same !== undefined) same.count++
      return same !== undefined
    },
    add: (one: Open): void => {
      const { sessionId, serviceAccountId, target } = one.call
      const caller = sessionId ?? serviceAccountId
      const targets = targetsOf.get(caller) ?? new Map<string | undefined, Open[]>()
      targetsOf.set(caller, targets)
      const alike = targets.get(target)
      if (alike === undefined) targets.set(target, [one])
      else alike.push(one)
      inOrder.push(one)
    },
    /** As they came. */
    all: (): readonly Open[] => inOrder,
    clear: (): void => {
      targetsOf = new Map()
      inOrder = []
    },
  }
}
type Batch = {
  readonly by: Reporter
  readonly calls: readonly ReportedCall[]
  readonly lost: number
  readonly key: string
}

/**
 * Records of calls on their way to the activity log (I12): gathered for a second, like ones as one record that counts them,
 * so that a busy session costs a write a second and not one a call. A batch that failed is sent again under its own key,
 * which records nothing twice; what does not fit meanwhile is counted, and told of with the next that succeeds.
 */
export function createCalls(ctx: Ctx, onBug: (error: unknown) => void): Calls {
  const open = createOpen()
  const waiting: Batch[] = []
  const lostOf = new Map<string, { readonly by: Reporter; count: number }>()
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | null = null
  let failures = 0
  let stopped = false

  let everLost = 0
  const lose = (by: Reporter, count: number): void => {
    everLost += count
    const known = lostOf.get(by.tenant.id)
    if (known === undefined) lostOf.set(by.tenant.id, { by, count })
    else known.count += count
  }
  const schedule = (): void => {
    if (timer !== undefined || stopped) return
    const wait = Math.min(EVERY_MILLIS * 2 ** failures, BACKOFF_MILLIS_MAX)
    timer = setTimeout(() => void flush(), wait)
    timer.unref()
  }

  /** What is open becomes batches, one tenant's proxy each. */
  function close(): void {
    const groups = new Map<string, Open[]>()
    for (const one of open.all()) {
      const group = groups.get(one.by.proxyId) ?? []
      group.push(one)
      groups.set(one.by.proxyId, group)
    }
    open.clear()
    for (const group of groups.values())
      for (let i = 0; i < group.length; i += BATCH_MAX) {
        const part = group.slice(i, i + BATCH_MAX)
        const [first] = part
        if (first === undefined) continue
        const lost = lostOf.get(first.by.tenant.id)?.count ?? 0
        lostOf.delete(first.by.tenant.id)
        const calls = part.map(({ call, at, count }) => ({
          ...call,
          at: at / 1000,
          ...(count === 1 ? {} : { count }),
        }))
        waiting.push({ by: first.by, calls, lost, key: randomUUID() })
      }
    for (const [tenantId, { by, count }] of lostOf) {
      if (groups.size > 0 && waiting.some((batch) => batch.by.tenant.id === tenantId)) continue
      waiting.push({ by, calls: [], lost: count, key: randomUUID() })
      lostOf.delete(tenantId)
    }
  }

  async function send(): Promise<void> {
    close()
    for (let batch = waiting[0]; batch !== undefined; batch = waiting[0]) {
      const { by, calls, lost, key } = batch
      try {
        const caller = { as: 'enforcement', tenant: by.tenant, id: by.proxyId } as const
        await reportCalls(ctx, { ...caller, services: by.services }, { calls, lost, key })
        failures = 0
      } catch (error) {
        // Told once an outage.
        if (failures++ === 0) onBug(error)
        return
      }
      waiting.shift()
    }
  }
  const flush = (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    running ??= send().finally(() => {
      running = null
      if (open.size() > 0 || waiting.length > 0) schedule()
    })
    return running
  }
  const unsent = (): number =>
    [...lostOf.values()].reduce((sum, one) => sum + one.count, 0) +
    open.all().reduce((sum, one) => sum + one.count, 0) +
    waiting.reduce((sum, b) => sum + b.lost + b.calls.reduce((n, c) => n + (c.count ?? 1), 0), 0)

  return {
    add: (by, call) => {
      if (!open.count(by, call)) {
        const isFull = open.size() + waiting.length * BATCH_MAX >= DIFFERENT_MAX
        if (isFull) lose(by, 1)
        else open.add({ by, call, at: ctx.clock.now(), count: 1 })
      }
      schedule()
    },
    flush,
    stop: async () => {
      stopped = true
      await running
      await flush()
      return unsent()
    },
    lostEver: () => everLost,
    lost: () => [...lostOf.values()].reduce((sum, one) => sum + one.count, 0),
  }
}
