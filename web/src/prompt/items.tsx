import { useState } from 'react'
import { useCatalog } from '../api/queries.ts'
import type { Answer, RequestItemView } from '../api/types.ts'
import { narrowWords, plain } from '../lib/text.ts'
import { KindMark, RiskMark, SensitiveMark } from '../ui/marks.tsx'
import { classes } from '../ui/parts.tsx'
import { words } from '../words.ts'

const LONG_LINES = 600

/** A value that an agent chose. All of it can be reached: it wraps, and what is very long folds. */
function LongText({ text }: { readonly text: string }) {
  const [open, setOpen] = useState(false)
  const whole = plain(text)
  if (whole.length <= LONG_LINES) return <>{whole}</>
  return (
    <>
      {open ? whole : `${whole.slice(0, LONG_LINES)}…`}{' '}
      <button type="button" className="link-button" onClick={() => setOpen(!open)}>
        {open ? words.less : words.showAll(whole.length)}
      </button>
    </>
  )
}

function ItemDetails({ item }: { readonly item: RequestItemView }) {
  const catalog = useCatalog()
  const entry = catalog.data?.items.find((one) => one.id === item.permission)
  return (
    <dl className="item-details">
      <dt>{words.card.permission}</dt>
      <dd>
        <code>{item.permission}</code>
      </dd>
      {entry && (
        <>
          <dt>{words.card.checkedAt}</dt>
          <dd>{words.enforcedAt[entry.enforced_at]}</dd>
          <dt>{words.card.access}</dt>
          <dd>{words.accessKind[entry.access]}</dd>
        </>
      )}
      {item.narrow && (
        <>
          <dt>{words.card.exactFilter}</dt>
          <dd>
            <code>{JSON.stringify(item.narrow)}</code>
          </dd>
        </>
      )}
    </dl>
  )
}

/** Item facts: all from the catalog and the server's own reading of the request, none of it the agent's words. */
export function ItemFacts({
  item,
  details,
}: {
  readonly item: RequestItemView
  readonly details: boolean
}) {
  return (
    <div className="item-facts">
      <div className="item-top">
        <span className="item-title">{item.title}</span>
        <span className="item-marks">
          <KindMark kind={item.kind} />
          <RiskMark risk={item.risk} />
          {item.sensitive && <SensitiveMark />}
        </span>
      </div>
      <p className="item-unlocks">{item.unlocks}</p>
      {item.resource !== undefined && (
        <p className="item-constraint">
          <span className="item-label">
            {item.resource.endsWith('*') ? words.card.onAll : words.card.on}
          </span>{' '}
          <code dir="auto">
            <LongText text={item.resource} />
          </code>
        </p>
      )}
      {item.narrow !== undefined && (
        <p className="item-constraint">
          <span className="item-label">{words.card.only}</span>{' '}
          <span dir="auto">
            <LongText text={narrowWords(item.narrow)} />
          </span>
        </p>
      )}
      {details && <ItemDetails item={item} />}
    </div>
  )
}

const CHOICES = ['deny', 'allow_once', 'allow_always'] as const

/** One answer for one item. Nothing is chosen to begin with. */
export function ItemChoice({
  item,
  chosen,
  always,
  disabled,
  onChoose,
}: {
  readonly item: RequestItemView
  readonly chosen: Answer | undefined
  /** Whether Always is offered at all; of a sensitive item it never is. */
  readonly always: boolean
  readonly disabled: boolean
  readonly onChoose: (answer: Answer) => void
}) {
  const offered = CHOICES.filter(
    (one) => one !== 'allow_always' || (always && item.can_remember && !item.sensitive),
  )
  return (
    <fieldset className="choice" disabled={disabled}>
      <legend className="visually-hidden">{words.card.answerFor(item.title)}</legend>
      {offered.map((one) => (
        <label key={one} className={classes('choice-one', chosen === one && 'choice-chosen')}>
          <input
            type="radio"
            name={`choice-${item.id}`}
            value={one}
            checked={chosen === one}
            onChange={() => onChoose(one)}
          />
          <span>{words.card.choice[one]}</span>
        </label>
      ))}
    </fieldset>
  )
}
