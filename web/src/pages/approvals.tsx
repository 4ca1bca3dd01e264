import { Inbox } from 'lucide-react'
import { usePending, useTenant } from '../api/queries.ts'
import { PromptCard } from '../prompt/card.tsx'
import { useShown } from '../prompt/shown.ts'
import { useBatch } from '../prompt/use-batch.tsx'
import { Link, paths } from '../router.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { words } from '../words.ts'
import { Changes } from './changes.tsx'
import { Page } from './page.tsx'

/** All that waits for an answer, of every session, oldest first. */
export default function Approvals() {
  const to = paths(useTenant())
  const pending = usePending()
  const shown = useShown(pending.data)
  const batch = useBatch(pending.data?.length ?? 0)
  return (
    <Page title={words.approvals.title} lead={words.approvals.lead} actions={batch.button}>
      {batch.sheet}
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
