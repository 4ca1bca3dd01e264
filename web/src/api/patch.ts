import type { QueryClient } from '@tanstack/react-query'
import { keys } from './queries.ts'
import type { List, RequestView } from './types.ts'

/** Puts a request, as the server has just answered it, wherever the page shows it. */
export function putRequest(client: QueryClient, tenant: string, request: RequestView): void {
  client.setQueryData(keys.request(tenant, request.id), request)
  const replaced = (list: List<RequestView> | undefined) =>
    list && { ...list, items: list.items.map((one) => (one.id === request.id ? request : one)) }
  client.setQueryData<List<RequestView>>(keys.requestsOf(tenant, request.session_id), replaced)
  client.setQueryData<List<RequestView>>(keys.pending(tenant), (list) => {
    if (!list || request.status === 'pending') return replaced(list)
    return { ...list, items: list.items.filter((one) => one.id !== request.id) }
  })
}
