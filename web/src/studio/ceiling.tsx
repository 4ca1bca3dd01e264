import { Trash2 } from 'lucide-react'
import { useState } from 'react'
import { useCatalog } from '../api/queries.ts'
import type { Comment } from '../api/studio.ts'
import type { PermissionView } from '../api/types.ts'
import { narrowWords, plain } from '../lib/text.ts'
import { Button } from '../ui/parts.tsx'
import { studio } from '../words/studio.ts'
import { CommentList, isOn } from './comments.tsx'
import { itemOf, narrowOf, newRow, type Row, rowText } from './form.ts'
import { describedBy, enforced, Part, PermissionMarks, Problems } from './parts.tsx'
import { Search } from './search.tsx'
import type { PartProps } from './terms.tsx'

/** The most that a session may ever ask for, built from the catalog. */
const says = studio.edit
const JUSTIFICATION_MAX = 500

type RowProps = {
  readonly row: Row
  readonly entry: PermissionView | undefined
  readonly list: 'ceiling' | 'sensitive'
  readonly check: PartProps['check']
  readonly marked: boolean
  /** What was said of it. */
  readonly comments: readonly Comment[]
  readonly onMark: ((marked: boolean) => void) | null
  readonly onChange: (change: Partial<Row>) => void
  readonly onRemove: () => void
}

function Narrow({ row, list, check, onChange }: RowProps) {
  const at = `/${list}/${row.key}/narrow`
  const problems = check.ofRow(list, row.key, 'narrow')
  const filter = narrowOf(row.narrow)
  const [open, setOpen] = useState(row.narrow !== '')
  if (!open)
    return (
      <button type="button" className="link-button" onClick={() => setOpen(true)}>
        {says.narrowOpen}
      </button>
    )
  return (
    <label className="field">
      <span>{says.narrow}</span>
      <textarea
        className="code"
        rows={2}
        spellCheck={false}
        value={row.narrow}
        onChange={(event) => onChange({ narrow: event.target.value })}
        {...describedBy(at, problems)}
      />
      <span className="muted">
        {filter ? `${says.narrowMeans} ${narrowWords(filter)}` : says.narrowHelp}
      </span>
      <Problems at={at} problems={problems} />
    </label>
  )
}

function Justification({ row, list, check, onChange }: RowProps) {
  const at = `/${list}/${row.key}/justification`
  const problems = check.ofRow(list, row.key, 'justification')
  return (
    <label className="field">
      <span>{says.justification}</span>
      <textarea
        rows={2}
        maxLength={JUSTIFICATION_MAX}
        value={row.justification}
        onChange={(event) => onChange({ justification: event.target.value })}
        {...describedBy(at, problems)}
      />
      <span className="muted">{says.justificationHelp}</span>
      <Problems at={at} problems={problems} />
    </label>
  )
}

function CeilingRow(props: RowProps) {
  const { row, entry, list, check, marked, comments, onMark, onChange, onRemove } = props
  const title = plain(entry?.title ?? row.permission)
  const at = `/${list}/${row.key}`
  const all = check.ofRow(list, row.key)
  const onResource = check.ofRow(list, row.key, 'resource')
  const onNarrow = check.ofRow(list, row.key, 'narrow')
  const onWords = check.ofRow(list, row.key, 'justification')
  const elsewhere = [...onResource, ...onNarrow, ...onWords]
  const rest = all.filter((one) => !elsewhere.includes(one))
  const takesResource = entry?.resource_hint !== undefined || row.resource !== ''
  return (
    <li className="row" data-row={row.permission}>
      <div className="row-top">
        <div>
          <strong>{title}</strong> <code>{row.permission}</code>
        </div>
        {entry && <PermissionMarks of={entry} />}
        <Button
          look="quiet"
          small
          icon={Trash2}
          aria-label={says.removeOne(title)}
          onClick={onRemove}
        >
          {says.remove}
        </Button>
      </div>
      {entry && (
        <p className="item-unlocks">
          {plain(entry.unlocks)} <span className="muted">{enforced(entry.enforced_at)}.</span>
        </p>
      )}
      {takesResource && (
        <label className="field">
          <span>{says.resource}</span>
          <input
            value={row.resource}
            spellCheck={false}
            autoComplete="off"
            onChange={(event) => onChange({ resource: event.target.value })}
            {...describedBy(`${at}/resource`, onResource)}
          />
          {entry?.resource_hint !== undefined && (
            <span className="muted">{says.resourceHelp(entry.resource_hint)}</span>
          )}
          <Problems at={`${at}/resource`} problems={onResource} />
        </label>
      )}
      {!takesResource && <Problems at={`${at}/resource`} problems={onResource} />}
      {(entry?.kind === 'data' || row.narrow !== '') && <Narrow {...props} />}
      {list === 'ceiling' && <Justification {...props} />}
      {onMark && (
        <label className="check">
          <input
            type="checkbox"
            checked={marked}
            onChange={(event) => onMark(event.target.checked)}
          />
          {says.always}
        </label>
      )}
      <Problems at={at} problems={rest} />
      <CommentList comments={comments} label={studio.look.saidOf(title)} />
    </li>
  )
}

/** A mark is of exactly this item, and follows it when it is changed. */
function useRows({ form, edit }: PartProps) {
  const isMark = (row: Row) => (one: Row) => rowText(one) === rowText(row)
  const marked = (row: Row) => form.sensitive.some(isMark(row))
  return {
    marked,
    change: (row: Row, change: Partial<Row>) => {
      const next = { ...row, ...change }
      edit({
        ceiling: form.ceiling.map((one) => (one.key === row.key ? next : one)),
        sensitive: form.sensitive.map((one) =>
          isMark(row)(one) ? { ...next, key: one.key } : one,
        ),
      })
    },
    remove: (row: Row) =>
      edit({
        ceiling: form.ceiling.filter((one) => one.key !== row.key),
        sensitive: form.sensitive.filter((one) => !isMark(row)(one)),
      }),
    mark: (row: Row, on: boolean) =>
      edit({
        sensitive: on
          ? [...form.sensitive, newRow(row)]
          : form.sensitive.filter((one) => !isMark(row)(one)),
      }),
  }
}

export function CeilingPart(props: PartProps & { readonly comments: readonly Comment[] }) {
  const { form, edit, check, comments } = props
  const catalog = useCatalog()
  const entry = (id: string) => catalog.data?.items.find((one) => one.id === id)
  const { marked, change, remove, mark } = useRows(props)
  const others = form.sensitive.filter(
    (one) => !form.ceiling.some((row) => rowText(row) === rowText(one)),
  )
  const whole = check.problems.filter(({ pointer }) => pointer === '/ceiling')
  return (
    <Part title={says.ceiling} help={says.ceilingHelp}>
      {form.ceiling.length === 0 && <p className="muted">{says.ceilingNone}</p>}
      <Problems at="/ceiling" problems={whole} />
      <ul className="rows">
        {form.ceiling.map((row) => (
          <CeilingRow
            key={row.key}
            row={row}
            entry={entry(row.permission)}
            list="ceiling"
            check={check}
            marked={marked(row)}
            comments={comments.filter(isOn(itemOf(row)))}
            onMark={(on) => mark(row, on)}
            onChange={(next) => change(row, next)}
            onRemove={() => remove(row)}
          />
        ))}
      </ul>
      {others.length > 0 && <h3>{says.marks}</h3>}
      <ul className="rows">
        {others.map((row) => (
          <CeilingRow
            key={row.key}
            row={row}
            entry={entry(row.permission)}
            list="sensitive"
            check={check}
            marked
            comments={[]}
            onMark={null}
            onChange={(next) =>
              edit({
                sensitive: form.sensitive.map((one) =>
                  one.key === row.key ? { ...row, ...next } : one,
                ),
              })
            }
            onRemove={() =>
              edit({ sensitive: form.sensitive.filter((one) => one.key !== row.key) })
            }
          />
        ))}
      </ul>
      <Search form={form} edit={edit} />
    </Part>
  )
}
