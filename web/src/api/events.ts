import type { QueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { keys, peopleApi } from './queries.ts'

/**
 * One stream of events for the page. An event names what changed; what it changed is asked for again, so that the screen
 * never shows a guess. The browser resumes by Last-Event-ID; after a gap everything is asked for again all the same.
 */
export type Line = { readonly state: 'opening' | 'live' | 'lost'; readonly since: number }

const KINDS = ['request', 'answer', 'grant', 'session', 'rule'] as const
type Kind = (typeof KINDS)[number]
type Named = { readonly session_id?: string | null; readonly root_session_id?: string | null }

const GATHER_MILLIS = 25
const REOPEN_MILLIS = 3_000
/** While the line is lost the page looks by itself, so that what it shows is never old. */
const LOOK_MILLIS = 10_000

let line: Line = { state: 'opening', since: Date.now() }
const listeners = new Set<() => void>()
function setLine(state: Line['state']): void {
  if (line.state === state) return
  line = { state, since: Date.now() }
  for (const listener of listeners) listener()
}

export const useLine = (): Line =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => line,
  )

/** What an event makes stale. */
function staleAfter(tenant: string, kind: Kind, { session_id, root_session_id }: Named) {
  const ofSession = session_id ? [keys.requestsOf(tenant, session_id)] : []
  const lost = root_session_id ? [keys.lost(tenant, root_session_id)] : []
  switch (kind) {
    case 'request':
    case 'answer':
      return [keys.pending(tenant), ...ofSession, [tenant, 'requests', 'one']]
    case 'grant':
      return [keys.access(tenant), ...lost]
    case 'session':
      return [
        keys.sessions(tenant),
        [tenant, 'session'],
        keys.access(tenant),
        keys.requests(tenant),
      ]
    case 'rule':
      return [keys.rules(tenant), keys.changes(tenant)]
  }
}

const named = (data: string): Named => {
  try {
    return JSON.parse(data) as Named
  } catch {
    return {}
  }
}

export function followEvents(client: QueryClient, tenant: string): () => void {
  let source: EventSource | undefined
  let reopen: ReturnType<typeof setTimeout> | undefined
  let gather: ReturnType<typeof setTimeout> | undefined
  let lastId = ''
  let wasLost = false
  const stale = new Map<string, readonly unknown[]>()

  const flush = () => {
    gather = undefined
    const all = [...stale.values()]
    stale.clear()
    for (const queryKey of all) void client.invalidateQueries({ queryKey })
  }
  const heard = (kind: Kind) => (event: MessageEvent<string>) => {
    lastId = event.lastEventId
    for (const key of staleAfter(tenant, kind, named(event.data)))
      stale.set(JSON.stringify(key), key)
    // One answer makes several events at once.
    gather ??= setTimeout(flush, GATHER_MILLIS)
  }
  const open = () => {
    const from = lastId === '' ? '' : `?last_event_id=${encodeURIComponent(lastId)}`
    source = new EventSource(`${peopleApi(tenant)}/events${from}`)
    source.addEventListener('ready', (event: MessageEvent<string>) => {
      lastId = event.lastEventId
      setLine('live')
      if (wasLost) void client.invalidateQueries({ queryKey: [tenant] })
      wasLost = false
    })
    for (const kind of KINDS) source.addEventListener(kind, heard(kind))
    source.onerror = () => {
      if (!wasLost) void client.invalidateQueries({ queryKey: keys.me(tenant) })
      wasLost = true
      setLine('lost')
      // A refusal ends it for good; only a lost line is taken up again by the browser itself.
      if (source?.readyState === EventSource.CLOSED) reopen = setTimeout(open, REOPEN_MILLIS)
    }
  }
  const look = setInterval(() => {
    if (line.state === 'lost') void client.invalidateQueries({ queryKey: keys.requests(tenant) })
  }, LOOK_MILLIS)
  setLine('opening')
  open()
  return () => {
    clearTimeout(reopen)
    clearTimeout(gather)
    clearInterval(look)
    source?.close()
  }
}
