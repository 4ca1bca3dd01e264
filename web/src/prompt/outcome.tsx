import { Ban, Check, CircleSlash, Clock, type LucideIcon, Undo2 } from 'lucide-react'
import type { DecisionReason } from '../../../src/core/reason.ts'
import type { RequestItemView } from '../api/types.ts'
import { plain } from '../lib/text.ts'
import { classes } from '../ui/parts.tsx'
import { words } from '../words.ts'

const isKnown = (reason: string): reason is DecisionReason => Object.hasOwn(words.outcome, reason)

/** How an item ended, in a few words. Four ends of a prompt, and whatever decided it without one. */
export function outcomeWords(item: RequestItemView): string {
  if (item.outcome === 'pending') return words.waiting
  return isKnown(item.decision_reason)
    ? words.outcome[item.decision_reason]
    : plain(item.decision_reason)
}

export const whyWords = (reason: string): string =>
  isKnown(reason) ? words.why[reason] : words.whyUnknown

const ICONS: Partial<Record<DecisionReason, LucideIcon>> = {
  denied_by_user: Ban,
  expired: Clock,
  cancelled: Undo2,
}

export function outcomeIcon(item: RequestItemView): LucideIcon {
  if (item.outcome === 'granted') return Check
  return (isKnown(item.decision_reason) && ICONS[item.decision_reason]) || CircleSlash
}

/** One line for one settled item, with the reason behind it. */
export function OutcomeLine({
  item,
  always = false,
}: {
  readonly item: RequestItemView
  /** The person said always: then it was allowed and a rule saved. */
  readonly always?: boolean
}) {
  const Icon = outcomeIcon(item)
  return (
    <li className={classes('outcome', `outcome-${item.outcome}`)}>
      <Icon aria-hidden="true" size={16} />
      <div className="outcome-line">
        <span className="outcome-title">
          {item.title}
          {item.resource !== undefined && <code dir="auto">{plain(item.resource)}</code>}
        </span>
        <span className="outcome-words">
          {always && item.decision_reason === 'allowed_by_user'
            ? words.card.allowedAlways
            : outcomeWords(item)}
        </span>
        <details className="why">
          <summary>{words.whyQuestion}</summary>
          <p>{whyWords(item.decision_reason)}</p>
          {item.sensitive && <p>{words.why.sensitive}</p>}
        </details>
      </div>
    </li>
  )
}
