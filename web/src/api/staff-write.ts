import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import { call, newKey, Refused } from './http.ts'
import { peopleApi, useTenant } from './queries.ts'

type Write = {
  readonly method: 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly body?: unknown
}

/**
 * A write of the organisation's staff. The same write, tried again, has the same key, so that it is done once at most; what
 * the screens of staff show is asked for again after it.
 */
export function useStaffWrite<Answer>(onDone: (answer: Answer) => void) {
  const tenant = useTenant()
  const client = useQueryClient()
  const attempt = useRef({ of: '', key: '' })
  return useMutation({
    mutationFn: ({ method, path, body }: Write) => {
      const of = JSON.stringify([method, path, body])
      if (attempt.current.of !== of) attempt.current = { of, key: newKey() }
      return call<Answer>(`${peopleApi(tenant)}${path}`, {
        method,
        idempotencyKey: attempt.current.key,
        ...(body === undefined ? {} : { body }),
      })
    },
    onSuccess: (answer) => {
      attempt.current = { of: '', key: '' }
      onDone(answer)
    },
    onSettled: () => client.invalidateQueries({ queryKey: [tenant, 'staff'] }),
  })
}

/** What a refusal says of single fields. */
export const fieldErrors = (error: unknown): readonly { path: string; message: string }[] =>
  error instanceof Refused ? (error.problem.errors ?? []) : []
