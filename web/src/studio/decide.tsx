import { Archive, Check, Undo2 } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { type Review, useRoles, useWrite, type Version, versionPath } from '../api/studio.ts'
import { focusMain } from '../lib/focus.ts'
import { useArmed } from '../lib/hooks.ts'
import { Button } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { describedBy, Part, Problems, refusedAt } from './parts.tsx'

/** Approve or send back: a reviewer who wrote none of it, of the revision that was looked at. */
const says = studio.look

type Of = { readonly version: Version }

export function DecidePart({ version: v }: Of) {
  const { me, reviews } = useRoles()
  const review = useWrite<Version>()
  const [note, setNote] = useState('')
  const [missing, setMissing] = useState(false)
  const isAuthor = me !== undefined && (v.authors ?? []).includes(me.id)
  const why = isAuthor ? says.author : reviews ? null : says.notReviewer
  const armed = useArmed(`${v.template} ${v.version} ${v.revision}`)
  const ready = why === null && armed && !review.isPending
  const comment = note.trim()
  const send = (verdict: Review['verdict']) => {
    if (!ready) return
    if (verdict === 'send_back' && comment === '') return setMissing(true)
    const body: Review = {
      verdict,
      revision: v.revision,
      ...(comment === '' ? {} : { comment }),
    }
    review.mutate(
      { path: `${versionPath(v.template, v.version)}/review`, body },
      {
        onSuccess: () => {
          toast(verdict === 'approve' ? says.published(v.version) : says.sentBack)
          focusMain()
        },
      },
    )
  }
  const label = (text: string) => (review.isPending ? words.sending : text)
  return (
    <Part title={says.decide} help={says.approveMeans}>
      <label className="field">
        <span>{says.decideNote}</span>
        <textarea
          rows={3}
          value={note}
          aria-invalid={missing}
          aria-describedby={missing ? 'review-note-missing' : undefined}
          onChange={(event) => {
            setNote(event.target.value)
            setMissing(false)
          }}
        />
      </label>
      {missing && (
        <p className="field-error" id="review-note-missing" role="alert">
          {says.needsNote}
        </p>
      )}
      <WriteError error={review.error} what={says.notReviewed} />
      <div className="step-actions">
        <Button
          icon={Undo2}
          className="button-tall"
          aria-disabled={!ready}
          aria-describedby={why === null ? undefined : 'review-why-not'}
          onClick={() => send('send_back')}
        >
          {label(says.sendBack)}
        </Button>
        <Button
          look="primary"
          icon={Check}
          className="button-tall"
          aria-disabled={!ready}
          aria-describedby={why === null ? undefined : 'review-why-not'}
          onClick={() => send('approve')}
        >
          {label(says.approve)}
        </Button>
      </div>
      {why !== null && (
        <p className="note" id="review-why-not">
          {why}
        </p>
      )}
    </Part>
  )
}

export function WithdrawPart({ version: v }: Of) {
  const { builds } = useRoles()
  const withdraw = useWrite<Version>()
  if (!builds) return null
  return (
    <div className="withdraw">
      <Button
        icon={Undo2}
        disabled={withdraw.isPending}
        onClick={() =>
          withdraw.mutate(
            { path: `${versionPath(v.template, v.version)}/withdraw`, body: {} },
            { onSuccess: () => toast(says.withdrawn) },
          )
        }
      >
        {withdraw.isPending ? words.sending : says.withdraw}
      </Button>
      <span className="muted">{says.withdrawMeans}</span>
      <WriteError error={withdraw.error} what={says.notDone} />
    </div>
  )
}

/** A published version that nobody new is to turn on or adopt. Asked twice, since it is final. */
export function RetirePart({ version: v }: Of) {
  const { reviews } = useRoles()
  const retire = useWrite<Version>()
  const [asked, setAsked] = useState(false)
  const [why, setWhy] = useState('')
  if (!reviews) return null
  const send = () => {
    if (retire.isPending) return
    const body = why.trim() === '' ? {} : { comment: why.trim() }
    const path = `${versionPath(v.template, v.version)}/retire`
    retire.mutate(
      { path, body },
      {
        onSuccess: () => {
          toast(says.retired(v.version))
          focusMain()
        },
      },
    )
  }
  if (!asked)
    return (
      <div className="withdraw">
        <Button icon={Archive} onClick={() => setAsked(true)}>
          {says.retire}
        </Button>
        <span className="muted">{says.retireMeans}</span>
      </div>
    )
  return (
    <Part title={says.retire} help={says.retireMeans} tone="warn">
      <label className="field">
        <span>{says.retireWhy}</span>
        <textarea rows={2} value={why} onChange={(event) => setWhy(event.target.value)} />
      </label>
      <WriteError error={retire.error} what={says.notDone} />
      <div className="step-actions">
        <Button onClick={() => setAsked(false)}>{words.cancel}</Button>
        <Button look="danger" icon={Archive} aria-disabled={retire.isPending} onClick={send}>
          {retire.isPending ? words.sending : says.retireNow(v.version)}
        </Button>
      </div>
    </Part>
  )
}

/** A published version whose sponsor has left: somebody is named, the version itself does not change. */
export function SponsorLeft({ version: v }: Of) {
  const { some } = useRoles()
  const set = useWrite<Version>()
  const [login, setLogin] = useState('')
  const ready = login.trim() !== '' && !set.isPending
  const problems = refusedAt(set.error, 'sponsor')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!ready) return
    const path = `${versionPath(v.template, v.version)}/sponsor`
    const body = { sponsor: login.trim() }
    set.mutate({ path, method: 'PUT', body }, { onSuccess: () => toast(says.sponsorDone) })
  }
  return (
    <Part title={says.sponsorLeft} help={says.sponsorLeftWhy} tone="bad">
      {some && (
        <form className="add-line" onSubmit={submit}>
          <label className="field">
            <span>{studio.edit.sponsorHelp}</span>
            <input
              value={login}
              autoComplete="off"
              spellCheck={false}
              onChange={(event) => setLogin(event.target.value)}
              {...describedBy('/sponsor', problems)}
            />
            <Problems at="/sponsor" problems={problems} />
          </label>
          <Button type="submit" aria-disabled={!ready}>
            {set.isPending ? words.sending : says.sponsorSet}
          </Button>
        </form>
      )}
      <WriteError error={set.error} what={says.notDone} />
    </Part>
  )
}
