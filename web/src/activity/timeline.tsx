import { useMutation } from '@tanstack/react-query'
import { CircleCheck, ShieldCheck, TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { isStatus } from '../api/http.ts'
import { useTenant } from '../api/queries.ts'
import {
  type ActivityRecord,
  type Timeline,
  usePeople,
  useStaff,
  useTimeline,
  type Verification,
  verify,
} from '../api/staff.ts'
import { useLayout } from '../lib/layout.ts'
import { templateTitle, titleOf } from '../lib/sessions.ts'
import { fullTime, plain } from '../lib/text.ts'
import { Link, searchWith } from '../router.tsx'
import { ModeMark } from '../ui/marks.tsx'
import { Button, Time } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { activityWords as says } from '../words/activity.ts'
import { words } from '../words.ts'
import { Picture } from './picture.tsx'
import { Records } from './records.tsx'
import { aboutWords, howWords, type Titles, titleIn } from './says.ts'

type Line = {
  readonly key: string
  readonly at: string
  readonly lane: string
  readonly what: ReactNode
  readonly how: string
}

function recordLine(record: ActivityRecord, lane: string, titles: Titles): Line {
  return {
    key: record.id,
    at: record.at,
    lane,
    how: howWords(record),
    what: (
      <>
        <Link className="link" href={searchWith({ record: record.id })}>
          {says.type[record.type]}
        </Link>{' '}
        {aboutWords(record, titles)}
      </>
    ),
  }
}

function linesOf({ lanes }: Timeline, titles: Titles): readonly Line[] {
  return lanes
    .flatMap(({ session, records, calls }) => {
      const lane = templateTitle(session)
      return [
        ...records.map((record) => recordLine(record, lane, titles)),
        ...calls.map(({ permission, at, allowed, denied }) => ({
          key: `${session.id} ${permission} ${at}`,
          at,
          lane,
          what: `${says.callsOf}: ${titleIn(titles, permission)}`,
          how: says.callsIn(allowed, denied),
        })),
      ]
    })
    .toSorted((a, b) => a.at.localeCompare(b.at))
}

const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })

function AsTable({ timeline, titles }: { readonly timeline: Timeline; readonly titles: Titles }) {
  const phone = useLayout() === 'phone'
  const { tableColumn: column } = says
  return (
    <details className="timeline-table" open={phone}>
      <summary>{says.table}</summary>
      <table className="rules">
        <caption className="visually-hidden">{says.table}</caption>
        <thead>
          <tr>
            {Object.entries(column).map(([key, label]) => (
              <th key={key} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {linesOf(timeline, titles).map((line) => (
            <tr key={line.key}>
              <td data-label={column.at}>
                <Time iso={line.at}>{TIME.format(new Date(line.at))}</Time>
              </td>
              <td data-label={column.lane}>{line.lane}</td>
              <th scope="row" data-label={column.what} dir="auto">
                {line.what}
              </th>
              <td data-label={column.how} dir="auto">
                {line.how}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  )
}

function Verdict({ verification }: { readonly verification: Verification }) {
  const { ok, records, chains, problems, checkpoint } = verification
  return (
    <div className={ok ? 'verdict verdict-good' : 'verdict verdict-bad'} role="status">
      {ok ? (
        <CircleCheck aria-hidden="true" size={18} />
      ) : (
        <TriangleAlert aria-hidden="true" size={18} />
      )}
      <div>
        <p>{ok ? says.verified(records, chains) : says.broken(problems.length)}</p>
        <ul>
          {problems.map((one) => (
            <li key={`${one.chain} ${one.seq} ${one.problem}`}>
              {says.problemAt(says.problem[one.problem] ?? plain(one.problem), one.chain, one.seq)}
            </li>
          ))}
        </ul>
        <p>
          {checkpoint === undefined
            ? says.notAnchored
            : says.anchored(checkpoint.n, fullTime(checkpoint.at))}
        </p>
      </div>
    </div>
  )
}

function Verify({ session }: { readonly session: string }) {
  const tenant = useTenant()
  const check = useMutation({ mutationFn: () => verify(tenant, session) })
  return (
    <>
      <Button icon={ShieldCheck} disabled={check.isPending} onClick={() => check.mutate()}>
        {check.isPending ? says.verifying : says.verify}
      </Button>
      <WriteError error={check.error} what={says.verifyFailed} />
      {check.data && <Verdict verification={check.data} />}
    </>
  )
}

function Facts({ timeline }: { readonly timeline: Timeline }) {
  const { session } = timeline
  const { reads } = useStaff()
  const people = usePeople(reads)
  const person = people.data?.items.find((one) => one.id === session.user_id)
  const facts: readonly (readonly [string, ReactNode])[] = [
    [
      says.facts.person,
      person === undefined
        ? session.user_id
        : says.forWhom(plain(person.name), plain(person.login)),
    ],
    [says.facts.agent, plain(session.agent_name)],
    [says.facts.template, words.card.template(templateTitle(session), session.template_version)],
    [says.facts.mode, <ModeMark key="mode" mode={session.mode} />],
    [says.facts.started, fullTime(session.created_at)],
    [
      says.facts.ended,
      session.ended_at === undefined
        ? says.live
        : `${fullTime(session.ended_at)}: ${says.sessionEnd[session.end_reason ?? ''] ?? says.endedPlain}`,
    ],
  ]
  return (
    <dl className="activity-facts activity-facts-wide">
      {facts.map(([name, fact]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{fact}</dd>
        </div>
      ))}
    </dl>
  )
}

/** One session with its subagents: who, the picture, the same as a table, its records, and whether its chain holds. */
export function SessionTimeline({
  id,
  view,
  titles,
  views,
}: {
  readonly id: string
  readonly view: 'sessions' | 'records'
  readonly titles: Titles
  /** The way between the picture and the records. */
  readonly views: ReactNode
}) {
  const timeline = useTimeline(id)
  const { reads } = useStaff()
  if (timeline.isPending) return <Skeleton label={words.state.loading} rows={6} />
  if (isStatus(timeline.error, 404))
    return (
      <Empty icon={TriangleAlert} title={says.gone}>
        {says.goneWhy}
      </Empty>
    )
  if (!timeline.data)
    return (
      <ErrorState error={timeline.error} what={says.failed} onRetry={() => timeline.refetch()} />
    )
  return (
    <>
      <h2 dir="auto" className="activity-title">
        {titleOf(timeline.data.session)}
      </h2>
      <Facts timeline={timeline.data} />
      <div className="activity-verify">
        {reads ? <Verify key={id} session={id} /> : <p className="muted">{says.onlyStaff}</p>}
      </div>
      {views}
      {view === 'records' ? (
        <Records query={{ root: id }} titles={titles} />
      ) : (
        <>
          {timeline.data.truncated && <p className="muted">{says.truncated}</p>}
          <Picture timeline={timeline.data} titles={titles} />
          <AsTable timeline={timeline.data} titles={titles} />
        </>
      )}
    </>
  )
}
