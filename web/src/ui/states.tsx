import {
  Copy,
  Inbox,
  type LucideIcon,
  RotateCw,
  ServerOff,
  ShieldX,
  TriangleAlert,
} from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { Refused, Unreachable } from '../api/http.ts'
import { useLate } from '../lib/hooks.ts'
import { clock } from '../lib/text.ts'
import { words } from '../words.ts'
import { Button } from './parts.tsx'

const SKELETON_MILLIS = 150
const STILL_MILLIS = 5_000

/** The shape of what is coming, once it is late enough to be noticed. */
export function Skeleton({ rows = 3, label }: { readonly rows?: number; readonly label: string }) {
  const late = useLate(SKELETON_MILLIS)
  const still = useLate(STILL_MILLIS)
  return (
    <div className="skeleton" aria-busy="true" role="status">
      <span className="visually-hidden">{label}</span>
      {late &&
        Array.from({ length: rows }, (_, i) => `row-${i}`).map((row) => (
          <div key={row} className="skeleton-row" />
        ))}
      {still && <p className="muted">{words.state.still}</p>}
    </div>
  )
}

export function Empty({
  icon: Icon = Inbox,
  title,
  note,
  children,
  action,
}: {
  readonly icon?: LucideIcon
  readonly title: string
  /** What has just happened, for whoever did not expect to be here. */
  readonly note?: string | undefined
  readonly children?: ReactNode
  readonly action?: ReactNode
}) {
  return (
    <div className="empty">
      <Icon aria-hidden="true" size={26} />
      <p className="empty-title">{title}</p>
      {note && <p role="alert">{note}</p>}
      {children && <p className="muted">{children}</p>}
      {action}
    </div>
  )
}

/** What went wrong, as the person can use it. */
export function errorWords(error: unknown): string {
  if (error instanceof Refused) {
    const { againAt, problem } = error
    return againAt === undefined
      ? problem.detail
      : `${problem.detail} ${words.state.againAt(clock(againAt))}`
  }
  if (error instanceof Unreachable) return words.state.unreachable
  return words.state.unknown
}

function RequestId({ id }: { readonly id: string }) {
  const [copied, setCopied] = useState(false)
  if (id === '') return null
  const copy = () => {
    void navigator.clipboard?.writeText(id).then(() => setCopied(true))
  }
  return (
    <p className="request-id">
      <span>
        {words.state.requestId} <code>{id}</code>
      </span>
      <Button look="quiet" small icon={Copy} onClick={copy}>
        {copied ? words.state.copied : words.state.copy}
      </Button>
    </p>
  )
}

/** A screen or pane that could not be had. `changed` says whether anything was done. */
export function ErrorState({
  error,
  what,
  onRetry,
}: {
  readonly error: unknown
  readonly what: string
  readonly onRetry?: () => unknown
}) {
  const down = error instanceof Unreachable
  const forbidden = error instanceof Refused && error.status === 403
  const Icon = down ? ServerOff : forbidden ? ShieldX : TriangleAlert
  return (
    <div className="error-state" role="alert">
      <Icon aria-hidden="true" size={26} />
      <p className="empty-title">
        {down ? words.state.down : forbidden ? words.state.forbidden : what}
      </p>
      <p className="muted">{errorWords(error)}</p>
      {forbidden && <p className="muted">{words.state.whoToAsk}</p>}
      {error instanceof Refused && <RequestId id={error.problem.request_id} />}
      {onRetry && !forbidden && (
        <Button icon={RotateCw} onClick={() => void onRetry()}>
          {words.state.retry}
        </Button>
      )}
    </div>
  )
}

/** A write that failed, beside what was being written. What was typed stays. */
export function WriteError({ error, what }: { readonly error: unknown; readonly what?: string }) {
  if (error === null || error === undefined) return null
  return (
    <div className="write-error" role="alert">
      <TriangleAlert aria-hidden="true" size={16} />
      <div>
        {what && <strong>{what} </strong>}
        {errorWords(error)}
        {error instanceof Unreachable && ` ${words.state.notKnown}`}
        {error instanceof Refused && (
          <span className="write-error-id">
            {' '}
            {words.state.requestId} <code>{error.problem.request_id}</code>
          </span>
        )}
      </div>
    </div>
  )
}
