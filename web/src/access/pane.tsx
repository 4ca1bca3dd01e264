import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call, newKey } from '../api/http.ts'
import {
  peopleApi,
  useAccess,
  useEnded,
  useRequestsOf,
  useSessions,
  useTenant,
} from '../api/queries.ts'
import type { GrantView, SessionAccess, SessionEnded, SessionView } from '../api/types.ts'
import { useNow } from '../lib/hooks.ts'
import { endedWords, isLive, subtreeIds, templateTitle } from '../lib/sessions.ts'
import { clock, duration, secondsUntil } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { Button, Chip, Time } from '../ui/parts.tsx'
import { ErrorState, Skeleton } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'
import { HeldList } from './held.tsx'
import { ModeMenu } from './mode-menu.tsx'
import { Lost, NotGiven } from './not-given.tsx'

const heldIn = (access: SessionAccess | undefined): number =>
  access ? access.items.length + access.subagents.reduce((n, one) => n + one.items.length, 0) : 0

export function useHeldCount(id: string | null): number {
  return heldIn(useAccess(id).data)
}

/** Ends a session and its subagents, after naming what goes with it. */
export function EndSession({
  session,
  access,
  small,
}: {
  readonly session: SessionView
  readonly access: SessionAccess | undefined
  readonly small?: boolean
}) {
  const tenant = useTenant()
  const client = useQueryClient()
  const [asking, setAsking] = useState(false)
  const end = useMutation({
    mutationFn: () =>
      call<SessionEnded>(`${peopleApi(tenant)}/sessions/${encodeURIComponent(session.id)}/end`, {
        method: 'POST',
        body: {},
        idempotencyKey: newKey(),
      }),
    onSuccess: (ended) => {
      setAsking(false)
      toast(words.access.endedToast(ended.grants_revoked, ended.sessions_ended))
      void client.invalidateQueries({ queryKey: [tenant] })
    },
  })
  const grants: readonly GrantView[] = access
    ? [...access.items, ...access.subagents.flatMap((one) => one.items)]
    : []
  return (
    <>
      <Button look="danger" small={small ?? false} onClick={() => setAsking(true)}>
        {session.parent_id === undefined ? words.access.end : words.access.endSubagent}
      </Button>
      {asking && (
        <Confirm
          title={words.access.endTitle}
          action={words.access.end}
          busy={end.isPending}
          error={end.error}
          onYes={() => end.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>
            {access
              ? words.access.endNames(grants.length, access.subagents.length)
              : words.access.endUnknown}
          </p>
          {grants.length > 0 && (
            <ul className="confirm-list">
              {grants.map((grant) => (
                <li key={grant.id}>
                  {grant.title}
                  {grant.resource !== undefined && <code> {grant.resource}</code>}
                </li>
              ))}
            </ul>
          )}
        </Confirm>
      )}
    </>
  )
}

function Facts({ session }: { readonly session: SessionView }) {
  const now = useNow(1_000)
  const left = secondsUntil(session.expires_at, now)
  return (
    <dl className="facts">
      <dt>{words.access.state}</dt>
      <dd>
        {isLive(session) ? (
          <Chip tone="good">{words.access.live}</Chip>
        ) : (
          <Chip>{endedWords(session)}</Chip>
        )}
        {session.read_only && <Chip>{words.access.readOnly}</Chip>}
      </dd>
      {isLive(session) ? (
        <>
          <dt>{words.access.endsIn}</dt>
          <dd>
            <Time iso={session.expires_at}>
              {duration(left)} ({clock(session.expires_at)})
            </Time>
          </dd>
          <dt>{words.access.mode}</dt>
          <dd>
            <ModeMenu session={session} />
          </dd>
        </>
      ) : (
        session.ended_at && (
          <>
            <dt>{words.access.endedAt}</dt>
            <dd>
              <Time iso={session.ended_at}>{clock(session.ended_at)}</Time>
            </dd>
          </>
        )
      )}
      <dt>{words.access.template}</dt>
      <dd>{words.card.template(templateTitle(session), session.template_version)}</dd>
    </dl>
  )
}

function Subagents({ access }: { readonly access: SessionAccess }) {
  const to = paths(useTenant())
  if (access.subagents.length === 0) return null
  return (
    <section aria-label={words.access.subagents}>
      <h3>
        {words.access.subagents} ({access.subagents.length})
      </h3>
      <ul className="subagents">
        {access.subagents.map(({ session, items }) => (
          <li key={session.id}>
            <details open>
              <summary>
                <strong>{templateTitle(session)}</strong>
                <span className="muted">{words.access.holds(items.length)}</span>
                {session.read_only && <Chip>{words.access.readOnly}</Chip>}
              </summary>
              <HeldList sessionId={session.id} grants={items} within />
              <div className="subagent-foot">
                <Link className="link" href={to.session(session.id)}>
                  {words.access.openSubagent}
                </Link>
                <EndSession
                  small
                  session={session}
                  access={{ session_id: session.id, items, subagents: [] }}
                />
              </div>
            </details>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** The right pane: what the agent holds now, by what, and what it did not get. */
export function AccessPane({ session }: { readonly session: SessionView }) {
  const access = useAccess(session.id)
  const sessions = useSessions()
  const ids = subtreeIds(sessions.data?.items ?? [], session.id)
  const asked = useRequestsOf(ids)
  const ended = useEnded(session.root_id)
  const held = access.data?.items ?? []
  return (
    <aside className="access" aria-label={words.access.title}>
      <div className="access-head">
        <h2>{words.access.title}</h2>
        {isLive(session) && !access.isPending && (
          <EndSession session={session} access={access.data} />
        )}
      </div>
      <Facts session={session} />
      {access.isPending && <Skeleton label={words.state.loading} />}
      {access.error && !access.data && (
        <ErrorState
          error={access.error}
          what={words.access.failed}
          onRetry={() => access.refetch()}
        />
      )}
      {access.data && (
        <section aria-label={words.access.holdsNow} aria-live="polite" aria-atomic="false">
          <p className="held-count">
            <span className="held-number" data-held={held.length}>
              {held.length}
            </span>
            <span>{held.length === 1 ? words.access.permission : words.access.permissions}</span>
          </p>
          <h3 className="visually-hidden">{words.access.holdsNow}</h3>
          {held.length === 0 ? (
            <p className="muted access-zero">
              {isLive(session) ? words.access.zero : words.access.zeroEnded}
            </p>
          ) : (
            <HeldList sessionId={session.id} grants={held} />
          )}
        </section>
      )}
      {access.data && <Subagents access={access.data} />}
      <NotGiven requests={asked.requests} />
      <Lost records={ended.data?.items ?? []} sessions={ids} />
      {isLive(session) && <p className="muted access-note">{words.access.rechecked}</p>}
    </aside>
  )
}
