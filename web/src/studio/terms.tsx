import { Plus, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { MODES } from '../../../src/core/vocabulary.ts'
import { useTemplates } from '../api/studio.ts'
import { plain } from '../lib/text.ts'
import { Button } from '../ui/parts.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import type { Checked } from './check.ts'
import { childText, type Form, LIMIT_NAMES, limitMax } from './form.ts'
import { describedBy, Part, Problems } from './parts.tsx'

/** All of a draft but its ceiling. */
const says = studio.edit

export type PartProps = {
  readonly form: Form
  readonly edit: (change: Partial<Form>) => void
  readonly check: Checked
}

export function PurposePart({ form, edit, check }: PartProps) {
  const problems = check.at('/purpose')
  return (
    <Part title={says.purpose} help={says.purposeHelp}>
      <textarea
        aria-label={says.purpose}
        rows={3}
        value={form.purpose}
        onChange={(event) => edit({ purpose: event.target.value })}
        {...describedBy('/purpose', problems)}
      />
      <Problems at="/purpose" problems={problems} />
    </Part>
  )
}

export function ContextPart({ form, edit, check }: PartProps) {
  const problems = check.at('/context')
  return (
    <Part title={says.context} help={says.contextHelp}>
      <textarea
        aria-label={says.context}
        rows={6}
        value={form.context}
        onChange={(event) => edit({ context: event.target.value })}
        {...describedBy('/context', problems)}
      />
      <span className="muted">{says.letters([...form.context].length)}</span>
      <Problems at="/context" problems={problems} />
    </Part>
  )
}

export function ModesPart({ form, edit, check }: PartProps) {
  return (
    <Part title={says.modes} help={says.modesHelp}>
      <ul className="choices">
        {MODES.map((mode) => (
          <li key={mode}>
            <label className="check">
              <input
                type="checkbox"
                checked={mode === 'ask' || form.modes.includes(mode)}
                disabled={mode === 'ask'}
                onChange={(event) =>
                  edit({
                    modes: MODES.filter((one) =>
                      one === mode ? event.target.checked : form.modes.includes(one),
                    ),
                  })
                }
              />
              <span>
                <strong>{words.mode[mode].name}</strong>{' '}
                <span className="muted">{words.mode[mode].means}</span>
              </span>
            </label>
          </li>
        ))}
      </ul>
      <Problems at="/modes" problems={check.at('/modes')} />
    </Part>
  )
}

export function LimitsPart({ form, edit, check }: PartProps) {
  return (
    <Part title={says.limits} help={says.limitsHelp}>
      <div className="limits">
        {LIMIT_NAMES.map((name) => {
          const at = `/limits/${name}`
          const problems = check.at(at)
          return (
            <label key={name} className="field">
              <span>{studio.limit[name] ?? name}</span>
              <input
                inputMode="numeric"
                value={form.limits[name] ?? ''}
                onChange={(event) =>
                  edit({ limits: { ...form.limits, [name]: event.target.value } })
                }
                {...describedBy(at, problems)}
              />
              <span className="muted">{says.limitMax(limitMax(name))}</span>
              <Problems at={at} problems={problems} />
            </label>
          )
        })}
      </div>
    </Part>
  )
}

export function ChildrenPart({ form, edit, check, own }: PartProps & { readonly own: string }) {
  const templates = useTemplates()
  const [chosen, setChosen] = useState('')
  const offered = (templates.data ?? [])
    .filter((one) => one.name !== own)
    .flatMap((one) =>
      one.versions
        .filter((v) => v.status === 'published')
        .map((v) => ({ template: one.name, title: one.title, version: v.version })),
    )
    .filter((one) => !form.children.some((child) => child.template === one.template))
  const pick = offered.find((one) => childText(one) === chosen)
  const add = () => {
    if (pick === undefined) return
    const { template, version } = pick
    edit({ children: [...form.children, { template, version }] })
    setChosen('')
  }
  return (
    <Part title={says.children} help={says.childrenHelp}>
      {form.children.length === 0 && <p className="muted">{says.childrenNone}</p>}
      <ul className="rows">
        {form.children.map((child) => (
          <li key={child.template} className="row" data-child={child.template}>
            <div className="row-top">
              <span>
                <strong>{child.template}</strong> {studio.version(child.version)}
              </span>
              <Button
                look="quiet"
                small
                icon={Trash2}
                aria-label={says.removeOne(child.template)}
                onClick={() => edit({ children: form.children.filter((one) => one !== child) })}
              >
                {says.remove}
              </Button>
            </div>
            <Problems
              at={`/children/${child.template}`}
              problems={check.ofRow('children', child.template)}
            />
          </li>
        ))}
      </ul>
      <div className="add-line">
        <label className="field">
          <span>{says.childAdd}</span>
          <select value={chosen} onChange={(event) => setChosen(event.target.value)}>
            <option value="">{says.childChoose}</option>
            {offered.map((one) => (
              <option key={childText(one)} value={childText(one)}>
                {plain(one.title)} {studio.version(one.version)}
              </option>
            ))}
          </select>
        </label>
        <Button icon={Plus} aria-disabled={pick === undefined} onClick={add}>
          {says.add}
        </Button>
      </div>
    </Part>
  )
}

export function SponsorPart({ form, edit, check }: PartProps) {
  const problems = check.at('/sponsor')
  return (
    <Part title={says.sponsor} help={says.sponsorHelp}>
      <input
        aria-label={says.sponsor}
        value={form.sponsor}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => edit({ sponsor: event.target.value })}
        {...describedBy('/sponsor', problems)}
      />
      <Problems at="/sponsor" problems={problems} />
    </Part>
  )
}
