import { useQueries } from '@tanstack/react-query'
import { Inbox } from 'lucide-react'
import { useState } from 'react'
import { call } from '../api/http.ts'
import { keys, peopleApi, usePending, useTenant } from '../api/queries.ts'
import type { RequestView } from '../api/types.ts'
import { PromptCard } from '../prompt/card.tsx'
import { Link, paths } from '../router.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { words } from '../words.ts'
import { Changes } from './changes.tsx'
import { Page } from './page.tsx'

/** Those that waited when the page was opened or came since stay on it, so that each result can be read. */
function useShown(pending: readonly RequestView[] | undefined): readonly RequestView[] {
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

/** All that waits for an answer, of every session, oldest first. */
export default function Approvals() {
  const to = paths(useTenant())
  const pending = usePending()
  const shown = useShown(pending.data)
  return (
    <Page title={words.approvals.title} lead={words.approvals.lead}>
      <Changes />
      {pending.isPending && <Skeleton label={words.state.loading} rows={4} />}
      {pending.error && !pending.data && (
        <ErrorState
          error={pending.error}
          what={words.approvals.failed}
          onRetry={() => pending.refetch()}
        />
      )}
      {pending.data && shown.length === 0 && (
        <Empty
          icon={Inbox}
          title={words.approvals.none}
          action={
            <Link className="button button-plain" href={to.sessions}>
              {words.approvals.toSessions}
            </Link>
          }
        >
          {words.approvals.noneWhy}
        </Empty>
      )}
      {shown.length > 0 && (
        <>
          <h2 className="visually-hidden">{words.approvals.list}</h2>
          <ul className="cards">
            {shown.map((request) => (
              <li key={request.id}>
                <PromptCard request={request} />
                <Link className="link card-session" href={to.session(request.root_session_id)}>
                  {words.approvals.openSession}
                </Link>
              </li>
            ))}
          </ul>
        </>
      )}
    </Page>
  )
}
