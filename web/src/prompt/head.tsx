import { ChevronRight } from 'lucide-react'
import { type Ref, useEffect, useState } from 'react'
import { useMe, useSession } from '../api/queries.ts'
import type { RequestView } from '../api/types.ts'
import { announce } from '../lib/announce.ts'
import { useNow } from '../lib/hooks.ts'
import { clock, duration, plain, secondsSince, secondsUntil, shortened } from '../lib/text.ts'
import { AgentMark } from '../ui/marks.tsx'
import { Time } from '../ui/parts.tsx'
import { words } from '../words.ts'
import { pendingItems } from './answers.ts'

/** The card's trusted head, and the agent's words as nothing but its words. */
export function CardHead({
  request,
  heading,
  onOver,
}: {
  readonly request: RequestView
  readonly heading: Ref<HTMLHeadingElement>
  readonly onOver: () => void
}) {
  const me = useMe()
  const { path, template } = request
  return (
    <header className="card-head">
      <AgentMark />
      <div className="card-who">
        <h3 ref={heading} tabIndex={-1} id={`card-${request.id}`}>
          {words.card.asks(plain(request.agent.name), pendingItems(request).length)}
        </h3>
        <p className="card-meta">
          <span>{words.card.template(plain(template.title), template.version)}</span>
          {path.length > 1 && (
            <span className="card-path">
              <span className="visually-hidden">{words.card.path}</span>
              {path.map((title, i) => (
                // The path of a session never changes, and titles may repeat in it.
                <span key={`${String(i)}-${title}`} className="card-path-part">
                  {i > 0 && <ChevronRight aria-hidden="true" size={13} />}
                  {plain(title)}
                </span>
              ))}
            </span>
          )}
          {me.data && <span>{words.card.forYou(plain(me.data.name))}</span>}
        </p>
      </div>
      <Waiting request={request} onOver={onOver} />
    </header>
  )
}

const REASON_SHOWN = 300

export function Reason({ text }: { readonly text: string }) {
  const [open, setOpen] = useState(false)
  const whole = plain(text)
  const long = [...whole].length > REASON_SHOWN
  return (
    <figure className="reason">
      <figcaption>{words.card.says}</figcaption>
      <blockquote dir="auto">{open ? whole : shortened(whole, REASON_SHOWN)}</blockquote>
      {long && (
        <button
          type="button"
          className="link-button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          {open ? words.less : words.showAll([...whole].length)}
        </button>
      )}
    </figure>
  )
}

const WARN_SECONDS = 60
const TICK_SECONDS = 600

/** How long it has waited and how long is left. Screen readers are told once, a minute before the end. */
function Waiting({
  request,
  onOver,
}: {
  readonly request: RequestView
  readonly onOver: () => void
}) {
  const now = useNow(1_000)
  const left = request.expires_at ? secondsUntil(request.expires_at, now) : undefined
  const soon = left !== undefined && left <= WARN_SECONDS
  const over = left !== undefined && left <= 0
  useEffect(() => {
    if (soon && !over) announce(words.card.soonOver(plain(request.agent.name)), 'assertive')
  }, [soon, over, request.agent.name])
  useEffect(() => {
    if (over) onOver()
  }, [over, onOver])
  return (
    <p className="card-time">
      <span>
        {words.card.waiting} <Time iso={request.created_at}>{sinceWords(request, now)}</Time>
      </span>
      {request.expires_at && left !== undefined && left < TICK_SECONDS && (
        <span className={soon ? 'countdown countdown-soon' : 'countdown'} aria-hidden="true">
          {words.card.endsIn(countdown(left))}
        </span>
      )}
    </p>
  )
}

const sinceWords = (request: RequestView, now: number): string =>
  duration(secondsSince(request.created_at, now))

const countdown = (seconds: number): string => {
  const s = Math.max(0, Math.ceil(seconds))
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`
}

/** Until when what is allowed would last. */
export function HowLong({
  request,
  details,
}: {
  readonly request: RequestView
  readonly details: boolean
}) {
  const session = useSession(request.session_id)
  const now = useNow(30_000)
  const until = session.data?.expires_at
  return (
    <p className="card-how-long">
      {until
        ? words.card.until(duration(secondsUntil(until, now)), clock(until))
        : words.card.untilEnd}{' '}
      {words.card.restrictions} {details && words.card.checkedAgain}
    </p>
  )
}
