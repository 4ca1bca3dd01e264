import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { z } from 'zod'
import type { activityRecord, verification } from '../../../schema/activity.ts'
import type { agent, user } from '../../../schema/admin.ts'
import type {
  consentHealth,
  recordDetail,
  reviews,
  timeline,
  treeSummary,
} from '../../../schema/compliance.ts'
import type { freeze } from '../../../schema/freezes.ts'
import type { enablementPreview } from '../../../schema/studio.ts'
import type { enablement, enablementChanged, enablementPut } from '../../../schema/templates.ts'
import { call } from './http.ts'
import { peopleApi, useMe, useTenant } from './queries.ts'
import type { List, Me } from './types.ts'

/** What the organisation's staff ask for: the record, reviews, templates, freezes. */
export type Tree = z.output<typeof treeSummary>
export type Timeline = z.output<typeof timeline>
export type Lane = Timeline['lanes'][number]
export type ActivityRecord = z.output<typeof activityRecord>
export type RecordDetail = z.output<typeof recordDetail>
export type Verification = z.output<typeof verification>
export type Reviews = z.output<typeof reviews>
export type ConsentHealth = z.output<typeof consentHealth>
export type Enablement = z.output<typeof enablement>
export type EnablementPut = z.input<typeof enablementPut>
export type EnablementChanged = z.output<typeof enablementChanged>
export type Preview = z.output<typeof enablementPreview>
export type Freeze = z.output<typeof freeze>
export type Person = z.output<typeof user>
export type Agent = z.output<typeof agent>

/** Org admins and auditors see all of their organisation; only org admins change it. The server decides; this only hides. */
export const staffOf = (me: Me) => ({
  reads: me.staff_roles.some((role) => role === 'org_admin' || role === 'auditor'),
  writes: me.staff_roles.includes('org_admin'),
})

export function useStaff() {
  const { data: me } = useMe()
  return me === undefined ? { reads: false, writes: false } : staffOf(me)
}

const LIST_MAX = 200
const FREEZES_MILLIS = 30_000

/** Others change these, and no event tells of it: each look asks again. */
const fresh = { staleTime: 0 }

const of = (query: { readonly [name: string]: string | undefined }): string => {
  const given = Object.entries(query).flatMap(([k, v]) =>
    v === undefined || v === '' ? [] : [[k, v]],
  )
  const text = new URLSearchParams(given).toString()
  return text === '' ? '' : `?${text}`
}

function useStaffQuery<Answer>(path: string, enabled = true) {
  const tenant = useTenant()
  return useQuery({
    queryKey: [tenant, 'staff', path],
    queryFn: ({ signal }) => call<Answer>(`${peopleApi(tenant)}${path}`, { signal }),
    enabled,
    ...fresh,
  })
}

function usePages<Item>(path: string, query: Query) {
  const tenant = useTenant()
  return useInfiniteQuery({
    queryKey: [tenant, 'staff', path, query],
    queryFn: ({ pageParam, signal }) =>
      call<List<Item>>(`${peopleApi(tenant)}${path}${of({ ...query, cursor: pageParam })}`, {
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: (last: List<Item>) => last.next,
    ...fresh,
  })
}

export type Query = { readonly [name: string]: string | undefined }

const PAGE = '25'
const RECORDS_PAGE = '100'

export const useActivitySessions = (query: Query) =>
  usePages<Tree>('/activity/sessions', { ...query, limit: PAGE })
export const useRecords = (query: Query) =>
  usePages<ActivityRecord>('/activity', { ...query, limit: RECORDS_PAGE })
export const useTimeline = (id: string) =>
  useStaffQuery<Timeline>(`/activity/sessions/${encodeURIComponent(id)}/timeline`)
export const useRecord = (id: string) =>
  useStaffQuery<RecordDetail>(`/activity/${encodeURIComponent(id)}`)
export const exportUrl = (tenant: string, query: Query): string =>
  `${peopleApi(tenant)}/activity/export${of(query)}`
/** The sessions themselves, as the list gives them. */
export const sessionsExportUrl = (tenant: string, query: Query): string =>
  `${peopleApi(tenant)}/activity/sessions/export${of(query)}`
export const verify = (tenant: string, session: string) =>
  call<Verification>(`${peopleApi(tenant)}/activity/verify${of({ session })}`)

export const usePeople = (enabled: boolean) =>
  useStaffQuery<List<Person>>(`/admin/users?limit=${LIST_MAX}`, enabled)
/** For one who is not among the first. */
export const usePerson = (id: string, enabled: boolean) =>
  useStaffQuery<Person>(`/admin/users/${encodeURIComponent(id)}`, enabled)
export const findPerson = async (tenant: string, login: string): Promise<Person | undefined> => {
  const found = await call<List<Person>>(`${peopleApi(tenant)}/admin/users${of({ login })}`)
  return found.items[0]
}
export const useStaffAgents = (enabled: boolean) =>
  useStaffQuery<List<Agent>>(`/admin/agents?limit=${LIST_MAX}`, enabled)
export const useEnablements = (enabled = true) =>
  useStaffQuery<List<Enablement>>('/enablements', enabled)
export const usePreview = (template: string) =>
  useStaffQuery<Preview>(`/enablements/${encodeURIComponent(template)}/preview?days=30`)
export const useReviews = (days: number) => useStaffQuery<Reviews>(`/reviews?days=${days}`)
export const useHealth = (days: number) =>
  useStaffQuery<ConsentHealth>(`/consent-health?days=${days}`)

export function useFreezes(enabled = true) {
  const tenant = useTenant()
  return useQuery({
    queryKey: [tenant, 'staff', 'freezes'],
    queryFn: ({ signal }) =>
      call<List<Freeze>>(`${peopleApi(tenant)}/freezes?limit=${LIST_MAX}`, { signal }),
    enabled,
    refetchInterval: FREEZES_MILLIS,
    ...fresh,
  })
}
