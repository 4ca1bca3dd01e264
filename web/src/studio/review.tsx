import { TriangleAlert } from 'lucide-react'
import { useCatalog } from '../api/queries.ts'
import { type Reach, useDiff, useReach, type Version, type VersionDiff } from '../api/studio.ts'
import { plain, plainLines } from '../lib/text.ts'
import { Diff } from '../pages/changes.tsx'
import { ModeMark, RiskMark, SensitiveMark } from '../ui/marks.tsx'
import { ErrorState, Skeleton } from '../ui/states.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { CommentsPart } from './comments.tsx'
import { DecidePart, RetirePart, SponsorLeft, WithdrawPart } from './decide.tsx'
import { ItemsPart } from './items.tsx'
import { enforced, Part, Problems, placeText } from './parts.tsx'
import { PreviewPart } from './preview.tsx'
import { ReplayPart } from './replay.tsx'

/** What a reviewer looks at before a version is published, and what anyone sees of it after. */
const says = studio.look

type Of = { readonly version: Version }

function verdict({ diff, version, against }: VersionDiff): string {
  const added = diff.items.filter((row) => row.change === 'added')
  const wider = diff.items.filter((row) => ['widened', 'replaced'].includes(row.change))
  const less = diff.items.filter((row) => ['narrowed', 'removed'].includes(row.change))
  const high = added.filter((row) => row.risk === 'high').length
  const parts = [
    ...(added.length > 0 ? [says.added(added.length)] : []),
    ...(high > 0 ? [says.addedHigh(high)] : []),
    ...(wider.length > 0 ? [says.wider(wider.length)] : []),
    ...(less.length > 0 ? [says.less(less.length)] : []),
  ]
  const head =
    diff.widens || against === undefined
      ? says.widens(version, against)
      : says.narrows(version, against)
  return parts.length === 0 ? head : `${head} ${says.counted(parts)}.`
}

const isSame = ({ diff }: VersionDiff) =>
  [
    diff.items,
    diff.modes.added,
    diff.modes.removed,
    diff.limits,
    diff.children,
    diff.sensitive,
  ].every((list) => list.length === 0) && diff.context === undefined

function DiffPart({ version: v }: Of) {
  const diff = useDiff(v.template, v.version)
  return (
    <Part title={says.diff}>
      {diff.isPending && <Skeleton label={words.state.loading} rows={3} />}
      {diff.error && !diff.data && (
        <ErrorState error={diff.error} what={says.diffFailed} onRetry={() => diff.refetch()} />
      )}
      {diff.data && (
        <>
          <p className={diff.data.diff.widens ? 'verdict verdict-wider' : 'verdict'}>
            {isSame(diff.data) ? says.same : verdict(diff.data)}
          </p>
          <div className="diffs" data-diff>
            <Diff diff={diff.data.diff} />
          </div>
        </>
      )}
    </Part>
  )
}

type Reached = Reach['pairs'][number]['reads']

function Pairs({ reach }: { readonly reach: Reach }) {
  const titles = new Map(reach.items.map((one) => [one.permission, one.title]))
  const name = (one: Reached) => {
    const where = placeText(one)
    return `${plain(titles.get(one.permission) ?? one.permission)}${where === '' ? '' : ` (${where})`}`
  }
  if (reach.pairs.length === 0) return <p className="muted">{says.noPairs}</p>
  return (
    <div className="pairs" role="note">
      <h3>
        <TriangleAlert aria-hidden="true" size={16} /> {says.pairs(reach.pairs.length)}
      </h3>
      <p>{says.pairsWhy}</p>
      <ul>
        {reach.pairs.map((pair) => (
          <li key={JSON.stringify([pair.reads, pair.sends])} data-pair={pair.reads.permission}>
            {says.pair(name(pair.reads), name(pair.sends))}
          </li>
        ))}
      </ul>
    </div>
  )
}

function ReachPart({ version: v }: Of) {
  const reach = useReach(v.template, v.version)
  const found = reach.data
  return (
    <Part title={says.reach} help={found && says.reachLead(found.members.length)}>
      {reach.isPending && <Skeleton label={words.state.loading} rows={3} />}
      {reach.error && !found && (
        <ErrorState error={reach.error} what={says.reachFailed} onRetry={() => reach.refetch()} />
      )}
      {found && <Pairs reach={found} />}
      {found && found.items.length > 0 && (
        <table className="rules reach">
          <caption className="visually-hidden">{says.reach}</caption>
          <thead>
            <tr>
              {Object.entries(says.column).map(([key, label]) => (
                <th key={key} scope="col">
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {found.items.map((one) => (
              <tr key={JSON.stringify([one.permission, one.resource, one.narrow])}>
                <th scope="row" data-label={says.column.item}>
                  <span>{plain(one.title)}</span>
                  <code>{one.permission}</code>
                  {placeText(one) !== '' && <span className="muted">{placeText(one)}</span>}
                </th>
                <td data-label={says.column.risk}>
                  <span className="item-marks">
                    <RiskMark risk={one.risk} />
                    {one.sensitive && <SensitiveMark />}
                  </span>
                </td>
                <td data-label={says.column.enforced}>{enforced(one.enforced_at)}</td>
                <td data-label={says.column.by}>{one.by.join(', ')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Part>
  )
}

/** Everything that the version says, as it is. */
function TermsPart({ version: v }: Of) {
  const catalog = useCatalog()
  const title = (id: string) => plain(catalog.data?.items.find((one) => one.id === id)?.title ?? id)
  const items = (list: Version['ceiling']) =>
    list.map((one) => (
      <li key={JSON.stringify(one)}>
        {title(one.permission)} <code>{one.permission}</code>{' '}
        <span className="muted">{placeText(one)}</span>
      </li>
    ))
  return (
    <details className="part terms">
      <summary>{says.terms}</summary>
      <h3>{studio.field.ceiling}</h3>
      <ul>{items(v.ceiling)}</ul>
      {v.sensitive.length > 0 && <h3>{studio.field.sensitive}</h3>}
      <ul>{items(v.sensitive)}</ul>
      <h3>{studio.field.modes}</h3>
      <p className="item-marks">
        {v.modes.map((mode) => (
          <ModeMark key={mode} mode={mode} />
        ))}
      </p>
      <h3>{studio.field.limits}</h3>
      <ul>
        {Object.entries(v.limits).map(([name, n]) => (
          <li key={name}>
            {studio.limit[name] ?? name}: {n}
          </li>
        ))}
      </ul>
      {v.children.length > 0 && <h3>{studio.field.children}</h3>}
      <ul>
        {v.children.map((one) => (
          <li key={one.template}>
            {one.template} {one.version === undefined ? '' : studio.version(one.version)}
          </li>
        ))}
      </ul>
      {v.context !== '' && (
        <>
          <h3>{studio.field.context}</h3>
          <pre dir="auto">{plainLines(v.context)}</pre>
        </>
      )}
    </details>
  )
}

/** A version that is not being written by whoever looks. */
export function Look({ version: v, owned }: Of & { readonly owned: boolean }) {
  const problems = v.status === 'in_review' ? (v.problems ?? []) : []
  const needsSponsor = v.status === 'published' && v.sponsor?.status !== 'active'
  return (
    <div className="look">
      <p className="purpose" dir="auto">
        {plainLines(v.purpose)}
      </p>
      {owned && needsSponsor && <SponsorLeft version={v} />}
      {problems.length > 0 && (
        <Part title={says.problems} tone="bad">
          <Problems at="/" problems={problems} />
        </Part>
      )}
      <DiffPart version={v} />
      <ItemsPart version={v} owned={owned} />
      <PreviewPart version={v} />
      <ReachPart version={v} />
      {owned && <ReplayPart version={v} />}
      <TermsPart version={v} />
      {owned && <CommentsPart version={v} />}
      {owned && v.status === 'in_review' && <DecidePart version={v} />}
      {owned && v.status === 'in_review' && <WithdrawPart version={v} />}
      {owned && v.status === 'published' && <RetirePart version={v} />}
    </div>
  )
}
