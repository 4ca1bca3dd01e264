import { useState } from 'react'
import { useTenant } from '../api/queries.ts'
import {
  type ConsentHealth,
  type EnablementChanged,
  type Reviews as ReviewsView,
  useHealth,
  useReviews,
  useStaff,
} from '../api/staff.ts'
import { useStaffWrite } from '../api/staff-write.ts'
import { useNow } from '../lib/hooks.ts'
import { ago, plain } from '../lib/text.ts'
import { Link, navigate, paths, searchWith, useSearch } from '../router.tsx'
import { Columns } from '../ui/columns.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Button, Chip, Time } from '../ui/parts.tsx'
import { ErrorState, Skeleton } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { reviewWords as says } from '../words/staff.ts'
import { words } from '../words.ts'
import { Page } from './page.tsx'
import '../styles/staff.css'

const HEALTH_DAYS = [7, 30, 90] as const
const REVIEW_DAYS = [30, 90, 180] as const

function Days({
  name,
  days,
  choices,
}: {
  readonly name: string
  readonly days: number
  readonly choices: readonly number[]
}) {
  return (
    <fieldset className="segments">
      <legend>{says.looked}</legend>
      {choices.map((one) => (
        <label key={one} className="segment">
          <input
            type="radio"
            name={name}
            checked={days === one}
            onChange={() => navigate(searchWith({ [name]: String(one) }), { replace: true })}
          />
          <span>{says.days(one)}</span>
        </label>
      ))}
    </fieldset>
  )
}

const NOT_READING = { rate: 0.95, seconds: 2, answers: 10 }

type Consent = ConsentHealth['all']

const isNotRead = ({ approve_rate, seconds_to_decide, allowed, denied }: Consent): boolean =>
  allowed + denied >= NOT_READING.answers &&
  (approve_rate ?? 0) > NOT_READING.rate &&
  (seconds_to_decide?.median ?? NOT_READING.seconds) < NOT_READING.seconds

function HealthRow({ title, of }: { readonly title: string; readonly of: Consent }) {
  const { column, ...health } = says.health
  const ends = health.ends({ ...of, refused: of.refused_at_answer })
  return (
    <tr>
      <th scope="row" data-label={column.template}>
        <span>{title}</span>
        {isNotRead(of) && (
          <Chip tone="warn" title={health.notReadingWhy}>
            {health.notReading}
          </Chip>
        )}
      </th>
      <td data-label={column.sessions}>{of.sessions}</td>
      <td data-label={column.prompts}>{of.prompts}</td>
      <td data-label={column.each}>{health.number(of.prompts_per_session)}</td>
      <td data-label={column.rate}>{health.rate(of.approve_rate)}</td>
      <td data-label={column.median}>{health.seconds(of.seconds_to_decide?.median)}</td>
      <td data-label={column.p90}>{health.seconds(of.seconds_to_decide?.p90)}</td>
      <td data-label={column.ends}>{ends}</td>
    </tr>
  )
}

function Health({ days }: { readonly days: number }) {
  const health = useHealth(days)
  const { title, lead, column, failed, none, all } = says.health
  return (
    <section className="staff-card staff-wide" aria-label={title}>
      <div className="activity-card-head">
        <div>
          <h2>{title}</h2>
          <p className="muted">{lead}</p>
        </div>
        <Days name="health" days={days} choices={HEALTH_DAYS} />
      </div>
      {health.isPending && <Skeleton label={words.state.loading} rows={2} />}
      {health.error && !health.data && (
        <ErrorState error={health.error} what={failed} onRetry={() => health.refetch()} />
      )}
      {health.data && health.data.all.sessions === 0 && <p className="muted">{none}</p>}
      {health.data && health.data.all.sessions > 0 && (
        <table className="rules">
          <caption className="visually-hidden">{title}</caption>
          <Columns of={column} />
          <tbody>
            <HealthRow title={all} of={health.data.all} />
            {health.data.templates.map((one) => (
              <HealthRow key={one.template} title={plain(one.title)} of={one} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

type Rule = ReviewsView['unused_rules'][number]

function TakeRule({ rule }: { readonly rule: Rule }) {
  const [asking, setAsking] = useState(false)
  const { rules } = says
  const [login, title] = [plain(rule.user.login), plain(rule.title)]
  const take = useStaffWrite<void>(() => {
    setAsking(false)
    toast(rules.removed(login, title))
  })
  return (
    <>
      <Button
        look="quiet"
        small
        aria-label={rules.removeOne(login, title)}
        onClick={() => setAsking(true)}
      >
        {rules.remove}
      </Button>
      {asking && (
        <Confirm
          title={rules.removeTitle}
          action={rules.remove}
          busy={take.isPending}
          error={take.error}
          onYes={() =>
            take.mutate({ method: 'DELETE', path: `/reviews/rules/${encodeURIComponent(rule.id)}` })
          }
          onClose={() => setAsking(false)}
        >
          <p>{rules.removeMeans(login, title, plain(rule.template))}</p>
        </Confirm>
      )}
    </>
  )
}

function UnusedRules({
  rules,
  writes,
}: {
  readonly rules: readonly Rule[]
  readonly writes: boolean
}) {
  const now = useNow(60_000)
  const { title, none, column, neverUsed, remove } = says.rules
  return (
    <section className="staff-card" aria-label={title}>
      <h2>{title}</h2>
      {rules.length === 0 ? (
        <p className="muted">{none}</p>
      ) : (
        <table className="rules">
          <caption className="visually-hidden">{title}</caption>
          <Columns of={column} more={writes ? remove : undefined} />
          <tbody>
            {rules.map((rule) => (
              <tr key={rule.id} data-rule={rule.id}>
                <td data-label={column.person}>{plain(rule.user.login)}</td>
                <th scope="row" data-label={column.permission}>
                  <span>{plain(rule.title)}</span>
                  {rule.resource !== undefined && <code dir="auto">{plain(rule.resource)}</code>}
                </th>
                <td data-label={column.template}>{plain(rule.template)}</td>
                <td data-label={column.made}>
                  <Time iso={rule.created_at}>{ago(rule.created_at, now)}</Time>
                </td>
                <td data-label={column.used}>
                  {rule.last_used_at === undefined ? (
                    neverUsed
                  ) : (
                    <Time iso={rule.last_used_at}>{ago(rule.last_used_at, now)}</Time>
                  )}
                </td>
                {writes && (
                  <td>
                    <TakeRule rule={rule} />
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

type Unused = ReviewsView['never_used'][number]

function Narrow({ item }: { readonly item: Unused }) {
  const [asking, setAsking] = useState(false)
  const { unused } = says
  const [title, template] = [plain(item.title), plain(item.template)]
  const narrow = useStaffWrite<EnablementChanged>((done) => {
    setAsking(false)
    toast(unused.narrowed(title, template, done.sessions_ended))
  })
  return (
    <>
      <Button
        look="quiet"
        small
        aria-label={unused.narrowOne(title, template)}
        onClick={() => setAsking(true)}
      >
        {unused.narrow}
      </Button>
      {asking && (
        <Confirm
          title={unused.narrowTitle(title)}
          action={unused.narrow}
          busy={narrow.isPending}
          error={narrow.error}
          onYes={() =>
            narrow.mutate({
              method: 'POST',
              path: `/enablements/${encodeURIComponent(item.template)}/narrow`,
              body: { remove: [{ permission: item.permission }] },
            })
          }
          onClose={() => setAsking(false)}
        >
          <p>{unused.narrowMeans(title, template)}</p>
        </Confirm>
      )}
    </>
  )
}

function NeverUsed({
  items,
  writes,
}: {
  readonly items: readonly Unused[]
  readonly writes: boolean
}) {
  const { title, none, column, granted, notOnce, narrow } = says.unused
  return (
    <section className="staff-card" aria-label={title}>
      <h2>{title}</h2>
      {items.length === 0 ? (
        <p className="muted">{none}</p>
      ) : (
        <table className="rules">
          <caption className="visually-hidden">{title}</caption>
          <Columns of={column} more={writes ? narrow : undefined} />
          <tbody>
            {items.map((item) => (
              <tr key={`${item.template} ${item.permission}`} data-permission={item.permission}>
                <th scope="row" data-label={column.permission}>
                  <span>{plain(item.title)}</span>
                  <code>{plain(item.permission)}</code>
                </th>
                <td data-label={column.template}>{plain(item.template)}</td>
                <td data-label={column.granted}>{granted(item.granted, item.sessions)}</td>
                <td data-label={column.used}>{notOnce}</td>
                {writes && (
                  <td>
                    <Narrow item={item} />
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

function NeverRefused({ items }: { readonly items: ReviewsView['never_refused'] }) {
  const to = paths(useTenant())
  const { title, none, answered, look } = says.refused
  return (
    <section className="staff-card" aria-label={title}>
      <h2>{title}</h2>
      {items.length === 0 && <p className="muted">{none}</p>}
      <ul className="plain-list">
        {items.map((one) => (
          <li key={one.template} className="staff-line">
            <strong>{plain(one.title)}</strong>
            <span className="muted">{answered(one.answered)}</span>
            <Link
              className="link"
              href={`${to.templates}?template=${encodeURIComponent(one.template)}`}
            >
              {look}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  )
}

const daysIn = (search: URLSearchParams, name: string, choices: readonly number[], or: number) =>
  choices.find((one) => String(one) === search.get(name)) ?? or

/** What nobody needs, with one click to narrow it; and whether people read what they are asked. */
export default function Reviews() {
  const search = useSearch()
  const days = daysIn(search, 'days', REVIEW_DAYS, 90)
  const reviews = useReviews(days)
  const { writes } = useStaff()
  return (
    <Page
      title={says.title}
      lead={says.lead}
      actions={<Days name="days" days={days} choices={REVIEW_DAYS} />}
    >
      {reviews.isPending && <Skeleton label={words.state.loading} rows={5} />}
      {reviews.error && !reviews.data && (
        <ErrorState error={reviews.error} what={says.failed} onRetry={() => reviews.refetch()} />
      )}
      {reviews.data && (
        <>
          <NeverUsed items={reviews.data.never_used} writes={writes} />
          <UnusedRules rules={reviews.data.unused_rules} writes={writes} />
          <NeverRefused items={reviews.data.never_refused} />
          <Health days={daysIn(search, 'health', HEALTH_DAYS, 30)} />
        </>
      )}
    </Page>
  )
}
