import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { AUTH_REASONS, type AuthReason } from '../../schema/auth-decision.ts'
import { type DeploymentCounts, deploymentCounts, inTime } from '../db/operators.ts'
import { waitingForShares } from '../db/shares.ts'
import { withRead } from '../db/tx.ts'
import { RE_EVALUATE_JOB } from '../flows/re-evaluate.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Ctx, Observe } from '../ports.ts'

/** Seconds. A decision in memory takes tens of microseconds; one that verifies a signature, hundreds. */
const CHECK_BUCKETS = [
  0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05,
]
/** Up to the longest wait that a tool may ask for (SPEC section 7). */
const REQUEST_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60]

export type Watched = {
  readonly ctx: Pick<Ctx, 'db' | 'clock'>
  readonly gateway: Pick<Gateway, 'counts'>
  readonly ready: () => boolean
}

export type Metrics = {
  readonly observe: Observe
  /** How long a decision of the gateway took, in seconds. */
  readonly took: (seconds: number) => void
  /** From then on what is asked for is read here too. */
  readonly watch: (of: Watched) => void
  /** Everything in Prometheus' exposition format. Never fails for a database that is away: then it says so. */
  readonly text: () => Promise<{ readonly type: string; readonly body: string }>
}

function counted(registry: Registry) {
  const registers = [registry]
  const decisions = new Counter({
    name: 'lend_decisions_total',
    help: 'Decisions on requested items that were committed, by outcome, reason and what decided',
    labelNames: ['outcome', 'reason', 'decided_by'],
    registers,
  })
  const issued = new Counter({
    name: 'lend_tokens_issued_total',
    help: 'Tokens that left the token endpoint, by grant type',
    labelNames: ['grant_type'],
    registers,
  })
  const refused = new Counter({
    name: 'lend_tokens_refused_total',
    help: 'Refusals of the token endpoint, by reason, unauthenticated ones included',
    labelNames: ['reason'],
    registers,
  })
  const requests = new Histogram({
    name: 'lend_request_seconds',
    help: 'Time until the answer began, by door and class of status; waiting for a person included',
    labelNames: ['door', 'status'],
    buckets: REQUEST_BUCKETS,
    registers,
  })
  const limited = new Counter({
    name: 'lend_rate_limited_total',
    help: 'Requests turned away for coming too often, by whose limit it was',
    labelNames: ['limit'],
    registers,
  })
  const unshared = new Counter({
    name: 'lend_rate_unshared_total',
    help: 'Times a count could not be told to other instances; limits then hold for each by itself',
    registers,
  })
  const checks = new Histogram({
    name: 'lend_gateway_check_seconds',
    help: 'Time of a forward-auth decision',
    buckets: CHECK_BUCKETS,
    registers,
  })
  const observe: Observe = {
    decided: (outcome, reason, by) => decisions.inc({ outcome, reason, decided_by: by }),
    tokenIssued: (how) => issued.inc({ grant_type: how }),
    tokenRefused: (reason) => refused.inc({ reason }),
    rateLimited: (limit) => limited.inc({ limit }),
    rateUnshared: () => unshared.inc(),
    answered: (door, status, seconds) =>
      requests.observe({ door, status: `${Math.floor(status / 100)}xx` }, seconds),
  }
  return { observe, took: (seconds: number) => checks.observe(seconds) }
}

/** What the gateway counts by itself, taken over when it is asked for: its way is too short for a library's call. */
function gatewayMetrics(registry: Registry) {
  const registers = [registry]
  const decisions = new Counter({
    name: 'lend_gateway_decisions_total',
    help: 'Forward-auth decisions by reason',
    labelNames: ['decision', 'reason'],
    registers,
  })
  const caches = new Counter({
    name: 'lend_gateway_cache_lookups_total',
    help: 'Lookups in the caches of forward-auth',
    labelNames: ['cache', 'result'],
    registers,
  })
  const lost = new Counter({
    name: 'lend_calls_lost_total',
    help: 'Call records that this instance had no room for while the database was away',
    registers,
  })
  const resyncs = new Counter({
    name: 'lend_gateway_resyncs_total',
    help: 'Times the feed had been trimmed past this instance, which then read everything anew',
    registers,
  })
  const lag = new Gauge({
    name: 'lend_gateway_feed_lag_seconds',
    help: 'Since when this instance last knew all that was taken back; at 60 it allows nothing',
    registers,
  })
  return (of: ReturnType<Gateway['counts']>): void => {
    for (const counter of [decisions, caches, lost, resyncs]) counter.reset()
    for (const [reason, count] of Object.entries(of.byReason)) {
      const allowed = AUTH_REASONS[reason as AuthReason].status === 200
      decisions.inc({ decision: allowed ? 'allow' : 'deny', reason }, count)
    }
    for (const [cache, { hit, miss }] of Object.entries(of.caches)) {
      caches.inc({ cache, result: 'hit' }, hit)
      caches.inc({ cache, result: 'miss' }, miss)
    }
    lost.inc(of.callsLostEver)
    resyncs.inc(of.resyncs)
    lag.set(of.feedAge)
  }
}

function deploymentMetrics(registry: Registry) {
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] })
  const prompts = gauge(
    'lend_open_prompts',
    'Prompts that wait for a person, on the whole deployment',
  )
  const sessions = gauge(
    'lend_live_sessions',
    'Live sessions on the whole deployment, up to 100,000',
  )
  const lag = gauge(
    'lend_reevaluation_lag_seconds',
    'Age of the oldest change of access that no instance has acted on yet',
  )
  const lost = gauge(
    'lend_reported_calls_lost',
    'Calls that enforcement points said they could not report, on the whole deployment',
  )
  const up = gauge('lend_database_up', 'Whether the database answered within two seconds')
  return (of: DeploymentCounts | null, now: number): void => {
    up.set(of === null ? 0 : 1)
    prompts.set(of?.openPrompts ?? Number.NaN)
    sessions.set(of?.liveSessions ?? Number.NaN)
    lost.set(of?.callsReportedLost ?? Number.NaN)
    const waitingAt = of === null ? Number.NaN : of.oldestWaitingAt
    lag.set(waitingAt === null ? 0 : Math.max(0, now - waitingAt))
  }
}

function instanceMetrics(registry: Registry) {
  const registers = [registry]
  const ready = new Gauge({ name: 'lend_ready', help: 'Whether /readyz answers 200', registers })
  const connections = new Gauge({
    name: 'lend_database_connections',
    help: 'Connections for transactions, by state; max is the most there may be',
    labelNames: ['state'],
    registers,
  })
  const waiting = new Gauge({
    name: 'lend_database_waiting',
    help: 'Transactions that wait for a connection',
    registers,
  })
  const held = new Gauge({
    name: 'lend_tenant_queue',
    help: 'Transactions that wait since their tenant has its share of the connections',
    registers,
  })
  return ({ ctx, ready: isReady }: Watched): void => {
    held.set(waitingForShares(ctx.db))
    const { open, busy, waiting: queue, most } = ctx.db.connections()
    ready.set(isReady() ? 1 : 0)
    connections.set({ state: 'busy' }, busy)
    connections.set({ state: 'idle' }, open - busy)
    connections.set({ state: 'max' }, most)
    waiting.set(queue)
  }
}

/**
 * Everything that is counted, with labels from closed lists only: no tenant, person, session, agent or address, so that the
 * number of series does not grow with use, and nothing in it is anybody's. Event-loop lag, memory and the like are
 * prom-client's own.
 */
export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const { observe, took } = counted(registry)
  const toGateway = gatewayMetrics(registry)
  const toDeployment = deploymentMetrics(registry)
  const toInstance = instanceMetrics(registry)
  let watched: Watched | null = null
  let reading: Promise<void> | null = null

  const read = async (of: Watched): Promise<void> => {
    const counts = withRead(of.ctx.db, 'deployment_counts', (tx) =>
      deploymentCounts(tx, RE_EVALUATE_JOB),
    )
    toDeployment(await inTime(counts), of.ctx.clock.now() / 1000)
    toGateway(of.gateway.counts())
    toInstance(of)
  }
  return {
    observe,
    took,
    watch: (of) => {
      watched = of
    },
    text: async () => {
      if (watched !== null)
        // Two who ask at once are answered by one look at the database.
        reading ??= read(watched).finally(() => {
          reading = null
        })
      await reading
      return { type: registry.contentType, body: await registry.metrics() }
    },
  }
}
