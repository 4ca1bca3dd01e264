import { inCeiling, isSensitive, type World } from './facts.ts'
import { coveredBy, covers, overlaps } from './item.ts'
import type { Access, GrantId, Item } from './vocabulary.ts'

/** Access that one session holds now. */
export type Held = {
  readonly id: GrantId
  readonly item: Item
  readonly readOnly: boolean
  /** The parent's grant that this one follows; null: the session's own. */
  readonly inheritedFrom: GrantId | null
}

/** Why a grant ended. A closed list; the record of every grant that left names one. */
export const GRANT_END_REASONS = [
  'released',
  'session_over',
  'user_lost_access',
  'ceiling_changed',
  'catalog_changed',
  'deny_rule',
  'parent_lost',
  'taken_back',
  'admin',
] as const
export type GrantEndReason = (typeof GRANT_END_REASONS)[number]

type Standing = Pick<World, 'catalog' | 'ceilings' | 'userAccess' | 'rules'> & {
  /** The parent's grants that stand; null for a root. */
  readonly parentHeld: ReadonlySet<GrantId> | null
}

/**
 * Why a grant can no longer be held, or null when it can (I2, I3, I9). The same walls as the decision, strongest first;
 * sensitivity and mode are not walls, so a change of them ends nothing.
 */
export function whyLost(now: Standing, grant: Held): GrantEndReason | null {
  const permission = now.catalog.get(grant.item.permission)
  if (permission === undefined || !permission.delegable) return 'catalog_changed'
  if (!inCeiling(now, grant.item)) return 'ceiling_changed'
  if (!coveredBy(now.userAccess, grant.item)) return 'user_lost_access'
  if (now.rules.some((r) => r.effect === 'deny' && overlaps(r.item, grant.item))) return 'deny_rule'
  if (grant.inheritedFrom !== null && !now.parentHeld?.has(grant.inheritedFrom))
    return 'parent_lost'
  return null
}

/**
 * The first of the grants that stand that allows one thing, or undefined. One that is lent for reading only allows nothing else,
 * whatever the catalog has since made of its permission.
 */
export const heldFor = <G extends Pick<Held, 'item' | 'readOnly'>>(
  standing: readonly G[],
  wanted: { readonly item: Item; readonly access: Access },
): G | undefined =>
  standing.find((g) => covers(g.item, wanted.item) && (!g.readOnly || wanted.access === 'read'))

/**
 * Which of the parent's grants a new child inherits (SPEC section 5): those that its own ceiling covers whole, that
 * neither template marks sensitive and that no deny rule for its template overlaps; read-only: only reads.
 */
export function inherits(input: {
  readonly parent: readonly Held[]
  readonly parentMarks: readonly Item[]
  readonly child: Pick<World, 'catalog' | 'ceilings' | 'sensitiveMarks' | 'userAccess' | 'rules'>
  readonly readOnly: boolean
}): readonly Held[] {
  const { child } = input
  return input.parent.filter((grant) => {
    const permission = child.catalog.get(grant.item.permission)
    if (permission === undefined) return false
    const follows = {
      ...child,
      parentHeld: new Set([grant.id]),
    }
    if (whyLost(follows, { ...grant, inheritedFrom: grant.id }) !== null) return false
    if (isSensitive(child, grant.item)) return false
    if (isSensitive({ catalog: child.catalog, sensitiveMarks: input.parentMarks }, grant.item))
      return false
    // A parent that is itself read-only has nothing else to hand down.
    return (!input.readOnly && !grant.readOnly) || permission.access === 'read'
  })
}
