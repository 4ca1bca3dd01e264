import { X } from 'lucide-react'
import { useEffect, useSyncExternalStore } from 'react'
import { words } from '../words.ts'
import { Button, IconButton } from './parts.tsx'

/** Short news of what was done, with a way back while it is shown. Said politely to screen readers. */
type Toast = {
  readonly id: number
  readonly text: string
  readonly action?: { readonly label: string; readonly run: () => void }
}

const SHOWN_MILLIS = 10_000
const TOASTS_MAX = 3
let next = 1
let toasts: readonly Toast[] = []
const listeners = new Set<() => void>()

const set = (now: readonly Toast[]) => {
  toasts = now
  for (const listener of listeners) listener()
}
const dismiss = (id: number) => set(toasts.filter((one) => one.id !== id))

export function toast(text: string, action?: Toast['action']): void {
  const one: Toast = { id: next++, text, ...(action ? { action } : {}) }
  set([...toasts, one].slice(-TOASTS_MAX))
}

function ToastView({ toast: { id, text, action } }: { readonly toast: Toast }) {
  useEffect(() => {
    const timer = setTimeout(() => dismiss(id), SHOWN_MILLIS)
    return () => clearTimeout(timer)
  }, [id])
  return (
    <li className="toast">
      <span className="toast-text">{text}</span>
      {action && (
        <Button
          look="quiet"
          small
          onClick={() => {
            action.run()
            dismiss(id)
          }}
        >
          {action.label}
        </Button>
      )}
      <IconButton icon={X} label={words.dismiss} onClick={() => dismiss(id)} />
    </li>
  )
}

export function Toasts() {
  const all = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => toasts,
  )
  return (
    <ul className="toasts" aria-live="polite">
      {all.map((one) => (
        <ToastView key={one.id} toast={one} />
      ))}
    </ul>
  )
}
