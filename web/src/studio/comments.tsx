import { MessageSquarePlus, Send } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { canonicalJson } from '../../../src/core/canonical-json.ts'
import { useCatalog } from '../api/queries.ts'
import {
  type Comment,
  useComments,
  useRoles,
  useWrite,
  type Version,
  versionPath,
} from '../api/studio.ts'
import { useNow } from '../lib/hooks.ts'
import { ago, plain, plainLines } from '../lib/text.ts'
import { Button, Time } from '../ui/parts.tsx'
import { ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { Part } from './parts.tsx'

/** What builders and reviewers say to each other, of a version or of one item of its ceiling. */
const says = studio.look

type Of = { readonly version: Version }
type On = NonNullable<Comment['on']>

const textOf = ({ permission, resource = '', narrow = {} }: On): string =>
  canonicalJson([permission, resource, narrow])
export const isOn = (item: On) => (one: Comment) =>
  one.on !== undefined && textOf(one.on) === textOf(item)

function CommentForm({
  version: v,
  on,
  label,
  onDone,
}: Of & { readonly on?: On; readonly label: string; readonly onDone?: () => void }) {
  const send = useWrite<{ id: string }>()
  const [body, setBody] = useState('')
  const ready = body.trim() !== '' && !send.isPending
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!ready) return
    const path = `${versionPath(v.template, v.version)}/comments`
    const said = { body: body.trim(), ...(on === undefined ? {} : { on }) }
    send.mutate(
      { path, body: said },
      {
        onSuccess: () => {
          setBody('')
          onDone?.()
        },
      },
    )
  }
  return (
    <form className="comment-form" onSubmit={submit}>
      <label className="field">
        <span>{label}</span>
        <textarea rows={2} value={body} onChange={(event) => setBody(event.target.value)} />
      </label>
      <WriteError error={send.error} what={says.notSent} />
      <Button icon={Send} type="submit" aria-disabled={!ready}>
        {send.isPending ? words.sending : says.send}
      </Button>
    </form>
  )
}

/** One item’s own place to say something; it opens when it is wanted. */
export function CommentOn({
  version,
  on,
  title,
}: Of & { readonly on: On; readonly title: string }) {
  const [open, setOpen] = useState(false)
  if (open)
    return (
      <CommentForm
        version={version}
        on={on}
        label={says.commentOnOne(title)}
        onDone={() => setOpen(false)}
      />
    )
  return (
    <Button
      look="quiet"
      small
      icon={MessageSquarePlus}
      aria-label={says.commentOnOne(title)}
      onClick={() => setOpen(true)}
    >
      {says.commentOn}
    </Button>
  )
}

export function CommentList({
  comments,
  label,
  on,
}: {
  readonly comments: readonly Comment[]
  readonly label: string
  /** Names the item that a comment is on; absent where that is seen anyway. */
  readonly on?: (item: On) => string
}) {
  const now = useNow(60_000)
  if (comments.length === 0) return null
  return (
    <ol className="comments" aria-label={label}>
      {comments.map((one) => (
        <li key={one.id} data-comment={one.kind}>
          <p className="muted">
            <strong>{plain(one.user.name)}</strong> {says.kind[one.kind]}{' '}
            {one.on !== undefined && on?.(one.on)}{' '}
            <Time iso={one.created_at}>{ago(one.created_at, now)}</Time>
          </p>
          {one.body !== '' && (
            <blockquote dir="auto" className="said">
              {plainLines(one.body)}
            </blockquote>
          )}
        </li>
      ))}
    </ol>
  )
}

/** The whole thread of a version, with its reviews. */
export function CommentsPart({ version: v }: Of) {
  const comments = useComments(v.template, v.version, true)
  const catalog = useCatalog()
  const { some } = useRoles()
  const items = comments.data?.items ?? []
  const on = ({ permission }: On) =>
    says.on(plain(catalog.data?.items.find((one) => one.id === permission)?.title ?? permission))
  return (
    <Part title={says.comments}>
      {comments.isPending && <Skeleton label={words.state.loading} rows={2} />}
      {comments.error && !comments.data && (
        <ErrorState
          error={comments.error}
          what={says.commentsFailed}
          onRetry={() => comments.refetch()}
        />
      )}
      {comments.data && items.length === 0 && <p className="muted">{says.commentsNone}</p>}
      <CommentList comments={items} label={says.comments} on={on} />
      {some && <CommentForm version={v} label={says.comment} />}
    </Part>
  )
}
