import { Check, CircleCheck, X } from 'lucide-react'
import { useState } from 'react'
import { useCatalog } from '../api/queries.ts'
import { type Enablement, type EnablementChanged, useEnablements, useStaff } from '../api/staff.ts'
import { useStaffWrite } from '../api/staff-write.ts'
import { announce } from '../lib/announce.ts'
import { plain } from '../lib/text.ts'
import { navigate, searchWith, useSearch } from '../router.tsx'
import { Adopt } from '../templates/adopt.tsx'
import { draftOf, isNarrower, itemsOf, keyOf } from '../templates/edit.ts'
import { EnablementForm, ItemWords } from '../templates/form.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { ModeMark } from '../ui/marks.tsx'
import { Button, Chip } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { templateWords as says } from '../words/staff.ts'
import { words } from '../words.ts'
import { Page } from './page.tsx'
import '../styles/staff.css'

type Titles = ReadonlyMap<string, string>
type Done = { readonly says: string; readonly rules: number; readonly sessions: number }

function TurnOff({
  of,
  onDone,
}: {
  readonly of: Enablement
  readonly onDone: (done: EnablementChanged) => void
}) {
  const [asking, setAsking] = useState(false)
  const off = useStaffWrite<EnablementChanged>((done) => {
    setAsking(false)
    onDone(done)
  })
  return (
    <>
      <Button look="danger" onClick={() => setAsking(true)}>
        {says.turnOff}
      </Button>
      {asking && (
        <Confirm
          title={says.offTitle(plain(of.title))}
          action={says.turnOff}
          busy={off.isPending}
          error={off.error}
          onYes={() =>
            off.mutate({
              method: 'PUT',
              path: `/enablements/${encodeURIComponent(of.template)}`,
              body: { status: 'off' },
            })
          }
          onClose={() => setAsking(false)}
        >
          <p>{says.offMeans}</p>
        </Confirm>
      )}
    </>
  )
}

function Details({ of, titles }: { readonly of: Enablement; readonly titles: Titles }) {
  const draft = draftOf(of)
  return (
    <details className="enablement-details">
      <summary>{says.details}</summary>
      <ul className="plain-list">
        {itemsOf(of).map((item) => {
          const kept = draft.kept.has(keyOf(item))
          const Icon = kept ? Check : X
          return (
            <li key={keyOf(item)} className={kept ? 'staff-line' : 'staff-line muted'}>
              <Icon aria-hidden="true" size={15} />
              <ItemWords item={item} title={titles.get(item.permission) ?? item.permission} />
              {!kept && <Chip>{says.takenOut}</Chip>}
              {isNarrower(of, item) && <Chip>{says.narrower}</Chip>}
            </li>
          )
        })}
      </ul>
      <p className="live-meta">
        {of.allows.modes
          .filter((mode) => draft.modes.has(mode))
          .map((mode) => (
            <ModeMark key={mode} mode={mode} />
          ))}
      </p>
      <dl className="activity-facts activity-facts-wide">
        {Object.entries(draft.limits).map(([name, n]) => (
          <div key={name}>
            <dt>{says.limitName[name] ?? name}</dt>
            <dd>{says.limitWords(name, n)}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}

function Head({ of, writes }: { readonly of: Enablement; readonly writes: boolean }) {
  const { status, adopted_version: adopted, latest_version: latest } = of
  const items = itemsOf(of)
  const { kept } = draftOf(of)
  return (
    <div>
      <h2>{plain(of.title)}</h2>
      <p className="live-meta">
        <Chip tone={status === 'on' ? 'good' : 'neutral'}>
          {status === 'on' ? says.on : says.off}
        </Chip>
        <span>{says.version(adopted ?? latest)}</span>
        <span>
          {says.summary(items.filter((item) => kept.has(keyOf(item))).length, items.length)}
        </span>
        {adopted !== undefined && latest > adopted && (
          <Chip tone="warn">{writes ? says.waits(latest) : says.waitsRead(latest)}</Chip>
        )}
      </p>
    </div>
  )
}

type Open = 'edit' | 'adopt' | null

function Template({
  of,
  titles,
  writes,
  chosen,
}: {
  readonly of: Enablement
  readonly titles: Titles
  readonly writes: boolean
  readonly chosen: boolean
}) {
  const [open, setOpen] = useState<Open>(chosen && writes ? 'edit' : null)
  const [done, setDone] = useState<Done | null>(null)
  const title = plain(of.title)
  const { adopted_version: adopted, latest_version: latest } = of
  const finish = (what: string, rules: number, sessions: number) => {
    setOpen(null)
    setDone({ says: what, rules, sessions })
    announce(`${what} ${says.effect(rules, sessions)}`)
    if (chosen) navigate(searchWith({ template: null }), { replace: true })
  }
  const changed = (one: EnablementChanged) =>
    finish(says.done[one.status](title), one.rules_suspended, one.sessions_ended)
  const start = (what: Open) => {
    setDone(null)
    setOpen(what)
  }
  return (
    <article className="staff-card" aria-label={title} data-template={of.template}>
      <div className="activity-card-head">
        <Head of={of} writes={writes} />
        {writes && open === null && (
          <div className="activity-buttons">
            {adopted !== undefined && latest > adopted && (
              <Button look="primary" onClick={() => start('adopt')}>
                {says.see(latest)}
              </Button>
            )}
            <Button onClick={() => start('edit')}>
              {of.status === 'on' ? says.edit : says.turnOn}
            </Button>
            {of.status === 'on' && <TurnOff of={of} onDone={changed} />}
          </div>
        )}
      </div>
      <p dir="auto">{plain(of.purpose)}</p>
      {done && (
        <p className="verdict verdict-good">
          <CircleCheck aria-hidden="true" size={17} />
          <span>
            {done.says} {says.effect(done.rules, done.sessions)}
          </span>
        </p>
      )}
      {open === 'edit' && (
        <EnablementForm of={of} titles={titles} onDone={changed} onClose={() => setOpen(null)} />
      )}
      {open === 'adopt' && (
        <Adopt
          of={of}
          onDone={(one) =>
            finish(says.done.adopted(title, one.adopted_version), one.rules_suspended, 0)
          }
          onClose={() => setOpen(null)}
        />
      )}
      {open !== 'edit' && <Details of={of} titles={titles} />}
    </article>
  )
}

/** Published templates, and what this organisation makes of each. */
export default function Templates() {
  const search = useSearch()
  const { writes } = useStaff()
  const enablements = useEnablements()
  const catalog = useCatalog()
  const titles = new Map(catalog.data?.items.map((one) => [one.id, one.title]))
  const items = enablements.data?.items ?? []
  return (
    <Page title={says.title} lead={says.lead}>
      {enablements.isPending && <Skeleton label={words.state.loading} rows={4} />}
      {enablements.error && !enablements.data && (
        <ErrorState
          error={enablements.error}
          what={says.failed}
          onRetry={() => enablements.refetch()}
        />
      )}
      {enablements.data && items.length === 0 && <Empty title={says.none}>{says.noneWhy}</Empty>}
      {items.map((one) => (
        <Template
          key={one.template}
          of={one}
          titles={titles}
          writes={writes}
          chosen={search.get('template') === one.template}
        />
      ))}
    </Page>
  )
}
