import { useMedia } from './hooks.ts'

/** How many panes there is room for. The same bounds stand in shell.css. */
export type Layout = 'wide' | 'medium' | 'narrow' | 'phone'

export function useLayout(): Layout {
  const wide = useMedia('(min-width: 1280px)')
  const medium = useMedia('(min-width: 1024px)')
  const narrow = useMedia('(min-width: 768px)')
  if (wide) return 'wide'
  if (medium) return 'medium'
  return narrow ? 'narrow' : 'phone'
}
