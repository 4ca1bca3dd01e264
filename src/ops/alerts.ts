import { createHmac, randomUUID } from 'node:crypto'
import {
  changeState,
  checkpointIsLate,
  exchangeReports,
  failingStates,
  type InstanceSays,
  markTold,
  type Report,
  takeUntold,
  tenantsTrusting,
} from '../db/alerts.ts'
import { inTime } from '../db/operators.ts'
import { withTx } from '../db/tx.ts'
import { type Job, startPeriodic } from '../flows/periodic.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Ctx } from '../ports.ts'

/** A change of state as the webhook is told it. `id` is the same however often it is sent. */
export type StateChange = {
  readonly id: string
  /** `database`, `feed`, `calls_lost`, `checkpoint`, or `provider/{tenant}`. */
  readonly state: string
  readonly failing: boolean
  /** Seconds since the epoch. */
  readonly since: number
}

type Send = (url: string, init: RequestInit) => Promise<Response>

export type AlertsOf = {
  readonly ctx: Pick<Ctx, 'db' | 'clock'>
  readonly gateway: Pick<Gateway, 'isFresh' | 'counts'>
  /** Issuers of identity providers that did not answer when they were last asked. */
  readonly unreachable: () => readonly string[]
  readonly deployment: string
  readonly webhook: string
  /** As Standard Webhooks writes it: `whsec_` and base64; null: bodies are not signed. */
  readonly secret: string | null
  readonly send: Send
  readonly onBug: (error: unknown) => void
}

const EVERY_MILLIS = 10_000
/** An instance that has not reported for so long is not there. */
const FRESH_SECONDS = 35
const CHECKPOINT_SECONDS = 900
const LOST_SECONDS = 600
const TRIES_MAX = 6
const AGAIN_SECONDS = 10
/** So long a state has to last before it is told, so that one that flaps is not. */
const HELD_SECONDS = { failing: 30, well: 60 }
/** A loss is told at once: it has happened. A checkpoint that is late is due any minute after a quiet night. */
const HELD_OTHERWISE: Readonly<Record<string, number>> = { calls_lost: 0, checkpoint: 300 }

/** Standard Webhooks 1.0: the signature is over id, time and body, so that none can be told again as another. */
export function signedHeaders(
  secret: string | null,
  of: { readonly id: string; readonly at: number; readonly body: string },
): Record<string, string> {
  const at = String(Math.floor(of.at))
  const named = {
    'content-type': 'application/json',
    'webhook-id': of.id,
    'webhook-timestamp': at,
  }
  if (secret === null) return named
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key).update(`${of.id}.${at}.${of.body}`).digest('base64')
  return { ...named, 'webhook-signature': `v1,${signature}` }
}

/** A state counts once it has lasted: which of them have. */
function createSteady() {
  const seen = new Map<string, { failing: boolean; since: number }>()
  return {
    lasts: (name: string, failing: boolean, now: number): boolean => {
      const known = seen.get(name)
      const since = known?.failing === failing ? known.since : now
      seen.set(name, { failing, since })
      const held = failing ? (HELD_OTHERWISE[name] ?? HELD_SECONDS.failing) : HELD_SECONDS.well
      return now - since >= held
    },
    forget: () => seen.clear(),
  }
}

/**
 * Tells a webhook when a state of the deployment changes, once a change over all instances. Each says every ten seconds how it
 * is; the first of them by name looks at them all, and a change is one update that only one of two who try makes. What could
 * not be told is tried again, by whoever then looks, a bounded number of times. A database that is away can be told by
 * nobody who would ask it first: then the one that looked last tells.
 */
export function createAlerts(of: AlertsOf): { readonly look: () => Promise<void> } {
  const { ctx } = of
  const { db } = ctx
  const instance = randomUUID()
  const steady = createSteady()
  const away: { looked: boolean; told: StateChange | null } = { looked: false, told: null }
  let lost = { count: 0, at: null as number | null }

  async function tell(change: StateChange, now: number): Promise<boolean> {
    const { id, state, failing, since } = change
    const body = JSON.stringify({
      type: 'lend.state_changed',
      timestamp: new Date(since * 1000).toISOString(),
      data: { deployment: of.deployment, state, status: failing ? 'failing' : 'ok' },
    })
    try {
      const headers = signedHeaders(of.secret, { id, at: now, body })
      const { status } = await of.send(of.webhook, { method: 'POST', headers, body })
      if (status >= 200 && status <= 299) return true
      of.onBug(new Error(`the alert webhook answered ${status}`))
    } catch (error) {
      of.onBug(error)
    }
    return false
  }

  function says(now: number): InstanceSays {
    const count = of.gateway.counts().callsLostEver
    if (count > lost.count) lost = { count, at: now }
    return { feed: of.gateway.isFresh(), lostAt: lost.at, unreachable: of.unreachable() }
  }

  /** What is so now, by name. */
  const observed = async (reports: readonly Report[], now: number) =>
    withTx(db, 'look_at_states', async (tx) => {
      const issuers = [...new Set(reports.flatMap(({ unreachable }) => unreachable))]
      const states = new Map([
        ['database', false],
        ['feed', reports.some(({ feed }) => !feed)],
        ['calls_lost', reports.some(({ lostAt }) => (lostAt ?? 0) > now - LOST_SECONDS)],
        ['checkpoint', await checkpointIsLate(tx, { now, seconds: CHECKPOINT_SECONDS })],
      ])
      for (const slug of await tenantsTrusting(tx, issuers)) states.set(`provider/${slug}`, true)
      for (const name of await failingStates(tx)) if (!states.has(name)) states.set(name, false)
      return states
    })

  async function tellChanges(states: ReadonlyMap<string, boolean>, now: number): Promise<void> {
    const lasting = [...states].filter(([name, failing]) => steady.lasts(name, failing, now))
    const untold = await withTx(db, 'change_states', async (tx) => {
      for (const [name, failing] of lasting) await changeState(tx, { name, failing, now })
      return takeUntold(tx, { now, triesMax: TRIES_MAX, againSeconds: AGAIN_SECONDS })
    })
    for (const { name, failing, changes, changedAt } of untold) {
      const id = `${of.deployment}:${name}:${changes}`
      const told = await tell({ id, state: name, failing, since: changedAt }, now)
      if (told) await withTx(db, 'state_told', (tx) => markTold(tx, { name, changes }))
    }
  }

  async function withoutDatabase(now: number): Promise<void> {
    if (!steady.lasts('database', true, now) || !away.looked || away.told !== null) return
    const id = `${of.deployment}:database:${instance}:${Math.floor(now)}`
    const change = { id, state: 'database', failing: true, since: now }
    if (await tell(change, now)) away.told = change
  }

  return {
    look: async () => {
      const now = ctx.clock.now() / 1000
      const report = { instance, says: says(now), now, freshSeconds: FRESH_SECONDS }
      const reported = withTx(db, 'report_instance', (tx) => exchangeReports(tx, report))
      const reports = await inTime(reported)
      if (reports === null) return withoutDatabase(now)
      if (away.told !== null) {
        const back = { ...away.told, id: `${away.told.id}:back`, failing: false, since: now }
        if (await tell(back, now)) away.told = null
      }
      away.looked = reports[0]?.instance === instance
      if (!away.looked) return steady.forget()
      await tellChanges(await observed(reports, now), now)
    },
  }
}

/** Looks every ten seconds. Errors go to `onBug`. */
export const startAlerts = (of: AlertsOf): Job =>
  startPeriodic({ run: createAlerts(of).look, everyMillis: EVERY_MILLIS, onBug: of.onBug })
