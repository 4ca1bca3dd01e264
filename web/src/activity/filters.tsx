import { RotateCw, X } from 'lucide-react'
import { type FormEvent, useEffect, useId, useState } from 'react'
import { useCatalog, useSessions, useTenant } from '../api/queries.ts'
import { findPerson, useEnablements, usePeople, usePerson, useStaffAgents } from '../api/staff.ts'
import { templateTitle } from '../lib/sessions.ts'
import { plain } from '../lib/text.ts'
import { type Changed, navigate, searchWith } from '../router.tsx'
import { Button } from '../ui/parts.tsx'
import { activityWords as says } from '../words/activity.ts'
import { dateField, FILTERS, PERIODS, periodOf, type View } from './filter.ts'

const change = (to: Changed) => navigate(searchWith(to), { replace: true })

type Choice = readonly [value: string, label: string]

function Choose({
  name,
  label,
  search,
  choices,
}: {
  readonly name: string
  readonly label: string
  readonly search: URLSearchParams
  readonly choices: readonly Choice[]
}) {
  const value = search.get(name) ?? ''
  const known = value === '' || choices.some(([one]) => one === value)
  return (
    <label className="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => change({ [name]: event.target.value })}>
        <option value="">{says.any}</option>
        {!known && <option value={value}>{plain(value)}</option>}
        {choices.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

/** By login: an organisation may have more people than a list can hold. The address keeps the id. */
function PersonField({ id }: { readonly id: string }) {
  const tenant = useTenant()
  const list = useId()
  const error = useId()
  const people = usePeople(true)
  const one = usePerson(id, id !== '')
  const login = id === '' ? '' : (one.data?.login ?? '')
  const [typed, setTyped] = useState(login)
  const [wrong, setWrong] = useState('')
  useEffect(() => setTyped(login), [login])
  const seek = async (sought: string) => {
    setWrong('')
    if (sought === login) return
    if (sought === '') return change({ user: null })
    const listed = people.data?.items.find((person) => person.login === sought)
    const found = listed ?? (await findPerson(tenant, sought).catch(() => undefined))
    if (found === undefined) return setWrong(sought)
    change({ user: found.id })
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    void seek(typed.trim())
  }
  return (
    <form onSubmit={submit}>
      <label className="field">
        <span>{says.person}</span>
        <input
          list={list}
          value={typed}
          placeholder={says.personHint}
          autoComplete="off"
          aria-invalid={wrong !== ''}
          aria-describedby={wrong === '' ? undefined : error}
          onChange={(event) => setTyped(event.target.value)}
          onBlur={() => void seek(typed.trim())}
        />
      </label>
      <datalist id={list}>
        {people.data?.items.map((person) => (
          <option key={person.id} value={person.login}>
            {plain(person.name)}
          </option>
        ))}
      </datalist>
      {wrong !== '' && (
        <p id={error} className="field-error" role="alert">
          {says.noPerson(plain(wrong))}
        </p>
      )}
    </form>
  )
}

/** Agents and templates to choose from: the organisation's for its staff, else those that have worked for the person. */
function useChoices(all: boolean) {
  const agents = useStaffAgents(all)
  const enablements = useEnablements(all)
  const sessions = useSessions()
  const own = sessions.data?.items ?? []
  const unique = (choices: readonly Choice[]): readonly Choice[] => [...new Map(choices)]
  return {
    agents: all
      ? (agents.data?.items.map((one): Choice => [one.id, plain(one.name)]) ?? [])
      : unique(own.map((one) => [one.agent_id, plain(one.agent_name)])),
    templates: all
      ? (enablements.data?.items.map((one): Choice => [one.template, plain(one.title)]) ?? [])
      : unique(own.map((one) => [one.template, templateTitle(one)])),
  }
}

function PeriodFields({ search }: { readonly search: URLSearchParams }) {
  const period = periodOf(search)
  const today = dateField(new Date())
  return (
    <div className="activity-period">
      <fieldset className="segments">
        <legend>{says.period}</legend>
        {PERIODS.map((one) => (
          <label key={one} className="segment">
            <input
              type="radio"
              name="period"
              checked={period === one}
              onChange={() =>
                change(
                  one === 'custom'
                    ? { period: one, from: today, to: today }
                    : { period: one, from: null, to: null },
                )
              }
            />
            <span>{says.periods[one]}</span>
          </label>
        ))}
      </fieldset>
      {period === 'custom' &&
        (['from', 'to'] as const).map((name) => (
          <label key={name} className="field">
            <span>{says[name]}</span>
            <input
              type="date"
              value={search.get(name) ?? ''}
              onChange={(event) => change({ [name]: event.target.value })}
            />
          </label>
        ))}
    </div>
  )
}

export function Filters({
  search,
  view,
  all,
  onRefresh,
}: {
  readonly search: URLSearchParams
  readonly view: View
  /** Whether all of the organisation is seen, or one's own alone. */
  readonly all: boolean
  readonly onRefresh: () => void
}) {
  const { agents, templates } = useChoices(all)
  const catalog = useCatalog()
  const permissions = (catalog.data?.items ?? [])
    .map((one): Choice => [one.id, plain(one.title)])
    .toSorted(([, a], [, b]) => a.localeCompare(b))
  const types = Object.entries(says.type)
  const none = FILTERS.every((name) => !search.has(name))
  return (
    <search className="activity-filters" aria-label={says.filters}>
      <div className="activity-fields">
        {all && <PersonField id={search.get('user') ?? ''} />}
        <Choose name="agent" label={says.agent} search={search} choices={agents} />
        <Choose name="template" label={says.template} search={search} choices={templates} />
        <Choose name="permission" label={says.permission} search={search} choices={permissions} />
        {view === 'records' && (
          <Choose name="type" label={says.recordType} search={search} choices={types} />
        )}
      </div>
      <div className="activity-fields-end">
        <PeriodFields search={search} />
        <div className="activity-buttons">
          {!none && (
            <Button
              look="quiet"
              icon={X}
              onClick={() => change(Object.fromEntries(FILTERS.map((name) => [name, null])))}
            >
              {says.clear}
            </Button>
          )}
          <Button icon={RotateCw} onClick={onRefresh}>
            {says.refresh}
          </Button>
        </div>
      </div>
    </search>
  )
}
