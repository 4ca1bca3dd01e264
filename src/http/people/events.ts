import { type SSEStreamingApi, streamSSE } from 'hono/streaming'
import { z } from 'zod'
import type { ActivityType } from '../../core/activity.ts'
import { type Tx, withRead } from '../../db/tx.ts'
import {
  type EventPlace,
  type EventRow,
  eventHorizon,
  eventsAfter,
  isAhead,
} from '../../db/user-events.ts'
import { iso } from '../../db/view-sessions.ts'
import { authenticate, type Person } from './auth.ts'
import { endpoint, type Mount, type PeopleContext, problemFor } from './endpoint.ts'

/** What of the record is an event for its person, and under which name. */
const EVENTS: Partial<Record<ActivityType, 'request' | 'answer' | 'grant' | 'session' | 'rule'>> = {
  'access.requested': 'request',
  'access.decided': 'answer',
  'grant.created': 'grant',
  'grant.ended': 'grant',
  'session.started': 'session',
  'session.ended': 'session',
  'subagent.started': 'session',
  'mode.changed': 'session',
  'rule.created': 'rule',
  'rule.deleted': 'rule',
  'rule.suspended': 'rule',
  'rule.confirmed': 'rule',
}
const TYPES = Object.keys(EVENTS) as ActivityType[]

const STREAMS_PER_USER_MAX = 10
const ROWS_A_READ = 200
/** A kick can be lost; this bounds how late an event then is. */
const POLL_MILLIS = 2_000
const HEARTBEAT_MILLIS = 15_000
const RECONNECT_MILLIS = 2_000

// xid8 and bigint are at most 20 and 19 digits.
const PLACE = /^(\d{1,20})-(\d{1,19})$/
const BIGGEST = { xid: 2n ** 64n - 1n, n: 2n ** 63n - 1n }

/** `{xid}-{n}`, or null when it is no id of an event. */
function placeOf(text: string): EventPlace | null {
  const [, xid, n] = PLACE.exec(text) ?? []
  if (xid === undefined || n === undefined) return null
  return BigInt(xid) <= BIGGEST.xid && BigInt(n) <= BIGGEST.n ? { xid, n } : null
}

const idOf = (place: EventPlace): string => `${place.xid}-${place.n}`

const messageOf = (row: EventRow) => ({
  id: idOf(row),
  event: EVENTS[row.type] ?? 'other',
  data: JSON.stringify({
    ...row.data,
    type: row.type,
    at: iso(row.at),
    session_id: row.sessionId,
    root_session_id: row.rootSessionId,
    agent_id: row.agentId,
    template: row.template,
  }),
})

/** Sleeps until it is woken or the time is up. A wake that comes while nobody sleeps is not lost. */
class Alarm {
  #rang = false
  #wake: (() => void) | undefined

  ring(): void {
    this.#rang = true
    this.#wake?.()
  }

  async sleep(millis: number): Promise<void> {
    if (!this.#rang)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, millis)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    this.#wake = undefined
    this.#rang = false
  }
}

/** Where to go on; a place that never was here would be waited for in vain, so what comes from now on is told. */
const placeIn = async (tx: Tx, from: EventPlace | null): Promise<EventPlace> =>
  from === null || (await isAhead(tx, from)) ? eventHorizon(tx) : from

/** Writes what is new, waits, and again; until the client leaves, the person may no longer listen, or the server stops. */
async function follow(
  c: PeopleContext,
  stream: SSEStreamingApi,
  from: EventPlace | null,
): Promise<void> {
  const { ctx, deps, tenant } = c.var
  const alarm = new Alarm()
  const unsubscribe = ctx.notify.subscribe(() => alarm.ring())
  stream.onAbort(() => alarm.ring())
  const stopped = () => stream.aborted || stream.closed || deps.stopping?.aborted === true
  const onStopping = () => alarm.ring()
  deps.stopping?.addEventListener('abort', onStopping)
  try {
    let place = await withRead(ctx.db, 'event_horizon', (tx) => placeIn(tx, from))
    // Told at once, so that a client that loses the line before its first event can go on from here.
    await stream.writeSSE({ event: 'ready', id: idOf(place), data: '{}', retry: RECONNECT_MILLIS })
    let looked = performance.now()
    let person: Person = c.var.caller
    while (!stopped() && ctx.clock.now() / 1000 < (person.expiresAt ?? Number.POSITIVE_INFINITY)) {
      const of = { tenantId: tenant.id, userId: person.userId, types: TYPES, limit: ROWS_A_READ }
      const rows = await withRead(ctx.db, 'events', (tx) =>
        eventsAfter(tx, { ...of, after: place }),
      )
      for (const row of rows) await stream.writeSSE(messageOf(row))
      const last = rows.at(-1)
      if (last !== undefined) {
        place = last
        if (rows.length === ROWS_A_READ) continue
      }
      if (performance.now() - looked >= (deps.heartbeatMillis ?? HEARTBEAT_MILLIS)) {
        // A credential that has run out or been withdrawn, or a person who was disabled, hears no more.
        const again = await authenticate(deps, c.req.raw, tenant)
        if (!again.ok || again.value.userId !== person.userId) return
        person = again.value
        await stream.write(': still here\n\n')
        looked = performance.now()
      }
      if (!stopped()) await alarm.sleep(POLL_MILLIS)
    }
  } finally {
    unsubscribe()
    deps.stopping?.removeEventListener('abort', onStopping)
  }
}

/** Bounded per person, so that forgotten tabs cannot use up the server. */
function streamLimiter() {
  const open = new Map<string, number>()
  return {
    enter(userId: string): boolean {
      const now = open.get(userId) ?? 0
      if (now >= STREAMS_PER_USER_MAX) return false
      open.set(userId, now + 1)
      return true
    },
    leave(userId: string): void {
      const left = (open.get(userId) ?? 1) - 1
      if (left > 0) open.set(userId, left)
      else open.delete(userId)
    },
  }
}

export const mountEvents: Mount = (api) => {
  const limiter = streamLimiter()
  endpoint(
    api,
    {
      method: 'get',
      path: '/events',
      summary: 'Your events as they happen (server-sent): request, answer, grant, session, rule',
      tag: 'events',
      query: z.strictObject({
        last_event_id: z
          .string()
          .max(40)
          .optional()
          .meta({ description: 'Goes on after this event, as the header Last-Event-ID does' }),
      }),
      answers: { 200: z.string() },
      answerType: 'text/event-stream',
      faults: ['limit_reached'],
    },
    async (c, { query }) => {
      const asked = c.req.header('Last-Event-ID') ?? query.last_event_id
      const from = asked === undefined || asked === '' ? null : placeOf(asked)
      if (asked && from === null)
        return problemFor(c, {
          code: 'request_malformed',
          errors: [{ path: 'last_event_id', message: 'is not the id of an event' }],
        })
      const { userId } = c.var.caller
      if (!limiter.enter(userId))
        return problemFor(c, {
          code: 'limit_reached',
          limit: 'eventStreams',
          detail: `At most ${STREAMS_PER_USER_MAX} event streams a person. Close one first.`,
          retryAfterSeconds: 5,
        })
      return streamSSE(
        c,
        async (stream) => {
          try {
            await follow(c, stream, from)
          } finally {
            limiter.leave(userId)
          }
        },
        async (error) => c.var.deps.onBug(error, c.var.requestId),
      )
    },
  )
}
