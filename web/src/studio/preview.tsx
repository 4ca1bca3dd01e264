import { useRef, useState } from 'react'
import { patternsOverlap } from '../../../src/core/resource.ts'
import { useCatalog } from '../api/queries.ts'
import type { Version } from '../api/studio.ts'
import type { PermissionView, RequestItemView, RequestView } from '../api/types.ts'
import { CardActions } from '../prompt/actions.tsx'
import { partsOf } from '../prompt/answers.ts'
import { CardHead, Reason } from '../prompt/head.tsx'
import { ItemChoice, ItemFacts } from '../prompt/items.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { Part } from './parts.tsx'

/** The prompt card of a session that asks for the whole ceiling, made of the card's own parts. It answers nothing. */
const says = studio.look
const nothing = () => {}

type Shown = Pick<Version, 'template' | 'title' | 'version' | 'ceiling' | 'sensitive'>

function itemView(
  v: Shown,
  item: Version['ceiling'][number],
  of: { readonly entry: PermissionView | undefined; readonly id: string },
): RequestItemView {
  const { entry, id } = of
  const { permission, narrow } = item
  // Of what takes a resource and has none yet, the catalog's own example.
  const resource = item.resource ?? entry?.resource_hint
  const marked = v.sensitive.some(
    (one) => one.permission === permission && patternsOverlap(one.resource, resource),
  )
  const sensitive = marked || entry?.sensitive === true
  return {
    ...{ id, permission, sensitive },
    title: entry?.title ?? permission,
    unlocks: entry?.unlocks ?? '',
    ...(entry === undefined ? {} : { kind: entry.kind, risk: entry.risk }),
    ...(resource === undefined ? {} : { resource }),
    ...(narrow === undefined ? {} : { narrow }),
    outcome: 'pending',
    decision_reason: sensitive ? 'sensitive' : 'mode_ask',
    can_remember: !sensitive,
  }
}

function useShown(v: Shown): RequestView {
  const catalog = useCatalog()
  const [since] = useState(() => new Date().toISOString())
  const lendable = v.ceiling.flatMap((item, i) => {
    const entry = catalog.data?.items.find((one) => one.id === item.permission)
    return entry?.delegable === false ? [] : [itemView(v, item, { entry, id: `preview-${i}` })]
  })
  return {
    id: 'preview',
    session_id: '',
    root_session_id: '',
    path: [v.title],
    agent: { id: '', name: says.previewAgent },
    template: { name: v.template, title: v.title, version: v.version },
    reason: says.previewReason,
    digest: '',
    status: 'pending',
    created_at: since,
    items: lendable,
  }
}

function Items({
  items,
  chosen,
  details,
}: {
  readonly items: readonly RequestItemView[]
  readonly chosen: boolean
  readonly details: boolean
}) {
  return items.map((item) => (
    <li key={item.id} className="item" data-permission={item.permission}>
      <ItemFacts item={item} details={details} />
      {chosen && (
        <ItemChoice item={item} chosen={undefined} always={false} disabled onChoose={nothing} />
      )}
    </li>
  ))
}

export function PreviewPart({ version }: { readonly version: Shown }) {
  const request = useShown(version)
  const heading = useRef<HTMLHeadingElement>(null)
  const [details, setDetails] = useState(false)
  const parts = partsOf(request)
  const { ordinary, sensitive, apart } = parts
  return (
    <Part title={says.preview} help={says.previewHelp}>
      {request.items.length === 0 ? (
        <p className="muted">{says.previewNone}</p>
      ) : (
        <article className="card card-pending preview" aria-labelledby="card-preview">
          <div className="card-body">
            <CardHead request={request} heading={heading} onOver={nothing} />
            <Reason text={request.reason} />
            <ul className="items">
              <Items items={ordinary} chosen={false} details={details} />
            </ul>
            {sensitive.length > 0 && (
              <ul className="items items-sensitive">
                <Items items={sensitive} chosen={apart} details={details} />
              </ul>
            )}
            <p className="card-how-long">
              {words.card.untilEnd} {words.card.restrictions}
            </p>
            <CardActions
              parts={parts}
              choices={new Map()}
              ready
              sending={false}
              stale={false}
              notice={null}
              onPress={nothing}
              onDenyWithNote={nothing}
              onItems={nothing}
              details={details}
              onDetails={() => setDetails(!details)}
            />
          </div>
        </article>
      )}
    </Part>
  )
}
