import type { UserCaller } from '../callers.ts'
import type { ActivityRecord } from '../core/activity.ts'
import { layerOf } from '../core/layers.ts'
import { DECISION_REASONS, type DecisionReason, rowOf } from '../core/reason.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { hashOf } from '../db/activity.ts'
import { selectTreeRecords } from '../db/activity-read.ts'
import {
  type Consent,
  type Happened,
  type LinkedRecord,
  type Named,
  namesOf,
  selectCalls,
  selectConsent,
  selectHappened,
  selectLinked,
  selectNamedRule,
  selectNeverUsed,
  selectRoots,
  selectUnusedRules,
  type Titled,
  type TreeFilter,
  titlesOf,
} from '../db/compliance.ts'
import type { Tx } from '../db/tx.ts'
import { iso, type Place, sessionViews } from '../db/view-sessions.ts'
import { scopeOf } from './read-activity.ts'

/** Compliance's questions (SPEC section 11), answered out of the record. Views are as `schema/compliance.ts` gives them. */
type SessionView = Awaited<ReturnType<typeof sessionViews>>[number]

const sum = (rows: readonly { readonly n: number }[]): number =>
  rows.reduce((all, { n }) => all + n, 0)

const count = (rows: readonly Happened[], what: Happened['what']): number =>
  sum(rows.filter((row) => row.what === what))

const countedBy = (rows: readonly Happened[], what: Happened['what']) =>
  rows
    .filter((row) => row.what === what)
    .map(({ by, reason, n }) => ({
      ...(by === null ? {} : { by }),
      ...(reason === null ? {} : { reason }),
      n,
    }))

function itemOf(rows: readonly Happened[], titles: ReadonlyMap<string, Titled>) {
  const [{ permission, resource } = { permission: '', resource: null }] = rows
  const titled = titles.get(permission)
  return {
    permission,
    title: titled?.title ?? permission,
    sensitive: titled?.sensitive ?? false,
    ...(resource === null ? {} : { resource }),
    asked: count(rows, 'asked'),
    granted: countedBy(rows, 'granted'),
    refused: countedBy(rows, 'refused'),
    ended: countedBy(rows, 'ended'),
    calls_allowed: count(rows, 'allowed'),
    calls_denied: count(rows, 'denied'),
    first_at: iso(Math.min(...rows.map((row) => row.first))),
    last_at: iso(Math.max(...rows.map((row) => row.last))),
  }
}

/** An end of the session, or the agent's own giving back, is not a loss. */
const NO_LOSS: ReadonlySet<string | null> = new Set(['session_over', 'released'])

function groups<Row>(rows: readonly Row[], key: (row: Row) => string): ReadonlyMap<string, Row[]> {
  const made = new Map<string, Row[]>()
  for (const row of rows) {
    const group = made.get(key(row))
    if (group === undefined) made.set(key(row), [row])
    else group.push(row)
  }
  return made
}

const named = (users: ReadonlyMap<string, Named>, id: string): Named =>
  users.get(id) ?? { id, login: id, name: id }

function summaryOf(
  session: SessionView,
  rows: readonly Happened[],
  known: {
    readonly users: ReadonlyMap<string, Named>
    readonly titles: ReadonlyMap<string, Titled>
    readonly subagents: ReadonlyMap<string, number>
  },
) {
  const items = [...groups(rows, (row) => JSON.stringify([row.permission, row.resource])).values()]
  return {
    session,
    user: named(known.users, session.user_id),
    subagents: known.subagents.get(session.id) ?? 0,
    asked: count(rows, 'asked'),
    granted: count(rows, 'granted'),
    refused: count(rows, 'refused'),
    lost: sum(rows.filter((row) => row.what === 'ended' && !NO_LOSS.has(row.reason))),
    calls_allowed: count(rows, 'allowed'),
    calls_denied: count(rows, 'denied'),
    items: items.map((of) => itemOf(of, known.titles)),
  }
}

const TREE_MAX = 1000

/**
 * `GET /activity/sessions`: "what did agents access for maya last week" in one call. Root sessions, newest first, each with
 * what was asked, who decided, what was granted and called in its whole tree. Whose: see `scopeOf`.
 */
export async function readTrees(
  tx: Tx,
  caller: UserCaller,
  of: {
    readonly filter: TreeFilter
    readonly after: Place | undefined
    readonly limit: number
    readonly now: number
  },
) {
  const scope = scopeOf(caller)
  const { tenantId } = scope
  const roots = await selectRoots(tx, { ...scope, ...of })
  const ids = roots.map((root) => root.id)
  const sessions = await sessionViews(tx, { tenantId, ids, limit: ids.length, now: of.now })
  const rows = await selectHappened(tx, { tenantId, roots: ids })
  const happened = groups(rows, (row) => row.root)
  const users = await namesOf(tx, { tenantId, users: sessions.map((one) => one.user_id) })
  const titles = await titlesOf(tx, [...new Set(rows.map((row) => row.permission))])
  const subagents = new Map(roots.map((root) => [root.id, root.subagents]))
  const known = { users, titles, subagents }
  return sessions.map((session) => summaryOf(session, happened.get(session.id) ?? [], known))
}

const RECORDS_MAX = 2000
const CALLS_MAX = 4000
const STRETCHES = 120
const STRETCH_SECONDS_MIN = 10

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** From the record of a grant's beginning to that of its end. */
function grantsIn(records: readonly ActivityRecord[]) {
  const ends = new Map(
    records.flatMap((r) =>
      r.type === 'grant.ended' ? [[text(r.data.grant_id) ?? '', r] as const] : [],
    ),
  )
  return records.flatMap(({ type, at, data }) => {
    const grantId = text(data.grant_id)
    if (type !== 'grant.created' || grantId === undefined) return []
    const end = ends.get(grantId)
    const resource = text(data.resource)
    const reason = text(end?.data.reason)
    return [
      {
        grant_id: grantId,
        permission: text(data.permission) ?? '',
        ...(resource === undefined ? {} : { resource }),
        by: text(data.source) ?? '',
        from: at,
        ...(end === undefined ? {} : { to: end.at }),
        ...(reason === undefined ? {} : { ended: reason }),
      },
    ]
  })
}

/** `GET /activity/sessions/{id}/timeline`: one tree as lanes of records, grants and calls, or null when it is not theirs. */
export async function readTimeline(
  tx: Tx,
  caller: UserCaller,
  of: { readonly root: string; readonly now: number },
) {
  const { tenantId, onlyUser } = scopeOf(caller)
  const tree = await sessionViews(tx, {
    tenantId,
    userId: onlyUser ?? undefined,
    rootId: of.root,
    limit: TREE_MAX,
    now: of.now,
  })
  const [session] = tree.filter((one) => one.parent_id === undefined)
  if (session === undefined) return null
  const records = await selectTreeRecords(tx, { tenantId, root: of.root, limit: RECORDS_MAX + 1 })
  const end = Date.parse(session.ended_at ?? iso(of.now)) / 1000
  const life = end - Date.parse(session.created_at) / 1000
  const seconds = Math.max(STRETCH_SECONDS_MIN, Math.ceil(life / STRETCHES))
  const calls = await selectCalls(tx, { tenantId, root: of.root, seconds, limit: CALLS_MAX + 1 })
  const shown = records.slice(0, RECORDS_MAX)
  const lanes = [...tree].reverse().map((one) => {
    const own = shown.filter((record) => record.session_id === one.id)
    return {
      session: one,
      records: own,
      grants: grantsIn(own),
      calls: calls
        .slice(0, CALLS_MAX)
        .filter((call) => call.sessionId === one.id)
        .map(({ permission, at, allowed, denied }) => ({
          permission,
          at: iso(at),
          allowed,
          denied,
        })),
    }
  })
  return {
    session,
    lanes,
    stretch_seconds: seconds,
    truncated: records.length > RECORDS_MAX || calls.length > CALLS_MAX || tree.length === TREE_MAX,
  }
}

/** What of the record alone and its two links does not hold, or null when all does. */
function linkProblem({ record, prev, next }: LinkedRecord): string | null {
  const { hash, ...rest } = record
  if (hashOf(rest) !== hash) return 'altered'
  if (record.seq > 1 && prev === null) return 'missing_before'
  if ((prev?.hash ?? '') !== record.prev_hash) return 'unlinked'
  return next !== null && next.prevHash !== hash ? 'unlinked' : null
}

const isReason = (value: unknown): value is DecisionReason =>
  typeof value === 'string' && DECISION_REASONS.includes(value)

async function decisionOf(tx: Tx, tenantId: TenantId, { data }: ActivityRecord) {
  if (!isReason(data.reason)) return null
  const id = text(data.rule_id)
  const rule = id === undefined ? null : await selectNamedRule(tx, { tenantId, id })
  return {
    layer: layerOf(data.reason),
    reason: data.reason,
    says: rowOf(data.reason).tells,
    ...(rule === null
      ? {}
      : {
          rule: {
            id: rule.id,
            effect: rule.effect,
            status: rule.status,
            created_at: iso(rule.createdAt),
          },
        }),
  }
}

/** `GET /activity/{id}`: one record, what decided, and whether its place in the chain holds; null when it is not theirs. */
export async function readDetail(tx: Tx, caller: UserCaller, id: string) {
  const scope = scopeOf(caller)
  const linked = await selectLinked(tx, { ...scope, id })
  if (linked === null) return null
  const problem = linkProblem(linked)
  const decision = await decisionOf(tx, scope.tenantId, linked.record)
  const { prev, next, checkpoint } = linked
  return {
    record: linked.record,
    ...(decision === null ? {} : { decision }),
    chain: {
      ok: problem === null,
      ...(problem === null ? {} : { problem }),
      ...(prev === null ? {} : { prev_id: prev.id }),
      ...(next === null ? {} : { next_id: next.id }),
      ...(checkpoint === null ? {} : { checkpoint: { n: checkpoint.n, at: iso(checkpoint.at) } }),
    },
  }
}

const DAY_SECONDS = 86_400
const REVIEW_MAX = 200
/** Fewer say nothing about a template or an item. */
const ANSWERED_MIN = 10
const GRANTED_MIN = 3

const answeredIn = (c: Consent): number => c.allowed + c.denied + c.refused

/** `GET /reviews`: what was lent or remembered and is not needed, over so many days. */
export async function readReviews(
  tx: Tx,
  caller: UserCaller,
  of: { readonly days: number; readonly now: number },
) {
  const tenantId = caller.tenant.id
  const since = of.now - of.days * DAY_SECONDS
  const unused = await selectUnusedRules(tx, { tenantId, since, now: of.now, limit: REVIEW_MAX })
  const never = { tenantId, since, atLeast: GRANTED_MIN, limit: REVIEW_MAX }
  const consent = await selectConsent(tx, { tenantId, from: since, to: of.now + 1 })
  return {
    days: of.days,
    unused_rules: unused.map((r) => ({
      id: r.id,
      user: { id: r.userId, login: r.login },
      template: r.template,
      permission: r.permission,
      title: r.title,
      ...(r.resource === null ? {} : { resource: r.resource }),
      created_at: iso(r.createdAt),
      ...(r.lastUsedAt === null ? {} : { last_used_at: iso(r.lastUsedAt) }),
    })),
    never_refused: consent.flatMap((c) =>
      c.template !== null && c.denied === 0 && answeredIn(c) >= ANSWERED_MIN
        ? [{ template: c.template, title: c.title ?? c.template, answered: answeredIn(c) }]
        : [],
    ),
    never_used: await selectNeverUsed(tx, never),
  }
}

const NOTHING: Omit<Consent, 'template' | 'title'> = {
  sessions: 0,
  prompts: 0,
  allowed: 0,
  denied: 0,
  expired: 0,
  cancelled: 0,
  refused: 0,
  median: null,
  p90: null,
}

function healthOf(c: Omit<Consent, 'template' | 'title'>) {
  const answered = c.allowed + c.denied + c.refused
  return {
    sessions: c.sessions,
    prompts: c.prompts,
    prompts_per_session: c.sessions === 0 ? null : c.prompts / c.sessions,
    allowed: c.allowed,
    denied: c.denied,
    expired: c.expired,
    cancelled: c.cancelled,
    refused_at_answer: c.refused,
    approve_rate: answered === 0 ? null : (c.allowed + c.refused) / answered,
    seconds_to_decide:
      c.median === null || c.p90 === null ? null : { median: c.median, p90: c.p90 },
  }
}

/** `GET /consent-health`: whether people still decide, or only click. */
export async function readHealth(
  tx: Tx,
  caller: UserCaller,
  of: { readonly days: number; readonly now: number },
) {
  const from = of.now - of.days * DAY_SECONDS
  const rows = await selectConsent(tx, { tenantId: caller.tenant.id, from, to: of.now + 1 })
  return {
    days: of.days,
    all: healthOf(rows.find((row) => row.template === null) ?? NOTHING),
    templates: rows.flatMap((row) =>
      row.template === null
        ? []
        : [{ template: row.template, title: row.title ?? row.template, ...healthOf(row) }],
    ),
  }
}
