import { useQueries } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../api/http.ts'
import { keys, peopleApi, useTenant } from '../api/queries.ts'
import type { RequestView } from '../api/types.ts'

/** Those that waited when it was opened or came since stay in it, so that each result can be read. */
export function useShown(pending: readonly RequestView[] | undefined): readonly RequestView[] {
  const tenant = useTenant()
  const [shown, setShown] = useState<ReadonlyMap<string, RequestView>>(new Map())
  const fresh = (pending ?? []).filter((one) => shown.get(one.id) !== one)
  if (fresh.length > 0) setShown(new Map([...shown, ...fresh.map((one) => [one.id, one] as const)]))
  const gone = [...shown.keys()].filter((id) => !pending?.some((one) => one.id === id))
  const settled = useQueries({
    queries: gone.map((id) => ({
      queryKey: keys.request(tenant, id),
      queryFn: () =>
        call<RequestView>(`${peopleApi(tenant)}/access-requests/${encodeURIComponent(id)}`),
    })),
  })
  const now = new Map(settled.flatMap(({ data }) => (data ? [[data.id, data] as const] : [])))
  return [...shown.values()].map((one) => now.get(one.id) ?? one)
}
