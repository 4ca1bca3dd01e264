import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useId, useRef, useState } from 'react'
import { call, isCode, newKey } from '../api/http.ts'
import { putRequest } from '../api/patch.ts'
import { keys, peopleApi, usePending, useTenant } from '../api/queries.ts'
import type { DecisionBody, RequestItemView, RequestView } from '../api/types.ts'
import { announce } from '../lib/announce.ts'
import { useArmed, useNow } from '../lib/hooks.ts'
import { duration, narrowWords, plain, secondsSince, shortened } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { RiskMark, SensitiveMark } from '../ui/marks.tsx'
import { Button } from '../ui/parts.tsx'
import { errorWords } from '../ui/states.tsx'
import { words } from '../words.ts'
import { partsOf, pendingItems } from './answers.ts'
import { outcomeWords } from './outcome.tsx'
import { seen } from './seen.ts'
import { useShown } from './shown.ts'
import { useStale } from './stale.ts'

type Answer = 'allow_once' | 'deny'
const REASON_MAX = 160

/**
 * An answer covers all of a request, so a request is chosen whole. One with a sensitive item is answered on its card,
 * where that item is looked at by itself.
 */
const canBatch = (request: RequestView): boolean =>
  request.status === 'pending' && partsOf(request).sensitive.length === 0

/** What was chosen is what was shown: a request that has become another one is not chosen any more. */
const choiceOf = (request: RequestView): string => `${request.id} ${request.digest}`

const LATE = ['already_answered', 'request_expired', 'request_cancelled', 'session_over'] as const

type Failures = ReadonlyMap<string, string>

/** Sends one answer to each, one after the other, and shows of each what the server made of it. */
function useAnswerAll() {
  const tenant = useTenant()
  const client = useQueryClient()
  const [sending, setSending] = useState(false)
  const [failures, setFailures] = useState<Failures>(new Map())

  const one = async (request: RequestView, answer: Answer): Promise<void> => {
    const url = `${peopleApi(tenant)}/access-requests/${encodeURIComponent(request.id)}`
    const body: DecisionBody = {
      digest: request.digest,
      items: pendingItems(request).map(({ id }) => ({ id, decision: answer })),
    }
    try {
      const decided = await call<RequestView>(`${url}/decision`, {
        method: 'POST',
        body,
        idempotencyKey: newKey(),
      })
      seen.answer(request.id, [answer])
      putRequest(client, tenant, decided)
    } catch (error) {
      // Somebody or something was faster: how it ended is shown, and is no error.
      const late = isCode(error, ...LATE)
      if (late) seen.tooLate(request.id)
      else setFailures((all) => new Map(all).set(request.id, errorWords(error)))
      if (late || isCode(error, 'digest_mismatch', 'answer_incomplete'))
        await call<RequestView>(url).then(
          (now) => putRequest(client, tenant, now),
          () => undefined,
        )
    }
  }
  const send = async (requests: readonly RequestView[], answer: Answer): Promise<void> => {
    setSending(true)
    setFailures(new Map())
    for (const request of requests) await one(request, answer)
    setSending(false)
    void client.invalidateQueries({ queryKey: keys.pending(tenant) })
    void client.invalidateQueries({ queryKey: keys.access(tenant) })
    announce(words.batch.sent(requests.length))
  }
  return { send, sending, failures }
}

function ItemCells({ item }: { readonly item: RequestItemView }) {
  return (
    <>
      <td data-label={words.batch.column.item}>
        <span className="batch-title">{plain(item.title)}</span>
        {item.resource !== undefined && <code dir="auto">{plain(item.resource)}</code>}
        {item.narrow !== undefined && (
          <span className="muted" dir="auto">
            {words.card.only} {narrowWords(item.narrow)}
          </span>
        )}
      </td>
      <td data-label={words.batch.column.risk}>
        <RiskMark risk={item.risk} /> {item.sensitive && <SensitiveMark />}
      </td>
    </>
  )
}

function Rows({
  request,
  chosen,
  failure,
  busy,
  onChoose,
  onClose,
}: {
  readonly request: RequestView
  readonly chosen: boolean
  readonly failure: string | undefined
  readonly busy: boolean
  readonly onChoose: () => void
  readonly onClose: () => void
}) {
  const to = paths(useTenant())
  const now = useNow(1_000)
  const who = plain(request.agent.name)
  const rows = request.items.length
  const waiting = request.status === 'pending'
  return (
    <tbody data-request-row={request.id} data-status={request.status}>
      {request.items.map((item, i) => (
        <tr key={item.id} data-permission={item.permission}>
          {i === 0 && (
            <>
              <td rowSpan={rows} className="batch-choose">
                {canBatch(request) && (
                  <input
                    type="checkbox"
                    checked={chosen}
                    disabled={busy}
                    aria-label={words.batch.choose(who, pendingItems(request).length)}
                    onChange={onChoose}
                  />
                )}
                {waiting && !canBatch(request) && (
                  <Link className="link" href={to.approval(request.id)} onClick={onClose}>
                    {words.pending.review}
                  </Link>
                )}
              </td>
              <th scope="rowgroup" rowSpan={rows} data-label={words.batch.column.agent}>
                {who}
                <span className="batch-path">{request.path.map(plain).join(' › ')}</span>
                <span className="batch-reason" dir="auto">
                  “{shortened(plain(request.reason), REASON_MAX)}”
                </span>
              </th>
            </>
          )}
          <ItemCells item={item} />
          <td data-label={words.batch.column.state} className={`batch-${item.outcome}`}>
            {item.outcome === 'pending' ? (
              <span aria-hidden="true">{duration(secondsSince(request.created_at, now))}</span>
            ) : (
              outcomeWords(item)
            )}
            {failure !== undefined && i === 0 && (
              <span className="batch-failure" role="alert">
                {words.card.notSent} {failure}
              </span>
            )}
          </td>
        </tr>
      ))}
    </tbody>
  )
}

/** Everything that waits, as a table: the ordinary ones are answered together, in one press or two. */
export default function BatchSheet({ onClose }: { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  const { data: pending } = usePending()
  const shown = useShown(pending)
  const [choices, setChoices] = useState<ReadonlySet<string>>(new Set())
  const [allowing, setAllowing] = useState(false)
  const { send, sending, failures } = useAnswerAll()
  const stale = useStale()
  const able = shown.filter(canBatch)
  const chosen = able.filter((one) => choices.has(choiceOf(one)))
  // A row that has just come, or a second step that has just opened, is not pressed by what was on its way.
  const armed = useArmed(`batch ${allowing} ${shown.map(choiceOf).join()}`)
  const ready = armed && !sending && !stale && chosen.length > 0
  useEffect(() => {
    const element = dialog.current
    if (element && !element.open) element.showModal()
    return () => element?.close()
  }, [])

  const choose = (requests: readonly RequestView[], on: boolean) => {
    setAllowing(false)
    const next = new Set(choices)
    for (const request of requests)
      if (on) next.add(choiceOf(request))
      else next.delete(choiceOf(request))
    setChoices(next)
  }
  const answer = (what: Answer) => {
    if (!ready) return
    setAllowing(false)
    void send(chosen, what).then(() => setChoices(new Set()))
  }
  const items = chosen.flatMap(pendingItems).length
  const agents = new Set(chosen.map((one) => one.session_id)).size
  const all = able.length > 0 && chosen.length === able.length
  return (
    <dialog ref={dialog} className="batch" aria-labelledby={heading} onClose={onClose}>
      <div className="batch-head">
        <h2 id={heading}>{words.batch.title}</h2>
        <Button onClick={onClose}>{words.close}</Button>
      </div>
      <div className="batch-top">
        <label className="batch-all">
          <input
            type="checkbox"
            checked={all}
            disabled={able.length === 0 || sending}
            onChange={() => choose(able, !all)}
          />
          {words.batch.all}
        </label>
        <p role="status">
          {allowing ? words.batch.allowing(items, agents) : words.batch.chosen(items, agents)}
        </p>
        <div className="batch-actions">
          {allowing ? (
            <>
              <Button onClick={() => setAllowing(false)}>{words.back}</Button>
              <Button look="primary" aria-disabled={!ready} onClick={() => answer('allow_once')}>
                {words.batch.allow(items)}
              </Button>
            </>
          ) : (
            <>
              <Button aria-disabled={!ready} onClick={() => answer('deny')}>
                {sending ? words.sending : words.card.deny}
              </Button>
              <Button aria-disabled={!ready} onClick={() => ready && setAllowing(true)}>
                {sending ? words.sending : words.card.allowOnceMore}
              </Button>
            </>
          )}
        </div>
        <p className="muted">{words.batch.apart}</p>
        {stale && <p className="card-note">{words.card.stale}</p>}
      </div>
      <table>
        <caption className="visually-hidden">{words.batch.title}</caption>
        <thead>
          <tr>
            <td />
            {Object.entries(words.batch.column).map(([key, label]) => (
              <th key={key} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        {shown.map((request) => (
          <Rows
            key={request.id}
            request={request}
            chosen={choices.has(choiceOf(request))}
            failure={failures.get(request.id)}
            busy={sending}
            onChoose={() => choose([request], !choices.has(choiceOf(request)))}
            onClose={onClose}
          />
        ))}
      </table>
    </dialog>
  )
}
