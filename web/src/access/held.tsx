import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call, newKey } from '../api/http.ts'
import { keys, peopleApi, useRules, useTenant } from '../api/queries.ts'
import type { GrantView } from '../api/types.ts'
import { useNow } from '../lib/hooks.ts'
import { ago, clock, narrowWords, plain, secondsSince } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { KindMark, SourceMark } from '../ui/marks.tsx'
import { Button, classes, Time } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'

const UNUSED_SECONDS = 600

function Use({ grant, now }: { readonly grant: GrantView; readonly now: number }) {
  if (grant.uses === 0)
    return (
      <span>
        {secondsSince(grant.since, now) > UNUSED_SECONDS ? words.access.unused : words.access.noUse}
      </span>
    )
  return (
    <span>
      {words.access.uses(grant.uses)}
      {grant.last_used_at && (
        <>
          , <Time iso={grant.last_used_at}>{ago(grant.last_used_at, now)}</Time>
        </>
      )}
    </span>
  )
}

function Held({
  sessionId,
  grant,
  within,
}: {
  readonly sessionId: string
  readonly grant: GrantView
  readonly within: boolean
}) {
  const tenant = useTenant()
  const client = useQueryClient()
  const rules = useRules()
  const now = useNow(15_000)
  const [key] = useState(newKey)
  const revoke = useMutation({
    mutationFn: () =>
      call<{ revoked: number }>(
        `${peopleApi(tenant)}/sessions/${encodeURIComponent(sessionId)}/grants/${encodeURIComponent(grant.id)}`,
        { method: 'DELETE', idempotencyKey: key },
      ),
    onSuccess: ({ revoked }) => toast(words.access.taken(grant.title, revoked)),
    onSettled: () => client.invalidateQueries({ queryKey: keys.access(tenant) }),
  })
  const inherited = grant.source.by === 'inherited'
  const rule = rules.data?.items.find((one) => one.id === grant.source.rule_id)
  return (
    <li
      className={classes('held', inherited && 'held-inherited')}
      data-permission={grant.permission}
    >
      <div className="held-top">
        <span className="held-title">
          {grant.title}
          {grant.resource !== undefined && <code dir="auto">{plain(grant.resource)}</code>}
        </span>
        <Button
          look="quiet"
          small
          disabled={revoke.isPending}
          aria-label={words.access.takeBackOne(grant.title)}
          onClick={() => revoke.mutate()}
        >
          {revoke.isPending ? words.sending : words.access.takeBack}
        </Button>
      </div>
      {grant.narrow !== undefined && (
        <p className="held-narrow" dir="auto">
          {words.card.only} {narrowWords(grant.narrow)}
        </p>
      )}
      <p className="held-meta">
        <KindMark kind={grant.kind} />
        <SourceMark grant={grant} />
        <span>
          {words.access.since} <Time iso={grant.since}>{clock(grant.since)}</Time>
        </span>
        <Use grant={grant} now={now} />
        {within && !inherited && <span>{words.access.staysHere}</span>}
        {rule && grant.source.by === 'rule' && (
          <Link className="link" href={paths(tenant).rules}>
            {rule.id}
          </Link>
        )}
      </p>
      <WriteError error={revoke.error} what={words.access.notTaken} />
    </li>
  )
}

export function HeldList({
  sessionId,
  grants,
  within = false,
}: {
  readonly sessionId: string
  readonly grants: readonly GrantView[]
  /** Of a subagent, inside its parent's pane. */
  readonly within?: boolean
}) {
  if (grants.length === 0) return <p className="muted">{words.access.nothing}</p>
  return (
    <ul className="held-list">
      {grants.map((grant) => (
        <Held key={grant.id} sessionId={sessionId} grant={grant} within={within} />
      ))}
    </ul>
  )
}
