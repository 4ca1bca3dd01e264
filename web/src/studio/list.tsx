import { Plus, TriangleAlert } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useTenant } from '../api/queries.ts'
import {
  type NewTemplate,
  type Template,
  useRoles,
  useTemplates,
  useWrite,
  type Version,
  versionPath,
} from '../api/studio.ts'
import { plain } from '../lib/text.ts'
import { Page } from '../pages/page.tsx'
import { Link, navigate, paths } from '../router.tsx'
import { Button, Chip } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { describedBy, Part, Problems, refusedAt, StatusChip } from './parts.tsx'
import './studio.css'

function NewForm({ onDone }: { readonly onDone: () => void }) {
  const to = paths(useTenant())
  const create = useWrite<Version>()
  const [name, setName] = useState('')
  const [title, setTitle] = useState('')
  const [visibility, setVisibility] = useState<'private' | 'public'>('private')
  const ready = name.trim() !== '' && title.trim() !== '' && !create.isPending
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!ready) return
    const body: NewTemplate = { name: name.trim(), title: title.trim(), visibility }
    create.mutate(
      { path: '/templates', body },
      { onSuccess: (made) => navigate(to.version(made.template, made.version)) },
    )
  }
  const at = (field: string) => refusedAt(create.error, field)
  return (
    <form className="studio-new" onSubmit={submit} aria-label={studio.new.open}>
      <label className="field">
        <span>{studio.new.name}</span>
        <input
          value={name}
          autoComplete="off"
          spellCheck={false}
          placeholder="renewal-briefs"
          onChange={(event) => setName(event.target.value)}
          {...describedBy('/name', at('name'))}
        />
        <span className="muted">{studio.new.nameHelp}</span>
        <Problems at="/name" problems={at('name')} />
      </label>
      <label className="field">
        <span>{studio.new.title}</span>
        <input
          value={title}
          autoComplete="off"
          onChange={(event) => setTitle(event.target.value)}
          {...describedBy('/title', at('title'))}
        />
        <span className="muted">{studio.new.titleHelp}</span>
        <Problems at="/title" problems={at('title')} />
      </label>
      <label className="field">
        <span>{studio.new.visibility}</span>
        <select
          value={visibility}
          onChange={(event) =>
            setVisibility(event.target.value === 'public' ? 'public' : 'private')
          }
        >
          <option value="private">{studio.new.private}</option>
          <option value="public">{studio.new.public}</option>
        </select>
      </label>
      <WriteError error={create.error} what={studio.new.failed} />
      <div className="step-actions">
        <Button onClick={onDone}>{words.cancel}</Button>
        <Button look="primary" type="submit" aria-disabled={!ready}>
          {create.isPending ? words.sending : studio.new.create}
        </Button>
      </div>
    </form>
  )
}

const inReview = (one: Template) =>
  one.owned ? one.versions.find((v) => v.status === 'in_review')?.version : undefined

function Queue({ templates }: { readonly templates: readonly Template[] }) {
  const to = paths(useTenant())
  const waiting = templates.flatMap((one) => {
    const n = inReview(one)
    return n === undefined ? [] : [{ one, n }]
  })
  return (
    <Part title={studio.queue}>
      {waiting.length === 0 && (
        <p className="muted">{`${studio.queueNone}. ${studio.queueNoneWhy}`}</p>
      )}
      <ul className="queue">
        {waiting.map(({ one, n }) => (
          <li key={one.id}>
            <Link className="queue-one" href={to.version(one.name, n)}>
              <span>
                <strong>{studio.review(plain(one.title), n)}</strong>
                <span className="muted">
                  {plain(one.versions.find((v) => v.version === n)?.purpose ?? '')}
                </span>
              </span>
              <StatusChip status="in_review" />
            </Link>
          </li>
        ))}
      </ul>
    </Part>
  )
}

function OpenButton({ one }: { readonly one: Template }) {
  const to = paths(useTenant())
  const { builds } = useRoles()
  const start = useWrite<Version>()
  const { open_version: open, latest_version: latest } = one
  if (!one.owned) return null
  if (open !== undefined) {
    const label = inReview(one) === open ? studio.openReview(open) : studio.openDraft(open)
    return (
      <Link className="button" href={to.version(one.name, open)}>
        {label}
      </Link>
    )
  }
  if (!builds || latest === undefined) return null
  const next = Math.max(...one.versions.map((v) => v.version)) + 1
  return (
    <>
      <Button
        disabled={start.isPending}
        onClick={() =>
          start.mutate(
            { path: versionPath(one.name, next), method: 'PUT', body: { base: 'published' } },
            { onSuccess: () => navigate(to.version(one.name, next)) },
          )
        }
      >
        {studio.nextVersion(next)}
      </Button>
      <WriteError error={start.error} what={studio.notStarted} />
    </>
  )
}

function TemplateCard({ one }: { readonly one: Template }) {
  const to = paths(useTenant())
  const purpose = one.versions[0]?.purpose ?? ''
  return (
    <li className="template" data-template={one.name}>
      <div className="template-top">
        <div>
          <h3>{plain(one.title)}</h3>
          <code>{one.name}</code>
        </div>
        <span className="item-marks">
          {one.sponsor_needed && (
            <Chip tone="bad" icon={TriangleAlert} title={studio.sponsorNeededWhy}>
              {studio.sponsorNeeded}
            </Chip>
          )}
          <Chip>{one.owned ? studio.visibility[one.visibility] : studio.others}</Chip>
        </span>
      </div>
      {purpose !== '' && <p>{plain(purpose)}</p>}
      {one.sponsor_needed && <p className="field-error">{studio.sponsorNeededWhy}</p>}
      <div className="template-foot">
        <ul className="versions" aria-label={`${studio.versions}: ${plain(one.title)}`}>
          {one.versions.map((v) => (
            <li key={v.version}>
              <Link className="version" href={to.version(one.name, v.version)}>
                {studio.version(v.version)} <StatusChip status={v.status} />
              </Link>
            </li>
          ))}
        </ul>
        <OpenButton one={one} />
      </div>
    </li>
  )
}

/** Templates of this organisation and what others published; for reviewers, what waits for them first. */
export default function Studio() {
  const templates = useTemplates()
  const { builds, reviews } = useRoles()
  const [adding, setAdding] = useState(false)
  const items = templates.data ?? []
  return (
    <Page
      title={studio.title}
      lead={studio.lead}
      actions={
        builds && (
          <Button icon={Plus} aria-expanded={adding} onClick={() => setAdding(!adding)}>
            {studio.new.open}
          </Button>
        )
      }
    >
      {adding && <NewForm onDone={() => setAdding(false)} />}
      {templates.isPending && <Skeleton label={words.state.loading} rows={4} />}
      {templates.error && !templates.data && (
        <ErrorState
          error={templates.error}
          what={studio.failed}
          onRetry={() => templates.refetch()}
        />
      )}
      {templates.data && reviews && <Queue templates={items} />}
      {templates.data && items.length === 0 && <Empty title={studio.none}>{studio.noneWhy}</Empty>}
      {items.length > 0 && (
        <Part title={studio.all}>
          <ul className="templates">
            {items.map((one) => (
              <TemplateCard key={one.id} one={one} />
            ))}
          </ul>
        </Part>
      )}
    </Page>
  )
}
