import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { call, isCode, newKey } from '../api/http.ts'
import { putRequest } from '../api/patch.ts'
import { keys, peopleApi, useTenant } from '../api/queries.ts'
import type { Answer, DecisionBody, RequestView } from '../api/types.ts'
import { seen } from './seen.ts'

export const EXPIRIES = ['30', '90', 'never'] as const
export type Expiry = (typeof EXPIRIES)[number]

const DAY_MILLIS = 24 * 60 * 60 * 1000

export const expiresAt = (expiry: Expiry, now: number): string | undefined =>
  expiry === 'never' ? undefined : new Date(now + Number(expiry) * DAY_MILLIS).toISOString()

export type Decided = {
  /** One for every pending item. */
  readonly answers: ReadonlyMap<string, Answer>
  readonly expiry: Expiry
  readonly note: string
}

const remembers = (answer: Answer): boolean => answer === 'allow_always' || answer === 'deny_always'

function bodyOf(request: RequestView, { answers, expiry, note }: Decided): DecisionBody {
  const until = expiresAt(expiry, Date.now())
  return {
    digest: request.digest,
    items: [...answers].map(([id, decision]) => ({
      id,
      decision,
      ...(remembers(decision) && until !== undefined ? { rule_expires_at: until } : {}),
    })),
    ...(note.trim() === '' ? {} : { note: note.trim() }),
  }
}

/**
 * Sends the person's answer and shows what the server made of it. Never optimistic. A late answer is not an error: the
 * outcome is fetched and shown. A request that is not the one that was shown is fetched and shown again, unanswered.
 */
export function useDecide(request: RequestView) {
  const tenant = useTenant()
  const client = useQueryClient()
  const [changed, setChanged] = useState(false)
  const attempt = useRef({ of: '', key: '' })
  const url = `${peopleApi(tenant)}/access-requests/${encodeURIComponent(request.id)}`

  const again = async () => {
    putRequest(client, tenant, await call<RequestView>(url))
  }
  const mutation = useMutation({
    mutationFn: (decided: Decided) => {
      // The same answer sent again after a lost line has the same key, and so is given once.
      const of = JSON.stringify([
        request.digest,
        [...decided.answers],
        decided.note,
        decided.expiry,
      ])
      if (attempt.current.of !== of) attempt.current = { of, key: newKey() }
      return call<RequestView>(`${url}/decision`, {
        method: 'POST',
        body: bodyOf(request, decided),
        idempotencyKey: attempt.current.key,
      })
    },
    onSuccess: (view, { answers }) => {
      seen.answer(request.id, [...answers.values()])
      putRequest(client, tenant, view)
      void client.invalidateQueries({ queryKey: keys.access(tenant) })
      void client.invalidateQueries({ queryKey: keys.rules(tenant) })
    },
    onError: async (error) => {
      // The same intention is a new one once the server has said no to it.
      if (isCode(error, 'idempotency_key_reused')) attempt.current = { of: '', key: '' }
      if (
        isCode(error, 'already_answered', 'request_expired', 'request_cancelled', 'session_over')
      ) {
        seen.tooLate(request.id)
        await again().catch(() => undefined)
      } else if (isCode(error, 'digest_mismatch', 'answer_incomplete')) {
        setChanged(true)
        await again().catch(() => undefined)
      }
    },
  })
  const isShownOtherwise = isCode(
    mutation.error,
    'already_answered',
    'request_expired',
    'request_cancelled',
    'session_over',
    'digest_mismatch',
    'answer_incomplete',
  )
  return {
    send: (decided: Decided) => {
      setChanged(false)
      mutation.mutate(decided)
    },
    sending: mutation.isPending,
    error: isShownOtherwise ? null : mutation.error,
    changed,
  }
}
