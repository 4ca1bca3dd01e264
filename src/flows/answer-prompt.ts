import type { UserCaller } from '../callers.ts'
import { wallsNow } from '../core/decide.ts'
import { factsOf, isSensitive, type World } from '../core/facts.ts'
import { coveredBy, overlappedBy } from '../core/item.ts'
import type { DecisionReason } from '../core/reason.ts'
import type { GrantId, Item, ItemId, RequestId, RuleId, SessionId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { itemData, narrowTree } from '../db/endings.ts'
import { insertGrants, type NewGrant } from '../db/grants.ts'
import { guardUserAlone } from '../db/guard.ts'
import { settleItems } from '../db/requests.ts'
import { renewRule, saveRule } from '../db/rules.ts'
import { type ItemJson, itemOf, type Node, nodeIn, subjectOf, worldOf } from '../db/tree.ts'
import { lockTree } from '../db/tree-read.ts'
import { hotTx, type Tx } from '../db/tx.ts'
import { type Fault, type FieldError, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { endDenied } from './edit-rules.ts'
import { freezeFault, liveNode, secondsNow, templateRef } from './live.ts'

export const ANSWERS = ['allow_once', 'allow_always', 'deny', 'deny_always'] as const
export type Answer = (typeof ANSWERS)[number]

export type Answers = {
  readonly requestId: RequestId
  /** What the person was shown; a different one is a conflict. */
  readonly digest: string
  readonly items: readonly {
    readonly id: string
    readonly decision: Answer
    readonly ruleExpiresAt?: number | undefined
  }[]
  /** The person's own words to the agent. */
  readonly note?: string | undefined
}

type RequestSql = {
  sessionId: SessionId
  digest: string
  status: 'pending' | 'settled'
  expiresAt: number
}
type ItemSql = ItemJson & {
  id: ItemId
  outcome: 'pending' | 'granted' | 'refused'
  reason: DecisionReason
  shownSensitive: boolean
  askedReason: DecisionReason | null
  ruleId: RuleId | null
}
type Question = {
  readonly item: Item
  readonly row: ItemSql
  readonly answer: Answer
  readonly ruleExpiresAt?: number | undefined
}

const isYes = (answer: Answer): boolean => answer === 'allow_once' || answer === 'allow_always'
const isAlways = (answer: Answer): boolean => answer === 'allow_always' || answer === 'deny_always'

async function readRequest(tx: Tx, caller: UserCaller, id: RequestId) {
  const [row] = await tx.sql<RequestSql & { items: ItemSql[] }>`
    select r.session_id as "sessionId", r.digest, r.status,
      extract(epoch from r.expires_at)::float8 as "expiresAt",
      (select json_agg(x) from (
        select i.id, i.permission_id as permission, i.resource, i.narrow, i.outcome, i.decision_reason as reason,
          i.sensitive as "shownSensitive", i.asked_reason as "askedReason", i.rule_id as "ruleId"
        from request_item i where i.request_id = r.id order by i.position) x) as items
    from access_request r
    where r.id = ${id} and r.tenant_id = ${caller.tenant.id} and r.user_id = ${caller.userId}`
  return row ?? null
}

/** Whether this answer comes too late, twice or for something else: asked before all else (SPEC section 4). */
function conflict(
  request: RequestSql,
  items: readonly ItemSql[],
  digest: string,
  now: number,
): Fault | null {
  if (request.status === 'settled') {
    if (items.some((i) => i.reason === 'expired')) return { code: 'request_expired' }
    if (items.some((i) => i.reason === 'cancelled')) return { code: 'request_cancelled' }
    return { code: 'already_answered' }
  }
  if (digest !== request.digest) return { code: 'digest_mismatch' }
  return now >= request.expiresAt ? { code: 'request_expired' } : null
}

/** Every pending item exactly once, nothing else, nothing sensitive for always: else nothing is written. */
function questionsOf(
  items: readonly ItemSql[],
  answers: Answers,
  now: number,
): Result<readonly Question[]> {
  const pending = items.filter((i) => i.outcome === 'pending')
  const errors: FieldError[] = []
  for (const [i, answer] of answers.items.entries()) {
    const path = `items.${i}`
    if (!pending.some((p) => p.id === answer.id))
      errors.push({ path: `${path}.id`, message: 'is not a pending item of this request' })
    if (answers.items.findIndex((a) => a.id === answer.id) !== i)
      errors.push({ path: `${path}.id`, message: 'is answered twice' })
    if (answer.ruleExpiresAt !== undefined && !isAlways(answer.decision))
      errors.push({
        path: `${path}.rule_expires_at`,
        message: 'only an always has a rule to expire',
      })
    if (answer.ruleExpiresAt !== undefined && answer.ruleExpiresAt <= now)
      errors.push({ path: `${path}.rule_expires_at`, message: 'must be in the future' })
  }
  const missing = pending.filter((p) => !answers.items.some((a) => a.id === p.id))
  for (const item of missing) errors.push({ path: 'items', message: `${item.id} has no answer` })
  if (errors.length > 0) return fail('answer_incomplete', { errors })
  const questions = pending.map((row) => {
    const { decision, ruleExpiresAt } = answers.items.find((a) => a.id === row.id) ?? {
      decision: 'deny' as const,
      ruleExpiresAt: undefined,
    }
    return { item: itemOf(row), row, answer: decision, ruleExpiresAt }
  })
  const remembered = questions.findIndex((q) => q.row.shownSensitive && q.answer === 'allow_always')
  return remembered === -1
    ? ok(questions)
    : fail('sensitive_not_remembered', {
        errors: [
          { path: `items.${remembered}.decision`, message: 'is sensitive: allow_once or deny' },
        ],
      })
}

type Judged = Question & {
  readonly outcome: 'granted' | 'refused'
  readonly reason: DecisionReason
}

/** The walls once more, as they stand now; a no stands whatever they say. */
function judge(world: World, questions: readonly Question[]): readonly Judged[] {
  const deniedForGood = questions.filter((q) => q.answer === 'deny_always').map((q) => q.item)
  return questions.map((q) => {
    if (!isYes(q.answer)) return { ...q, outcome: 'refused', reason: 'denied_by_user' }
    const facts = factsOf(world, q.item)
    const wall = wallsNow(facts)
    if (wall !== null) return { ...q, outcome: 'refused', reason: wall }
    // A deny rule made since, or in this very answer, would end the grant at once.
    if (facts.rules.deny !== undefined || overlappedBy(deniedForGood, q.item))
      return { ...q, outcome: 'refused', reason: 'deny_rule' }
    if (facts.sensitive && q.answer === 'allow_always')
      return { ...q, outcome: 'refused', reason: 'sensitive' } // I8: it became sensitive since it was shown.
    return { ...q, outcome: 'granted', reason: 'allowed_by_user' }
  })
}

async function saveRules(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  node: Node,
  world: World,
  of: { requestId: RequestId; judged: readonly Judged[] },
) {
  const rules = new Map<ItemId, RuleId>()
  for (const q of of.judged) {
    if (!isAlways(q.answer) || (q.answer === 'allow_always' && q.outcome !== 'granted')) continue
    const effect = q.answer === 'allow_always' ? 'allow' : 'deny'
    const template = node.templateName
    const rule = {
      id: ctx.ids.id<RuleId>('rule'),
      tenantId: node.tenantId,
      userId: node.userId,
      templateId: node.templateId,
      effect,
      item: q.item,
      createdFrom: of.requestId,
      expiresAt: q.ruleExpiresAt,
      now: secondsNow(ctx.clock),
    } as const
    // Only a rule that still stands can be renewed: it may have been deleted or have run out since the question.
    const renewed =
      effect === 'allow' && q.row.askedReason === 'reconsent'
        ? world.rules.find((r) => r.id === q.row.ruleId)
        : undefined
    if (renewed !== undefined) {
      if (q.ruleExpiresAt === undefined) await renewRule(tx, renewed.id)
      else await saveRule(tx, { ...rule, item: renewed.item })
      journal.session(subjectOf(node), 'rule.confirmed', {
        rule_id: renewed.id,
        ...itemData(q.item),
      })
      rules.set(q.row.id, renewed.id)
      continue
    }
    const id = await saveRule(tx, rule)
    journal.session(subjectOf(node), 'rule.created', {
      rule_id: id,
      effect,
      rule_template: template,
      ...itemData(q.item),
    })
    rules.set(q.row.id, id)
  }
  return rules
}

function grantAllowed(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  node: Node,
  world: World,
  of: { requestId: RequestId; judged: readonly Judged[] },
) {
  const granted: NewGrant[] = []
  for (const q of of.judged) {
    const held = [...world.held, ...granted.map((g) => g.item)]
    if (q.outcome !== 'granted' || coveredBy(held, q.item)) continue
    granted.push({
      id: ctx.ids.id<GrantId>('grant'),
      sessionId: node.id,
      item: q.item,
      readOnly: false,
      sensitive: isSensitive(world, q.item),
      source: 'user',
      requestId: of.requestId,
    })
  }
  insertGrants(tx, { tenantId: node.tenantId, now: secondsNow(ctx.clock) }, granted)
  for (const g of granted)
    journal.session(subjectOf(node), 'grant.created', {
      grant_id: g.id,
      ...itemData(g.item),
      source: 'user',
      request_id: of.requestId,
    })
}

function record(
  tx: Tx,
  journal: Journal,
  caller: UserCaller,
  of: {
    node: Node
    requestId: RequestId
    judged: readonly Judged[]
    rules: ReadonlyMap<ItemId, RuleId>
    note: string | undefined
    now: number
  },
) {
  for (const q of of.judged) {
    journal.session(subjectOf(of.node), 'access.decided', {
      request_id: of.requestId,
      item_id: q.row.id,
      ...itemData(q.item),
      answer: q.answer,
      outcome: q.outcome,
      reason: q.reason,
      decided_by: 'prompt',
      user: caller.userId,
      via: caller.clientId,
      ...(of.rules.has(q.row.id) ? { rule_id: of.rules.get(q.row.id) } : {}),
    })
  }
  settleItems(
    tx,
    { now: of.now, answeredBy: caller.userId, note: of.note },
    of.judged.map((q) => ({
      id: q.row.id,
      outcome: q.outcome,
      reason: q.reason,
      ruleId: of.rules.get(q.row.id),
    })),
  )
}

/**
 * The user's answer (SPEC section 4, I6, I16): under the root session's lock, conflicts first, then coverage, then the
 * walls once more; what no longer holds is refused with its reason and the rest proceeds. Only a `UserCaller` can call it,
 * and only the session's own user finds the request. Faults write nothing.
 */
export async function answerPrompt(
  ctx: Ctx,
  caller: UserCaller,
  answers: Answers,
  tx: Tx,
): Promise<Result<{ requestId: RequestId; template: string }>> {
  const now = secondsNow(ctx.clock)
  const of = { tenantId: caller.tenant.id, userId: caller.userId }
  const stops = answers.items.some((i) => i.decision === 'deny_always')
  // A deny rule reaches all of the user's sessions, so it takes the user's guard alone, before any session's lock.
  if (stops) await guardUserAlone(tx, of)
  const { requestId } = answers
  const [found, asked] = await Promise.all([
    lockTree(tx, { ...of, requestId, now }),
    readRequest(tx, caller, requestId),
  ])
  if (asked === null) return fail('not_found', { detail: 'You have no such access request.' })
  const late = conflict(asked, asked.items, answers.digest, now)
  if (late) return { ok: false, fault: late }
  const live = liveNode(found, asked.sessionId, now)
  if (!live.ok) return live.fault.code === 'session_over' ? fail('request_cancelled') : live
  const before = live.value
  const questions = questionsOf(asked.items, answers, now)
  if (!questions.ok) return questions
  const yes = questions.value.some((q) => isYes(q.answer))
  const frozen = yes ? freezeFault(before.tree, before.node) : null
  if (frozen) return { ok: false, fault: frozen }

  const journal = new Journal(ctx, before.node.tenantId)
  // What the user has lost is noticed at an answer too: else it would stand in for what they allow now, and then go.
  const { tree } = narrowTree(tx, journal, before.tree)
  const node = nodeIn(tree, before.node.id) ?? before.node
  const world = worldOf(tree, node)
  const judged = judge(world, questions.value)
  const rules = await saveRules(ctx, tx, journal, node, world, { requestId, judged })
  record(tx, journal, caller, { node, requestId, judged, rules, note: answers.note, now })
  grantAllowed(ctx, tx, journal, node, world, { requestId, judged })
  if (stops) await endDenied(ctx, tx, journal, caller, node.templateId)
  await journal.write(tx)
  return ok({ requestId, template: templateRef(node) })
}

export const answerPromptTx = (ctx: Ctx, caller: UserCaller, answers: Answers) =>
  hotTx(ctx.db, 'answer_prompt', (tx) => answerPrompt(ctx, caller, answers, tx))
