import { useQueryClient } from '@tanstack/react-query'
import { WifiOff } from 'lucide-react'
import { type ReactNode, useEffect, useRef } from 'react'
import { followEvents, useLine } from '../api/events.ts'
import { usePending, useTenant } from '../api/queries.ts'
import type { Me, RequestView } from '../api/types.ts'
import { announce, useSaid } from '../lib/announce.ts'
import { focusCard, takeWantedCard, wantCard } from '../lib/focus.ts'
import { useNow } from '../lib/hooks.ts'
import { plain } from '../lib/text.ts'
import { pendingItems } from '../prompt/answers.ts'
import { navigate, paths, type Route } from '../router.tsx'
import { Toasts } from '../ui/toasts.tsx'
import { words } from '../words.ts'
import { FreezeBanner } from './freeze-banner.tsx'
import { TopBar } from './top-bar.tsx'

/** Says what has just been said, to whoever listens rather than looks. */
function Announcer() {
  const said = useSaid()
  const text = (how: 'assertive' | 'polite') => (said.how === how ? said.text : '')
  return (
    <div className="visually-hidden">
      <div role="alert" aria-live="assertive" data-announcer="assertive">
        {text('assertive')}
      </div>
      <div role="status" aria-live="polite" data-announcer="polite">
        {text('polite')}
      </div>
    </div>
  )
}

const LOST_SHOWN_MILLIS = 1_500

function LineBanner() {
  const line = useLine()
  const now = useNow(1_000)
  // A line that is back at once was not lost to anybody.
  if (line.state !== 'lost' || now - line.since < LOST_SHOWN_MILLIS) return null
  return (
    <p className="line-banner" role="status">
      <WifiOff aria-hidden="true" size={16} /> {words.line.banner}
    </p>
  )
}

/** Each prompt is told once, with the key that leads to it; and the tab says how many wait. */
function useTold(pending: readonly RequestView[] | undefined, route: Route): void {
  const told = useRef<Set<string> | null>(null)
  useEffect(() => {
    if (!pending) return
    const first = told.current === null
    const known = told.current ?? new Set<string>()
    told.current = known
    const fresh = pending.filter((one) => !known.has(one.id))
    for (const one of fresh) known.add(one.id)
    const [one] = fresh
    if (!one) return
    if (first && fresh.length > 1) announce(words.told.many(fresh.length), 'assertive')
    else announce(words.told.one(plain(one.agent.name), pendingItems(one).length), 'assertive')
  }, [pending])
  const n = pending?.length ?? 0
  const { at } = route
  useEffect(() => {
    document.title = `${n === 0 ? '' : `(${n}) `}${words.nav.titles[at]}${words.product}`
  }, [n, at])
}

const SETTLE_MILLIS = 60

/** A link that is gone with its screen leaves the focus nowhere: then it goes to the new screen. */
function useFocusKept(route: Route): void {
  const where = 'id' in route ? `${route.at} ${route.id}` : route.at
  // Whenever one has gone somewhere else.
  useEffect(() => {
    const timer = setTimeout(() => {
      if (document.activeElement === document.body)
        document.getElementById('main')?.focus({ preventScroll: true })
    }, SETTLE_MILLIS)
    return () => clearTimeout(timer)
  }, [where])
}

function useOldestKey(pending: readonly RequestView[] | undefined): void {
  const tenant = useTenant()
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || event.code !== 'KeyA') return
      event.preventDefault()
      const [oldest] = pending ?? []
      if (!oldest) return announce(words.told.none)
      if (focusCard(oldest.id)) return
      wantCard(oldest.id)
      navigate(paths(tenant).session(oldest.root_session_id))
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [pending, tenant])
}

export function Shell({
  me,
  route,
  children,
}: {
  readonly me: Me
  readonly route: Route
  readonly children: ReactNode
}) {
  const tenant = useTenant()
  const client = useQueryClient()
  const { data: pending } = usePending()
  useEffect(() => followEvents(client, tenant), [client, tenant])
  useTold(pending, route)
  useFocusKept(route)
  useOldestKey(pending)
  useEffect(takeWantedCard)
  useEffect(() => {
    const close = (event: MouseEvent | KeyboardEvent) => {
      for (const menu of document.querySelectorAll<HTMLDetailsElement>('details.menu[open]')) {
        const inside = event.target instanceof Node && menu.contains(event.target)
        const isEscape = event instanceof KeyboardEvent && event.key === 'Escape'
        if (isEscape && inside) menu.querySelector('summary')?.focus()
        if (isEscape || (event instanceof MouseEvent && !inside)) menu.open = false
      }
    }
    document.addEventListener('click', close)
    document.addEventListener('keydown', close)
    return () => {
      document.removeEventListener('click', close)
      document.removeEventListener('keydown', close)
    }
  }, [])
  return (
    <div className="app">
      <a className="skip" href="#main">
        {words.nav.skip}
      </a>
      <TopBar me={me} route={route} />
      <LineBanner />
      <FreezeBanner me={me} />
      {children}
      <Announcer />
      <Toasts />
    </div>
  )
}
