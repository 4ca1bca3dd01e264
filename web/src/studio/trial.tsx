import { useMutation } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { type FormEvent, useId, useState } from 'react'
import { MODES } from '../../../src/core/vocabulary.ts'
import { call, isStatus } from '../api/http.ts'
import { peopleApi, useCatalog, useTenant } from '../api/queries.ts'
import { type Tried, type Try, useVersion, type Version, versionPath } from '../api/studio.ts'
import type { Mode, PermissionView } from '../api/types.ts'
import { plain } from '../lib/text.ts'
import { Page } from '../pages/page.tsx'
import { Link, paths } from '../router.tsx'
import { Button, Chip } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { Part, placeText } from './parts.tsx'
import './studio.css'

const says = studio.trial

type Item = Try['items'][number]
const textOf = (item: Item): string => JSON.stringify([item.permission, item.resource, item.narrow])

/** One asked for what a pattern stands for: a session may ask for the pattern itself as well. */
const permissionsOf = (items: readonly Item[]): Item[] =>
  items.map(({ permission, resource }) =>
    resource === undefined ? { permission } : { permission, resource },
  )

function useTry(version: Version) {
  const tenant = useTenant()
  const path = `${peopleApi(tenant)}${versionPath(version.template, version.version)}/try`
  return useMutation({
    mutationFn: ({ user, items }: Pick<Try, 'user' | 'items'>) =>
      Promise.all(
        MODES.map(async (mode) => ({
          mode,
          tried: await call<Tried>(path, { method: 'POST', body: { user, items, mode } }),
        })),
      ),
  })
}
type Result = { readonly mode: Mode; readonly tried: Tried }

function Picker({
  legend,
  all,
  chosen,
  title,
  onChange,
}: {
  readonly legend: string
  readonly all: readonly Item[]
  readonly chosen: ReadonlySet<string>
  readonly title: (id: string) => string
  readonly onChange: (chosen: ReadonlySet<string>) => void
}) {
  const toggle = (item: Item, on: boolean) => {
    const next = new Set(chosen)
    if (on) next.add(textOf(item))
    else next.delete(textOf(item))
    onChange(next)
  }
  return (
    <fieldset className="picker">
      <legend>{legend}</legend>
      {all.map((item) => (
        <label key={textOf(item)} className="check">
          <input
            type="checkbox"
            checked={chosen.has(textOf(item))}
            onChange={(event) => toggle(item, event.target.checked)}
          />
          <span>
            {title(item.permission)} <span className="muted">{placeText(item)}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}

/** Any item of the catalog, so that a refusal can be tried too. */
function Another({
  catalog,
  onAdd,
}: {
  readonly catalog: readonly PermissionView[]
  readonly onAdd: (item: Item) => void
}) {
  const [permission, setPermission] = useState('')
  const [resource, setResource] = useState('')
  const hint = catalog.find((one) => one.id === permission)?.resource_hint
  const ready = permission !== '' && (hint === undefined || resource.trim() !== '')
  return (
    <div className="add-line">
      <label className="field">
        <span>{says.another}</span>
        <select value={permission} onChange={(event) => setPermission(event.target.value)}>
          <option value="">{says.choose}</option>
          {catalog.map((one) => (
            <option key={one.id} value={one.id}>
              {plain(one.title)}
            </option>
          ))}
        </select>
      </label>
      {hint !== undefined && (
        <label className="field">
          <span>{says.resource}</span>
          <input
            value={resource}
            placeholder={hint}
            onChange={(event) => setResource(event.target.value)}
          />
        </label>
      )}
      <Button
        icon={Plus}
        aria-disabled={!ready}
        onClick={() => {
          if (!ready) return
          onAdd(hint === undefined ? { permission } : { permission, resource: resource.trim() })
          setPermission('')
          setResource('')
        }}
      >
        {says.add}
      </Button>
    </div>
  )
}

const TONE = { granted: 'good', refused: 'bad', asked: 'warn' } as const
type Explained = Tried['items'][number]

function Layers({ item }: { readonly item: Explained }) {
  return (
    <ol className="layers" aria-label={says.layersOf(plain(item.title))}>
      {item.layers.map((one) => (
        <li key={one.layer} data-layer={one.layer} data-decides={one.decides}>
          <span className="layer-name">{says.layer[one.layer] ?? one.layer}</span>
          <span>
            {one.outcome === undefined ? (
              <span className="muted">{says.passes}</span>
            ) : (
              <Chip tone={TONE[one.outcome]}>{says.outcome[one.outcome]}</Chip>
            )}{' '}
            {one.decides && <Chip tone="accent">{says.decides}</Chip>}
          </span>
          <span className="muted layer-says">{one.says}</span>
        </li>
      ))}
    </ol>
  )
}

function Results({ results }: { readonly results: readonly Result[] }) {
  const name = useId()
  const [mode, setMode] = useState<Mode>('ask')
  const shown = results.find((one) => one.mode === mode)
  if (shown === undefined) return null
  const { tried } = shown
  return (
    <Part title={says.result}>
      <fieldset className="segments">
        <legend>{studio.field.modes}</legend>
        {results.map((one) => (
          <label key={one.mode} className="segment">
            <input
              type="radio"
              name={name}
              checked={mode === one.mode}
              onChange={() => setMode(one.mode)}
            />
            <span>{words.mode[one.mode].name}</span>
          </label>
        ))}
      </fieldset>
      {tried.mode !== mode && <p className="note">{says.asAsk(words.mode[mode].name)}</p>}
      <ul className="rows" aria-label={says.inMode(words.mode[mode].name)}>
        {tried.items.map((item) => (
          <li key={textOf(item)} className="row" data-tried={item.permission}>
            <div className="row-top">
              <span>
                <strong>{plain(item.title)}</strong>{' '}
                <span className="muted">{placeText(item)}</span>
              </span>
              <Chip tone={TONE[item.outcome]}>{says.outcome[item.outcome]}</Chip>
            </div>
            <p>{item.says}</p>
            <details>
              <summary>{says.layers}</summary>
              <Layers item={item} />
            </details>
          </li>
        ))}
      </ul>
    </Part>
  )
}

function Trial({ version }: { readonly version: Version }) {
  const catalog = useCatalog()
  const entries = catalog.data?.items ?? []
  const title = (id: string) => plain(entries.find((one) => one.id === id)?.title ?? id)
  const [extra, setExtra] = useState<readonly Item[]>([])
  const all: readonly Item[] = [...version.ceiling, ...extra]
  const every = () => new Set(version.ceiling.map(textOf))
  const [asked, setAsked] = useState<ReadonlySet<string>>(every)
  const has = permissionsOf(all)
  const [held, setHeld] = useState<ReadonlySet<string>>(
    () => new Set(permissionsOf(version.ceiling).map(textOf)),
  )
  const [who, setWho] = useState<'made' | 'real'>('made')
  const [login, setLogin] = useState('')
  const attempt = useTry(version)
  const items = all.filter((item) => asked.has(textOf(item)))
  const ready = items.length > 0 && (who === 'made' || login.trim() !== '')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!ready || attempt.isPending) return
    const made = { permissions: has.filter((item) => held.has(textOf(item))) }
    attempt.mutate({ user: who === 'made' ? made : { login: login.trim() }, items: [...items] })
  }
  const distinct = [...new Map(has.map((item) => [textOf(item), item])).values()]
  const radio = (value: 'made' | 'real', label: string) => (
    <label className="check">
      <input type="radio" name="who" checked={who === value} onChange={() => setWho(value)} />
      {label}
    </label>
  )
  return (
    <>
      <form className="trial" onSubmit={submit}>
        <Part title={says.user}>
          {radio('made', says.made)}
          {who === 'made' && (
            <Picker
              legend={says.made}
              all={distinct}
              chosen={held}
              title={title}
              onChange={setHeld}
            />
          )}
          {radio('real', says.real)}
          {who === 'real' && (
            <label className="field">
              <span>{says.login}</span>
              <input
                value={login}
                autoComplete="off"
                spellCheck={false}
                onChange={(event) => setLogin(event.target.value)}
              />
            </label>
          )}
        </Part>
        <Part title={says.asks}>
          <Picker legend={says.asks} all={all} chosen={asked} title={title} onChange={setAsked} />
          <Another
            catalog={entries}
            onAdd={(item) => {
              if (all.some((one) => textOf(one) === textOf(item))) return
              setExtra([...extra, item])
              setAsked(new Set([...asked, textOf(item)]))
            }}
          />
        </Part>
        <div className="trial-run">
          <WriteError error={attempt.error} what={says.failed} />
          <Button look="primary" type="submit" aria-disabled={!ready}>
            {attempt.isPending ? words.sending : says.run}
          </Button>
          {items.length === 0 && <span className="muted">{says.noneAsked}</span>}
        </div>
      </form>
      {attempt.data && <Results results={attempt.data} />}
    </>
  )
}

/** The sandbox: the decision itself on the saved version, for a made-up person or a real one. Nothing is written. */
export default function TrialPage({
  template,
  n,
}: {
  readonly template: string
  readonly n: number
}) {
  const to = paths(useTenant())
  const version = useVersion(template, n)
  const v = version.data
  const isGone = isStatus(version.error, 404)
  return (
    <Page
      title={v === undefined ? says.title : `${says.title}: ${plain(v.title)} ${studio.version(n)}`}
      lead={says.lead}
      actions={
        <Link className="button" href={to.version(template, n)}>
          {says.back}
        </Link>
      }
    >
      {v?.status === 'draft' && <p className="note">{says.unsaved}</p>}
      {version.isPending && <Skeleton label={words.state.loading} rows={4} />}
      {isGone && <Empty title={studio.look.gone}>{studio.look.goneWhy}</Empty>}
      {version.error && !isGone && v === undefined && (
        <ErrorState
          error={version.error}
          what={studio.look.failed}
          onRetry={() => version.refetch()}
        />
      )}
      {v !== undefined && <Trial key={v.revision} version={v} />}
    </Page>
  )
}
