import type { GrantView, ItemOutcome, PendingView } from '../../schema/tools.ts'
import type { AgentCaller } from '../callers.ts'
import { type DecisionReason, rowOf } from '../core/reason.ts'
import type { GrantId, Item } from '../core/vocabulary.ts'
import { tenantCtx } from '../db/shares.ts'
import type { GrantRow, PendingRow } from '../db/tree.ts'
import { ok, type Result } from '../fault.ts'
import { awaitAnswer } from '../flows/await-answer.ts'
import { endSession } from '../flows/end-session.ts'
import { describePermissions, explain } from '../flows/explain.ts'
import { templateRef } from '../flows/live.ts'
import { myAccess } from '../flows/my-access.ts'
import { releaseAccess } from '../flows/release-access.ts'
import { type AskedItem, requestAccess } from '../flows/request-access.ts'
import { startSubagent } from '../flows/start-subagent.ts'
import { userWords } from '../flows/user-words.ts'
import { type Ctx, issuerOf } from '../ports.ts'
import type { IamTools, ToolExtra } from './tools.ts'

const DESCRIBED_DEFAULT = 10
/** An expired question may be asked again at once. */
const EXPIRED_RETRY_SECONDS = 0

const iso = (seconds: number): string => new Date(seconds * 1000).toISOString()

const itemView = (item: Item) => ({
  permission: item.permission,
  ...(item.resource === undefined ? {} : { resource: item.resource }),
  ...(item.narrow === undefined ? {} : { narrow: item.narrow }),
})

const grantView = (g: GrantRow): GrantView => ({
  id: g.id,
  ...itemView(g.item),
  read_only: g.readOnly,
  source: {
    by: g.source,
    ...(g.ruleId === null ? {} : { rule_id: g.ruleId }),
    ...(g.requestId === null ? {} : { request_id: g.requestId }),
    ...(g.parentSessionId === null ? {} : { from_session: g.parentSessionId }),
  },
  since: iso(g.createdAt),
  uses: g.uses,
  ...(g.lastUsedAt === null ? {} : { last_used_at: iso(g.lastUsedAt) }),
})

/** What is held now differs from what the presented token carries. */
const needsRefresh = (caller: AgentCaller, held: readonly GrantId[]): boolean =>
  held.length !== caller.carries.length + caller.omits ||
  caller.carries.some((id) => !held.includes(id))

type Standing = {
  readonly outcome: 'granted' | 'refused' | 'pending'
  readonly reason: DecisionReason
  readonly note: string | null
}

function outcomeView(asked: AskedItem, now: Standing): ItemOutcome {
  const row = rowOf(now.reason)
  const words = now.note === null ? '' : ` In the user’s words: “${now.note}”`
  return {
    ...itemView(asked.item),
    outcome: now.outcome,
    reason: now.reason,
    message: `${row.says}${words}`,
    retry: row.retry,
    ...(row.retry === 'later' ? { retry_after: EXPIRED_RETRY_SECONDS } : {}),
    ...(asked.requestId === undefined ? {} : { request_id: asked.requestId }),
  }
}

const standing = (asked: AskedItem, note: string | null): Standing => ({
  outcome: asked.verdict.outcome === 'asked' ? 'pending' : asked.verdict.outcome,
  reason: asked.verdict.reason,
  note,
})

/** Where the user answers; the agent can show it and do nothing with it. */
const reviewUrl = (ctx: Ctx, caller: AgentCaller, requestId: string): string =>
  `${issuerOf(ctx, caller.tenant.slug)}/approvals/${requestId}`

const requestTool =
  (ctx: Ctx): IamTools['iam.request_access'] =>
  async (caller, args, extra: ToolExtra) => {
    const result = await requestAccess(ctx, caller, { items: args.items, reason: args.reason })
    if (!result.ok) return result
    const { value } = result
    const pending = value.items.filter((i) => i.verdict.outcome === 'asked')
    const ids = pending.flatMap((i) => i.itemId ?? [])
    const waited =
      ids.length > 0 && (args.wait_seconds ?? 0) > 0
        ? await awaitAnswer(ctx, caller, {
            ids,
            seconds: args.wait_seconds ?? 0,
            signal: extra.signal,
            progress: extra.progress,
          })
        : null
    const now = new Map(waited?.items.map((i) => [i.id, i]))
    const words = await userWords(ctx, caller, value.items)
    const standingNow = (i: AskedItem): Standing =>
      (i.itemId && now.get(i.itemId)) || standing(i, words(i))
    const open = value.items.filter((i) => standingNow(i).outcome === 'pending')
    // What this call asked comes first; else a question from before that is still open.
    const waits = open.find((i) => i.requestId === value.requestId) ?? open[0]
    return ok({
      items: value.items.map((i) => outcomeView(i, standingNow(i))),
      ...(value.requestId === undefined ? {} : { request_id: value.requestId }),
      ...(waits?.expiresAt === undefined ? {} : { expires_at: iso(waits.expiresAt) }),
      ...(waits?.requestId === undefined
        ? {}
        : { review_url: reviewUrl(ctx, caller, waits.requestId) }),
      token_refresh: needsRefresh(caller, waited?.held ?? value.held),
    })
  }

const myAccessTool =
  (ctx: Ctx): IamTools['iam.my_access'] =>
  async (caller) => {
    const result = await myAccess(ctx, caller)
    if (!result.ok) return result
    const { node } = result.value
    const pendingView = (p: PendingRow): PendingView => ({
      request_id: p.requestId,
      ...itemView(p.item),
      reason: p.reason,
      message: rowOf(p.reason).says,
      since: iso(p.createdAt),
      expires_at: iso(p.expiresAt),
      review_url: reviewUrl(ctx, caller, p.requestId),
    })
    return ok({
      grants: node.grants.map(grantView),
      pending: node.pending.map(pendingView),
      mode: node.mode,
      expires_at: iso(node.expiresAt),
      template: templateRef(node),
      context: node.context,
      token_refresh: needsRefresh(
        caller,
        node.grants.map((g) => g.id),
      ),
    })
  }

/** The seven tools over their flows (SPEC section 7). What a model sees never holds a token (I18). */
export function iamTools(ctx: Ctx): IamTools {
  const of = ({ tenant }: AgentCaller): IamTools => toolsOn(tenantCtx(ctx, tenant))
  return {
    'iam.request_access': (caller, ...call) => of(caller)['iam.request_access'](caller, ...call),
    'iam.my_access': (caller, ...call) => of(caller)['iam.my_access'](caller, ...call),
    'iam.describe_permissions': (caller, ...call) =>
      of(caller)['iam.describe_permissions'](caller, ...call),
    'iam.explain': (caller, ...call) => of(caller)['iam.explain'](caller, ...call),
    'iam.start_subagent': (caller, ...call) => of(caller)['iam.start_subagent'](caller, ...call),
    'iam.release_access': (caller, ...call) => of(caller)['iam.release_access'](caller, ...call),
    'iam.end_session': (caller, ...call) => of(caller)['iam.end_session'](caller, ...call),
  }
}

const toolsOn = (ctx: Ctx): IamTools => ({
  'iam.request_access': requestTool(ctx),
  'iam.my_access': myAccessTool(ctx),
  'iam.describe_permissions': async (caller, args) => {
    const result = await describePermissions(ctx, caller, {
      task: args.task,
      kind: args.kind,
      limit: args.limit ?? DESCRIBED_DEFAULT,
    })
    return mapped(result, (rows) => ({
      permissions: rows.map((row) => ({
        id: row.id,
        title: row.title,
        unlocks: row.description,
        kind: row.kind,
        risk: row.risk,
        sensitive: row.standing.sensitive,
        delegable: row.delegable,
        in_ceiling: row.standing.inCeiling,
        held: row.standing.held,
        ...(row.standing.resourceHint === undefined
          ? {}
          : { resource_hint: row.standing.resourceHint }),
        why:
          row.matched.length === 0
            ? 'Close to the task.'
            : `Fits “${row.matched.join('”, “')}” in the task.`,
      })),
    }))
  },
  'iam.explain': async (caller, args) =>
    mapped(
      await explain(ctx, caller, args.permission),
      ({ row, standing: s, would, permission }) => ({
        permission,
        ...(row === null
          ? {}
          : {
              title: row.title,
              unlocks: row.description,
              kind: row.kind,
              risk: row.risk,
              sensitive: s.sensitive,
              enforced_at: row.enforcedAt,
              delegable: row.delegable,
            }),
        in_ceiling: s.inCeiling,
        held: s.held,
        ...(s.resourceHint === undefined ? {} : { resource_hint: s.resourceHint }),
        would: { outcome: would.outcome, reason: would.reason, message: rowOf(would.reason).says },
      }),
    ),
  'iam.start_subagent': async (caller, args) =>
    mapped(
      await startSubagent(ctx, caller, {
        template: args.template,
        readOnly: args.read_only ?? false,
        task: args.task,
      }),
      (child) => ({
        session_id: child.id,
        template: child.template,
        inherited: child.inherited.map((g) => ({
          id: g.id,
          ...itemView(g.item),
          read_only: g.readOnly,
        })),
        expires_at: iso(child.expiresAt),
        mode: child.mode,
        read_only: child.readOnly,
      }),
    ),
  'iam.release_access': async (caller, args) => {
    const releases = args.items.map((item) =>
      'grant_id' in item ? { grantId: item.grant_id } : item,
    )
    return mapped(await releaseAccess(ctx, caller, releases), ({ released, held }) => ({
      released: released.map((g) => ({ id: g.id, ...itemView(g.item) })),
      token_refresh: needsRefresh(caller, held),
    }))
  },
  'iam.end_session': async (caller, args) =>
    mapped(await endSession(ctx, caller, args.summary), (ended) => ({
      sessions_ended: ended.sessions,
      grants_revoked: ended.grants,
    })),
})

const mapped = <A, B>(result: Result<A>, map: (value: A) => B): Result<B> =>
  result.ok ? ok(map(result.value)) : result
