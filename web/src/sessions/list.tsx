import { CornerDownRight, Plus, Search } from 'lucide-react'
import { useState } from 'react'
import { usePending, useSessions, useTenant } from '../api/queries.ts'
import type { RequestView } from '../api/types.ts'
import { useNow } from '../lib/hooks.ts'
import {
  endedWords,
  GROUPS,
  groupOf,
  isLive,
  type Tree,
  templateTitle,
  titleOf,
  treesOf,
} from '../lib/sessions.ts'
import { ago, plain, secondsUntil } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { ModeMark } from '../ui/marks.tsx'
import { Badge, classes, Time } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { words } from '../words.ts'

const FEW = 5

function Row({
  tree: { session, children },
  pending,
  current,
  now,
  depth = 0,
}: {
  readonly tree: Tree
  readonly pending: readonly RequestView[]
  readonly current: string | null
  readonly now: number
  readonly depth?: number
}) {
  const to = paths(useTenant())
  const mine = pending.filter((one) =>
    depth === 0 ? one.root_session_id === session.root_id : one.session_id === session.id,
  ).length
  const live = isLive(session)
  // Ended subagents are in the conversation; here they would only be noise beside what lives.
  const shown = live ? children.filter((child) => isLive(child.session)) : []
  return (
    <li>
      <Link
        href={to.session(session.id)}
        className={classes('session-row', live && 'session-live', depth > 0 && 'session-child')}
        aria-current={session.id === current ? 'page' : undefined}
      >
        {depth > 0 && <CornerDownRight aria-hidden="true" size={14} />}
        <span className="session-text">
          <span className="session-title" dir="auto">
            {depth > 0 ? templateTitle(session) : titleOf(session)}
          </span>
          <span className="session-meta">
            {depth === 0 && <span>{plain(session.agent_name)}</span>}
            {live ? (
              <ModeMark mode={session.mode} />
            ) : (
              <span className="session-end">{endedWords(session)}</span>
            )}
            <Time iso={session.ended_at ?? session.created_at}>
              {ago(session.ended_at ?? session.created_at, now)}
            </Time>
            {live && secondsUntil(session.expires_at, now) < 600 && (
              <span className="soon">{words.sessions.endsSoon}</span>
            )}
          </span>
        </span>
        <Badge n={mine} label={words.nav.waiting(mine)} />
      </Link>
      {shown.length > 0 && (
        <ul className="session-children">
          {shown.map((child) => (
            <Row
              key={child.session.id}
              tree={child}
              pending={pending}
              current={current}
              now={now}
              depth={depth + 1}
            />
          ))}
        </ul>
      )}
    </li>
  )
}

function Groups({
  trees,
  current,
}: {
  readonly trees: readonly Tree[]
  readonly current: string | null
}) {
  const { data: pending = [] } = usePending()
  const now = useNow(30_000)
  return GROUPS.map((group) => {
    const own = trees.filter((tree) => groupOf(tree, pending, now) === group)
    if (own.length === 0) return null
    return (
      <section key={group} aria-label={words.sessions.group[group]}>
        <h3 className="group-title">{words.sessions.group[group]}</h3>
        <ul className="session-list">
          {own.map((tree) => (
            <Row key={tree.session.id} tree={tree} pending={pending} current={current} now={now} />
          ))}
        </ul>
      </section>
    )
  })
}

/** The left pane: all of one's sessions, those that wait for an answer first. */
export function SessionList({
  current,
  onPick,
}: {
  readonly current: string | null
  readonly onPick?: () => void
}) {
  const to = paths(useTenant())
  const sessions = useSessions()
  const [sought, setSought] = useState('')
  const items = sessions.data?.items ?? []
  const needle = sought.trim().toLowerCase()
  const trees = treesOf(items).filter(
    ({ session }) =>
      needle === '' ||
      [titleOf(session), session.agent_name, ...session.path].some((text) =>
        text.toLowerCase().includes(needle),
      ),
  )
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: links in it are clicked by Enter too; the drawer they are in then closes.
    <nav
      className="sessions"
      aria-label={words.nav.sessions}
      onClick={(event) => {
        if (event.target instanceof Element && event.target.closest('a')) onPick?.()
      }}
    >
      <div className="sessions-head">
        <h2>{words.nav.sessions}</h2>
        <Link
          href={to.sessions}
          className="button button-primary button-small"
          aria-current={current === null ? 'page' : undefined}
        >
          <Plus aria-hidden="true" size={15} />
          {words.sessions.new}
        </Link>
      </div>
      {items.length > FEW && (
        <label className="search">
          <Search aria-hidden="true" size={15} />
          <span className="visually-hidden">{words.sessions.search}</span>
          <input
            type="search"
            value={sought}
            placeholder={words.sessions.search}
            onChange={(event) => setSought(event.target.value)}
          />
        </label>
      )}
      <div className="sessions-body">
        {sessions.isPending && <Skeleton label={words.state.loading} rows={5} />}
        {sessions.error && !sessions.data && (
          <ErrorState
            error={sessions.error}
            what={words.sessions.failed}
            onRetry={() => sessions.refetch()}
          />
        )}
        {sessions.data && items.length === 0 && (
          <Empty title={words.sessions.none}>{words.sessions.noneWhy}</Empty>
        )}
        {sessions.data && items.length > 0 && trees.length === 0 && (
          <Empty title={words.sessions.notFound(sought)} />
        )}
        <Groups trees={trees} current={current} />
      </div>
    </nav>
  )
}
