import { Inbox, KeyRound, MessageSquare, PanelLeft } from 'lucide-react'
import { Link } from '../router.tsx'
import { Badge, classes } from '../ui/parts.tsx'
import { words } from '../words.ts'

export type Tab = 'sessions' | 'chat' | 'access'

let wanted: Tab | null = null

/** Which pane the sessions screen is to open with, when a tab was chosen on another screen. */
export const wantTab = (tab: Tab): void => {
  wanted = tab
}
export function takeWantedTab(): Tab | null {
  const tab = wanted
  wanted = null
  return tab
}

const TABS = [
  { tab: 'sessions', icon: PanelLeft },
  { tab: 'chat', icon: MessageSquare },
  { tab: 'access', icon: KeyRound },
] as const satisfies readonly { tab: Tab; icon: typeof Inbox }[]

/** The panes of a phone: one at a time, and what waits is never further than a tap. */
export function Tabs({
  tab,
  held,
  waiting,
  approvals,
  approvalsOn = false,
  hasSession,
  onTab,
}: {
  readonly tab: Tab | null
  readonly held: number
  readonly waiting: number
  readonly approvals: string
  readonly approvalsOn?: boolean
  readonly hasSession: boolean
  readonly onTab: (tab: Tab) => void
}) {
  return (
    <nav className="tabs" aria-label={words.nav.panes}>
      {TABS.map(({ tab: one, icon: Icon }) => (
        <button
          key={one}
          type="button"
          className={classes('tab', tab === one && 'tab-on')}
          aria-current={tab === one ? 'true' : undefined}
          disabled={one === 'access' && !hasSession}
          onClick={() => onTab(one)}
        >
          <Icon aria-hidden="true" size={20} />
          <span>
            {words.nav.tabs[one]}
            {one === 'access' && hasSession && ` (${held})`}
          </span>
        </button>
      ))}
      <Link
        className={classes('tab', approvalsOn && 'tab-on')}
        aria-current={approvalsOn ? 'page' : undefined}
        href={approvals}
      >
        <span className="tab-icon">
          <Inbox aria-hidden="true" size={20} />
          <Badge n={waiting} label={words.nav.waiting(waiting)} />
        </span>
        <span>{words.nav.approvals}</span>
      </Link>
    </nav>
  )
}
