import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Bot } from 'lucide-react'
import { useState } from 'react'
import { HeldList } from '../access/held.tsx'
import { EndSession } from '../access/pane.tsx'
import { call, isCode, newKey } from '../api/http.ts'
import { peopleApi, useAccessOf, useSessions, useTenant } from '../api/queries.ts'
import type { SessionAccess, SessionEnded, SessionView } from '../api/types.ts'
import { useNow } from '../lib/hooks.ts'
import { isLive, templateTitle, titleOf } from '../lib/sessions.ts'
import { duration, plain, secondsUntil } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { ModeMark } from '../ui/marks.tsx'
import { Button } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'
import { Page } from './page.tsx'

function StopAll({ roots }: { readonly roots: readonly SessionView[] }) {
  const tenant = useTenant()
  const client = useQueryClient()
  const [asking, setAsking] = useState(false)
  const stop = useMutation({
    mutationFn: async () => {
      const ended = await Promise.all(
        roots.map((one) =>
          call<SessionEnded>(`${peopleApi(tenant)}/sessions/${encodeURIComponent(one.id)}/end`, {
            method: 'POST',
            body: {},
            idempotencyKey: newKey(),
            // One that has just ended by itself is what was wanted.
          }).catch((error: unknown) => {
            if (isCode(error, 'session_over')) return null
            throw error
          }),
        ),
      )
      return ended.reduce((n, one) => n + (one?.grants_revoked ?? 0), 0)
    },
    onSuccess: (grants) => {
      setAsking(false)
      toast(words.agents.allStopped(roots.length, grants))
    },
    onSettled: () => client.invalidateQueries({ queryKey: [tenant] }),
  })
  return (
    <>
      <Button look="danger" onClick={() => setAsking(true)}>
        {words.agents.stopAll}
      </Button>
      {asking && (
        <Confirm
          title={words.agents.stopAllTitle(roots.length)}
          action={words.agents.stopAll}
          busy={stop.isPending}
          error={stop.error}
          onYes={() => stop.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>{words.agents.stopAllMeans}</p>
          <ul className="confirm-list">
            {roots.map((one) => (
              <li key={one.id}>{titleOf(one)}</li>
            ))}
          </ul>
        </Confirm>
      )}
    </>
  )
}

function LiveSession({
  session,
  access,
}: {
  readonly session: SessionView
  readonly access: SessionAccess | undefined
}) {
  const to = paths(useTenant())
  const now = useNow(15_000)
  return (
    <li className="live" data-session={session.id}>
      <div className="live-head">
        <div>
          <h3 dir="auto">
            <Link className="link" href={to.session(session.id)}>
              {titleOf(session)}
            </Link>
          </h3>
          <p className="live-meta">
            <span>{words.card.template(templateTitle(session), session.template_version)}</span>
            <ModeMark mode={session.mode} />
            <span>{words.agents.endsIn(duration(secondsUntil(session.expires_at, now)))}</span>
          </p>
        </div>
        <EndSession session={session} access={access} />
      </div>
      {access ? (
        <>
          <HeldList sessionId={session.id} grants={access.items} />
          {access.subagents.map((one) => (
            <div key={one.session.id} className="live-child">
              <h4>{templateTitle(one.session)}</h4>
              <HeldList sessionId={one.session.id} grants={one.items} within />
            </div>
          ))}
        </>
      ) : (
        <Skeleton label={words.state.loading} rows={1} />
      )}
    </li>
  )
}

/** Every agent that works for the person now, and what it holds. */
export default function Agents() {
  const to = paths(useTenant())
  const sessions = useSessions()
  const live = (sessions.data?.items ?? []).filter(isLive)
  const roots = live.filter((one) => one.parent_id === undefined)
  const access = useAccessOf(roots.map((one) => one.id))
  const agents = [...new Set(roots.map((one) => one.agent_id))]
  return (
    <Page
      title={words.agents.title}
      lead={words.agents.lead}
      actions={roots.length > 0 && <StopAll roots={roots} />}
    >
      {sessions.isPending && <Skeleton label={words.state.loading} rows={4} />}
      {sessions.error && !sessions.data && (
        <ErrorState
          error={sessions.error}
          what={words.sessions.failed}
          onRetry={() => sessions.refetch()}
        />
      )}
      {sessions.data && roots.length === 0 && (
        <Empty
          icon={Bot}
          title={words.agents.none}
          action={
            <Link className="button button-primary" href={to.sessions}>
              {words.sessions.new}
            </Link>
          }
        >
          {words.agents.noneWhy}
        </Empty>
      )}
      {agents.map((agent) => (
        <section key={agent} className="agent">
          <h2>
            <Bot aria-hidden="true" size={19} />
            {plain(roots.find((one) => one.agent_id === agent)?.agent_name ?? '')}
          </h2>
          <ul className="plain-list">
            {roots.map((one, i) =>
              one.agent_id === agent ? (
                <LiveSession key={one.id} session={one} access={access[i]?.data} />
              ) : null,
            )}
          </ul>
        </section>
      ))}
    </Page>
  )
}
