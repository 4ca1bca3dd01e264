import { SearchX } from 'lucide-react'
import { type ActivityRecord, type Query, usePeople, useRecords, useStaff } from '../api/staff.ts'
import { useNow } from '../lib/hooks.ts'
import { clockOrDate, plain } from '../lib/text.ts'
import { Link, searchWith } from '../router.tsx'
import { Button, Time } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { activityWords as says } from '../words/activity.ts'
import { words } from '../words.ts'
import { aboutWords, howWords, type Titles } from './says.ts'

function RecordRow({
  record,
  titles,
  people,
  now,
}: {
  readonly record: ActivityRecord
  readonly titles: Titles
  readonly people: Titles
  readonly now: number
}) {
  const what = says.type[record.type]
  const at = clockOrDate(record.at, now)
  const { user_id: user, root_session_id: root } = record
  return (
    <tr data-type={record.type} data-record={record.id}>
      <td data-label={says.recordColumn.at}>
        <Time iso={record.at}>{at}</Time>
      </td>
      <th scope="row" data-label={says.recordColumn.type}>
        <Link
          className="link"
          href={searchWith({ record: record.id })}
          aria-label={says.openRecord(what, at)}
        >
          {what}
        </Link>
      </th>
      <td data-label={says.recordColumn.what} dir="auto">
        {aboutWords(record, titles)}
        <span className="muted activity-how">{howWords(record)}</span>
      </td>
      <td data-label={says.recordColumn.who}>
        {user !== undefined && <span className="activity-how">{people.get(user) ?? user}</span>}
        {root !== undefined && (
          <Link className="link" href={searchWith({ session: root, view: null })}>
            {plain(record.template ?? says.view.timeline)}
          </Link>
        )}
      </td>
    </tr>
  )
}

/** The plain records, newest first, as many as are asked for. */
export function Records({ query, titles }: { readonly query: Query; readonly titles: Titles }) {
  const records = useRecords(query)
  const { reads } = useStaff()
  const list = usePeople(reads)
  const people = new Map(list.data?.items.map((one) => [one.id, plain(one.login)]))
  const now = useNow(60_000)
  const items = records.data?.pages.flatMap((one) => one.items) ?? []
  if (records.isPending) return <Skeleton label={words.state.loading} rows={6} />
  if (records.error && !records.data)
    return <ErrorState error={records.error} what={says.failed} onRetry={() => records.refetch()} />
  if (items.length === 0)
    return (
      <Empty icon={SearchX} title={says.noneRecords}>
        {says.noneRecordsWhy}
      </Empty>
    )
  return (
    <div className="activity-list staff-wide" aria-busy={records.isFetching}>
      <p className="muted" role="status">
        {says.shownRecords(items.length, records.hasNextPage)}
      </p>
      <table className="rules">
        <caption className="visually-hidden">{says.view.records}</caption>
        <thead>
          <tr>
            {Object.entries(says.recordColumn).map(([key, label]) => (
              <th key={key} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((record) => (
            <RecordRow key={record.id} record={record} titles={titles} people={people} now={now} />
          ))}
        </tbody>
      </table>
      {records.hasNextPage && (
        <Button disabled={records.isFetching} onClick={() => void records.fetchNextPage()}>
          {says.more}
        </Button>
      )}
    </div>
  )
}
