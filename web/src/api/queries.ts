import { useQueries, useQuery } from '@tanstack/react-query'
import { createContext, useContext } from 'react'
import { call, isStatus } from './http.ts'
import type {
  AppMe,
  List,
  Me,
  PermissionView,
  RequestView,
  RuleView,
  SessionAccess,
  SessionView,
  TemplateChange,
  WebConfig,
} from './types.ts'

const LIST_MAX = 200

const TenantContext = createContext('')
export const TenantProvider = TenantContext.Provider
export const useTenant = (): string => useContext(TenantContext)

export const peopleApi = (tenant: string): string => `/t/${encodeURIComponent(tenant)}/api`
export const agentApi = (tenant: string): string => `/app/t/${encodeURIComponent(tenant)}/api`

/** Every key begins with its tenant, so that nothing of one is ever shown in another. */
export const keys = {
  config: ['config'] as const,
  me: (tenant: string) => [tenant, 'me'] as const,
  appMe: (tenant: string) => [tenant, 'app-me'] as const,
  sessions: (tenant: string) => [tenant, 'sessions'] as const,
  session: (tenant: string, id: string) => [tenant, 'session', id] as const,
  access: (tenant: string, id?: string) =>
    id === undefined ? ([tenant, 'access'] as const) : ([tenant, 'access', id] as const),
  requests: (tenant: string) => [tenant, 'requests'] as const,
  pending: (tenant: string) => [tenant, 'requests', 'pending'] as const,
  requestsOf: (tenant: string, session: string) => [tenant, 'requests', 'of', session] as const,
  request: (tenant: string, id: string) => [tenant, 'requests', 'one', id] as const,
  lost: (tenant: string, root: string) => [tenant, 'lost', root] as const,
  rules: (tenant: string) => [tenant, 'rules'] as const,
  catalog: (tenant: string) => [tenant, 'catalog'] as const,
  changes: (tenant: string) => [tenant, 'changes'] as const,
  run: (tenant: string, session: string) => [tenant, 'run', session] as const,
}

const get =
  <Answer>(url: string) =>
  ({ signal }: { readonly signal: AbortSignal }) =>
    call<Answer>(url, { signal })

/** A part that this server does not have is not an error: what depends on it is left out. */
const getIfThere =
  <Answer>(url: string) =>
  ({ signal }: { readonly signal: AbortSignal }) =>
    call<Answer>(url, { signal }).catch((error: unknown) => {
      if (isStatus(error, 404)) return null
      throw error
    })

export const useConfig = () =>
  useQuery({ queryKey: keys.config, queryFn: getIfThere<WebConfig>('/web/config') })

export function useMe() {
  const tenant = useTenant()
  return useQuery({ queryKey: keys.me(tenant), queryFn: get<Me>(`${peopleApi(tenant)}/me`) })
}

export function useAppMe() {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.appMe(tenant),
    queryFn: getIfThere<AppMe>(`${agentApi(tenant)}/me`),
  })
}

export function useSessions() {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.sessions(tenant),
    queryFn: get<List<SessionView>>(`${peopleApi(tenant)}/sessions?limit=${LIST_MAX}`),
  })
}

export function useSession(id: string | null) {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.session(tenant, id ?? ''),
    queryFn: get<SessionView>(`${peopleApi(tenant)}/sessions/${encodeURIComponent(id ?? '')}`),
    enabled: id !== null,
  })
}

const accessQuery = (tenant: string, id: string) => ({
  queryKey: keys.access(tenant, id),
  queryFn: get<SessionAccess>(`${peopleApi(tenant)}/sessions/${encodeURIComponent(id)}/access`),
})

export function useAccess(id: string | null) {
  return useQuery({ ...accessQuery(useTenant(), id ?? ''), enabled: id !== null })
}

export function useAccessOf(ids: readonly string[]) {
  const tenant = useTenant()
  return useQueries({ queries: ids.map((id) => accessQuery(tenant, id)) })
}

/** What waits for this person, oldest first: that is the order in which it should be answered. */
export function usePending() {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.pending(tenant),
    queryFn: get<List<RequestView>>(
      `${peopleApi(tenant)}/access-requests?status=pending&limit=${LIST_MAX}`,
    ),
    select: (list) => list.items.toReversed(),
  })
}

export function useRequest(id: string) {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.request(tenant, id),
    queryFn: get<RequestView>(`${peopleApi(tenant)}/access-requests/${encodeURIComponent(id)}`),
  })
}

/** All that was asked in a tree of sessions, oldest first. */
export function useRequestsOf(sessionIds: readonly string[]) {
  const tenant = useTenant()
  return useQueries({
    queries: sessionIds.map((id) => ({
      queryKey: keys.requestsOf(tenant, id),
      queryFn: get<List<RequestView>>(
        `${peopleApi(tenant)}/access-requests?session_id=${encodeURIComponent(id)}&limit=${LIST_MAX}`,
      ),
    })),
    combine: (results) => ({
      error: results.find((one) => one.error)?.error ?? null,
      isPending: results.some((one) => one.isPending),
      refetch: () => Promise.all(results.map((one) => one.refetch())),
      requests: results
        .flatMap((one) => one.data?.items ?? [])
        .toSorted((a, b) => a.created_at.localeCompare(b.created_at)),
    }),
  })
}

export type LostRecord = {
  readonly id: string
  readonly at: string
  readonly session_id?: string
  readonly data: { readonly [key: string]: unknown }
}

/** Grants that ended in a tree of sessions, from the record: what is held now does not say what was lost. */
export function useEnded(root: string) {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.lost(tenant, root),
    queryFn: getIfThere<List<LostRecord>>(
      `${peopleApi(tenant)}/activity?type=grant.ended&root=${encodeURIComponent(root)}&limit=100`,
    ),
  })
}

export function useRules() {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.rules(tenant),
    queryFn: get<List<RuleView>>(`${peopleApi(tenant)}/rules?limit=${LIST_MAX}`),
  })
}

export function useCatalog(enabled = true) {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.catalog(tenant),
    queryFn: get<List<PermissionView>>(`${peopleApi(tenant)}/catalog?limit=${LIST_MAX}`),
    enabled,
  })
}

export function useChanges() {
  const tenant = useTenant()
  return useQuery({
    queryKey: keys.changes(tenant),
    queryFn: get<List<TemplateChange>>(`${peopleApi(tenant)}/template-changes`),
  })
}
