import type { AgentCaller, TenantRef } from '../callers.ts'
import { decide, type Verdict } from '../core/decide.ts'
import { factsOf, isSensitive } from '../core/facts.ts'
import { itemKey } from '../core/item.ts'
import type { GrantId, Item, ItemId, RequestId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { inTurn, isAgain, LATER, shareWork, WRITES } from '../db/batches.ts'
import { expirePrompts, itemData, narrowTree } from '../db/endings.ts'
import { insertGrants, type NewGrant } from '../db/grants.ts'
import { insertRequests, type NewRequest } from '../db/requests.ts'
import { maskedFields } from '../db/restrictions.ts'
import { type Node, nodeIn, type PendingRow, subjectOf, type Tree, worldOf } from '../db/tree.ts'
import { lockTrees } from '../db/tree-read.ts'
import { hotTx, type Tx } from '../db/tx.ts'
import { type Fault, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { canonicalItems, digestOf, distinct, type RawItem } from './items.ts'
import { freezeFault, limitFault, liveNode, secondsNow } from './live.ts'
import { rateFault } from './rate.ts'

export type Asked = {
  readonly items: readonly RawItem[]
  readonly reason: string
}

/**
 * One item's standing after the call. `requestId`, and until when that request waits, when the user has been, or is
 * already, asked.
 */
export type AskedItem = {
  readonly item: Item
  readonly verdict: Verdict
  readonly itemId?: ItemId
  readonly requestId?: RequestId
  readonly expiresAt?: number
}

export type AskResult = {
  readonly items: readonly AskedItem[]
  readonly requestId?: RequestId
  /** What the session holds now. */
  readonly held: readonly GrantId[]
}

type Decided = AskedItem & { readonly already?: PendingRow }

const DECIDED_BY = {
  allow_rule: 'rule',
  deny_rule: 'rule',
  mode_auto: 'mode',
  mode_bypass: 'mode',
} as const

const decidedBy = (verdict: Verdict): 'rule' | 'mode' | 'policy' =>
  verdict.reason in DECIDED_BY ? DECIDED_BY[verdict.reason as keyof typeof DECIDED_BY] : 'policy'

function sizeFault(node: Node, count: number): Fault | null {
  const most = node.limits.itemsPerRequest
  return count <= most
    ? null
    : limitFault('itemsPerRequest', 0, `At most ${most} items in one request. Ask for fewer.`)
}

function openFault(tree: Tree): Fault | null {
  const most = tree.root.limits.openRequests
  return tree.openRequests < most
    ? null
    : limitFault(
        'openRequests',
        30,
        `${most} requests already wait for the user. Wait for an answer first.`,
      )
}

/** A refused call leaves its record and nothing else (SPEC section 3). */
function refuseCall(journal: Journal, node: Node, asked: Asked, fault: Fault): Result<never> {
  journal.session(subjectOf(node), 'access.requested', {
    reason: asked.reason,
    items: asked.items
      .slice(0, node.limits.itemsPerRequest)
      .map((i) => ({ permission: i.permission.slice(0, 128) })),
    refused: fault.code,
    ...(fault.limit === undefined ? {} : { limit: fault.limit }),
    ...(fault.retryAfterSeconds === undefined ? {} : { retry_after: fault.retryAfterSeconds }),
  })
  return { ok: false, fault }
}

function decideAll(ctx: Ctx, tree: Tree, node: Node, items: readonly Item[]): readonly Decided[] {
  const world = worldOf(tree, node)
  return items.map((item) => {
    const verdict = decide(factsOf(world, item))
    const already =
      verdict.outcome === 'asked'
        ? node.pending.find((p) => itemKey(p.item) === itemKey(item))
        : undefined
    return already === undefined
      ? { item, verdict, itemId: ctx.ids.id('item') }
      : { item, verdict, itemId: already.id, requestId: already.requestId, already }
  })
}

const grantsOf = (
  ctx: Ctx,
  node: Node,
  decided: readonly Decided[],
  requestId: RequestId,
): NewGrant[] =>
  decided
    .filter((d) => d.verdict.outcome === 'granted' && d.verdict.reason !== 'already_held')
    .map((d) => ({
      id: ctx.ids.id<GrantId>('grant'),
      sessionId: node.id,
      item: d.item,
      readOnly: false,
      sensitive: false,
      source: d.verdict.reason === 'allow_rule' ? 'rule' : 'mode',
      ruleId: d.verdict.ruleId,
      requestId,
    }))

type Written = {
  readonly requestId: RequestId
  readonly expiresAt: number
  readonly granted: readonly NewGrant[]
}

/** What the calls of one transaction write beside their records: a statement each. */
type Rows = { readonly requests: NewRequest[]; readonly grants: NewGrant[] }

function write(
  ctx: Ctx,
  rows: Rows,
  journal: Journal,
  of: {
    readonly node: Node
    readonly asked: Asked
    readonly decided: readonly Decided[]
    readonly tree: Tree
    readonly now: number
  },
): Written {
  const { node, asked, decided, now } = of
  const fresh = decided.filter((d) => d.already === undefined)
  const requestId = ctx.ids.id<RequestId>('request')
  const wait = node.limits.requestWaitSeconds
  const expiresAt = wait === undefined ? node.expiresAt : Math.min(node.expiresAt, now + wait)
  const granted = grantsOf(ctx, node, fresh, requestId)
  journal.session(subjectOf(node), 'access.requested', {
    ...(fresh.length === 0 ? {} : { request_id: requestId }),
    reason: asked.reason,
    items: decided.map((d) => ({
      ...itemData(d.item),
      outcome: d.verdict.outcome,
      reason: d.verdict.reason,
      ...(d.already === undefined ? {} : { already_asked: d.already.requestId }),
    })),
  })
  for (const d of fresh) {
    if (d.verdict.outcome === 'asked') continue
    journal.session(subjectOf(node), 'access.decided', {
      request_id: requestId,
      item_id: d.itemId,
      ...itemData(d.item),
      outcome: d.verdict.outcome,
      reason: d.verdict.reason,
      decided_by: decidedBy(d.verdict),
      ...(d.verdict.ruleId === undefined ? {} : { rule_id: d.verdict.ruleId }),
    })
  }
  for (const g of granted) {
    journal.session(subjectOf(node), 'grant.created', {
      grant_id: g.id,
      ...itemData(g.item),
      source: g.source,
      request_id: requestId,
      ...(g.ruleId === undefined ? {} : { rule_id: g.ruleId }),
    })
  }
  if (fresh.length > 0) {
    const world = worldOf(of.tree, node)
    rows.requests.push({
      id: requestId,
      tenantId: node.tenantId,
      sessionId: node.id,
      rootId: node.rootId,
      userId: node.userId,
      reason: asked.reason,
      digest: digestOf(fresh.map((d) => d.item)),
      now,
      expiresAt,
      items: fresh.map((d) => ({
        id: d.itemId ?? ctx.ids.id<ItemId>('item'),
        item: d.item,
        sensitive: isSensitive(world, d.item),
        outcome: d.verdict.outcome === 'asked' ? 'pending' : d.verdict.outcome,
        reason: d.verdict.reason,
        ruleId: d.verdict.ruleId,
      })),
    })
    rows.grants.push(...granted)
  }
  return { requestId, expiresAt, granted }
}

/** The request that asks for an item: this call's, or the one before it that asks already. */
const askedBy = (already: PendingRow | undefined, written: Written) => ({
  requestId: already?.requestId ?? written.requestId,
  expiresAt: already?.expiresAt ?? written.expiresAt,
})

type Call = { readonly caller: AgentCaller; readonly asked: Asked }
type Answer = Result<AskResult> | typeof LATER

const askTogether = shareWork(
  (ctx: Ctx, tenant: TenantRef, calls: readonly Call[]) =>
    hotTx(ctx.db, 'request_access', (tx) => askAll(ctx, tx, tenant, calls)),
  WRITES,
)

/**
 * `iam.request_access` (SPEC sections 4, 7): every item is granted, refused or asked of the user, in one transaction
 * under the root session's lock, with its record (I2, I12). Calls of one tenant that come at once share it. Does not wait for
 * the user: see `await-answer.ts`.
 * Faults: `session_over`, `token_stale`, `frozen`, `limit_reached`, `item_invalid` and the like; nothing is granted then.
 */
export async function requestAccess(
  ctx: Ctx,
  caller: AgentCaller,
  asked: Asked,
): Promise<Result<AskResult>> {
  const result = await inTurn(() => askTogether(ctx, caller.tenant, { caller, asked }))
  ctx.notify.kick()
  return result
}

/** Calls of one tenant, each for itself: one that is refused changes nothing for the others. */
async function askAll(
  ctx: Ctx,
  tx: Tx,
  tenant: TenantRef,
  calls: readonly Call[],
): Promise<readonly Answer[]> {
  const now = secondsNow(ctx.clock)
  const names = new Set(calls.flatMap(({ asked }) => asked.items.map((i) => i.permission)))
  const trees = await lockTrees(
    tx,
    { tenantId: tenant.id, now, asked: [...names] },
    calls.map(({ caller }) => ({ sessionId: caller.sessionId })),
  )
  const journal = new Journal(ctx, tenant.id)
  const rows: Rows = { requests: [], grants: [] }
  const again = isAgain(trees)
  const answers: Answer[] = []
  for (const [i, call] of calls.entries()) {
    const of = { ...call, tree: trees[i] ?? null, now }
    answers.push(again[i] ? LATER : await askOne(ctx, tx, { journal, rows }, of))
  }
  insertRequests(tx, rows.requests)
  insertGrants(tx, { tenantId: tenant.id, now }, rows.grants)
  await journal.write(tx)
  return answers
}

/** The caller writes the journal and the rows. */
async function askOne(
  ctx: Ctx,
  tx: Tx,
  to: { readonly journal: Journal; readonly rows: Rows },
  of: Call & { readonly tree: Tree | null; readonly now: number },
): Promise<Result<AskResult>> {
  const { caller, asked, now } = of
  const { journal } = to
  const { sessionId } = caller
  const live = liveNode(of.tree, sessionId, now, caller.sessionVersion)
  if (!live.ok) return live
  const before = live.value
  const rate = rateFault(before.tree, now)
  const refused =
    freezeFault(before.tree, before.node) ??
    rate.fault ??
    sizeFault(before.node, asked.items.length)
  if (refused) return refuseCall(journal, before.node, asked, refused)

  const masked = asked.items.some((i) => i.narrow)
    ? await maskedFields(tx, before.node.userId)
    : new Map()
  const items = canonicalItems(asked.items, { catalog: before.tree.catalog, masked })
  // A call that is not understood costs as much as one that is.
  if (!items.ok) {
    journal.charge(before.node.rootId, rate.times)
    return items
  }
  // What has been lost since the last look is not held: it neither answers for another item nor stands in its way.
  // A question whose time is up is no longer asked, whether or not the sweep has been here: it is asked anew.
  const { tree } = expirePrompts(tx, journal, narrowTree(tx, journal, before.tree).tree, now)
  const node = nodeIn(tree, sessionId) ?? before.node
  const decided = decideAll(ctx, tree, node, distinct(items.value))
  const prompts = decided.some((d) => d.verdict.outcome === 'asked' && d.already === undefined)
  const crowded = prompts ? openFault(tree) : null
  if (crowded) return refuseCall(journal, node, asked, crowded)
  journal.charge(node.rootId, rate.times)
  const written = write(ctx, to.rows, journal, { node, asked, decided, tree, now })
  return ok(resultOf(items.value, decided, { node, written }))
}

function resultOf(
  items: readonly Item[],
  decided: readonly Decided[],
  { node, written }: { readonly node: Node; readonly written: Written },
): AskResult {
  const anew = decided.some((d) => d.already === undefined)
  const already = decided.find((d) => d.already !== undefined)?.already
  const byKey = new Map(decided.map((d) => [itemKey(d.item), d]))
  return {
    items: items
      .flatMap((item) => byKey.get(itemKey(item)) ?? [])
      .map((d) => ({
        item: d.item,
        verdict: d.verdict,
        ...(d.itemId === undefined ? {} : { itemId: d.itemId }),
        ...(d.verdict.outcome === 'asked' ? askedBy(d.already, written) : {}),
      })),
    ...(anew ? { requestId: written.requestId } : already ? { requestId: already.requestId } : {}),
    held: [...node.grants.map((g) => g.id), ...written.granted.map((g) => g.id)],
  }
}
