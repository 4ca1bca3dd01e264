import { CircleAlert, type LucideIcon, ShieldBan } from 'lucide-react'
import type { ReactNode } from 'react'
import { Refused } from '../api/http.ts'
import type { Version } from '../api/studio.ts'
import type { PermissionView } from '../api/types.ts'
import { narrowWords, plain } from '../lib/text.ts'
import { KindMark, RiskMark, SensitiveMark } from '../ui/marks.tsx'
import { Chip } from '../ui/parts.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import type { Problem } from './form.ts'

/** What the screens of the studio share. */
const STATUS_TONE = {
  draft: 'neutral',
  in_review: 'warn',
  published: 'good',
  retired: 'neutral',
} as const

export function StatusChip({ status }: { readonly status: Version['status'] }) {
  return <Chip tone={STATUS_TONE[status]}>{studio.status[status]}</Chip>
}

/** All that a builder has to know of a permission before taking it. */
export function PermissionMarks({ of }: { readonly of: PermissionView }) {
  return (
    <span className="item-marks">
      <KindMark kind={of.kind} />
      <RiskMark risk={of.risk} />
      {of.sensitive && <SensitiveMark />}
      {!of.delegable && (
        <Chip tone="bad" icon={ShieldBan}>
          {studio.edit.never}
        </Chip>
      )}
    </span>
  )
}

export const enforced = (at: PermissionView['enforced_at'] | undefined): string =>
  at === undefined ? '' : words.enforcedWhere[at]

type Place = { readonly resource?: string | undefined; readonly narrow?: object | undefined }

/** Which of it, in words: nothing when it is all. */
export function placeText({ resource, narrow }: Place): string {
  const on = resource === undefined ? '' : words.changes.on(plain(resource))
  const only = narrow === undefined ? '' : words.changes.only(narrowWords(narrow))
  return [on, only].filter(Boolean).join(', ')
}

/** A part of a screen under its own heading. */
export function Part({
  title,
  help,
  children,
  icon: Icon,
  tone,
}: {
  readonly title: string
  readonly help?: ReactNode
  readonly children: ReactNode
  readonly icon?: LucideIcon
  readonly tone?: 'warn' | 'bad'
}) {
  return (
    <section className={tone === undefined ? 'part' : `part part-${tone}`} aria-label={title}>
      <h2>
        {Icon && <Icon aria-hidden="true" size={17} />} {title}
      </h2>
      {help !== undefined && <p className="muted">{help}</p>}
      {children}
    </section>
  )
}

export const problemId = (pointer: string): string => `problem${pointer.replaceAll('/', '-')}`

/** What a field has to have mended; named by the field through `aria-describedby`. */
export function Problems({
  at,
  problems,
}: {
  readonly at: string
  readonly problems: readonly Problem[]
}) {
  if (problems.length === 0) return null
  return (
    <ul className="problems" id={problemId(at)} data-problems={at}>
      {problems.map((one) => (
        <li key={`${one.pointer} ${one.message}`} className="field-error">
          <CircleAlert aria-hidden="true" size={14} /> {one.message}
        </li>
      ))}
    </ul>
  )
}

/** What the server says of one field of a body that it refused. */
export const refusedAt = (error: unknown, field: string): readonly Problem[] =>
  error instanceof Refused
    ? (error.problem.errors ?? []).flatMap((one) =>
        one.path === field ? [{ pointer: `/${field}`, message: one.message }] : [],
      )
    : []

export const describedBy = (at: string, problems: readonly Problem[]) =>
  problems.length === 0
    ? {}
    : ({ 'aria-describedby': problemId(at), 'aria-invalid': true } as const)
