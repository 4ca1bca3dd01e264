import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { call, newKey } from '../api/http.ts'
import { keys, peopleApi, useRules, useTenant } from '../api/queries.ts'
import type { RequestItemView, RequestView, RuleView } from '../api/types.ts'
import { announce } from '../lib/announce.ts'
import { useNow } from '../lib/hooks.ts'
import { clockOrDate, plain } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { Button, Time } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { words } from '../words.ts'
import { OutcomeLine } from './outcome.tsx'
import { seen } from './seen.ts'

const UNDO_MILLIS = 10_000

/** Which of the ends it was, said in the heading. */
function endWords(request: RequestView): string {
  const reasons = new Set(request.items.map((item) => item.decision_reason))
  if (reasons.has('expired')) return words.card.ended.expired
  if (reasons.has('cancelled')) return words.card.ended.cancelled
  const answered = reasons.has('allowed_by_user') || reasons.has('denied_by_user')
  if (!answered) return words.card.ended.withoutAsking
  const granted = request.items.filter((item) => item.outcome === 'granted').length
  if (granted === request.items.length) return words.card.ended.allowed
  return granted === 0
    ? words.card.ended.denied
    : words.card.ended.partly(granted, request.items.length)
}

const wasAnswered = (request: RequestView): boolean =>
  request.items.some((item) => ['allowed_by_user', 'denied_by_user'].includes(item.decision_reason))

const isOf = (rule: RuleView, item: RequestItemView): boolean =>
  rule.permission === item.permission && rule.resource === item.resource

/** A rule just saved can be taken back for ten seconds here, and at any time on the Rules page. */
function RuleUndo({
  request,
  made,
}: {
  readonly request: RequestView
  readonly made: readonly RuleView[]
}) {
  const tenant = useTenant()
  const client = useQueryClient()
  const now = useNow(1_000)
  const undo = useMutation({
    mutationFn: () =>
      Promise.all(
        made.map((rule) =>
          call<void>(`${peopleApi(tenant)}/rules/${encodeURIComponent(rule.id)}`, {
            method: 'DELETE',
            idempotencyKey: newKey(),
          }),
        ),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: keys.rules(tenant) }),
  })
  const answered = seen.answered(request.id)
  if (made.length === 0) return null
  const fresh = answered !== undefined && now - answered.at < UNDO_MILLIS
  return (
    <>
      <span>{words.card.ruleSaved(made.length)}</span>
      <Link href={paths(tenant).rules}>{words.card.seeRules}</Link>
      {fresh && (
        <Button look="quiet" small disabled={undo.isPending} onClick={() => undo.mutate()}>
          {words.card.undoRule}
        </Button>
      )}
      <WriteError error={undo.error} />
    </>
  )
}

/** What the server says became of it: never what was meant by the press. */
export function SettledCard({ request }: { readonly request: RequestView }) {
  const now = useNow(60_000)
  const all = useRules()
  const rules = (all.data?.items ?? []).filter((rule) => rule.created_from === request.id)
  const answered = seen.answered(request.id)
  const elsewhere = !answered && seen.waited(request.id) && wasAnswered(request)
  const end = endWords(request)
  const said = useRef(false)
  useEffect(() => {
    if (said.current || !(answered || elsewhere)) return
    said.current = true
    announce(`${elsewhere ? words.card.elsewhere : ''} ${end}`.trim())
  }, [answered, elsewhere, end])
  return (
    <div className="settled">
      <div className="settled-head">
        <h3 tabIndex={-1} id={`card-${request.id}`}>
          {words.card.settled(plain(request.agent.name), end)}
        </h3>
        {request.settled_at && (
          <Time iso={request.settled_at}>{clockOrDate(request.settled_at, now)}</Time>
        )}
      </div>
      {request.path.length > 1 && <p className="muted">{request.path.map(plain).join(' › ')}</p>}
      {seen.wasTooLate(request.id) && !answered && (
        <p className="card-note">{words.card.tooLate}</p>
      )}
      {elsewhere && <p className="card-note">{words.card.elsewhere}</p>}
      <ul className="outcomes">
        {request.items.map((item) => (
          <OutcomeLine
            key={item.id}
            item={item}
            always={rules.some((rule) => rule.effect === 'allow' && isOf(rule, item))}
          />
        ))}
      </ul>
      {request.note !== undefined && (
        <p className="card-your-note">
          {words.card.youSaid} <q dir="auto">{plain(request.note)}</q>
        </p>
      )}
      <div className="settled-foot">
        <RuleUndo request={request} made={rules} />
      </div>
    </div>
  )
}
