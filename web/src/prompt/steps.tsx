import { type ReactNode, type Ref, useEffect, useRef } from 'react'
import type { RequestItemView } from '../api/types.ts'
import { date, narrowWords, plain } from '../lib/text.ts'
import { Button } from '../ui/parts.tsx'
import { words } from '../words.ts'
import { EXPIRIES, type Expiry, expiresAt } from './decide.ts'

/** The second steps of a card: inline, so that what is decided stays in sight. */
export function Step({
  title,
  children,
}: {
  readonly title: string
  readonly children: ReactNode
}) {
  const heading: Ref<HTMLHeadingElement> = useRef(null)
  useEffect(() => {
    heading.current?.focus({ preventScroll: true })
    heading.current?.parentElement?.scrollIntoView({ block: 'nearest' })
  }, [])
  return (
    <div className="step">
      <h4 ref={heading} tabIndex={-1} className="step-title">
        {title}
      </h4>
      {children}
    </div>
  )
}

/** The rule exactly as it will be stored, and in words what it does and does not do. Both are the server's. */
export function RulePreview({
  item,
  limits = true,
}: {
  readonly item: RequestItemView
  /** False: what it will not do is said by the next one in the same words. */
  readonly limits?: boolean
}) {
  const rule = item.rule_preview
  if (!rule) return null
  return (
    <div className="rule-preview">
      <pre className="rule-text">
        {[
          `${rule.effect} ${rule.permission}`,
          `template ${rule.template}`,
          ...(rule.resource === undefined ? [] : [`resource ${plain(rule.resource)}`]),
          ...(rule.narrow === undefined ? [] : [`narrow ${JSON.stringify(rule.narrow)}`]),
        ].join('\n')}
      </pre>
      {rule.narrow !== undefined && (
        <p className="muted">
          {words.card.only} {narrowWords(rule.narrow)}
        </p>
      )}
      <p>{rule.covers}</p>
      {limits && <p className="muted">{rule.does_not}</p>}
    </div>
  )
}

export function ExpiryChoice({
  expiry,
  onChange,
}: {
  readonly expiry: Expiry
  readonly onChange: (expiry: Expiry) => void
}) {
  return (
    <label className="field field-inline">
      <span>{words.card.ruleLasts}</span>
      <select value={expiry} onChange={(event) => onChange(event.target.value as Expiry)}>
        {EXPIRIES.map((one) => {
          const until = expiresAt(one, Date.now())
          return (
            <option key={one} value={one}>
              {words.expiry[one]}
              {until === undefined ? '' : ` (${date(until)})`}
            </option>
          )
        })}
      </select>
    </label>
  )
}

export function AlwaysStep({
  items,
  expiry,
  onExpiry,
  actions,
}: {
  readonly items: readonly RequestItemView[]
  readonly expiry: Expiry
  readonly onExpiry: (expiry: Expiry) => void
  readonly actions: ReactNode
}) {
  const kept = items.filter((item) => item.rule_preview)
  const once = items.filter((item) => !item.rule_preview)
  return (
    <Step title={words.card.alwaysTitle(kept.length)}>
      {kept.map((item, i) => (
        <RulePreview
          key={item.id}
          item={item}
          limits={item.rule_preview?.does_not !== kept[i + 1]?.rule_preview?.does_not}
        />
      ))}
      {once.length > 0 && (
        <p className="muted">{words.card.onceOnly(once.map((item) => item.title).join(', '))}</p>
      )}
      <p className="muted">{words.card.alwaysMeans}</p>
      <ExpiryChoice expiry={expiry} onChange={onExpiry} />
      {actions}
    </Step>
  )
}

export const NOTE_MAX = 500

export function DenyStep({
  note,
  onNote,
  always,
  onAlways,
  actions,
}: {
  readonly note: string
  readonly onNote: (note: string) => void
  readonly always: boolean
  readonly onAlways: (always: boolean) => void
  readonly actions: ReactNode
}) {
  return (
    <Step title={words.card.denyTitle}>
      <label className="field">
        <span>{words.card.noteLabel}</span>
        <input
          type="text"
          value={note}
          maxLength={NOTE_MAX}
          placeholder={words.card.notePlaceholder}
          onChange={(event) => onNote(event.target.value)}
        />
      </label>
      <label className="check">
        <input
          type="checkbox"
          checked={always}
          onChange={(event) => onAlways(event.target.checked)}
        />
        <span>{words.card.denyAlways}</span>
      </label>
      {actions}
    </Step>
  )
}

export function SensitiveStep({
  items,
  who,
  actions,
}: {
  readonly items: readonly RequestItemView[]
  readonly who: string
  readonly actions: ReactNode
}) {
  return (
    <Step title={words.card.sensitiveTitle(who)}>
      <ul className="plain-list">
        {items.map((item) => (
          <li key={item.id}>
            <strong>{item.title}</strong>
            {item.resource !== undefined && <code dir="auto"> {plain(item.resource)}</code>}:{' '}
            {item.unlocks}
          </li>
        ))}
      </ul>
      <p className="muted">{words.card.sensitiveMeans}</p>
      {actions}
    </Step>
  )
}

export function StepActions({
  children,
  onBack,
}: {
  readonly children: ReactNode
  readonly onBack: () => void
}) {
  return (
    <div className="step-actions">
      <Button onClick={onBack}>{words.back}</Button>
      {children}
    </div>
  )
}
