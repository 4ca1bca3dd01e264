import { createHash } from 'node:crypto'
import type { EnforcementCaller } from '../callers.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import type { GrantId, SessionId, TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import {
  calledSessions,
  count,
  countUses,
  firstTime,
  type GrantUse,
  lockSubjects,
  servicesOf,
} from '../db/calls.ts'
import { knownServiceAccounts } from '../db/service-accounts.ts'
import { type Tx, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'

type CalledBy =
  | { readonly sessionId: string; readonly serviceAccountId?: undefined }
  | { readonly serviceAccountId: string; readonly sessionId?: undefined }
type SessionCall = Extract<ReportedCall, { readonly sessionId: string }>
type ServiceCall = Extract<ReportedCall, { readonly serviceAccountId: string }>

/** One call, as the enforcement point that decided it tells of it. */
export type ReportedCall = CalledBy & {
  /** Seconds. */
  readonly at: number
  /** Absent: what was called asks only for a token. */
  readonly permission?: string | undefined
  /** Whose endpoint it was, from one who knows; else it is the permission's. */
  readonly service?: string | undefined
  /** Like calls of one batch are one record that says how many; the first was at `at`. */
  readonly count?: number | undefined
  readonly resource?: string | undefined
  readonly grantId?: string | undefined
  readonly outcome: 'allowed' | 'denied'
  readonly reason?: string | undefined
  /** What was called, as in `GET /accounts`. */
  readonly target?: string | undefined
}

export type Report = {
  readonly calls: readonly ReportedCall[]
  /** Calls that the enforcement point had to drop since its last report. */
  readonly lost: number
  /** Names the batch, so that sending it again records nothing twice. */
  readonly key?: string | undefined
}

export type Reported = {
  readonly recorded: number
  /**
   * Of unknown sessions, of permissions that this enforcement point does not enforce, or out of
   * time.
   */
  readonly refused: number
  readonly lost: number
}

/** A record may wait out an outage, and clocks differ; what is further off is not believed. */
const OLD_SECONDS_MAX = 7 * 24 * 3600
const AHEAD_SECONDS_MAX = 300

const callsIn = (calls: readonly ReportedCall[]): number =>
  calls.reduce((sum, call) => sum + (call.count ?? 1), 0)

const digestOf = (value: unknown): string =>
  createHash('sha256').update(canonicalJson(value)).digest('base64url')

/**
 * Records calls on their sessions' chains (I12), one transaction for each session tree under its
 * root's lock, and counts the uses of grants; calls of service accounts go to the tenant's chain. It decides nothing: the call
 * has happened. What cannot be recorded is counted.
 */
export async function reportCalls(
  ctx: Ctx,
  caller: EnforcementCaller,
  report: Report,
): Promise<Reported> {
  const now = secondsNow(ctx.clock)
  const tenantId = caller.tenant.id
  const { sessions, accounts, services } = await withTx(ctx.db, 'load_called', async (tx) => ({
    sessions: await calledSessions(tx, {
      tenantId,
      ids: report.calls.flatMap((c) => c.sessionId ?? []),
    }),
    accounts: await accountsIn(tx, tenantId, report.calls),
    services: await servicesOf(
      tx,
      report.calls.flatMap((c) => c.permission ?? []),
    ),
  }))
  const rootOf = new Map<string, SessionId>(sessions.map((s) => [s.id, s.rootId]))
  const trees = new Map<SessionId, SessionCall[]>()
  const byServices: ServiceCall[] = []
  for (const call of report.calls) {
    const service = call.service ?? services.get(call.permission ?? '')
    const mine = service !== undefined && caller.services.includes(service)
    const inTime = call.at >= now - OLD_SECONDS_MAX && call.at <= now + AHEAD_SECONDS_MAX
    if (!mine || !inTime) continue
    if (call.serviceAccountId !== undefined) {
      if (accounts.has(call.serviceAccountId)) byServices.push(call)
      continue
    }
    const root = rootOf.get(call.sessionId)
    if (root === undefined) continue
    const list = trees.get(root) ?? []
    list.push(call)
    trees.set(root, list)
  }
  let recorded = 0
  for (const [rootId, calls] of trees) {
    await recordTree(ctx, caller, { rootId, calls, key: report.key, now })
    recorded += callsIn(calls)
  }
  if (byServices.length > 0) {
    await recordServices(ctx, caller, { calls: byServices, key: report.key, now })
    recorded += callsIn(byServices)
  }
  const refused = callsIn(report.calls) - recorded
  await countOthers(ctx, caller, { report, refused, now })
  if (recorded > 0) ctx.notify.kick()
  return { recorded, refused, lost: report.lost }
}

/** Which of the service accounts that are named are the tenant's; most reports name none. */
async function accountsIn(tx: Tx, tenantId: TenantId, calls: readonly ReportedCall[]) {
  const ids = [...new Set(calls.flatMap((c) => c.serviceAccountId ?? []))]
  return ids.length === 0 ? new Set<string>() : knownServiceAccounts(tx, { tenantId, ids })
}

const dataOf = (call: ReportedCall, caller: EnforcementCaller) => ({
  permission: call.permission,
  service: call.service,
  resource: call.resource,
  target: call.target,
  calls: call.count,
  grant_id: call.grantId,
  reason: call.reason,
  called_at: new Date(call.at * 1000).toISOString(),
  enforcement_point: caller.id,
})

async function recordServices(
  ctx: Ctx,
  caller: EnforcementCaller,
  of: {
    readonly calls: readonly ServiceCall[]
    readonly key: string | undefined
    readonly now: number
  },
): Promise<void> {
  const tenantId = caller.tenant.id
  await withTx(ctx.db, 'report_service_calls', async (tx) => {
    if (of.key !== undefined) {
      const bodyHash = digestOf(of.calls)
      const part = { key: `${of.key} services ${bodyHash}`, bodyHash }
      if (!(await firstTime(tx, { tenantId, caller: caller.id, ...part, now: of.now }))) return
    }
    const journal = new Journal(ctx, tenantId)
    for (const call of of.calls)
      journal.tenant(call.outcome === 'allowed' ? 'call.allowed' : 'call.denied', {
        service_account: call.serviceAccountId,
        ...dataOf(call, caller),
      })
    await journal.write(tx)
  })
}

type TreeCalls = {
  readonly rootId: SessionId
  readonly calls: readonly SessionCall[]
  readonly key: string | undefined
  readonly now: number
}

async function recordTree(ctx: Ctx, caller: EnforcementCaller, of: TreeCalls): Promise<void> {
  const tenantId = caller.tenant.id
  await withTx(ctx.db, 'report_calls', async (tx) => {
    if (of.key !== undefined) {
      // What was sent is part of the key: other calls under a key that was used before are not lost.
      const bodyHash = digestOf(of.calls)
      const part = { key: `${of.key} ${of.rootId} ${bodyHash}`, bodyHash }
      if (!(await firstTime(tx, { tenantId, caller: caller.id, ...part, now: of.now }))) return
    }
    const ids = [...new Set(of.calls.map((call) => call.sessionId as SessionId))]
    const subjects = await lockSubjects(tx, { rootId: of.rootId, ids })
    const journal = new Journal(ctx, tenantId)
    for (const call of of.calls) {
      const subject = subjects.get(call.sessionId)
      if (subject === undefined) continue
      const type = call.outcome === 'allowed' ? 'call.allowed' : 'call.denied'
      journal.session(subject, type, dataOf(call, caller))
    }
    await countUses(tx, usesOf(of.calls))
    await journal.write(tx)
  })
}

/** One row a grant, since an update meets each row once. */
function usesOf(calls: readonly SessionCall[]): readonly GrantUse[] {
  const uses = new Map<string, GrantUse>()
  for (const call of calls) {
    if (call.outcome !== 'allowed') continue
    if (call.grantId === undefined || call.permission === undefined) continue
    const key = `${call.sessionId} ${call.permission} ${call.grantId}`
    const before = uses.get(key)
    uses.set(key, {
      grantId: call.grantId as GrantId,
      sessionId: call.sessionId as SessionId,
      permission: call.permission,
      uses: (before?.uses ?? 0) + (call.count ?? 1),
      lastAt: Math.max(before?.lastAt ?? 0, call.at),
    })
  }
  return [...uses.values()]
}

/** What was lost, and what was refused, is on no chain; so it is counted, by the day. */
async function countOthers(
  ctx: Ctx,
  caller: EnforcementCaller,
  of: { readonly report: Report; readonly refused: number; readonly now: number },
): Promise<void> {
  const { report, refused, now } = of
  if (report.lost === 0 && refused === 0) return
  const tenantId = caller.tenant.id
  await withTx(ctx.db, 'count_calls', async (tx) => {
    if (report.key !== undefined) {
      const bodyHash = digestOf({ lost: report.lost, refused })
      const part = { tenantId, caller: caller.id, key: `${report.key} others`, bodyHash, now }
      if (!(await firstTime(tx, part))) return
    }
    if (refused > 0) await count(tx, { tenantId, name: 'calls_refused', by: refused, now })
    if (report.lost > 0) await count(tx, { tenantId, name: 'calls_lost', by: report.lost, now })
  })
}
