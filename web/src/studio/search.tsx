import { Plus, SearchX } from 'lucide-react'
import { useState } from 'react'
import { useSearchCatalog } from '../api/studio.ts'
import type { PermissionView } from '../api/types.ts'
import { announce } from '../lib/announce.ts'
import { plain } from '../lib/text.ts'
import { Button } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { useLater } from './check.ts'
import { newRow } from './form.ts'
import { enforced, PermissionMarks } from './parts.tsx'
import type { PartProps } from './terms.tsx'

/** The catalog, searched by meaning: what a ceiling is built from. */
const says = studio.edit
const SEARCH_MILLIS = 300

function Found({
  one,
  has,
  onAdd,
}: {
  readonly one: PermissionView
  readonly has: boolean
  readonly onAdd: () => void
}) {
  const title = plain(one.title)
  // Of what takes a resource there may be several, each on another.
  const again = one.resource_hint !== undefined || one.kind === 'data'
  const can = one.delegable && (!has || again)
  const why = one.delegable ? says.inCeiling : says.neverWhy
  return (
    <li className="found" data-found={one.id}>
      <div className="item-top">
        <span className="item-title">{title}</span>
        <PermissionMarks of={one} />
      </div>
      <p className="item-unlocks">{plain(one.unlocks)}</p>
      <p className="item-enforced">
        <code>{one.id}</code> · {words.accessKind[one.access]} · {enforced(one.enforced_at)}
      </p>
      <div className="found-foot">
        <Button
          small
          icon={Plus}
          aria-label={says.addOne(title)}
          aria-disabled={!can}
          onClick={() => can && onAdd()}
        >
          {says.add}
        </Button>
        {(!one.delegable || has) && <span className="muted">{why}</span>}
      </div>
    </li>
  )
}

export function Search({ form, edit }: Pick<PartProps, 'form' | 'edit'>) {
  const [text, setText] = useState('')
  const q = useLater(text.trim(), SEARCH_MILLIS)
  const found = useSearchCatalog(q)
  const items = q === '' ? [] : (found.data?.items ?? [])
  const add = (one: PermissionView) => {
    const row = newRow({ permission: one.id, resource: '', narrow: '', justification: '' })
    edit({ ceiling: [...form.ceiling, row] })
    announce(says.added(plain(one.title)))
  }
  return (
    <div className="search">
      <label className="field">
        <span>{says.search}</span>
        <input
          type="search"
          value={text}
          maxLength={500}
          placeholder={says.searchPlaceholder}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="muted">{says.searchHelp}</span>
      </label>
      {q !== '' && found.isPending && <Skeleton label={words.state.loading} rows={2} />}
      {found.error && (
        <ErrorState error={found.error} what={says.searchFailed} onRetry={() => found.refetch()} />
      )}
      {q !== '' && found.data && (
        <div role="status" className="muted">
          {items.length > 0 && says.found(items.length)}
        </div>
      )}
      {q !== '' && found.data && items.length === 0 && (
        <Empty icon={SearchX} title={says.foundNone}>
          {says.foundNoneWhy}
        </Empty>
      )}
      <ul className="found-list">
        {items.map((one) => (
          <Found
            key={one.id}
            one={one}
            has={form.ceiling.some((row) => row.permission === one.id)}
            onAdd={() => add(one)}
          />
        ))}
      </ul>
    </div>
  )
}
