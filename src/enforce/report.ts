/** One call that an enforcement point let through or turned away. */
export type Call = {
  readonly session: string
  readonly permission: string
  readonly resource?: string
  /** The grant that allowed it. */
  readonly grant?: string
  readonly outcome: 'allowed' | 'denied'
  /** Why it was denied. */
  readonly reason?: string
  /** What was called, as in `GET /accounts`. Never with a query, which may carry a secret. */
  readonly target?: string
  /** Milliseconds since the epoch; now, if left out. */
  readonly at?: number
}

export type ReporterOptions = {
  readonly url: string
  readonly authorization: string
  readonly fetch: typeof globalThis.fetch
  readonly now: () => number
}

export type Reporter = {
  readonly report: (call: Call) => void
  /** Sends what is queued now. Never throws: what cannot be sent stays queued, up to the bound. */
  readonly flush: () => Promise<void>
  /** Sends what it can, once, and stops. */
  readonly close: () => Promise<void>
  /** Calls that were dropped and have not yet been told of. */
  readonly lost: () => number
  readonly queued: () => number
}

const QUEUED_MAX = 5000
const BATCH_MAX = 100
const EVERY_MILLIS = 1000
const BACKOFF_MILLIS_MAX = 30_000
const SEND_MILLIS_MAX = 5000

type Batch = { readonly key: string; readonly calls: readonly object[]; readonly lost: number }

const wire = (call: Call, now: number) => ({
  at: new Date(call.at ?? now).toISOString(),
  session_id: call.session,
  permission: call.permission,
  ...(call.resource === undefined ? {} : { resource: call.resource }),
  ...(call.grant === undefined ? {} : { grant_id: call.grant }),
  outcome: call.outcome,
  ...(call.reason === undefined ? {} : { reason: call.reason }),
  ...(call.target === undefined ? {} : { target: call.target }),
})

/** `again`: it may not have arrived. `refused`: it did, and sending it again cannot help. */
type Sent = 'arrived' | 'again' | 'refused'

async function send(options: ReporterOptions, batch: Batch): Promise<Sent> {
  try {
    const answer = await options.fetch(options.url, {
      method: 'POST',
      headers: {
        authorization: options.authorization,
        'content-type': 'application/json',
        'idempotency-key': batch.key,
      },
      body: JSON.stringify({
        calls: batch.calls,
        ...(batch.lost === 0 ? {} : { lost: batch.lost }),
      }),
      redirect: 'error',
      signal: AbortSignal.timeout(SEND_MILLIS_MAX),
    })
    await answer.body?.cancel()
    if (answer.ok) return 'arrived'
    return answer.status === 429 || answer.status >= 500 ? 'again' : 'refused'
  } catch {
    return 'again'
  }
}

/**
 * Queues calls and posts them in batches, so that no call waits for the record (I12). Memory is
 * bounded: when the queue is full the oldest is dropped and counted, and the count travels with the
 * next batch. A batch that may or may not have arrived is sent again under the same key, so it is
 * recorded once.
 */
export function createReporter(options: ReporterOptions): Reporter {
  const queue: object[] = []
  let lost = 0
  let pending: Batch | null = null
  let sending: Promise<void> | null = null
  let failures = 0
  let timer: NodeJS.Timeout | null = null
  let closed = false

  function schedule(): void {
    if (timer !== null || closed) return
    const wait = Math.min(EVERY_MILLIS * 2 ** failures, BACKOFF_MILLIS_MAX)
    timer = setTimeout(() => {
      timer = null
      void flush()
    }, wait)
    // A process that has nothing else to do should end.
    timer.unref()
  }

  async function drain(): Promise<void> {
    while (pending !== null || queue.length > 0 || lost > 0) {
      if (pending === null) {
        pending = { key: crypto.randomUUID(), calls: queue.splice(0, BATCH_MAX), lost }
        lost = 0
      }
      const sent = await send(options, pending)
      if (sent === 'again') {
        failures = Math.min(failures + 1, 10)
        return
      }
      if (sent === 'refused') lost += pending.calls.length + pending.lost
      pending = null
      failures = 0
      // Only what was refused is left: it is told of with the next report, not at once and for
      // ever.
      if (sent === 'refused' && queue.length === 0) return
    }
  }

  function flush(): Promise<void> {
    sending ??= drain().finally(() => {
      sending = null
      if (pending !== null || queue.length > 0) schedule()
    })
    return sending
  }

  return {
    report: (call) => {
      if (queue.length >= QUEUED_MAX) {
        queue.shift()
        lost++
      }
      queue.push(wire(call, options.now()))
      if (queue.length >= BATCH_MAX && failures === 0) void flush()
      else schedule()
    },
    flush,
    close: async () => {
      closed = true
      if (timer !== null) clearTimeout(timer)
      timer = null
      await flush()
    },
    lost: () => lost + (pending?.lost ?? 0),
    queued: () => queue.length + (pending?.calls.length ?? 0),
  }
}
