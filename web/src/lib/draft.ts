import { useCallback, useState } from 'react'

/** What is being written, kept while the tab lives: a sign-in in between, or an error, does not lose it. */
export function useDraft(name: string): [string, (text: string) => void] {
  const key = `lend.draft.${name}`
  const [text, setText] = useState(() => {
    try {
      return sessionStorage.getItem(key) ?? ''
    } catch {
      return ''
    }
  })
  const write = useCallback(
    (next: string) => {
      setText(next)
      try {
        if (next === '') sessionStorage.removeItem(key)
        else sessionStorage.setItem(key, next)
      } catch {
        // It is kept for as long as this screen is.
      }
    },
    [key],
  )
  return [text, write]
}
