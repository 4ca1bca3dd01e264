import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import { call, isCode, newKey } from '../api/http.ts'
import { keys, peopleApi, useChanges, useTenant } from '../api/queries.ts'
import type { TemplateChange, TemplateConfirm, TemplateDiff } from '../api/types.ts'
import { focusMain } from '../lib/focus.ts'
import { useArmed } from '../lib/hooks.ts'
import { date, narrowWords, plain, plainLines } from '../lib/text.ts'
import { KindMark, RiskMark, SensitiveMark } from '../ui/marks.tsx'
import { Button, Chip, classes, Time } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'

const says = words.changes

type ItemChange = TemplateDiff['items'][number]
type Place = ItemChange['from'][number]

/** Where it applies, in words; the permission itself stands above. */
function placeWords({ resource, narrow }: Place): string {
  const on = resource === undefined ? '' : says.on(plain(resource))
  const only = narrow === undefined ? '' : says.only(narrowWords(narrow))
  return [on, only].filter(Boolean).join(', ') || says.everywhere
}
const placesWords = (places: readonly Place[]): string => places.map(placeWords).join('; ')

/** What was and what is, in one row; of what is new or gone only that. */
function Places({ row }: { readonly row: ItemChange }) {
  const both = row.from.length > 0 && row.to.length > 0
  const lines: readonly (readonly [string, readonly Place[]])[] = both
    ? [
        [says.before, row.from],
        [says.now, row.to],
      ]
    : [['', row.from.length > 0 ? row.from : row.to]]
  return lines.map(([label, places]) => {
    const where = placesWords(places)
    if (!both && where === says.everywhere) return null
    return (
      <p key={label} className="item-constraint">
        {label !== '' && <span className="item-label">{label} </span>}
        <span dir="auto">{where}</span>
      </p>
    )
  })
}

function ItemRow({ row }: { readonly row: ItemChange }) {
  return (
    <li data-permission={row.permission} data-change={row.change}>
      <div className="item-top">
        <span className="item-title">{plain(row.title)}</span>
        <span className="item-marks">
          <KindMark kind={row.kind} />
          <RiskMark risk={row.risk} />
          {row.sensitive && <SensitiveMark />}
        </span>
      </div>
      {row.change !== 'removed' && <p className="item-unlocks">{plain(row.unlocks)}</p>}
      {row.enforced_at !== undefined && (
        <p className="item-enforced">{words.enforcedWhere[row.enforced_at]}</p>
      )}
      <Places row={row} />
    </li>
  )
}

type Group = { readonly name: keyof typeof says.group; readonly rows: readonly React.ReactNode[] }

const line = (text: string) => <li key={text}>{text}</li>

/** Lines that one text has and the other has not; when only their order is another, all of what is now. */
function linesOf({ from, to }: { readonly from: string; readonly to: string }) {
  const [before, now] = [plainLines(from).split('\n'), plainLines(to).split('\n')]
  const parts = [
    [says.contextGone, before.filter((text) => !now.includes(text))],
    [says.contextNew, now.filter((text) => !before.includes(text))],
  ] as const
  return parts.every(([, lines]) => lines.length === 0) ? [[says.now, now] as const] : parts
}

const contextRows = ({ context }: TemplateDiff): readonly React.ReactNode[] =>
  context === undefined
    ? []
    : [
        <li key="context">
          <details>
            <summary>{says.context}</summary>
            {linesOf(context).map(([label, lines]) =>
              lines.length === 0 ? null : (
                <div key={label}>
                  <h5>{label}</h5>
                  <pre dir="auto">{lines.join('\n')}</pre>
                </div>
              ),
            )}
          </details>
        </li>,
      ]

function markWords(row: ItemChange, lost: boolean): string {
  const title = plain(row.title)
  if (!lost) return says.mark.more(title, placesWords(row.to))
  // What the catalog marks stays marked, whatever a template says.
  return row.sensitive ? says.mark.still(title) : says.mark.lost(title, placesWords(row.from))
}

/** The groups in the order in which they matter: what is more first, what is less last. */
function groupsOf(diff: TemplateDiff): readonly Group[] {
  const items = (...changes: readonly ItemChange['change'][]) =>
    diff.items
      .filter((row) => changes.includes(row.change))
      .map((row) => <ItemRow key={row.permission} row={row} />)
  const limits = (change: 'raised' | 'lowered') =>
    diff.limits
      .filter((one) => one.change === change)
      .map((one) => line(says.limit(one.limit, one.from, one.to)))
  const children = (...changes: readonly TemplateDiff['children'][number]['change'][]) =>
    diff.children
      .filter((one) => changes.includes(one.change))
      .map((one) =>
        line(says.child[one.change](plain(one.title), one.from_version, one.to_version)),
      )
  const marks = (lost: boolean) =>
    diff.sensitive
      .filter((row) => (row.change === 'added' || row.change === 'widened') !== lost)
      .map((row) => line(markWords(row, lost)))
  const modes = (list: TemplateDiff['modes']['added']) =>
    list.map((mode) => line(`${words.mode[mode].name}: ${words.mode[mode].means}`))
  return [
    { name: 'added', rows: items('added') },
    { name: 'widened', rows: items('widened', 'replaced') },
    {
      name: 'loosened',
      rows: [...modes(diff.modes.added), ...limits('raised'), ...marks(true)],
    },
    { name: 'children', rows: children('added', 'pinned') },
    { name: 'context', rows: contextRows(diff) },
    { name: 'narrowed', rows: [...items('narrowed'), ...limits('lowered'), ...marks(false)] },
    {
      name: 'removed',
      rows: [
        ...items('removed'),
        ...diff.modes.removed.map((mode) => line(says.modeGone(words.mode[mode].name))),
        ...children('removed'),
      ],
    },
  ]
}

/** What another version allows that this one does not, and the other way round. */
export function Diff({ diff }: { readonly diff: TemplateDiff }) {
  return groupsOf(diff).map(({ name, rows }) =>
    rows.length === 0 ? null : (
      <section key={name} className={classes('diff', `diff-${name}`)}>
        <h4>{says.group[name]}</h4>
        <ul>{rows}</ul>
      </section>
    ),
  )
}

/**
 * Says that the person has seen what is shown here, and nothing else: the server is told its version and its digest. If
 * that is no longer how it is, what is now is fetched and shown, unconfirmed.
 */
function useConfirm(change: TemplateChange) {
  const tenant = useTenant()
  const client = useQueryClient()
  const attempt = useRef({ of: '', key: '' })
  return useMutation({
    mutationFn: () => {
      const { digest, to_version: version } = change
      if (attempt.current.of !== digest) attempt.current = { of: digest, key: newKey() }
      const body: TemplateConfirm = { version, digest }
      return call<unknown>(
        `${peopleApi(tenant)}/template-changes/${encodeURIComponent(change.template)}/confirm`,
        { method: 'POST', body, idempotencyKey: attempt.current.key },
      )
    },
    onSuccess: () => {
      toast(says.confirmed(plain(change.title)))
      focusMain()
    },
    onSettled: () => {
      void client.invalidateQueries({ queryKey: keys.changes(tenant) })
      void client.invalidateQueries({ queryKey: keys.rules(tenant) })
    },
  })
}

function ChangeBody({ change }: { readonly change: TemplateChange }) {
  const confirm = useConfirm(change)
  const armed = useArmed(`${change.template} ${change.digest}`)
  const again = isCode(confirm.error, 'change_superseded')
  const ready = armed && !confirm.isPending
  return (
    <>
      <p>{says.means(change.suspended_rules)}</p>
      {!change.diff.widens && <p>{says.takenBack}</p>}
      <Diff diff={change.diff} />
      {again && (
        <p className="card-note" role="alert">
          {says.again}
        </p>
      )}
      <WriteError error={again ? null : confirm.error} what={says.notConfirmed} />
      <div className="step-actions">
        <Button
          look="primary"
          className="button-tall"
          aria-disabled={!ready}
          onClick={() => ready && confirm.mutate()}
        >
          {confirm.isPending ? words.sending : says.confirm}
        </Button>
        <span className="muted">{says.orNot}</span>
      </div>
    </>
  )
}

function Versions({ change }: { readonly change: TemplateChange }) {
  return (
    <p className="card-meta">
      <Chip tone="warn">{says.versions(change.from_version ?? null, change.to_version)}</Chip>
      {change.since !== undefined && (
        <span>
          {says.since} <Time iso={change.since}>{date(change.since)}</Time>
        </span>
      )}
    </p>
  )
}

function Change({ change }: { readonly change: TemplateChange }) {
  const title = says.title(plain(change.title), change.diff.widens)
  return (
    <article className="card change" aria-label={title} data-template={change.template}>
      <div className="card-body">
        <h3>{title}</h3>
        <Versions change={change} />
        <ChangeBody change={change} />
      </div>
    </article>
  )
}

/** Templates that now allow more than when the person said always. */
export function Changes() {
  const changes = useChanges()
  const items = changes.data?.items ?? []
  if (items.length === 0) return null
  return (
    <section className="changes" aria-label={says.all}>
      <h2>{says.all}</h2>
      {items.map((change) => (
        <Change key={change.template} change={change} />
      ))}
    </section>
  )
}

/** Beside a question that comes again because of it: folded, since the question itself is what waits. */
export function ChangeOf({ template }: { readonly template: string }) {
  const changes = useChanges()
  const change = changes.data?.items.find((one) => one.template === template)
  if (change === undefined) return null
  return (
    <details className="card change change-folded" data-template={template}>
      <summary>
        <span>{says.inChat(plain(change.title), change.diff.widens)}</span>
        <span className="link">{says.see}</span>
      </summary>
      <div className="card-body">
        <Versions change={change} />
        <ChangeBody change={change} />
      </div>
    </details>
  )
}
