import { ArrowDown, Zap } from 'lucide-react'
import { type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { isStatus } from '../api/http.ts'
import { usePending, useRequestsOf, useSessions, useTenant } from '../api/queries.ts'
import { useRun } from '../api/run.ts'
import type { RunState, SessionView } from '../api/types.ts'
import { takeWantedCard } from '../lib/focus.ts'
import { useNow } from '../lib/hooks.ts'
import { endedWords, isLive, subtreeIds, templateTitle, titleOf } from '../lib/sessions.ts'
import { clock, duration, plain, secondsUntil } from '../lib/text.ts'
import { ChangeOf } from '../pages/changes.tsx'
import { PromptCard } from '../prompt/card.tsx'
import { Link, paths } from '../router.tsx'
import { AppSignIn } from '../sessions/app-sign-in.tsx'
import { ModeMark } from '../ui/marks.tsx'
import { Button, Chip, Time } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { words } from '../words.ts'
import { Composer } from './composer.tsx'
import { type Entry, entriesOf } from './entries.ts'
import { Steps, Words } from './message.tsx'
import { NotTaken } from './not-taken.tsx'
import { PendingBar } from './pending-bar.tsx'

function RunChip({
  state,
  live,
}: {
  readonly state: RunState | undefined
  readonly live: boolean
}) {
  if (!live) return <Chip>{words.chat.state.ended}</Chip>
  if (state === undefined) return null
  const tone = state === 'waiting' ? 'warn' : state === 'failed' ? 'bad' : 'neutral'
  return (
    <Chip tone={state === 'working' ? 'accent' : tone}>
      <span className={state === 'working' ? 'pulse' : ''}>{words.chat.state[state]}</span>
    </Chip>
  )
}

function ChatHead({
  session,
  root,
  state,
  actions,
}: {
  readonly session: SessionView
  readonly root: SessionView | undefined
  readonly state: RunState | undefined
  readonly actions: ReactNode
}) {
  const to = paths(useTenant())
  const shown = root ?? session
  return (
    <header className="chat-head">
      <div className="chat-title">
        <h1 dir="auto">{titleOf(shown)}</h1>
        <p className="chat-sub">
          <span>{plain(shown.agent_name)}</span>
          <span>{words.card.template(templateTitle(shown), shown.template_version)}</span>
          {session.id !== shown.id && (
            <span>
              {words.chat.lookingAt(templateTitle(session))}{' '}
              <Link className="link" href={to.session(shown.id)}>
                {words.chat.wholeSession}
              </Link>
            </span>
          )}
        </p>
      </div>
      <div className="chat-actions">
        <RunChip state={state} live={isLive(shown)} />
        <ModeMark mode={shown.mode} />
        {actions}
      </div>
    </header>
  )
}

function BypassStrip({ session }: { readonly session: SessionView }) {
  const now = useNow(15_000)
  if (session.mode !== 'bypass' || !isLive(session)) return null
  const until = session.mode_expires_at ?? session.expires_at
  return (
    <p className="bypass-strip" role="note">
      <Zap aria-hidden="true" size={15} />
      {words.chat.bypass(duration(secondsUntil(until, now)))}
    </p>
  )
}

function EntryView({
  entry,
  agent,
  pathOf,
}: {
  readonly entry: Entry
  readonly agent: string
  readonly pathOf: (sessionId: string) => readonly string[]
}) {
  if (entry.kind === 'words') {
    const { message } = entry
    return <Words message={message} agent={agent} path={pathOf(message.session_id)} />
  }
  if (entry.kind === 'steps')
    return <Steps steps={entry.steps} path={pathOf(entry.steps[0]?.session_id ?? '')} />
  const { request } = entry
  const again = request.items.some(
    (item) => item.outcome === 'pending' && item.decision_reason === 'reconsent',
  )
  return (
    <>
      {again && <ChangeOf template={request.template.name} />}
      <PromptCard request={request} />
    </>
  )
}

const entryKey = (entry: Entry): string => {
  if (entry.kind === 'words') return entry.message.id
  return entry.kind === 'prompt' ? entry.request.id : `steps ${entry.steps[0]?.id ?? ''}`
}

const NEAR_END = 80
const CARD_MARGIN = 12
/** What scrolls this soon after a hand moved was scrolled by it; the rest is the browser keeping its place. */
const GESTURE_MILLIS = 1_000

/** The last card that waits, if one does. */
const waitingCard = (box: HTMLElement): HTMLElement | undefined =>
  [...box.querySelectorAll<HTMLElement>('[data-status="pending"]')].at(-1)

/**
 * Stays at the end while one is at the end; else says that there is more. A card that waits and is taller than the pane is
 * shown from its top: who asks and why comes before the buttons. While it waits nothing moves under the finger.
 */
function useFollowing(content: unknown, state: unknown) {
  const box = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  const moved = useRef(Number.NEGATIVE_INFINITY)
  const shown = useRef<string | undefined>(undefined)
  const place = useRef(0)
  const [away, setAway] = useState(false)
  const follow = (again: boolean) => {
    const element = box.current
    if (content === null || !element) return
    if (!follows.current) {
      if (again) element.scrollTop = place.current
      return
    }
    const before = shown.current
    const waits = `[data-status="pending"][data-request="${before}"]`
    if (before && !again && element.querySelector(waits)) return
    const card = waitingCard(element)
    shown.current = card?.dataset.request
    const top = card ? card.offsetTop - element.offsetTop - CARD_MARGIN : Number.POSITIVE_INFINITY
    element.scrollTop = Math.min(top, element.scrollHeight - element.clientHeight)
  }
  const newest = useRef(follow)
  // Whenever the content is another one.
  // biome-ignore lint/correctness/useExhaustiveDependencies: `follow` is another function each time, which is no news
  useLayoutEffect(() => {
    newest.current = follow
    follow(false)
  }, [content, state])
  // What is hidden, as a phone hides the other panes, forgets where it was scrolled to.
  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    let height = element.clientHeight
    const observer = new ResizeObserver(() => {
      if (height === 0 && element.clientHeight > 0) newest.current(true)
      height = element.clientHeight
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  const onScroll = () => {
    const element = box.current
    if (!element || element.clientHeight === 0) return
    place.current = element.scrollTop
    const left = element.scrollHeight - element.scrollTop - element.clientHeight
    if (performance.now() - moved.current < GESTURE_MILLIS) follows.current = left < NEAR_END
    setAway(left >= NEAR_END && !follows.current)
  }
  const toEnd = () => {
    follows.current = true
    setAway(false)
    if (box.current) box.current.scrollTop = box.current.scrollHeight
  }
  const onMove = () => {
    moved.current = performance.now()
  }
  const hands = {
    onScroll,
    onWheel: onMove,
    onTouchMove: onMove,
    onPointerDown: onMove,
    onKeyDown: onMove,
  }
  return { box, away, hands, toEnd }
}

function ended(session: SessionView): ReactNode {
  if (isLive(session)) return null
  return (
    <p className="chat-ended">
      {words.chat.ended(endedWords(session))}
      {session.ended_at && (
        <>
          {' '}
          <Time iso={session.ended_at}>{clock(session.ended_at)}</Time>
        </>
      )}
      . {words.chat.endedHolds}
    </p>
  )
}

export function Chat({
  session,
  actions,
}: {
  readonly session: SessionView
  readonly actions: ReactNode
}) {
  const to = paths(useTenant())
  const sessions = useSessions()
  // The whole tree: what subagents ask surfaces here, in their root's conversation.
  const ids = subtreeIds(sessions.data?.items ?? [], session.root_id)
  const root =
    session.id === session.root_id
      ? session
      : sessions.data?.items.find((one) => one.id === session.root_id)
  const run = useRun(session.root_id)
  const asked = useRequestsOf(ids)
  const { data: pending = [] } = usePending()
  const pathOf = (id: string) => sessions.data?.items.find((one) => one.id === id)?.path ?? []
  const messages = run.data?.messages
  const entries = useMemo(
    () => entriesOf(messages ?? [], asked.requests),
    [messages, asked.requests],
  )
  // A subagent that has just begun is no reason to show the whole as loading.
  const loading = entries.length === 0 && (run.isPending || asked.isPending)
  const { box, away, hands, toEnd } = useFollowing(loading ? null : entries, root?.status)
  useEffect(takeWantedCard, [entries])

  const here = pending.filter((one) => one.root_session_id === session.root_id)
  const elsewhere = pending.filter((one) => one.root_session_id !== session.root_id)
  const live = isLive(root ?? session)
  const unknown = isStatus(run.error, 401)
  const first = !loading && entries.length === 0
  return (
    <main id="main" className="chat" tabIndex={-1} aria-busy={loading}>
      <ChatHead session={session} root={root} state={run.data?.state} actions={actions} />
      <BypassStrip session={root ?? session} />
      <div
        className="chat-log"
        ref={box}
        {...hands}
        role="log"
        aria-label={words.chat.log}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard.
        tabIndex={0}
      >
        <h2 className="visually-hidden">{words.chat.log}</h2>
        <div className="chat-inner">
          <p className="chat-start">{words.chat.begins(plain(session.agent_name))}</p>
          {loading && <Skeleton label={words.state.loading} rows={4} />}
          {unknown && <AppSignIn />}
          {run.error && !run.data && !unknown && (
            <ErrorState
              error={run.error}
              what={words.chat.runFailed}
              onRetry={() => run.refetch()}
            />
          )}
          {asked.error && (
            <ErrorState
              error={asked.error}
              what={words.chat.requestsFailed}
              onRetry={asked.refetch}
            />
          )}
          {run.data === null &&
            (live && root && !root.claimed ? (
              <NotTaken session={root} />
            ) : (
              <p className="chat-note">{words.chat.notOurs}</p>
            ))}
          {first && run.data && <Empty title={words.chat.nothingYet} />}
          {entries.map((entry) => (
            <EntryView
              key={entryKey(entry)}
              entry={entry}
              agent={session.agent_name}
              pathOf={pathOf}
            />
          ))}
          {run.data?.state === 'failed' && live && (
            <p className="chat-note chat-note-bad">{words.chat.failed}</p>
          )}
          {root && ended(root)}
        </div>
      </div>
      <div className="chat-foot">
        {away && here.length === 0 && (
          <Button small icon={ArrowDown} className="to-end" onClick={toEnd}>
            {words.chat.toEnd}
          </Button>
        )}
        <PendingBar here={here} elsewhere={elsewhere} />
        {live && run.data && <Composer sessionId={session.root_id} state={run.data.state} />}
        {!live && (
          <Link className="button button-plain chat-again" href={to.sessions}>
            {words.chat.startAnother}
          </Link>
        )}
      </div>
    </main>
  )
}
