import { KeyRound, PanelLeft, PanelRight, X } from 'lucide-react'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { AccessPane, useHeldCount } from '../access/pane.tsx'
import { isStatus } from '../api/http.ts'
import { usePending, useSession, useTenant } from '../api/queries.ts'
import { Chat } from '../chat/chat.tsx'
import { useStored } from '../lib/hooks.ts'
import { useLayout } from '../lib/layout.ts'
import { Link, paths } from '../router.tsx'
import { Panes } from '../shell/panes.tsx'
import { type Tab, Tabs, takeWantedTab } from '../shell/tabs.tsx'
import { Button, IconButton } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { words } from '../words.ts'
import { SessionList } from './list.tsx'
import { NewSession } from './new.tsx'

/** A pane that lies over the others while it is wanted. */
function Drawer({
  side,
  label,
  onClose,
  children,
}: {
  readonly side: 'left' | 'right'
  readonly label: string
  readonly onClose: () => void
  readonly children: ReactNode
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const element = dialog.current
    if (element && !element.open) element.showModal()
    return () => element?.close()
  }, [])
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it, and so does the button; the click is a third way.
    <dialog
      ref={dialog}
      className={`drawer drawer-${side}`}
      aria-label={label}
      onClose={onClose}
      onClick={(event) => event.target === event.currentTarget && onClose()}
    >
      <div className="drawer-body">
        <IconButton className="drawer-close" icon={X} label={words.close} onClick={onClose} />
        {children}
      </div>
    </dialog>
  )
}

function Middle({ id, actions }: { readonly id: string | null; readonly actions: ReactNode }) {
  const tenant = useTenant()
  const session = useSession(id)
  if (id === null) return <NewSession actions={actions} />
  if (session.data)
    return <Chat key={session.data.root_id} session={session.data} actions={actions} />
  return (
    <main id="main" className="alone" tabIndex={-1}>
      <div className="chat-actions">{actions}</div>
      <h1 className="visually-hidden">{words.nav.sessions}</h1>
      {isStatus(session.error, 404) ? (
        <Empty
          title={words.sessions.gone}
          action={
            <Link className="button button-plain" href={paths(tenant).sessions}>
              {words.sessions.new}
            </Link>
          }
        >
          {words.sessions.goneWhy}
        </Empty>
      ) : session.error ? (
        <ErrorState
          error={session.error}
          what={words.sessions.oneFailed}
          onRetry={() => session.refetch()}
        />
      ) : (
        <Skeleton label={words.state.loading} rows={4} />
      )}
    </main>
  )
}

function Phone({ id }: { readonly id: string | null }) {
  const tenant = useTenant()
  const { data: pending = [] } = usePending()
  const { data: session } = useSession(id)
  const held = useHeldCount(id)
  const [tab, setTab] = useState<Tab>(() => takeWantedTab() ?? 'chat')
  return (
    <div className="phone">
      {tab !== 'chat' && <h1 className="visually-hidden">{words.nav.tabs[tab]}</h1>}
      <div className="phone-pane" hidden={tab !== 'sessions'}>
        <SessionList current={id} onPick={() => setTab('chat')} />
      </div>
      <div className="phone-pane" hidden={tab !== 'chat'}>
        <Middle id={id} actions={null} />
      </div>
      {id !== null && (
        <div className="phone-pane" hidden={tab !== 'access'}>
          {session && <AccessPane session={session} />}
        </div>
      )}
      <Tabs
        tab={id === null && tab === 'access' ? 'chat' : tab}
        held={held}
        waiting={pending.length}
        approvals={paths(tenant).approvals}
        hasSession={id !== null}
        onTab={setTab}
      />
    </div>
  )
}

type Open = 'sessions' | 'access' | null

function Narrow({ id }: { readonly id: string | null }) {
  const { data: session } = useSession(id)
  const held = useHeldCount(id)
  const [open, setOpen] = useState<Open>(null)
  return (
    <div className="narrow">
      <Middle
        id={id}
        actions={
          <>
            <Button small icon={PanelLeft} onClick={() => setOpen('sessions')}>
              {words.nav.sessions}
            </Button>
            {session && (
              <Button small icon={KeyRound} onClick={() => setOpen('access')}>
                {words.nav.tabs.access} ({held})
              </Button>
            )}
          </>
        }
      />
      {open === 'sessions' && (
        <Drawer side="left" label={words.nav.sessions} onClose={() => setOpen(null)}>
          <SessionList current={id} onPick={() => setOpen(null)} />
        </Drawer>
      )}
      {open === 'access' && session && (
        <Drawer side="right" label={words.access.title} onClose={() => setOpen(null)}>
          <AccessPane session={session} />
        </Drawer>
      )}
    </div>
  )
}

function rightPane(
  { data, error }: ReturnType<typeof useSession>,
  id: string | null,
  open: boolean,
): ReactNode {
  if (id === null || !open) return null
  if (data) return <AccessPane session={data} />
  // The middle says what is wrong.
  return error ? null : <Skeleton label={words.state.loading} />
}

/** Sessions, conversation, access: as many beside each other as there is room for. */
export function SessionsScreen({ id }: { readonly id: string | null }) {
  const layout = useLayout()
  const session = useSession(id)
  const [open, setOpen] = useStored('access-open', true)
  if (layout === 'phone') return <Phone id={id} />
  if (layout === 'narrow') return <Narrow id={id} />
  const toggle = layout === 'medium' && id !== null && (
    <IconButton
      icon={PanelRight}
      label={open ? words.access.hide : words.access.show}
      aria-expanded={open}
      onClick={() => setOpen(!open)}
    />
  )
  return (
    <Panes
      resizable={layout === 'wide'}
      left={<SessionList current={id} />}
      middle={<Middle id={id} actions={toggle} />}
      right={rightPane(session, id, layout === 'wide' || open)}
    />
  )
}
