import { type ReactNode, useEffect, useId, useRef } from 'react'
import { words } from '../words.ts'
import { Button } from './parts.tsx'
import { WriteError } from './states.tsx'

/** Asks before something is ended, and names what ends. The browser's own dialog: it keeps focus and closes by Escape. */
export function Confirm({
  title,
  children,
  action,
  busy,
  error,
  onYes,
  onClose,
}: {
  readonly title: string
  readonly children: ReactNode
  readonly action: string
  readonly busy: boolean
  readonly error: unknown
  readonly onYes: () => void
  readonly onClose: () => void
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  useEffect(() => {
    const element = dialog.current
    if (element && !element.open) element.showModal()
    return () => element?.close()
  }, [])
  return (
    <dialog ref={dialog} className="confirm" aria-labelledby={heading} onClose={onClose}>
      <h2 id={heading}>{title}</h2>
      <div className="confirm-body">{children}</div>
      <WriteError error={error} />
      <div className="confirm-actions">
        <Button onClick={onClose}>{words.keep}</Button>
        <Button look="danger" onClick={onYes} disabled={busy}>
          {busy ? words.sending : action}
        </Button>
      </div>
    </dialog>
  )
}
