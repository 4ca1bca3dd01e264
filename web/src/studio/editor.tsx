import { CircleAlert, CircleCheck } from 'lucide-react'
import { useMemo, useState } from 'react'
import { isCode } from '../api/http.ts'
import { useTenant } from '../api/queries.ts'
import { useComments, useWrite, type Version, versionPath } from '../api/studio.ts'
import { announce } from '../lib/announce.ts'
import { useDraft } from '../lib/draft.ts'
import { focusMain } from '../lib/focus.ts'
import { Diff } from '../pages/changes.tsx'
import { Button } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { CeilingPart } from './ceiling.tsx'
import { type Checked, useCheck } from './check.ts'
import { ClashPart } from './clash.tsx'
import { draftOf, type Form, formOf, itemOf, sameForm } from './form.ts'
import { Part } from './parts.tsx'
import { PreviewPart } from './preview.tsx'
import {
  ChildrenPart,
  ContextPart,
  LimitsPart,
  ModesPart,
  PurposePart,
  SponsorPart,
} from './terms.tsx'

const says = studio.edit

type Writing = {
  /** As the server had it when this was begun; saving asks for exactly this revision. */
  readonly base: Form
  readonly revision: number
  readonly mine: Form
  /** What somebody else has saved meanwhile, until it is settled whose counts. */
  readonly theirs?: { readonly form: Form; readonly revision: number }
}

const isRow = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'justification' in value

const isForm = (value: unknown): value is Form => {
  if (typeof value !== 'object' || value === null) return false
  const lists = ['ceiling', 'sensitive', 'children', 'modes']
  const all = Object.entries(value)
  return (
    all.length === 8 &&
    all.every(([name, part]) =>
      lists.includes(name)
        ? Array.isArray(part) && (name !== 'ceiling' || part.every(isRow))
        : typeof part === (name === 'limits' ? 'object' : 'string'),
    )
  )
}

/** What was written here before and not saved, if it can still be read. */
function keptOf(text: string): Writing | null {
  try {
    const { base, revision, mine } = JSON.parse(text)
    return isForm(base) && isForm(mine) && typeof revision === 'number'
      ? { base, revision, mine }
      : null
  } catch {
    return null
  }
}

/** Begins with what the tab still has; if others have saved since, both are shown. */
function begin(version: Version, text: string): Writing {
  const now = formOf(version)
  const fresh = { base: now, revision: version.revision, mine: now }
  const kept = keptOf(text)
  if (kept === null || sameForm(kept.mine, now)) return fresh
  if (kept.revision === version.revision) return { ...kept, base: now }
  return { ...kept, theirs: { form: now, revision: version.revision } }
}

function useWriting(version: Version) {
  const tenant = useTenant()
  const [kept, keep] = useDraft(`studio.${tenant}.${version.template}.${version.version}`)
  const [writing, set] = useState(() => begin(version, kept))
  const [wasKept] = useState(() => !sameForm(writing.base, writing.mine))
  const write = (next: Writing) => {
    set(next)
    const { base, revision, mine } = next
    keep(sameForm(base, mine) ? '' : JSON.stringify({ base, revision, mine }))
  }
  return { writing, write, wasKept }
}

function useSave(version: Version, writing: Writing, write: (next: Writing) => void) {
  const put = useWrite<Version>()
  const path = versionPath(version.template, version.version)
  const save = (then?: (saved: Version) => void) => {
    const sent = writing.mine
    const body = { ...draftOf(sent), revision: writing.revision }
    put.mutate(
      { path, method: 'PUT', body },
      {
        onSuccess: (saved) => {
          // The rows keep their names, so that focus and problems stay where they are.
          write({ base: sent, revision: saved.revision, mine: sent })
          announce(says.saved)
          then?.(saved)
        },
        onError: (error) => {
          const now = isCode(error, 'revision_stale') ? error.problem.current : undefined
          if (now === undefined) return
          const current = now as Version
          write({ ...writing, theirs: { form: formOf(current), revision: current.revision } })
        },
      },
    )
  }
  return { put, save }
}

function CheckPart({ check }: { readonly check: Checked }) {
  const n = check.problems.length
  const diff = check.result?.diff
  return (
    <aside className="editor-side" aria-label={says.findings}>
      <Part title={says.findings}>
        <div className={n === 0 ? 'check-state' : 'check-state check-bad'} role="status">
          {check.busy ? (
            says.checking
          ) : n === 0 && check.error === null ? (
            <>
              <CircleCheck aria-hidden="true" size={16} /> {says.good}
            </>
          ) : (
            <>
              <CircleAlert aria-hidden="true" size={16} />{' '}
              {n === 0 ? says.checkFailed : says.problems(n)}
            </>
          )}
        </div>
        <WriteError error={check.error} />
        {n > 0 && (
          <ul className="findings">
            {check.problems.map((one) => (
              <li key={`${one.pointer} ${one.message}`}>
                <code>{one.pointer}</code> {one.message}
              </li>
            ))}
          </ul>
        )}
      </Part>
      {diff !== undefined && (
        <Part title={says.against(check.result?.against)}>
          <div className="diffs">
            <Diff diff={diff} />
          </div>
        </Part>
      )}
    </aside>
  )
}

function useSubmit(version: Version) {
  const submit = useWrite<Version>()
  const path = `${versionPath(version.template, version.version)}/submit`
  const send = (revision: number, note: string) =>
    submit.mutate(
      {
        path,
        body: note.trim() === '' ? {} : { comment: note.trim() },
        ifMatch: revision,
      },
      {
        onSuccess: () => {
          toast(says.submitted)
          focusMain()
        },
      },
    )
  return { submit, send }
}

/** A draft, as its builders write it. Only what is saved is submitted, and only the revision that was looked at. */
export function Editor({ version }: { readonly version: Version }) {
  const { writing, write, wasKept } = useWriting(version)
  const { base, mine, revision, theirs } = writing
  const { put, save } = useSave(version, writing, write)
  const { submit, send } = useSubmit(version)
  const [note, setNote] = useState('')
  const check = useCheck(version.template, mine)
  const comments = useComments(version.template, version.version, true).data?.items ?? []
  const dirty = useMemo(() => !sameForm(base, mine), [base, mine])
  const edit = (change: Partial<Form>) => write({ ...writing, mine: { ...mine, ...change } })
  if (theirs !== undefined)
    return (
      <ClashPart
        forms={{ base, mine, theirs: theirs.form }}
        onDone={(form) => {
          put.reset()
          write({ base: theirs.form, revision: theirs.revision, mine: form })
        }}
      />
    )
  const busy = put.isPending || submit.isPending
  const readable = !check.problems.some(
    (one) => one.message === says.json || one.message === says.number,
  )
  const canSave = dirty && !busy && readable
  const canSubmit = !busy && !check.busy && check.problems.length === 0 && check.error === null
  const part = { form: mine, edit, check }
  const shown = {
    ...version,
    ceiling: mine.ceiling.map(itemOf),
    sensitive: mine.sensitive.map(itemOf),
  }
  return (
    <form className="editor" onSubmit={(event) => event.preventDefault()}>
      <div className="editor-main">
        {wasKept && dirty && (
          <p className="note" role="status">
            {says.kept}{' '}
            <button
              type="button"
              className="link-button"
              onClick={() => write({ base, revision, mine: base })}
            >
              {says.discard}
            </button>
          </p>
        )}
        <PurposePart {...part} />
        <CeilingPart {...part} comments={comments} />
        <ContextPart {...part} />
        <ModesPart {...part} />
        <LimitsPart {...part} />
        <ChildrenPart {...part} own={version.template} />
        <SponsorPart {...part} />
        <PreviewPart version={shown} />
      </div>
      <CheckPart check={check} />
      <div className="editor-bar">
        <label className="field editor-note">
          <span>{says.submitNote}</span>
          <input value={note} onChange={(event) => setNote(event.target.value)} />
        </label>
        <span className="muted" role="status">
          {says.lead(revision)} · {dirty ? says.unsaved : says.allSaved}
        </span>
        <Button aria-disabled={!canSave} onClick={() => canSave && save()}>
          {put.isPending ? words.sending : says.save}
        </Button>
        <Button
          look="primary"
          aria-disabled={!canSubmit}
          onClick={() => {
            if (!canSubmit) return
            if (dirty) save((saved) => send(saved.revision, note))
            else send(revision, note)
          }}
        >
          {submit.isPending ? words.sending : says.submit}
        </Button>
        <WriteError error={put.error} what={says.notSaved} />
        <WriteError error={submit.error} what={says.notSubmitted} />
      </div>
    </form>
  )
}
