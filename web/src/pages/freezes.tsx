import { Snowflake, Sun } from 'lucide-react'
import { type FormEvent, useId, useState } from 'react'
import { useMe, useTenant } from '../api/queries.ts'
import {
  type Freeze,
  findPerson,
  useEnablements,
  useFreezes,
  usePeople,
  useStaff,
  useStaffAgents,
} from '../api/staff.ts'
import { useStaffWrite } from '../api/staff-write.ts'
import { useNow } from '../lib/hooks.ts'
import { ago, plain } from '../lib/text.ts'
import { Columns } from '../ui/columns.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Button, Chip, Time } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { freezeWords as says } from '../words/staff.ts'
import { words } from '../words.ts'
import { Page } from './page.tsx'
import '../styles/staff.css'

type Scope = Freeze['scope']
const SCOPES = ['user', 'agent', 'template', 'tenant'] as const satisfies readonly Scope[]
type Target = { readonly scope: Scope; readonly id: string; readonly name: string }

const nameOf = (one: Freeze): string => plain(one.target_name ?? says.gone)

function FreezeRow({ freeze, writes }: { readonly freeze: Freeze; readonly writes: boolean }) {
  const now = useNow(60_000)
  const what = nameOf(freeze)
  const lift = useStaffWrite<void>(() => toast(says.unfrozen(what)))
  return (
    <tr data-freeze={freeze.scope}>
      <th scope="row" data-label={says.column.what}>
        <span>{what}</span>
        <Chip icon={Snowflake}>{says.scopeShort[freeze.scope]}</Chip>
      </th>
      <td data-label={says.column.who}>{plain(freeze.created_by_login ?? says.gone)}</td>
      <td data-label={says.column.when}>
        <Time iso={freeze.created_at}>{ago(freeze.created_at, now)}</Time>
      </td>
      {writes && (
        <td>
          <Button
            small
            icon={Sun}
            disabled={lift.isPending}
            aria-label={says.unfreezeOne(what)}
            onClick={() =>
              lift.mutate({ method: 'DELETE', path: `/freezes/${encodeURIComponent(freeze.id)}` })
            }
          >
            {lift.isPending ? words.sending : says.unfreeze}
          </Button>
          <WriteError error={lift.error} what={says.notUnfrozen} />
        </td>
      )}
    </tr>
  )
}

function Choice({
  label,
  choices,
  value,
  onValue,
}: {
  readonly label: string
  readonly choices: readonly (readonly [id: string, name: string])[]
  readonly value: string
  readonly onValue: (id: string) => void
}) {
  return (
    <label className="field">
      <span>{label}</span>
      <select required value={value} onChange={(event) => onValue(event.target.value)}>
        <option value="">{says.pick}</option>
        {choices.map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  )
}

function Login({
  value,
  onValue,
}: {
  readonly value: string
  readonly onValue: (login: string) => void
}) {
  const people = usePeople(true)
  const list = useId()
  return (
    <>
      <label className="field">
        <span>{says.which.user}</span>
        <input
          required
          list={list}
          value={value}
          autoComplete="off"
          onChange={(event) => onValue(event.target.value)}
        />
      </label>
      <datalist id={list}>
        {people.data?.items.map((one) => (
          <option key={one.id} value={one.login}>
            {plain(one.name)}
          </option>
        ))}
      </datalist>
    </>
  )
}

/** Finds what is meant, or says that there is no such person. */
function useTarget() {
  const tenant = useTenant()
  const { data: me } = useMe()
  const agents = useStaffAgents(true)
  const templates = useEnablements()
  const choices = {
    agent: (agents.data?.items ?? []).map((one) => [one.id, plain(one.name)] as const),
    template: (templates.data?.items ?? []).map((one) => [one.template, plain(one.title)] as const),
  }
  const find = async (scope: Scope, value: string): Promise<Target | null> => {
    if (scope === 'tenant')
      return me === undefined ? null : { scope, id: me.tenant.id, name: plain(me.tenant.name) }
    if (scope === 'user') {
      const person = await findPerson(tenant, value)
      return person === undefined ? null : { scope, id: person.id, name: plain(person.login) }
    }
    return { scope, id: value, name: new Map(choices[scope]).get(value) ?? value }
  }
  return { choices, find }
}

function Ask({ target, onClose }: { readonly target: Target; readonly onClose: () => void }) {
  const freeze = useStaffWrite<Freeze>(() => {
    toast(says.frozen(target.name))
    onClose()
  })
  const { scope, id } = target
  return (
    <Confirm
      title={says.freezeTitle(target.name)}
      action={says.freeze}
      busy={freeze.isPending}
      error={freeze.error}
      onYes={() => freeze.mutate({ method: 'POST', path: '/freezes', body: { scope, id } })}
      onClose={onClose}
    >
      <p>{says.freezeMeans[scope]}</p>
      <p>{says.nothingEnds}</p>
    </Confirm>
  )
}

function FreezeForm() {
  const { choices, find } = useTarget()
  const [scope, setScope] = useState<Scope>('user')
  const [value, setValue] = useState('')
  const [target, setTarget] = useState<Target | null>(null)
  const [wrong, setWrong] = useState<{ readonly nobody: string } | { readonly error: unknown }>()
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setWrong(undefined)
    try {
      const found = await find(scope, value.trim())
      if (found === null) setWrong({ nobody: value.trim() })
      else setTarget(found)
    } catch (error) {
      setWrong({ error })
    }
  }
  return (
    <form className="staff-card" onSubmit={(event) => void submit(event)}>
      <fieldset className="segments">
        <legend>{says.choose}</legend>
        {SCOPES.map((one) => (
          <label key={one} className="segment">
            <input
              type="radio"
              name="scope"
              checked={scope === one}
              onChange={() => {
                setScope(one)
                setValue('')
                setWrong(undefined)
              }}
            />
            <span>{says.scope[one]}</span>
          </label>
        ))}
      </fieldset>
      <div className="activity-fields">
        {scope === 'user' && <Login value={value} onValue={setValue} />}
        {(scope === 'agent' || scope === 'template') && (
          <Choice
            label={says.which[scope]}
            choices={choices[scope]}
            value={value}
            onValue={setValue}
          />
        )}
      </div>
      {wrong !== undefined && 'nobody' in wrong && (
        <p className="field-error" role="alert">
          {says.nobody(plain(wrong.nobody))}
        </p>
      )}
      {wrong !== undefined && 'error' in wrong && (
        <WriteError error={wrong.error} what={says.notFrozen} />
      )}
      <div className="step-actions">
        <Button type="submit" look="danger" icon={Snowflake}>
          {says.freeze}
        </Button>
      </div>
      {target && <Ask target={target} onClose={() => setTarget(null)} />}
    </form>
  )
}

/** What is frozen, by whom and since when; and, for org admins, the one place where things are frozen and unfrozen. */
export default function Freezes() {
  const freezes = useFreezes()
  const { reads, writes } = useStaff()
  const items = freezes.data?.items ?? []
  return (
    <Page title={says.title} lead={says.lead}>
      {writes && <FreezeForm />}
      {reads && !writes && <p className="muted">{says.readOnly}</p>}
      {freezes.isPending && <Skeleton label={words.state.loading} rows={3} />}
      {freezes.error && !freezes.data && (
        <ErrorState error={freezes.error} what={says.failed} onRetry={() => freezes.refetch()} />
      )}
      {freezes.data && items.length === 0 && (
        <Empty icon={Sun} title={says.none}>
          {says.noneWhy}
        </Empty>
      )}
      {items.length > 0 && (
        <table className="rules">
          <caption className="visually-hidden">{says.title}</caption>
          <Columns of={says.column} more={writes ? says.unfreeze : undefined} />
          <tbody>
            {items.map((one) => (
              <FreezeRow key={one.id} freeze={one} writes={writes} />
            ))}
          </tbody>
        </table>
      )}
    </Page>
  )
}
