import { useSyncExternalStore } from 'react'

/** What screen readers are told, once, wherever the focus is. */
export type Said = {
  readonly id: number
  readonly text: string
  readonly how: 'assertive' | 'polite'
}

let said: Said = { id: 0, text: '', how: 'polite' }
const listeners = new Set<() => void>()

export function announce(text: string, how: Said['how'] = 'polite'): void {
  said = { id: said.id + 1, text, how }
  for (const listener of listeners) listener()
}

export const useSaid = (): Said =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => said,
  )
