import { GitCompareArrows } from 'lucide-react'
import { useId, useState } from 'react'
import { narrowWords, plain, plainLines } from '../lib/text.ts'
import { Button } from '../ui/parts.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import {
  type Choice,
  canJoin,
  clashes,
  type Field,
  type Form,
  narrowOf,
  type Row,
  resolved,
} from './form.ts'
import { Part } from './parts.tsx'

const says = studio.clash

function rowWords({ permission, resource, narrow }: Row): string {
  const filter = narrowOf(narrow)
  const only =
    narrow.trim() === ''
      ? ''
      : ` ${words.changes.only(filter ? narrowWords(filter) : plain(narrow))}`
  return `${permission}${resource.trim() === '' ? '' : ` ${plain(resource)}`}${only}`
}

/** A field as lines that can be laid side by side. */
function linesOf(form: Form, field: Field): readonly string[] {
  switch (field) {
    case 'ceiling':
      return form.ceiling.map((row) => {
        const why = plain(row.justification.trim())
        return why === '' ? rowWords(row) : `${rowWords(row)} — ${why}`
      })
    case 'sensitive':
      return form.sensitive.map(rowWords)
    case 'children':
      return form.children.map((one) => `${one.template} ${studio.version(one.version)}`)
    case 'modes':
      return form.modes.map((mode) => words.mode[mode].name)
    case 'limits':
      return Object.entries(form.limits).map(([name, n]) => `${studio.limit[name] ?? name}: ${n}`)
    case 'purpose':
    case 'context':
    case 'sponsor':
      return plainLines(form[field]).split('\n')
  }
}

function Side({
  title,
  lines,
  but,
}: {
  readonly title: string
  readonly lines: readonly string[]
  readonly but: readonly string[]
}) {
  const empty = lines.every((line) => line === '')
  return (
    <div className="clash-side">
      <h4>{title}</h4>
      {empty ? (
        <p className="muted">{says.nothing}</p>
      ) : (
        <ul>
          {lines.map((line, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines of a text have no other name, and do not move.
            <li key={`${i} ${line}`}>{but.includes(line) ? line : <mark>{line}</mark>}</li>
          ))}
        </ul>
      )}
    </div>
  )
}

type Forms = { readonly base: Form; readonly mine: Form; readonly theirs: Form }
type Choices = { readonly [F in Field]?: Choice }

/** Both versions side by side, field by field; what only one of them touched is chosen already, what both did is not. */
export function ClashPart({
  forms,
  onDone,
}: {
  readonly forms: Forms
  readonly onDone: (form: Form) => void
}) {
  const all = clashes(forms.base, forms.mine, forms.theirs)
  const name = useId()
  const [choices, setChoices] = useState<Choices>(() =>
    Object.fromEntries(
      all.flatMap(({ field, by }) =>
        by === 'both' ? [] : [[field, by === 'me' ? 'mine' : 'theirs']],
      ),
    ),
  )
  const open = all.filter(({ field }) => choices[field] === undefined)
  return (
    <div role="alert">
      <Part title={says.title} help={says.lead} icon={GitCompareArrows} tone="warn">
        {all.map(({ field, by }) => {
          const [mine, theirs] = [linesOf(forms.mine, field), linesOf(forms.theirs, field)]
          const options: readonly (readonly [Choice, string])[] = [
            ['mine', says.keepMine],
            ['theirs', says.takeTheirs],
            ...(canJoin(field) && by === 'both' ? ([['together', says.join]] as const) : []),
          ]
          return (
            <fieldset key={field} className="clash" data-field={field}>
              <legend>
                {studio.field[field]} <span className="muted">{says.by[by]}</span>
              </legend>
              <div className="clash-sides">
                <Side title={says.yours} lines={mine} but={theirs} />
                <Side title={says.theirs} lines={theirs} but={mine} />
              </div>
              <div className="clash-choices">
                {options.map(([choice, label]) => (
                  <label key={choice} className="check">
                    <input
                      type="radio"
                      name={`${name}-${field}`}
                      checked={choices[field] === choice}
                      onChange={() => setChoices({ ...choices, [field]: choice })}
                    />
                    {label}
                  </label>
                ))}
              </div>
            </fieldset>
          )
        })}
        <div className="step-actions">
          <Button
            look="primary"
            aria-disabled={open.length > 0}
            onClick={() => open.length === 0 && onDone(resolved(forms, choices))}
          >
            {says.go}
          </Button>
          {open.length > 0 && <span className="muted">{says.chooseAll}</span>}
        </div>
      </Part>
    </div>
  )
}
