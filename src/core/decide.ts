import { unreachable } from './assert.ts'
import { type Outcome, REASONS, type Reason } from './reason.ts'
import type { Mode, Risk, RuleId } from './vocabulary.ts'

/**
 * All that a decision depends on. `facts.ts` reduces the world to this; nothing else may enter. Rules are already cut
 * to one an effect, so their order and number cannot matter.
 */
export type Facts = {
  /** Null: the catalog has no such row. */
  readonly permission: { readonly delegable: boolean; readonly risk: Risk } | null
  /** Version's ceiling, cut by the adopted version and the tenant's narrowing. */
  readonly inCeiling: boolean
  readonly userHasItNow: boolean
  readonly rules: {
    readonly deny?: RuleId
    readonly ask?: RuleId
    readonly allow?: { readonly id: RuleId; readonly suspended: boolean }
  }
  readonly alreadyHeld: boolean
  /** The user said Deny to an overlapping item anywhere in this root session's tree. */
  readonly deniedThisSession: boolean
  /** Marked by the catalog or by the template. */
  readonly sensitive: boolean
  /** The mode on the server's session row, dropped to `ask` when it is no longer allowed (I7). */
  readonly mode: Mode
}

export type Verdict = {
  readonly outcome: Outcome
  readonly reason: Reason
  readonly ruleId?: RuleId
}

const by = (reason: Reason, ruleId?: RuleId): Verdict => ({
  outcome: REASONS[reason].outcome,
  reason,
  ...(ruleId === undefined ? {} : { ruleId }),
})

/** The decision (SPEC section 4): one ladder, strongest reason first. Pure. */
export function decide(f: Facts): Verdict {
  // Walls: no rule, no answer and no mode opens these (I2).
  if (f.permission === null) return by('unknown_permission')
  if (!f.inCeiling) return by('outside_ceiling')
  if (!f.permission.delegable) return by('never_delegable')
  if (!f.userHasItNow) return by('user_lacks_access')

  // What the user has already said.
  if (f.rules.deny !== undefined) return by('deny_rule', f.rules.deny)
  if (f.alreadyHeld) return by('already_held')
  if (f.deniedThisSession) return by('denied_this_session')
  if (f.sensitive) return by('sensitive') // I8: above every rule that allows and every mode.
  if (f.rules.ask !== undefined) return by('ask_rule', f.rules.ask)
  if (f.rules.allow?.suspended) return by('reconsent', f.rules.allow.id)
  if (f.rules.allow) return by('allow_rule', f.rules.allow.id)

  // Nothing said: the mode.
  switch (f.mode) {
    case 'ask':
      return by('mode_ask')
    case 'auto':
      return f.permission.risk === 'low' ? by('mode_auto') : by('mode_ask')
    case 'bypass':
      return by('mode_bypass')
    default:
      return unreachable(f.mode)
  }
}

/**
 * What a user's yes is checked against again, under the lock: rows 1 to 4. Null: the yes stands.
 * Rows 5 to 13 do not apply, since the user has just answered them.
 */
export function wallsNow(f: Omit<Facts, 'mode' | 'rules'>): Reason | null {
  if (f.permission === null) return 'unknown_permission'
  if (!f.inCeiling) return 'outside_ceiling'
  if (!f.permission.delegable) return 'never_delegable'
  if (!f.userHasItNow) return 'user_lacks_access'
  return null
}
