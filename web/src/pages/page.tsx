import type { ReactNode } from 'react'
import { usePending, useTenant } from '../api/queries.ts'
import { useLayout } from '../lib/layout.ts'
import { navigate, paths, useRoute } from '../router.tsx'
import { Tabs, wantTab } from '../shell/tabs.tsx'

/** A page of one column, with the phone's tabs beneath it. */
export function Page({
  title,
  lead,
  actions,
  children,
}: {
  readonly title: string
  readonly lead?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}) {
  const to = paths(useTenant())
  const layout = useLayout()
  const route = useRoute()
  const { data: pending = [] } = usePending()
  return (
    <>
      <main id="main" className="page" tabIndex={-1}>
        <div className="page-inner">
          <div className="page-head">
            <div>
              <h1>{title}</h1>
              {lead && <p className="lead">{lead}</p>}
            </div>
            {actions}
          </div>
          {children}
        </div>
      </main>
      {layout === 'phone' && (
        <Tabs
          tab={null}
          held={0}
          waiting={pending.length}
          approvals={to.approvals}
          hasSession={false}
          approvalsOn={route.at === 'approvals' || route.at === 'approval'}
          onTab={(tab) => {
            wantTab(tab)
            navigate(to.sessions)
          }}
        />
      )}
    </>
  )
}
