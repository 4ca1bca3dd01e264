import { type AnchorHTMLAttributes, type MouseEvent, useMemo, useSyncExternalStore } from 'react'

/** Screens of one address each. */
const PLAIN = ['rules', 'agents', 'activity', 'reviews', 'templates', 'freezes'] as const
type Plain = (typeof PLAIN)[number]

/** Which screen an address is. So few do not need a library: the address is read here and written here. */
export type Route =
  | { readonly at: 'landing' }
  | { readonly at: 'sessions'; readonly tenant: string }
  | { readonly at: 'session'; readonly tenant: string; readonly id: string }
  | { readonly at: 'approvals'; readonly tenant: string }
  | { readonly at: 'approval'; readonly tenant: string; readonly id: string }
  | { readonly at: Plain; readonly tenant: string }
  | { readonly at: 'studio'; readonly tenant: string }
  | StudioRoute
  | { readonly at: 'nowhere'; readonly tenant: string | undefined }

/** A version of a template, or its sandbox; `id` names both for whoever asks whether one has gone elsewhere. */
type StudioRoute = {
  readonly at: 'version' | 'trial'
  readonly tenant: string
  readonly id: string
  readonly template: string
  readonly n: number
}

export function routeOf(pathname: string): Route {
  const parts = pathname.split('/').filter(Boolean).map(decoded)
  const [first, tenant, screen, id, more] = parts
  if (first === undefined) return { at: 'landing' }
  if (first !== 't' || tenant === undefined) return { at: 'nowhere', tenant: undefined }
  if (screen === undefined) return { at: 'sessions', tenant }
  if (screen === 'studio') return studioOf(tenant, parts.slice(3))
  if (more !== undefined) return { at: 'nowhere', tenant }
  if (screen === 'sessions') return id === undefined ? { at: screen, tenant } : one('session')
  if (screen === 'approvals') return id === undefined ? { at: screen, tenant } : one('approval')
  const plain = PLAIN.find((one) => one === screen)
  if (plain !== undefined && id === undefined) return { at: plain, tenant }
  return { at: 'nowhere', tenant }

  function one(at: 'session' | 'approval'): Route {
    return { at, tenant: tenant ?? '', id: id ?? '' }
  }
}

function studioOf(tenant: string, rest: readonly string[]): Route {
  const [template, version, trial, more] = rest
  if (template === undefined) return { at: 'studio', tenant }
  const n = /^[1-9]\d{0,5}$/.test(version ?? '') ? Number(version) : 0
  if (n === 0 || more !== undefined || (trial !== undefined && trial !== 'try'))
    return { at: 'nowhere', tenant }
  const at = trial === undefined ? 'version' : 'trial'
  return { at, tenant, id: `${template}@${n}`, template, n }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const listeners = new Set<() => void>()
const subscribe = (listener: () => void) => {
  listeners.add(listener)
  window.addEventListener('popstate', listener)
  return () => {
    listeners.delete(listener)
    window.removeEventListener('popstate', listener)
  }
}

export function navigate(to: string, how: { readonly replace?: boolean } = {}): void {
  if (how.replace) history.replaceState(null, '', to)
  else if (to !== location.pathname + location.search) history.pushState(null, '', to)
  for (const listener of listeners) listener()
}

export function useRoute(): Route {
  const pathname = useSyncExternalStore(subscribe, () => location.pathname)
  return routeOf(pathname)
}

/** What stands behind the question mark: a screen's filters, so that a view is an address. */
export function useSearch(): URLSearchParams {
  const search = useSyncExternalStore(subscribe, () => location.search)
  return useMemo(() => new URLSearchParams(search), [search])
}

export type Changed = { readonly [name: string]: string | null }

/** The address with these changed; null and '' take one away. */
export function searchWith(change: Changed): string {
  const now = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(change))
    if (value === null || value === '') now.delete(name)
    else now.set(name, value)
  const search = now.toString()
  return `${location.pathname}${search === '' ? '' : `?${search}`}`
}

/** A link that the browser still treats as one: a new tab, a copied address and the middle button work. */
export function Link({ href = '', onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement>) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event)
    const plain = !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (event.defaultPrevented || event.button !== 0 || !plain) return
    event.preventDefault()
    navigate(href)
  }
  return <a href={href} onClick={follow} {...rest} />
}

export const paths = (tenant: string) => {
  const root = `/t/${encodeURIComponent(tenant)}`
  return {
    sessions: `${root}/sessions`,
    session: (id: string) => `${root}/sessions/${encodeURIComponent(id)}`,
    approvals: `${root}/approvals`,
    approval: (id: string) => `${root}/approvals/${encodeURIComponent(id)}`,
    rules: `${root}/rules`,
    agents: `${root}/agents`,
    activity: `${root}/activity`,
    reviews: `${root}/reviews`,
    templates: `${root}/templates`,
    freezes: `${root}/freezes`,
    studio: `${root}/studio`,
    version: (template: string, n: number) => `${root}/studio/${encodeURIComponent(template)}/${n}`,
    trial: (template: string, n: number) =>
      `${root}/studio/${encodeURIComponent(template)}/${n}/try`,
    signIn: (returnTo: string) => `${root}/auth/login?return_to=${encodeURIComponent(returnTo)}`,
  }
}
