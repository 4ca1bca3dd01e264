import { useState } from 'react'
import { useCatalog } from '../api/queries.ts'
import { type Replay, useReplay, type Version } from '../api/studio.ts'
import { plain } from '../lib/text.ts'
import { ErrorState, Skeleton } from '../ui/states.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { Part, placeText } from './parts.tsx'

/** Recorded requests of the template, decided again under the version: what it would have meant. */
const says = studio.look
const DAYS = [7, 30, 90]
const DAYS_AT_FIRST = 30
const SHOWN_MAX = 50

function summary({ items, changed }: Replay): string {
  const parts = [
    ...(changed.refused > 0 ? [says.wouldRefuse(changed.refused)] : []),
    ...(changed.asked > 0 ? [says.wouldAsk(changed.asked)] : []),
    ...(changed.granted > 0 ? [says.wouldGrant(changed.granted)] : []),
  ]
  if (items === 0) return says.replayNone
  return parts.length === 0 ? says.replaySame(items) : says.replayChanged(items, parts)
}

function Found({ replay }: { readonly replay: Replay }) {
  const catalog = useCatalog()
  const title = (id: string) => plain(catalog.data?.items.find((one) => one.id === id)?.title ?? id)
  const changed = replay.own.filter((one) => one.was.outcome !== one.now.outcome)
  const { outcome } = studio.trial
  return (
    <>
      <p className="verdict">{summary(replay)}</p>
      {replay.truncated && <p className="muted">{says.truncated}</p>}
      {changed.length > 0 && (
        <>
          <h3>{says.ownChanged}</h3>
          <ul className="replayed">
            {changed.slice(0, SHOWN_MAX).map((one) => (
              <li key={one.item_id}>
                <strong>{title(one.permission)}</strong> {placeText(one)}:{' '}
                {outcome[one.was.outcome]} → {outcome[one.now.outcome]}.{' '}
                <span className="muted">{one.now.says}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {replay.others.length > 0 && (
        <>
          <h3>{says.othersChanged}</h3>
          <ul className="replayed">
            {replay.others.map((one) => (
              <li key={`${one.permission} ${one.reason} ${one.outcome}`}>
                {says.times(one.count)} <strong>{title(one.permission)}</strong>:{' '}
                {outcome[one.outcome]}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  )
}

export function ReplayPart({ version: v }: { readonly version: Version }) {
  const [days, setDays] = useState(DAYS_AT_FIRST)
  const replay = useReplay(v.template, v.version, days, true)
  return (
    <Part title={says.replay} help={says.replayLead}>
      <label className="field field-inline">
        <span>{says.days}</span>
        <select value={days} onChange={(event) => setDays(Number(event.target.value))}>
          {DAYS.map((n) => (
            <option key={n} value={n}>
              {says.daysOf(n)}
            </option>
          ))}
        </select>
      </label>
      {replay.isPending && <Skeleton label={words.state.loading} rows={2} />}
      {replay.error && !replay.data && (
        <ErrorState
          error={replay.error}
          what={says.replayFailed}
          onRetry={() => replay.refetch()}
        />
      )}
      {replay.data && <Found replay={replay.data} />}
    </Part>
  )
}
