import { type Enablement, type EnablementChanged, usePreview } from '../api/staff.ts'
import { useStaffWrite } from '../api/staff-write.ts'
import { plain } from '../lib/text.ts'
import { Diff } from '../pages/changes.tsx'
import { Button } from '../ui/parts.tsx'
import { ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { templateWords as says } from '../words/staff.ts'
import { words } from '../words.ts'

export type Adopted = Omit<EnablementChanged, 'sessions_ended'>

const isEmpty = (diff: Parameters<typeof Diff>[0]['diff']): boolean =>
  diff.items.length + diff.limits.length + diff.children.length + diff.sensitive.length === 0 &&
  diff.modes.added.length + diff.modes.removed.length === 0 &&
  diff.context === undefined

/** What a version that waits would change here, within what this organisation keeps; and the button that adopts it. */
export function Adopt({
  of,
  onDone,
  onClose,
}: {
  readonly of: Enablement
  readonly onDone: (done: Adopted) => void
  readonly onClose: () => void
}) {
  const preview = usePreview(of.template)
  const adopt = useStaffWrite<Adopted>(onDone)
  if (preview.isPending) return <Skeleton label={words.state.loading} rows={3} />
  if (!preview.data)
    return (
      <ErrorState
        error={preview.error}
        what={says.previewFailed}
        onRetry={() => preview.refetch()}
      />
    )
  const { from_version: from, to_version: to, widens, diff, replay } = preview.data
  const { refused, asked, granted } = replay.changed
  return (
    <section className="enablement-form" aria-label={says.adoptTitle(plain(of.title), from, to)}>
      <h3>{says.adoptTitle(plain(of.title), from, to)}</h3>
      {isEmpty(diff) ? <p>{says.noChange}</p> : <Diff diff={diff} />}
      <p>
        {says.adoptMeans(widens)} {says.adoptNext}
      </p>
      <p className="muted">
        {says.replay(replay.days, replay.items)}{' '}
        {replay.items > 0 && says.replayChanged(refused, asked, granted)}
      </p>
      <WriteError error={adopt.error} what={says.notSaved} />
      <div className="step-actions">
        <Button
          look="primary"
          disabled={adopt.isPending}
          onClick={() =>
            adopt.mutate({
              method: 'POST',
              path: `/enablements/${encodeURIComponent(of.template)}/adopt`,
              body: { version: to },
            })
          }
        >
          {adopt.isPending ? words.sending : says.adopt(to)}
        </Button>
        <Button onClick={onClose}>{words.cancel}</Button>
      </div>
    </section>
  )
}
