import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import type { z } from 'zod'
import type { templateTried, templateTry } from '../../../schema/explanation.ts'
import type {
  template,
  templateComment,
  templateDraft,
  templateNew,
  templateReach,
  templateReplay,
  templateReview,
  templateValidated,
  templateVersion,
  templateVersionDiff,
} from '../../../schema/studio.ts'
import { call, newKey } from './http.ts'
import { peopleApi, useMe, useTenant } from './queries.ts'
import { studioRoles } from './studio-roles.ts'
import type { List, PermissionView } from './types.ts'

/** What builders and reviewers ask for. No event tells of another's work on a draft, so each look asks again. */
export type Template = z.output<typeof template>
export type Version = z.output<typeof templateVersion>
export type Draft = z.input<typeof templateDraft>
export type NewTemplate = z.input<typeof templateNew>
export type Validated = z.output<typeof templateValidated>
export type VersionDiff = z.output<typeof templateVersionDiff>
export type Reach = z.output<typeof templateReach>
export type Replay = z.output<typeof templateReplay>
export type Comment = z.output<typeof templateComment>
export type Review = z.input<typeof templateReview>
export type Try = z.input<typeof templateTry>
export type Tried = z.output<typeof templateTried>

export function useRoles() {
  const { data: me } = useMe()
  const roles = me === undefined ? { builds: false, reviews: false, some: false } : studioRoles(me)
  return { ...roles, me }
}

const LIST_MAX = 200
const FOUND_MAX = 12

export const studioKey = (tenant: string, ...rest: readonly unknown[]) =>
  [tenant, 'studio', ...rest] as const

export const versionPath = (name: string, n: number): string =>
  `/templates/${encodeURIComponent(name)}/versions/${n}`

function useStudio<Answer>(path: string, enabled = true) {
  const tenant = useTenant()
  return useQuery({
    queryKey: studioKey(tenant, path),
    queryFn: ({ signal }) => call<Answer>(`${peopleApi(tenant)}${path}`, { signal }),
    enabled,
    staleTime: 0,
    // What is edited starts from what is, never from what was looked at before.
    gcTime: 0,
  })
}

/** All templates, page after page: builders choose children among them. */
export function useTemplates(enabled = true) {
  const tenant = useTenant()
  return useQuery({
    queryKey: studioKey(tenant, 'templates'),
    enabled,
    staleTime: 0,
    queryFn: async ({ signal }) => {
      const items: Template[] = []
      let next: string | undefined
      do {
        const from = next === undefined ? '' : `&cursor=${encodeURIComponent(next)}`
        const url = `${peopleApi(tenant)}/templates?limit=${LIST_MAX}${from}`
        const page = await call<List<Template>>(url, { signal })
        items.push(...page.items)
        next = page.next
      } while (next !== undefined)
      return items
    },
  })
}

export const useTemplate = (name: string) =>
  useStudio<Template>(`/templates/${encodeURIComponent(name)}`)
export const useVersion = (name: string, n: number) => useStudio<Version>(versionPath(name, n))
export const useDiff = (name: string, n: number) =>
  useStudio<VersionDiff>(`${versionPath(name, n)}/diff`)
export const useReach = (name: string, n: number) =>
  useStudio<Reach>(`${versionPath(name, n)}/reach`)
export const useReplay = (name: string, n: number, days: number, enabled: boolean) =>
  useStudio<Replay>(`${versionPath(name, n)}/replay?days=${days}`, enabled)
export const useComments = (name: string, n: number, enabled: boolean) =>
  useStudio<List<Comment>>(`${versionPath(name, n)}/comments`, enabled)

/** Best for a job in words first; nothing is asked for no words. */
export function useSearchCatalog(q: string) {
  const tenant = useTenant()
  return useQuery({
    queryKey: studioKey(tenant, 'catalog', q),
    queryFn: ({ signal }) =>
      call<List<PermissionView>>(
        `${peopleApi(tenant)}/catalog?limit=${FOUND_MAX}&q=${encodeURIComponent(q)}`,
        { signal },
      ),
    enabled: q !== '',
    placeholderData: keepPreviousData,
  })
}

type Write = {
  readonly path: string
  readonly method?: 'POST' | 'PUT'
  readonly body: object
  readonly ifMatch?: number
}

/** One key an intention: the same write sent again, after silence, is done once. */
export function useWrite<Answer>() {
  const tenant = useTenant()
  const client = useQueryClient()
  const attempt = useRef({ of: '', key: '' })
  return useMutation({
    mutationFn: ({ path, method = 'POST', body, ifMatch }: Write) => {
      const of = JSON.stringify([path, method, body, ifMatch])
      if (attempt.current.of !== of) attempt.current = { of, key: newKey() }
      return call<Answer>(`${peopleApi(tenant)}${path}`, {
        method,
        body,
        idempotencyKey: attempt.current.key,
        ...(ifMatch === undefined ? {} : { ifMatch }),
      })
    },
    onSuccess: () => {
      // The same thing may be meant once more: that is another intention.
      attempt.current = { of: '', key: '' }
    },
    // Not waited for: what is said of a write is said before the screen that made it is replaced.
    onSettled: () => {
      void client.invalidateQueries({ queryKey: studioKey(tenant) })
    },
  })
}
