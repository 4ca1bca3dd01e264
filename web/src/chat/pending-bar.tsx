import { BellRing } from 'lucide-react'
import { useTenant } from '../api/queries.ts'
import type { RequestView } from '../api/types.ts'
import { focusCard } from '../lib/focus.ts'
import { useNow } from '../lib/hooks.ts'
import { duration, plain, secondsSince } from '../lib/text.ts'
import { useBatch } from '../prompt/use-batch.tsx'
import { Link, paths } from '../router.tsx'
import { Button } from '../ui/parts.tsx'
import { words } from '../words.ts'

/** What waits stays in sight, wherever the conversation is scrolled to. */
export function PendingBar({
  here,
  elsewhere,
}: {
  readonly here: readonly RequestView[]
  readonly elsewhere: readonly RequestView[]
}) {
  const to = paths(useTenant())
  const now = useNow(1_000)
  const [oldest] = here
  const [other] = elsewhere
  const batch = useBatch(here.length + elsewhere.length, true)
  if (!oldest && !other) return batch.sheet
  return (
    <>
      {batch.sheet}
      <section className="pending-bar" aria-label={words.pending.label}>
        {oldest && (
          <div className="pending-line">
            <BellRing aria-hidden="true" size={17} />
            <span className="pending-text">
              <strong>{words.pending.here(here.length)}</strong>
              <span className="pending-who">
                {plain(oldest.path.at(-1) ?? oldest.agent.name)},{' '}
                <span aria-hidden="true">{duration(secondsSince(oldest.created_at, now))}</span>
              </span>
            </span>
            {batch.button}
            <Button look="primary" small onClick={() => focusCard(oldest.id)}>
              {words.pending.review}
              <span aria-hidden="true">
                <kbd>Alt A</kbd>
              </span>
            </Button>
          </div>
        )}
        {other && (
          <div className="pending-line pending-other">
            <span className="pending-text">{words.pending.elsewhere(elsewhere.length)}</span>
            {!oldest && batch.button}
            <Link
              className="link"
              href={elsewhere.length === 1 ? to.session(other.root_session_id) : to.approvals}
            >
              {words.pending.goThere}
            </Link>
          </div>
        )}
      </section>
    </>
  )
}
