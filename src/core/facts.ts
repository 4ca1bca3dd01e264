import type { Facts } from './decide.ts'
import { coveredBy, covers, overlappedBy, overlaps } from './item.ts'
import type { Item, Mode, Permission, RuleEffect, RuleId } from './vocabulary.ts'
import { MODES } from './vocabulary.ts'

/** A remembered answer for one template. It skips a question and is never access (I10). */
export type Rule = {
  readonly id: RuleId
  readonly effect: RuleEffect
  readonly item: Item
  readonly suspended: boolean
}

/** What one session's decisions rest on, read in one transaction under the session's lock. */
export type World = {
  readonly catalog: ReadonlyMap<string, Permission>
  /** The session's version, the adopted version, what the tenant kept: an item must be covered by each (I15). */
  readonly ceilings: readonly (readonly Item[])[]
  /** Items that the template marks; the catalog's own marks are on its rows. */
  readonly sensitiveMarks: readonly Item[]
  readonly userAccess: readonly Item[]
  readonly rules: readonly Rule[]
  readonly held: readonly Item[]
  /** Items that the user answered with Deny anywhere in the root session's tree. */
  readonly denied: readonly Item[]
  readonly mode: Mode
}

export const inCeiling = (world: Pick<World, 'ceilings'>, item: Item): boolean =>
  world.ceilings.every((ceiling) => coveredBy(ceiling, item))

export const isSensitive = (
  world: Pick<World, 'catalog' | 'sensitiveMarks'>,
  item: Item,
): boolean =>
  world.catalog.get(item.permission)?.sensitive === true || overlappedBy(world.sensitiveMarks, item)

/** Reduces the world to what one item's decision needs. Pure. */
export function factsOf(world: World, item: Item): Facts {
  const deny = world.rules.find((r) => r.effect === 'deny' && overlaps(r.item, item))
  const ask = world.rules.find((r) => r.effect === 'ask' && overlaps(r.item, item))
  const allows = world.rules.filter((r) => r.effect === 'allow' && covers(r.item, item))
  // A rule that is in force beats one that waits for the user's confirmation.
  const allow = allows.find((r) => !r.suspended) ?? allows[0]
  return {
    permission: world.catalog.get(item.permission) ?? null,
    inCeiling: inCeiling(world, item),
    userHasItNow: coveredBy(world.userAccess, item),
    rules: {
      ...(deny ? { deny: deny.id } : {}),
      ...(ask ? { ask: ask.id } : {}),
      ...(allow ? { allow: { id: allow.id, suspended: allow.suspended } } : {}),
    },
    alreadyHeld: coveredBy(world.held, item),
    deniedThisSession: overlappedBy(world.denied, item),
    sensitive: isSensitive(world, item),
    mode: world.mode,
  }
}

const looseness = (mode: Mode): number => MODES.indexOf(mode)

export const isLooser = (a: Mode, b: Mode): boolean => looseness(a) > looseness(b)

/** The mode a session runs in now: its row's, unless bypass has run out or the mode is no longer allowed. Then `ask`. */
export function effectiveMode(session: {
  readonly mode: Mode
  readonly modeExpiresAt: number | null
  readonly allowed: readonly Mode[]
  readonly now: number
}): Mode {
  if (session.modeExpiresAt !== null && session.now >= session.modeExpiresAt) return 'ask'
  return session.mode === 'ask' || session.allowed.includes(session.mode) ? session.mode : 'ask'
}

/** The loosest mode that is allowed and no looser than the parent's (SPEC section 5). `ask` always is. */
export function childMode(parent: Mode, allowed: readonly Mode[]): Mode {
  const fitting = MODES.filter(
    (mode) => !isLooser(mode, parent) && (mode === 'ask' || allowed.includes(mode)),
  )
  return fitting.at(-1) ?? 'ask'
}
