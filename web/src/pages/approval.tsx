import { isStatus } from '../api/http.ts'
import { usePending, useRequest, useTenant } from '../api/queries.ts'
import { plain } from '../lib/text.ts'
import { PromptCard } from '../prompt/card.tsx'
import { Link, paths } from '../router.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { words } from '../words.ts'
import { Page } from './page.tsx'

/** One request by its address: what an agent's `review_url` leads to, on any device. */
export default function Approval({ id }: { readonly id: string }) {
  const to = paths(useTenant())
  const request = useRequest(id)
  const { data: pending = [] } = usePending()
  const others = pending.filter((one) => one.id !== id)
  const view = request.data
  return (
    <Page
      title={
        view
          ? words.approvals.one(plain(view.agent.name), view.status === 'pending')
          : words.approvals.oneTitle
      }
    >
      {request.isPending && <Skeleton label={words.state.loading} rows={5} />}
      {isStatus(request.error, 404) && !view && (
        <Empty
          title={words.approvals.gone}
          action={
            <Link className="button button-plain" href={to.approvals}>
              {words.approvals.all}
            </Link>
          }
        >
          {words.approvals.goneWhy}
        </Empty>
      )}
      {request.error && !isStatus(request.error, 404) && !view && (
        <ErrorState
          error={request.error}
          what={words.approvals.oneFailed}
          onRetry={() => request.refetch()}
        />
      )}
      {view && (
        <>
          <h2 className="visually-hidden">{words.approvals.list}</h2>
          <div className="card-alone">
            <PromptCard request={view} />
          </div>
          <p className="approval-foot">
            {view.status !== 'pending' && <span>{words.approvals.canClose}</span>}
            <Link className="link" href={to.session(view.root_session_id)}>
              {words.approvals.openSession}
            </Link>
            {others.length > 0 && (
              <Link className="link" href={to.approvals}>
                {words.approvals.others(others.length)}
              </Link>
            )}
          </p>
        </>
      )}
    </Page>
  )
}
