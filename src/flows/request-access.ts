import type { AgentCaller } from '../callers.ts'
import { decide, type Verdict } from '../core/decide.ts'
import { factsOf, isSensitive } from '../core/facts.ts'
import { itemKey } from '../core/item.ts'
import type { GrantId, Item, ItemId, RequestId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { expirePrompts, itemData, narrowTree } from '../db/endings.ts'
import { insertGrants, type NewGrant } from '../db/grants.ts'
import { insertRequest } from '../db/requests.ts'
import { maskedFields } from '../db/restrictions.ts'
import { type Node, nodeIn, type PendingRow, subjectOf, type Tree, worldOf } from '../db/tree.ts'
import { lockTree } from '../db/tree-read.ts'
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
async function refuseCall(
  tx: Tx,
  journal: Journal,
  node: Node,
  asked: Asked,
  fault: Fault,
): Promise<Result<never>> {
  journal.session(subjectOf(node), 'access.requested', {
    reason: asked.reason,
    items: asked.items
      .slice(0, node.limits.itemsPerRequest)
      .map((i) => ({ permission: i.permission.slice(0, 128) })),
    refused: fault.code,
    ...(fault.limit === undefined ? {} : { limit: fault.limit }),
    ...(fault.retryAfterSeconds === undefined ? {} : { retry_after: fault.retryAfterSeconds }),
  })
  await journal.write(tx)
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

function write(
  ctx: Ctx,
  tx: Tx,
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
    insertRequest(tx, {
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
    insertGrants(tx, { tenantId: node.tenantId, now }, granted)
  }
  return { requestId, expiresAt, granted }
}

/** The request that asks for an item: this call's, or the one before it that asks already. */
const askedBy = (already: PendingRow | undefined, written: Written) => ({
  requestId: already?.requestId ?? written.requestId,
  expiresAt: already?.expiresAt ?? written.expiresAt,
})

/**
 * `iam.request_access` (SPEC sections 4, 7): every item is granted, refused or asked of the user, in one transaction
 * under the root session's lock, with its record (I2, I12). Does not wait for the user: see `await-answer.ts`.
 * Faults: `session_over`, `token_stale`, `frozen`, `limit_reached`, `item_invalid` and the like; nothing is granted then.
 */
export async function requestAccess(
  ctx: Ctx,
  caller: AgentCaller,
  asked: Asked,
): Promise<Result<AskResult>> {
  const result = await hotTx(ctx.db, 'request_access', async (tx): Promise<Result<AskResult>> => {
    const now = secondsNow(ctx.clock)
    const { sessionId } = caller
    const names = asked.items.map((i) => i.permission)
    const found = await lockTree(tx, {
      tenantId: caller.tenant.id,
      sessionId,
      now,
      asked: names,
    })
    const live = liveNode(found, sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const before = live.value
    const journal = new Journal(ctx, before.node.tenantId)
    const rate = rateFault(before.tree, now)
    const refused =
      freezeFault(before.tree, before.node) ??
      rate.fault ??
      sizeFault(before.node, asked.items.length)
    if (refused) return refuseCall(tx, journal, before.node, asked, refused)

    const masked = asked.items.some((i) => i.narrow)
      ? await maskedFields(tx, before.node.userId)
      : new Map()
    const items = canonicalItems(asked.items, { catalog: before.tree.catalog, masked })
    // A call that is not understood costs as much as one that is.
    if (!items.ok) {
      journal.charge(before.node.rootId, rate.times)
      await journal.write(tx)
      return items
    }
    // What has been lost since the last look is not held: it neither answers for another item nor stands in its way.
    // A question whose time is up is no longer asked, whether or not the sweep has been here: it is asked anew.
    const { tree } = expirePrompts(tx, journal, narrowTree(tx, journal, before.tree).tree, now)
    const node = nodeIn(tree, sessionId) ?? before.node
    const decided = decideAll(ctx, tree, node, distinct(items.value))
    const prompts = decided.some((d) => d.verdict.outcome === 'asked' && d.already === undefined)
    const crowded = prompts ? openFault(tree) : null
    if (crowded) return refuseCall(tx, journal, node, asked, crowded)
    journal.charge(node.rootId, rate.times)
    const written = write(ctx, tx, journal, { node, asked, decided, tree, now })
    await journal.write(tx)

    const anew = decided.some((d) => d.already === undefined)
    const already = decided.find((d) => d.already !== undefined)?.already
    const byKey = new Map(decided.map((d) => [itemKey(d.item), d]))
    return ok({
      items: items.value
        .flatMap((item) => byKey.get(itemKey(item)) ?? [])
        .map((d) => ({
          item: d.item,
          verdict: d.verdict,
          ...(d.itemId === undefined ? {} : { itemId: d.itemId }),
          ...(d.verdict.outcome === 'asked' ? askedBy(d.already, written) : {}),
        })),
      ...(anew
        ? { requestId: written.requestId }
        : already
          ? { requestId: already.requestId }
          : {}),
      held: [...node.grants.map((g) => g.id), ...written.granted.map((g) => g.id)],
    })
  })
  ctx.notify.kick()
  return result
}
