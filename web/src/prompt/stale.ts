import { useQueryClient } from '@tanstack/react-query'
import { useLine } from '../api/events.ts'
import { keys, useTenant } from '../api/queries.ts'
import { useNow } from '../lib/hooks.ts'

const STALE_MILLIS = 30_000

/** Live updates are lost, and what is shown was last heard of more than half a minute ago: then nothing is decided on it. */
export function useStale(): boolean {
  const line = useLine()
  const now = useNow(5_000)
  const tenant = useTenant()
  const client = useQueryClient()
  if (line.state !== 'lost') return false
  const heard = client.getQueryState(keys.pending(tenant))?.dataUpdatedAt ?? 0
  return now - Math.max(heard, line.since) > STALE_MILLIS
}
