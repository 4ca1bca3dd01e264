import type { EnforcementCaller } from '../callers.ts'
import { actionOf, type SessionClaims } from '../core/claims.ts'
import { decide } from '../core/decide.ts'
import { factsOf } from '../core/facts.ts'
import { heldFor } from '../core/held.ts'
import { coveredBy } from '../core/item.ts'
import type { GrantId, Item } from '../core/vocabulary.ts'
import { type AssetRow, type Person, selectAssets, selectPerson } from '../db/assets.ts'
import { shareRead } from '../db/batches.ts'
import { type CatalogRow, worldOf } from '../db/tree.ts'
import { checkedTree } from '../db/tree-read.ts'
import { hotRead } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { type Holdings, holdingsIn } from './holdings.ts'
import { secondsNow } from './live.ts'

/** Who is asked about: a session, by the token that the enforcement point was shown, or a person themselves. */
export type Subject =
  | { readonly type: 'agent_session'; readonly id: string; readonly token: string }
  | { readonly type: 'user'; readonly id: string }
  /** A kind of subject that is not known here: nothing is allowed, and it is no error (AuthZEN 1.0). */
  | { readonly type: 'unknown' }

export type Question = {
  readonly subject: Subject
  /** A permission in full, `dashboard:view`, or its last part, `view`, where that names one alone. */
  readonly action: string
  readonly resource: { readonly type: string; readonly item: string }
}

export const DENIED = {
  subject_unknown: 'No such subject.',
  token_invalid: 'The token is not one of this session, or not one that may be asked about here.',
  session_over: 'The session is over, or the token has been superseded. It can be re-issued.',
  frozen: 'Frozen by an administrator: nothing is allowed until it is unfrozen.',
  unknown_permission:
    'No permission of this enforcement point’s services is called so for this type of object.',
  not_held: 'The session does not hold this.',
  user_lacks_access: 'The user does not have this access now.',
} as const satisfies Record<string, string>
export type Denied = keyof typeof DENIED

export type Decision =
  | { readonly allowed: true; readonly permission: string; readonly grantId?: GrantId }
  | {
      readonly allowed: false
      readonly reason: Denied
      /** What `iam.request_access` may be asked for: only where the answer would not be a refusal. */
      readonly ask?: Item
    }

const denied = (reason: Denied, ask?: Item): Decision & { readonly allowed: false } => ({
  allowed: false,
  reason,
  ...(ask === undefined ? {} : { ask }),
})

/** Verifies a token by itself, for the audiences that the caller may ask about; null when it is not good. */
export type Verify = (token: string) => Promise<SessionClaims | null>

/** A subject as it stands now. */
export type Standing =
  | { readonly as: 'session'; readonly held: Holdings }
  | { readonly as: 'user'; readonly person: Person }
  | { readonly as: 'nobody'; readonly reason: Denied }

const nobody = (reason: Denied): Standing => ({ as: 'nobody', reason })

/** Looks a subject up. The tree is read while the token is verified, and used only if it is the token's own session. */
export async function standingOf(
  ctx: Ctx,
  caller: EnforcementCaller,
  verify: Verify,
  subject: Subject,
): Promise<Standing> {
  const tenantId = caller.tenant.id
  if (subject.type === 'unknown') return nobody('subject_unknown')
  if (subject.type === 'user') {
    const { id } = subject
    const person = await hotRead(ctx.db, 'load_person', (tx) => selectPerson(tx, { tenantId, id }))
    return person === null ? nobody('subject_unknown') : { as: 'user', person }
  }
  const now = secondsNow(ctx.clock)
  const [claims, tree] = await Promise.all([
    verify(subject.token),
    checkedTree(ctx.db, { tenantId, sessionId: subject.id as SessionClaims['sid'], now }),
  ])
  // A token of another session says nothing of this one.
  if (claims === null || claims.sid !== subject.id) return nobody('token_invalid')
  const held = holdingsIn(tree, { claims, services: caller.services, now })
  return held === 'session_over' || held === 'frozen' ? nobody(held) : { as: 'session', held }
}

/** The permission that an action names on this type of object; undefined when none does, or more than one. */
export function permissionOf(
  assets: readonly AssetRow[],
  of: { readonly action: string; readonly type: string },
): AssetRow | undefined {
  const typed = assets.filter((row) => row.assetType === of.type)
  const named = typed.filter((row) => actionOf(row.id) === of.action)
  return typed.find((row) => row.id === of.action) ?? (named.length === 1 ? named[0] : undefined)
}

/**
 * Why the session does not have it, and whether it could ask: the decision itself says so, in its own order, so that nobody
 * learns here what a user has outside the ceiling.
 */
export function whyNotHeld(
  held: Holdings,
  row: CatalogRow,
  item: Item,
): Decision & { readonly allowed: false } {
  const { tree, node } = held
  const world = worldOf({ ...tree, catalog: new Map([...tree.catalog, [row.id, row]]) }, node)
  const verdict = decide(factsOf({ ...world, held: held.standing.map((g) => g.item) }, item))
  if (verdict.reason === 'user_lacks_access') return denied('user_lacks_access')
  return verdict.outcome === 'refused' || verdict.reason === 'already_held'
    ? denied('not_held')
    : denied('not_held', item)
}

/**
 * The live dual check (SPEC section 9): the session holds it and the user has it now, both as they are at this moment. Of a
 * person, what they themselves may do, delegable or not. Pure.
 */
export function decisionOn(
  standing: Standing,
  assets: readonly AssetRow[],
  of: Pick<Question, 'action' | 'resource'>,
): Decision {
  if (standing.as === 'nobody') return denied(standing.reason)
  const row = permissionOf(assets, { action: of.action, type: of.resource.type })
  if (row === undefined) return denied('unknown_permission')
  const item: Item = { permission: row.id, resource: of.resource.item }
  if (standing.as === 'user') {
    const { person } = standing
    if (person.frozen !== null) return denied('frozen')
    return person.active && coveredBy(person.access, item)
      ? { allowed: true, permission: row.id }
      : denied('user_lacks_access')
  }
  const { held } = standing
  const grant = heldFor(held.grants, { item, access: row.access })
  if (grant !== undefined) return { allowed: true, permission: row.id, grantId: grant.id }
  return whyNotHeld(held, row, item)
}

type AssetsOf = Parameters<typeof selectAssets>[1] & { readonly id: string }
const loadAssets = shareRead((db, of: AssetsOf) =>
  hotRead(db, 'load_assets', (tx) => selectAssets(tx, of)),
)

const keyOf = (subject: Subject): string => JSON.stringify(subject)

/** Answers questions in their order. Each subject is looked up once, however many are asked about it. */
export async function evaluateAccess(
  ctx: Ctx,
  caller: EnforcementCaller,
  verify: Verify,
  questions: readonly Question[],
): Promise<readonly Decision[]> {
  const { services } = caller
  const types = [...new Set(questions.map((q) => q.resource.type))]
  const subjects = new Map(questions.map((q) => [keyOf(q.subject), q.subject]))
  const [assets, ...standings] = await Promise.all([
    loadAssets(ctx.db, { id: JSON.stringify([services, types]), services, types }),
    ...[...subjects.values()].map((subject) => standingOf(ctx, caller, verify, subject)),
  ])
  const byKey = new Map([...subjects.keys()].map((key, i) => [key, standings[i]]))
  return questions.map((question) =>
    decisionOn(byKey.get(keyOf(question.subject)) ?? nobody('subject_unknown'), assets, question),
  )
}
