import { useMutation } from '@tanstack/react-query'
import { ArrowUp, Square } from 'lucide-react'
import type { FormEvent } from 'react'
import { useTenant } from '../api/queries.ts'
import { say, stopRun } from '../api/run.ts'
import type { RunState } from '../api/types.ts'
import { useDraft } from '../lib/draft.ts'
import { COMPOSER_ID } from '../lib/focus.ts'
import { Button } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'

const MESSAGE_MAX = 2_000

/** Where one writes to the agent. Nothing typed here ever decides on a request. */
export function Composer({
  sessionId,
  state,
}: {
  readonly sessionId: string
  readonly state: RunState
}) {
  const tenant = useTenant()
  const [text, setText] = useDraft(sessionId)
  const send = useMutation({
    mutationFn: (said: string) => say(tenant, sessionId, said),
    // It is in the conversation now; the box is emptied only then.
    onSuccess: () => setText(''),
  })
  const stop = useMutation({
    mutationFn: () => stopRun(tenant, sessionId),
    onSuccess: () => toast(words.chat.stopped),
  })
  const ready = text.trim() !== '' && !send.isPending
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (ready) send.mutate(text.trim())
  }
  const busy = state === 'working' || state === 'waiting'
  return (
    <form className="composer" onSubmit={submit}>
      <WriteError error={send.error ?? stop.error} what={words.chat.notSent} />
      <div className="composer-box">
        <label className="composer-text">
          <span className="visually-hidden">{words.chat.composer}</span>
          <textarea
            id={COMPOSER_ID}
            rows={1}
            value={text}
            maxLength={MESSAGE_MAX}
            placeholder={words.chat.placeholder}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
              event.preventDefault()
              submit()
            }}
          />
        </label>
        {busy && (
          <Button
            icon={Square}
            title={words.chat.stopMeans}
            disabled={stop.isPending}
            onClick={() => stop.mutate()}
          >
            {words.chat.stop}
          </Button>
        )}
        <Button look="primary" icon={ArrowUp} type="submit" aria-disabled={!ready}>
          {send.isPending ? words.sending : words.chat.send}
        </Button>
      </div>
    </form>
  )
}
