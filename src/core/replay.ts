import { decide, type Facts, type Verdict } from './decide.ts'
import { effectiveMode, isSensitive } from './facts.ts'
import { coveredBy } from './item.ts'
import type { Reason } from './reason.ts'
import type { Terms } from './terms.ts'
import type { Item, Mode, Permission, RuleId } from './vocabulary.ts'

/** An item that was asked for, and the row of the decision that it got then. */
export type Recorded = {
  readonly item: Item
  readonly reason: Reason
  readonly ruleId: RuleId | null
  /** On the session's row. */
  readonly mode: Mode
}

/**
 * What a recorded item would get under other terms, by the same decision. Pure. The facts are those that the recorded reason
 * vouches for: what is stronger than it did not apply then, and what is weaker is not known and taken as absent. Only what
 * terms and catalog say is looked at anew. So an item that was outside the ceiling comes out as best it could.
 */
export function replay(
  recorded: Recorded,
  terms: Pick<Terms, 'ceiling' | 'sensitive' | 'modes'>,
  catalog: ReadonlyMap<string, Permission>,
): Verdict {
  const { item, reason, mode } = recorded
  const ruleId = recorded.ruleId ?? ('' as RuleId)
  const rule = (of: Reason, name: 'deny' | 'ask') => (reason === of ? { [name]: ruleId } : {})
  const allows = reason === 'allow_rule' || reason === 'reconsent'
  const facts: Facts = {
    permission: catalog.get(item.permission) ?? null,
    inCeiling: coveredBy(terms.ceiling, item),
    userHasItNow: reason !== 'user_lacks_access',
    rules: {
      ...rule('deny_rule', 'deny'),
      ...rule('ask_rule', 'ask'),
      ...(allows ? { allow: { id: ruleId, suspended: reason === 'reconsent' } } : {}),
    },
    alreadyHeld: reason === 'already_held',
    deniedThisSession: reason === 'denied_this_session',
    sensitive: isSensitive({ catalog, sensitiveMarks: terms.sensitive }, item),
    mode: effectiveMode({
      mode: modeOf(reason, mode),
      modeExpiresAt: null,
      allowed: terms.modes,
      now: 0,
    }),
  }
  return decide(facts)
}

/** The mode that was in force: the row's may have been dropped to `ask`, or been tightened since. */
function modeOf(reason: Reason, row: Mode): Mode {
  if (reason === 'mode_bypass') return 'bypass'
  if (reason === 'mode_auto') return 'auto'
  // In bypass it would not have been asked.
  return reason === 'mode_ask' && row === 'bypass' ? 'ask' : row
}
