import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react'

/** The time, as often as it is needed. */
export function useNow(everyMillis: number): number {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMillis)
    return () => clearInterval(timer)
  }, [everyMillis])
  return now
}

export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const list = matchMedia(query)
      list.addEventListener('change', listener)
      return () => list.removeEventListener('change', listener)
    },
    () => matchMedia(query).matches,
  )
}

/** Remembered on this device, when it can be. */
export function useStored<Value>(key: string, initial: Value): [Value, (value: Value) => void] {
  const [value, setValue] = useState<Value>(() => {
    try {
      const stored = localStorage.getItem(`lend.${key}`)
      return stored === null ? initial : (JSON.parse(stored) as Value)
    } catch {
      return initial
    }
  })
  const store = useCallback(
    (next: Value) => {
      setValue(next)
      try {
        localStorage.setItem(`lend.${key}`, JSON.stringify(next))
      } catch {
        // Private mode: it holds for this page.
      }
    },
    [key],
  )
  return [value, store]
}

/** Skeletons come late, so that what loads fast does not flicker. */
export function useLate(millis: number): boolean {
  const [late, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), millis)
    return () => clearTimeout(timer)
  }, [millis])
  return late
}

const ARM_MILLIS = 500
const ARM_MILLIS_MAX = 3_000

/**
 * False for the first half second of a card, and for as long as somebody types meanwhile, at most three seconds: a key or
 * tap that was on its way before the card appeared decides nothing. Starts again when `shown` changes.
 */
export function useArmed(shown: string): boolean {
  const [armedFor, setArmedFor] = useState<string | null>(null)
  useEffect(() => {
    const first = performance.now()
    let timer = setTimeout(() => setArmedFor(shown), ARM_MILLIS)
    const again = ({ target, altKey, ctrlKey, metaKey }: KeyboardEvent) => {
      // A shortcut is not typing, and whoever has gone into a card is not typing elsewhere.
      if (altKey || ctrlKey || metaKey) return
      if (target instanceof Element && target.closest('[data-request]')) return
      const left = ARM_MILLIS_MAX - (performance.now() - first)
      clearTimeout(timer)
      timer = setTimeout(() => setArmedFor(shown), Math.max(0, Math.min(ARM_MILLIS, left)))
    }
    document.addEventListener('keydown', again, true)
    const done = setTimeout(
      () => document.removeEventListener('keydown', again, true),
      ARM_MILLIS_MAX,
    )
    return () => {
      clearTimeout(timer)
      clearTimeout(done)
      document.removeEventListener('keydown', again, true)
    }
  }, [shown])
  return armedFor === shown
}

/** Calls back when `value` becomes different from what it was. */
export function useChanged<Value>(value: Value, then: (before: Value) => void): void {
  const before = useRef(value)
  useEffect(() => {
    const was = before.current
    before.current = value
    if (was !== value) then(was)
  })
}
