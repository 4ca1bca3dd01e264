import { useCatalog } from '../api/queries.ts'
import { useComments, useRoles, type Version } from '../api/studio.ts'
import { plain, plainLines } from '../lib/text.ts'
import { SensitiveMark } from '../ui/marks.tsx'
import { studio } from '../words/studio.ts'
import { CommentList, CommentOn, isOn } from './comments.tsx'
import { enforced, Part, PermissionMarks, placeText } from './parts.tsx'

/** The ceiling item by item: what it is, why the job needs it, and what reviewers say of it. */
const says = studio.look

type Item = Version['ceiling'][number]

function ItemRow({
  item,
  version: v,
  owned,
}: {
  readonly item: Item
  readonly version: Version
  readonly owned: boolean
}) {
  const catalog = useCatalog()
  const comments = useComments(v.template, v.version, owned)
  const { some } = useRoles()
  const entry = catalog.data?.items.find((one) => one.id === item.permission)
  const title = plain(entry?.title ?? item.permission)
  const where = placeText(item)
  const { justification, ...on } = item
  return (
    <li className="row" data-item={item.permission}>
      <div className="row-top">
        <div>
          <strong>{title}</strong> <code>{item.permission}</code>{' '}
          {where !== '' && <span className="muted">{where}</span>}
        </div>
        {entry && <PermissionMarks of={entry} />}
        {entry?.sensitive === false && v.sensitive.some((one) => isSame(one, on)) && (
          <SensitiveMark />
        )}
      </div>
      {entry && (
        <p className="item-unlocks">
          {plain(entry.unlocks)} <span className="muted">{enforced(entry.enforced_at)}.</span>
        </p>
      )}
      {justification === undefined ? (
        <p className="muted" data-justified="false">
          {says.unjustified}
        </p>
      ) : (
        <figure className="justified" data-justified="true">
          <figcaption className="muted">{says.justified}</figcaption>
          <blockquote dir="auto" className="said">
            {plainLines(justification)}
          </blockquote>
        </figure>
      )}
      <CommentList
        comments={(comments.data?.items ?? []).filter(isOn(on))}
        label={says.saidOf(title)}
      />
      {owned && some && <CommentOn version={v} on={on} title={title} />}
    </li>
  )
}

const isSame = (a: Item, b: Item): boolean =>
  a.permission === b.permission && a.resource === b.resource

export function ItemsPart({
  version: v,
  owned,
}: {
  readonly version: Version
  readonly owned: boolean
}) {
  if (v.ceiling.length === 0) return null
  return (
    <Part title={says.items} help={says.itemsHelp}>
      <ul className="rows">
        {v.ceiling.map((item) => (
          <ItemRow
            key={JSON.stringify([item.permission, item.resource, item.narrow])}
            item={item}
            version={v}
            owned={owned}
          />
        ))}
      </ul>
    </Part>
  )
}
