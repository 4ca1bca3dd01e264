import { useMutation, useQueryClient } from '@tanstack/react-query'
import { call, newKey } from '../api/http.ts'
import { keys, peopleApi, useChanges, useTenant } from '../api/queries.ts'
import type { TemplateChange } from '../api/types.ts'
import { plain } from '../lib/text.ts'
import { Button, Chip } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'

const GROUPS = ['added', 'widened', 'loosened', 'context', 'narrowed', 'removed'] as const

/** One line of the diff, whatever the row looks like: its title or permission, and where it applies. */
function lineOf(row: unknown): string {
  if (typeof row === 'string') return plain(row)
  if (typeof row !== 'object' || row === null) return plain(JSON.stringify(row))
  const fields: { readonly [key: string]: unknown } = { ...row }
  const named = [fields.title ?? fields.permission, fields.resource].filter(
    (one): one is string => typeof one === 'string',
  )
  return plain(named.length > 0 ? named.join(' · ') : JSON.stringify(row))
}

function Diff({ diff }: { readonly diff: NonNullable<TemplateChange['diff']> }) {
  return GROUPS.map((group) => {
    const found = diff[group]
    const rows: readonly unknown[] = Array.isArray(found) ? found : found ? [found] : []
    if (rows.length === 0) return null
    return (
      <div key={group} className={`diff diff-${group}`}>
        <h4>{words.changes.group[group]}</h4>
        <ul>
          {rows.map((row) => (
            <li key={JSON.stringify(row)}>{lineOf(row)}</li>
          ))}
        </ul>
      </div>
    )
  })
}

function Change({ change }: { readonly change: TemplateChange }) {
  const tenant = useTenant()
  const client = useQueryClient()
  const confirm = useMutation({
    mutationFn: () =>
      call<unknown>(
        `${peopleApi(tenant)}/template-changes/${encodeURIComponent(change.template)}/confirm`,
        { method: 'POST', body: { version: change.to_version }, idempotencyKey: newKey() },
      ),
    onSuccess: () => toast(words.changes.confirmed(plain(change.title ?? change.template))),
    onSettled: () => {
      void client.invalidateQueries({ queryKey: keys.changes(tenant) })
      void client.invalidateQueries({ queryKey: keys.rules(tenant) })
    },
  })
  const title = plain(change.title ?? change.template)
  return (
    <article className="card change" aria-label={words.changes.title(title)}>
      <div className="card-body">
        <h3>{words.changes.title(title)}</h3>
        <p className="card-meta">
          <Chip tone="warn">
            {words.changes.versions(change.from_version ?? null, change.to_version)}
          </Chip>
        </p>
        <p>{words.changes.means}</p>
        {change.diff && <Diff diff={change.diff} />}
        <WriteError error={confirm.error} />
        <div className="step-actions">
          <Button
            look="primary"
            className="button-tall"
            disabled={confirm.isPending}
            onClick={() => confirm.mutate()}
          >
            {confirm.isPending ? words.sending : words.changes.confirm}
          </Button>
          <span className="muted">{words.changes.orNot}</span>
        </div>
      </div>
    </article>
  )
}

/** Templates that now allow more than when the person said always. A server without them shows nothing. */
export function Changes() {
  const changes = useChanges()
  const items = changes.data?.items ?? []
  if (items.length === 0) return null
  return (
    <section className="changes" aria-label={words.changes.all}>
      <h2>{words.changes.all}</h2>
      {items.map((change) => (
        <Change key={change.template} change={change} />
      ))}
    </section>
  )
}
