import { ChartGantt, Lock, SearchX } from 'lucide-react'
import { type Query, type Tree, useActivitySessions } from '../api/staff.ts'
import { useNow } from '../lib/hooks.ts'
import { isLive, templateTitle, titleOf } from '../lib/sessions.ts'
import { clockOrDate, plain } from '../lib/text.ts'
import { Link, searchWith } from '../router.tsx'
import { ModeMark } from '../ui/marks.tsx'
import { Button, Chip, Hidden, Time } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { activityWords as says } from '../words/activity.ts'
import { words } from '../words.ts'
import { byWords, endedWords, reasonWords } from './says.ts'

type Item = Tree['items'][number]
type Counted = Item['granted'][number]

const counted = (list: readonly Counted[], wordsOf: (one: Counted) => string) =>
  list.length === 0 ? (
    <span className="muted">0</span>
  ) : (
    <ul>
      {list.map((one) => (
        <li key={`${one.by} ${one.reason}`}>
          {one.n} {wordsOf(one)}
        </li>
      ))}
    </ul>
  )

const refusedWords = ({ by, reason }: Counted): string =>
  [by === undefined ? '' : byWords(by), reason === undefined ? '' : reasonWords(reason)]
    .filter(Boolean)
    .join(': ')

function ItemRow({ item }: { readonly item: Item }) {
  const { column } = says
  return (
    <tr data-permission={item.permission}>
      <th scope="row" data-label={column.permission}>
        <span>
          {plain(item.title)}
          {item.sensitive && (
            <span className="activity-lock" title={words.sensitive}>
              <Lock aria-hidden="true" size={13} />
              <Hidden>{words.sensitive}</Hidden>
            </span>
          )}
        </span>
        {item.resource !== undefined && <code dir="auto">{plain(item.resource)}</code>}
      </th>
      <td data-label={column.asked}>{item.asked}</td>
      <td data-label={column.granted}>{counted(item.granted, ({ by }) => byWords(by ?? ''))}</td>
      <td data-label={column.refused}>{counted(item.refused, refusedWords)}</td>
      <td data-label={column.ended}>
        {counted(item.ended, ({ reason }) => endedWords(reason ?? ''))}
      </td>
      <td data-label={column.calls}>{says.calls(item.calls_allowed, item.calls_denied)}</td>
    </tr>
  )
}

function Items({ tree }: { readonly tree: Tree }) {
  if (tree.items.length === 0) return <p className="muted">{says.noItems}</p>
  return (
    <table className="rules activity-items">
      <caption className="visually-hidden">{says.items}</caption>
      <thead>
        <tr>
          {Object.entries(says.column).map(([key, label]) => (
            <th key={key} scope="col">
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {tree.items.map((item) => (
          <ItemRow key={`${item.permission} ${item.resource}`} item={item} />
        ))}
      </tbody>
    </table>
  )
}

const NUMBERS = Object.entries(says.numbers) as [keyof typeof says.numbers, string][]

function SessionCard({ tree, now }: { readonly tree: Tree; readonly now: number }) {
  const { session } = tree
  return (
    <article className="activity-card" data-session={session.id} aria-label={titleOf(session)}>
      <div className="activity-card-head">
        <div>
          <h2 dir="auto">
            <Link className="link" href={searchWith({ session: session.id })}>
              {titleOf(session)}
            </Link>
          </h2>
          <p className="live-meta">
            <strong>{says.forWhom(plain(tree.user.name), plain(tree.user.login))}</strong>
            <span>{plain(session.agent_name)}</span>
            <span>{words.card.template(templateTitle(session), session.template_version)}</span>
            <ModeMark mode={session.mode} />
            {isLive(session) ? (
              <Chip tone="good">{says.live}</Chip>
            ) : (
              <Chip>{says.sessionEnd[session.end_reason ?? ''] ?? says.endedPlain}</Chip>
            )}
            <Time iso={session.created_at}>{clockOrDate(session.created_at, now)}</Time>
          </p>
        </div>
        <Link
          className="button button-small"
          href={searchWith({ session: session.id })}
          aria-label={says.openOne(titleOf(session))}
        >
          <ChartGantt aria-hidden="true" size={14} /> {says.open}
        </Link>
      </div>
      <dl className="activity-numbers">
        {NUMBERS.map(([key, label]) => (
          <div key={key} data-number={key} className={tree[key] === 0 ? 'activity-zero' : ''}>
            <dt>{label}</dt>
            <dd>{tree[key]}</dd>
          </div>
        ))}
      </dl>
      <Items tree={tree} />
    </article>
  )
}

/** Root sessions, newest first, each with what was asked, who decided, what was lent and called in its whole tree. */
export function Sessions({ query }: { readonly query: Query }) {
  const sessions = useActivitySessions(query)
  const now = useNow(60_000)
  const items = sessions.data?.pages.flatMap((one) => one.items) ?? []
  if (sessions.isPending) return <Skeleton label={words.state.loading} rows={5} />
  if (sessions.error && !sessions.data)
    return (
      <ErrorState error={sessions.error} what={says.failed} onRetry={() => sessions.refetch()} />
    )
  if (items.length === 0)
    return (
      <Empty icon={SearchX} title={says.none}>
        {says.noneWhy}
      </Empty>
    )
  return (
    <div className="activity-list staff-wide" aria-busy={sessions.isFetching}>
      <p className="muted" role="status">
        {says.shown(items.length, sessions.hasNextPage)}
      </p>
      {items.map((tree) => (
        <SessionCard key={tree.session.id} tree={tree} now={now} />
      ))}
      {sessions.hasNextPage && (
        <Button disabled={sessions.isFetching} onClick={() => void sessions.fetchNextPage()}>
          {says.more}
        </Button>
      )}
    </div>
  )
}
