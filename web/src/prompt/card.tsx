import { useQueryClient } from '@tanstack/react-query'
import { type KeyboardEvent, useCallback, useEffect, useRef, useState } from 'react'
import { keys, useTenant } from '../api/queries.ts'
import type { Answer, RequestView } from '../api/types.ts'
import { announce } from '../lib/announce.ts'
import { focusComposer } from '../lib/focus.ts'
import { useArmed } from '../lib/hooks.ts'
import { classes } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { words } from '../words.ts'
import { CardActions, ItemsActions, type Press } from './actions.tsx'
import { answersOf, type Choices, chosenAnswers, partsOf, settledItems } from './answers.ts'
import { type Expiry, useDecide } from './decide.ts'
import { CardHead, HowLong, Reason } from './head.tsx'
import { ItemChoice, ItemFacts } from './items.tsx'
import { OutcomeLine } from './outcome.tsx'
import { seen } from './seen.ts'
import { SettledCard } from './settled.tsx'
import { useStale } from './stale.ts'
import { AlwaysStep, DenyStep, ExpiryChoice, RulePreview, SensitiveStep } from './steps.tsx'

export type Stage = 'main' | 'always' | 'deny' | 'items' | 'sensitive'

const isTyping = (target: EventTarget): boolean =>
  target instanceof HTMLElement &&
  (target.matches('input:not([type=radio]):not([type=checkbox]), textarea, select') ||
    target.isContentEditable)

/** One access request: waiting for its answer, or with what became of it. */
export function PromptCard({ request }: { readonly request: RequestView }) {
  const card = useRef<HTMLElement>(null)
  const wasInside = useRef(false)
  const pending = request.status === 'pending'
  const before = useRef(pending)
  useEffect(() => {
    if (pending) seen.waiting(request.id)
    const settled = before.current && !pending
    before.current = pending
    // What had the focus is gone with the buttons: it goes on at the result, and nowhere else.
    if (settled && (seen.answered(request.id) || wasInside.current)) {
      const lost = document.activeElement === document.body || document.activeElement === null
      if (lost || card.current?.contains(document.activeElement))
        card.current?.querySelector<HTMLElement>('h3')?.focus()
    }
  }, [pending, request.id])
  return (
    <article
      ref={card}
      className={classes('card', pending ? 'card-pending' : 'card-settled')}
      aria-labelledby={`card-${request.id}`}
      data-request={request.id}
      data-status={request.status}
      onFocus={() => {
        wasInside.current = true
      }}
      onBlur={(event) => {
        if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget))
          wasInside.current = false
      }}
    >
      {pending ? <PendingCard request={request} /> : <SettledCard request={request} />}
    </article>
  )
}

function PendingCard({ request }: { readonly request: RequestView }) {
  const tenant = useTenant()
  const client = useQueryClient()
  const [stage, setStage] = useState<Stage>('main')
  const [choices, setChoices] = useState<Choices>(new Map())
  const [expiry, setExpiry] = useState<Expiry>('90')
  const [note, setNote] = useState('')
  const [denyAlways, setDenyAlways] = useState(false)
  const [details, setDetails] = useState(false)
  const [help, setHelp] = useState(false)
  const [missing, setMissing] = useState(false)
  const decide = useDecide(request)
  const armed = useArmed(`${request.id} ${request.digest} ${stage}`)
  const stale = useStale()
  const heading = useRef<HTMLHeadingElement>(null)

  const parts = partsOf(request)
  const { ordinary, sensitive, apart } = parts
  const ready = armed && !decide.sending && !stale

  const send = (answers: Choices | null, withNote: string) => {
    if (!ready) return
    setMissing(answers === null)
    if (answers === null) announce(words.card.sensitiveFirst)
    else decide.send({ answers, expiry, note: withNote })
  }
  const press: Press = (what) => {
    if (!ready) return
    // Always and a sensitive item have a second step; going there decides nothing.
    if (what === 'allow_always' && stage !== 'always') setStage('always')
    else if (what === 'allow_once' && ordinary.length === 0 && stage !== 'sensitive')
      setStage('sensitive')
    else send(answersOf(parts, what, choices), '')
  }
  const deny = () => send(answersOf(parts, denyAlways ? 'deny_always' : 'deny', choices), note)
  const choose = (id: string) => (answer: Answer) => {
    setMissing(false)
    setChoices(new Map(choices).set(id, answer))
  }

  const onKeyDown = (event: KeyboardEvent) => {
    const modified = event.altKey || event.ctrlKey || event.metaKey
    if (event.defaultPrevented || modified || event.repeat) return
    if (event.key === 'Escape') {
      event.preventDefault()
      focusComposer()
      return
    }
    if (isTyping(event.target)) return
    const does: Record<string, (() => void) | undefined> = {
      d: () => setDetails(!details),
      '?': () => setHelp(!help),
      i:
        stage === 'main' && ordinary.length + sensitive.length > 1
          ? () => setStage('items')
          : undefined,
      ...(stage === 'main' && {
        '1': () => press('allow_once'),
        '2': ordinary.some((item) => item.can_remember) ? () => press('allow_always') : undefined,
        '3': () => press('deny'),
      }),
    }
    const action = does[event.key]
    if (!action) return
    event.preventDefault()
    action()
  }

  const back = () => {
    setStage('main')
    heading.current?.focus()
  }
  const over = useCallback(() => {
    void client.invalidateQueries({ queryKey: keys.requests(tenant) })
  }, [client, tenant])
  const perItem = stage === 'items'
  // Beside the buttons, which stay in sight while the rest scrolls: why pressing one did nothing.
  const notice = (missing || stale || decide.error !== null) && (
    <div className="actions-notice">
      {missing && (
        <p className="card-note card-note-warn" role="alert">
          {words.card.sensitiveFirst}
        </p>
      )}
      {stale && (
        <p className="card-note card-note-warn" role="status">
          {words.card.stale}
        </p>
      )}
      <WriteError error={decide.error} what={words.card.notSent} />
    </div>
  )
  const buttons = { ready, sending: decide.sending, stale, notice }

  return (
    // Keys count only while the focus is in here.
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would put its radio groups inside another.
    <div
      className="card-body"
      role="group"
      aria-labelledby={`card-${request.id}`}
      onKeyDown={onKeyDown}
    >
      <CardHead request={request} heading={heading} onOver={over} />
      <Reason text={request.reason} />
      {decide.changed && (
        <p className="card-note" role="status">
          {words.card.changed}
        </p>
      )}
      <ul className="items">
        {ordinary.map((item) => (
          <li key={item.id} className="item" data-permission={item.permission}>
            <ItemFacts item={item} details={details} />
            {perItem && (
              <ItemChoice
                item={item}
                chosen={choices.get(item.id)}
                always
                disabled={decide.sending}
                onChoose={choose(item.id)}
              />
            )}
            {perItem && choices.get(item.id) === 'allow_always' && <RulePreview item={item} />}
          </li>
        ))}
      </ul>
      {sensitive.length > 0 && (
        <ul className={classes('items', 'items-sensitive')}>
          {sensitive.map((item) => (
            <li key={item.id} className="item" data-permission={item.permission}>
              <ItemFacts item={item} details={details} />
              {(perItem || apart) && (
                <ItemChoice
                  item={item}
                  chosen={choices.get(item.id)}
                  always={false}
                  disabled={decide.sending}
                  onChoose={choose(item.id)}
                />
              )}
            </li>
          ))}
        </ul>
      )}
      {settledItems(request).length > 0 && (
        <ul className="outcomes outcomes-grey" aria-label={words.card.alreadySettled}>
          {settledItems(request).map((item) => (
            <OutcomeLine key={item.id} item={item} />
          ))}
        </ul>
      )}
      <HowLong request={request} details={details} />
      {stage === 'always' && (
        <AlwaysStep
          items={ordinary}
          expiry={expiry}
          onExpiry={setExpiry}
          actions={
            <ItemsActions
              {...buttons}
              label={words.card.saveAndAllow}
              onSend={() => send(answersOf(parts, 'allow_always', choices), '')}
              onBack={back}
            />
          }
        />
      )}
      {stage === 'deny' && (
        <DenyStep
          note={note}
          onNote={setNote}
          always={denyAlways}
          onAlways={setDenyAlways}
          actions={
            <ItemsActions {...buttons} danger label={words.card.deny} onSend={deny} onBack={back} />
          }
        />
      )}
      {stage === 'sensitive' && (
        <SensitiveStep
          items={sensitive}
          who={request.agent.name}
          actions={
            <ItemsActions
              {...buttons}
              label={words.card.allowOnce}
              onSend={() => send(answersOf(parts, 'allow_once', choices), '')}
              onBack={back}
            />
          }
        />
      )}
      {perItem && (
        <>
          {[...choices.values()].includes('allow_always') && (
            <ExpiryChoice expiry={expiry} onChange={setExpiry} />
          )}
          <ItemsActions
            {...buttons}
            label={words.card.sendAnswers}
            incomplete={chosenAnswers(parts, choices) === null}
            onSend={() => send(chosenAnswers(parts, choices), '')}
            onBack={back}
          />
        </>
      )}
      {stage === 'main' && (
        <CardActions
          parts={parts}
          choices={choices}
          {...buttons}
          onPress={press}
          onDenyWithNote={() => setStage('deny')}
          onItems={() => setStage('items')}
          details={details}
          onDetails={() => setDetails(!details)}
        />
      )}
      {help && <p className="card-help">{words.card.keys}</p>}
    </div>
  )
}
