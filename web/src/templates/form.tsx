import { type FormEvent, useId, useState } from 'react'
import type { Enablement, EnablementChanged } from '../api/staff.ts'
import { fieldErrors, useStaffWrite } from '../api/staff-write.ts'
import { narrowWords, plain } from '../lib/text.ts'
import { Button, Chip, Hidden } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { templateWords as says } from '../words/staff.ts'
import { words } from '../words.ts'
import {
  type Draft,
  draftOf,
  type Item,
  isNarrower,
  itemsOf,
  keyOf,
  putOf,
  toggled,
} from './edit.ts'

export function ItemWords({ item, title }: { readonly item: Item; readonly title: string }) {
  return (
    <span>
      <strong>{plain(title)}</strong> <code>{item.permission}</code>
      {item.resource !== undefined && (
        <>
          {' '}
          <code dir="auto">{plain(item.resource)}</code>
        </>
      )}
      {item.narrow !== undefined && (
        <span className="muted" dir="auto">
          {' '}
          {words.card.only} {narrowWords(item.narrow)}
        </span>
      )}
    </span>
  )
}

function Errors({ error, under }: { readonly error: unknown; readonly under: string }) {
  return fieldErrors(error)
    .filter(({ path }) => path === under || path.startsWith(`${under}.`))
    .map(({ path, message }) => (
      <p key={path} className="field-error" role="alert">
        <code>{path}</code> {message}
      </p>
    ))
}

type Change = (change: Partial<Draft>) => void

function Items({
  of,
  draft,
  titles,
  onChange,
}: {
  readonly of: Enablement
  readonly draft: Draft
  readonly titles: ReadonlyMap<string, string>
  readonly onChange: Change
}) {
  return itemsOf(of).map((item) => (
    <label key={keyOf(item)} className="check">
      <input
        type="checkbox"
        checked={draft.kept.has(keyOf(item))}
        onChange={() => onChange({ kept: toggled(draft.kept, keyOf(item)) })}
      />
      <ItemWords item={item} title={titles.get(item.permission) ?? item.permission} />
      {isNarrower(of, item) && <Chip>{says.narrower}</Chip>}
    </label>
  ))
}

function Modes({
  of,
  draft,
  onChange,
}: {
  readonly of: Enablement
  readonly draft: Draft
  readonly onChange: Change
}) {
  return of.allows.modes.map((mode) => (
    <label key={mode} className="check">
      <input
        type="checkbox"
        checked={mode === 'ask' || draft.modes.has(mode)}
        disabled={mode === 'ask'}
        onChange={() => onChange({ modes: toggled(draft.modes, mode) })}
      />
      <span>
        <strong>{words.mode[mode].name}</strong>{' '}
        <span className="muted">{mode === 'ask' ? says.askAlways : words.mode[mode].means}</span>
      </span>
    </label>
  ))
}

function LimitFields({
  of,
  draft,
  onChange,
}: {
  readonly of: Enablement
  readonly draft: Draft
  readonly onChange: Change
}) {
  const hints = useId()
  return Object.entries(of.allows.limits).map(([name, most]) => (
    <div key={name}>
      <label className="field">
        <span>{says.limitName[name] ?? name}</span>
        <input
          type="number"
          inputMode="numeric"
          required
          min={0}
          max={most}
          step={1}
          value={Number.isNaN(draft.limits[name]) ? '' : (draft.limits[name] ?? most)}
          aria-describedby={`${hints}-${name}`}
          onChange={(event) =>
            onChange({ limits: { ...draft.limits, [name]: event.target.valueAsNumber } })
          }
        />
      </label>
      <span id={`${hints}-${name}`} className="muted activity-how">
        {says.limitMax(says.limitWords(name, most))}
      </span>
    </div>
  ))
}

/** What is kept of a template. Nothing here can add to what the version allows. */
export function EnablementForm({
  of,
  titles,
  onDone,
  onClose,
}: {
  readonly of: Enablement
  readonly titles: ReadonlyMap<string, string>
  readonly onDone: (done: EnablementChanged) => void
  readonly onClose: () => void
}) {
  const [draft, setDraft] = useState(() => draftOf(of))
  const save = useStaffWrite<EnablementChanged>(onDone)
  const change: Change = (one) => setDraft({ ...draft, ...one })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate({
      method: 'PUT',
      path: `/enablements/${encodeURIComponent(of.template)}`,
      body: putOf(of, draft),
    })
  }
  const { error } = save
  return (
    <form className="enablement-form" onSubmit={submit}>
      <fieldset>
        <legend>{says.kept}</legend>
        <p className="muted">{says.keptMeans}</p>
        <Items of={of} draft={draft} titles={titles} onChange={change} />
        <Errors error={error} under="kept" />
      </fieldset>
      <fieldset>
        <legend>{says.modes}</legend>
        <Modes of={of} draft={draft} onChange={change} />
        <Errors error={error} under="modes" />
      </fieldset>
      <fieldset>
        <legend>{says.limits}</legend>
        <div className="activity-fields">
          <LimitFields of={of} draft={draft} onChange={change} />
        </div>
        <Errors error={error} under="limits" />
      </fieldset>
      <WriteError error={error} what={says.notSaved} />
      {of.status === 'on' && <p className="muted">{says.narrowsNow}</p>}
      <div className="step-actions">
        <Button type="submit" look="primary" disabled={save.isPending}>
          {save.isPending
            ? words.sending
            : of.status === 'on'
              ? says.save
              : says.saveOn(of.allows.version)}
        </Button>
        <Button onClick={onClose}>
          {words.cancel}
          <Hidden> {plain(of.title)}</Hidden>
        </Button>
      </div>
    </form>
  )
}
