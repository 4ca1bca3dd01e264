import type { ReactNode } from 'react'
import type { Answer } from '../api/types.ts'
import { Button, classes } from '../ui/parts.tsx'
import { words } from '../words.ts'
import type { Choices, Parts } from './answers.ts'

export type Press = (what: Exclude<Answer, 'deny_always'>) => void

type Readiness = {
  readonly ready: boolean
  readonly sending: boolean
  readonly stale: boolean
  readonly notice: ReactNode
}

function BigButton({
  label,
  means,
  hint,
  ready,
  tone,
  onPress,
}: {
  readonly label: string
  readonly means: string
  readonly hint: string
  readonly ready: boolean
  readonly tone: 'deny' | 'allow' | 'always'
  readonly onPress: () => void
}) {
  return (
    <button
      type="button"
      className={classes('decision', `decision-${tone}`)}
      // Not disabled: it keeps the focus while it arms, and a screen reader still finds it.
      aria-disabled={!ready}
      aria-keyshortcuts={hint}
      onClick={() => ready && onPress()}
    >
      <span className="decision-label">
        {label}
        <span aria-hidden="true">
          <kbd>{hint}</kbd>
        </span>
      </span>
      <span className="decision-means">{means}</span>
    </button>
  )
}

/** Deny, Allow once, Always: of one size, none of them first in line for a stray key. */
export function CardActions({
  parts: { ordinary, sensitive, apart },
  choices,
  ready,
  sending,
  notice,
  onPress,
  onDenyWithNote,
  onItems,
  details,
  onDetails,
}: Readiness & {
  readonly parts: Parts
  readonly choices: Choices
  readonly onPress: Press
  readonly onDenyWithNote: () => void
  readonly onItems: () => void
  readonly details: boolean
  readonly onDetails: () => void
}) {
  const chosenApart = apart && sensitive.some((item) => choices.has(item.id))
  // No to all of it takes one press, what sits apart included, unless that has an answer already.
  const denyApart = chosenApart ? words.card.denyRest : words.card.denyAll
  const denyLabel = apart ? denyApart : words.card.deny
  const many = ordinary.length + sensitive.length > 1
  const canAlways = ordinary.some((item) => item.can_remember)
  return (
    <div className="card-actions">
      <div className={classes('decisions', !canAlways && 'decisions-two')}>
        {notice}
        <BigButton
          tone="deny"
          label={sending ? words.sending : denyLabel}
          means={words.card.denyMeans}
          hint="3"
          ready={ready}
          onPress={() => onPress('deny')}
        />
        <BigButton
          tone="allow"
          label={
            sending
              ? words.sending
              : ordinary.length === 0
                ? words.card.allowOnceMore
                : words.card.allowOnce
          }
          means={words.card.allowOnceMeans}
          hint="1"
          ready={ready}
          onPress={() => onPress('allow_once')}
        />
        {canAlways && (
          <BigButton
            tone="always"
            label={sending ? words.sending : words.card.always}
            means={words.card.alwaysHint}
            hint="2"
            ready={ready}
            onPress={() => onPress('allow_always')}
          />
        )}
      </div>
      <div className="card-more">
        {many && (
          <Button look="quiet" small onClick={onItems} disabled={sending}>
            {words.card.perItem}
          </Button>
        )}
        <Button look="quiet" small onClick={onDenyWithNote} disabled={sending}>
          {words.card.denyWithNote}
        </Button>
        <Button look="quiet" small aria-expanded={details} onClick={onDetails}>
          {words.card.details}
        </Button>
      </div>
    </div>
  )
}

/** The last press of a second step. It arms anew, so that a double tap on the first does not fall through to it. */
export function ItemsActions({
  ready,
  sending,
  notice,
  label,
  danger,
  incomplete,
  onSend,
  onBack,
}: Readiness & {
  readonly label: string
  readonly danger?: boolean
  readonly incomplete?: boolean
  readonly onSend: () => void
  readonly onBack: () => void
}) {
  const can = ready && !incomplete
  return (
    <div className="step-actions">
      {notice}
      <Button className="button-tall" onClick={onBack} disabled={sending}>
        {words.back}
      </Button>
      <Button
        className="button-tall"
        look={danger ? 'danger' : 'primary'}
        aria-disabled={!can}
        onClick={() => can && onSend()}
      >
        {sending ? words.sending : label}
      </Button>
      {incomplete && <span className="muted">{words.card.chooseEach}</span>}
    </div>
  )
}
