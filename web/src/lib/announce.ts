import { useSyncExternalStore } from 'react'

/** What screen readers are told, once, wherever the focus is. */
export type Said = {
  readonly id: number
  readonly text: string
  readonly how: 'assertive' | 'polite'
}

/** Long enough for a screen reader to take it up: what comes at the same moment is said after it, not instead of it. */
const SAID_MILLIS = 1_000

let said: Said = { id: 0, text: '', how: 'polite' }
const listeners = new Set<() => void>()
const waiting: Omit<Said, 'id'>[] = []
let speaking = false

function next(): void {
  const one = waiting.shift()
  speaking = one !== undefined
  if (one === undefined) return
  said = { id: said.id + 1, ...one }
  for (const listener of listeners) listener()
  setTimeout(next, SAID_MILLIS)
}

export function announce(text: string, how: Said['how'] = 'polite'): void {
  waiting.push({ text, how })
  if (!speaking) next()
}

export const useSaid = (): Said =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => said,
  )
