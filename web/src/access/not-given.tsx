import { type LostRecord, useCatalog } from '../api/queries.ts'
import type { RequestItemView, RequestView } from '../api/types.ts'
import { clock } from '../lib/text.ts'
import { OutcomeLine } from '../prompt/outcome.tsx'
import { Time } from '../ui/parts.tsx'
import { words } from '../words.ts'

const sameThing = (item: RequestItemView): string =>
  JSON.stringify([item.permission, item.resource ?? null, item.narrow ?? null])

/** The last word on each thing that was asked for, where that word was no. */
function refusedOf(requests: readonly RequestView[]): readonly RequestItemView[] {
  const last = new Map<string, RequestItemView>()
  for (const request of requests)
    for (const item of request.items)
      if (item.outcome !== 'pending') last.set(sameThing(item), item)
  return [...last.values()].filter((item) => item.outcome === 'refused')
}

export function NotGiven({ requests }: { readonly requests: readonly RequestView[] }) {
  const refused = refusedOf(requests)
  if (refused.length === 0) return null
  return (
    <section aria-label={words.access.notGiven}>
      <h3>
        {words.access.notGiven} ({refused.length})
      </h3>
      <ul className="outcomes">
        {refused.map((item) => (
          <OutcomeLine key={item.id} item={item} />
        ))}
      </ul>
    </section>
  )
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Taken away while the session went on. What went with the session's own end is not a loss. */
export function Lost({
  records,
  sessions,
}: {
  readonly records: readonly LostRecord[]
  readonly sessions: readonly string[]
}) {
  const reasons: Readonly<Record<string, string>> = words.lost
  const lost = records.filter(
    (one) =>
      sessions.includes(one.session_id ?? '') && Object.hasOwn(reasons, text(one.data.reason)),
  )
  const catalog = useCatalog(lost.length > 0)
  const titleOf = (permission: string) =>
    catalog.data?.items.find((one) => one.id === permission)?.title ?? permission
  if (lost.length === 0) return null
  return (
    <section aria-label={words.access.lost}>
      <h3>
        {words.access.lost} ({lost.length})
      </h3>
      <ul className="lost-list">
        {lost.map((one) => (
          <li key={one.id}>
            <strong>{titleOf(text(one.data.permission))}</strong>{' '}
            {text(one.data.resource) !== '' && <code>{text(one.data.resource)}</code>}{' '}
            {reasons[text(one.data.reason)]} <Time iso={one.at}>{clock(one.at)}</Time>
          </li>
        ))}
      </ul>
    </section>
  )
}
