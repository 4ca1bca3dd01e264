import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { call, isStatus } from './http.ts'
import { agentApi, keys, useTenant } from './queries.ts'
import type { Message, Run, RunState } from './types.ts'

/** What the agent's app says of a session: the conversation as it streams. Access is not its to tell. */
const REOPEN_MILLIS = 3_000

const runUrl = (tenant: string, session: string): string =>
  `${agentApi(tenant)}/runs/${encodeURIComponent(session)}`

const upserted = (messages: readonly Message[], one: Message): readonly Message[] => {
  const at = messages.findIndex((message) => message.id === one.id)
  return at === -1 ? [...messages, one] : messages.with(at, one)
}

const appended = (messages: readonly Message[], id: string, text: string): readonly Message[] => {
  const at = messages.findIndex((message) => message.id === id)
  const old = messages[at]
  return old === undefined ? messages : messages.with(at, { ...old, text: (old.text ?? '') + text })
}

function followRun(client: QueryClient, tenant: string, session: string): () => void {
  const key = keys.run(tenant, session)
  let source: EventSource | undefined
  let reopen: ReturnType<typeof setTimeout> | undefined
  let wasLost = false
  const change = (how: (run: Run) => Run) =>
    client.setQueryData<Run | null>(key, (run) => (run ? how(run) : run))
  const on = <Data>(name: string, then: (data: Data) => void) =>
    source?.addEventListener(name, (event: MessageEvent<string>) =>
      then(JSON.parse(event.data) as Data),
    )
  const open = () => {
    source = new EventSource(`${runUrl(tenant, session)}/events`)
    on<{ message: Message }>('message', ({ message }) =>
      change((run) => ({ ...run, messages: upserted(run.messages, message) })),
    )
    on<{ id: string; text: string }>('delta', ({ id, text }) =>
      change((run) => ({ ...run, messages: appended(run.messages, id, text) })),
    )
    on<{ state: RunState }>('state', ({ state }) => change((run) => ({ ...run, state })))
    source.onopen = () => {
      if (wasLost) void client.invalidateQueries({ queryKey: key })
      wasLost = false
    }
    source.onerror = () => {
      wasLost = true
      if (source?.readyState === EventSource.CLOSED) reopen = setTimeout(open, REOPEN_MILLIS)
    }
  }
  open()
  return () => {
    clearTimeout(reopen)
    source?.close()
  }
}

/** Null: the app has no run of it. Another client started the session. */
export function useRun(session: string) {
  const tenant = useTenant()
  const client = useQueryClient()
  const run = useQuery({
    queryKey: keys.run(tenant, session),
    queryFn: ({ signal }) =>
      call<Run>(runUrl(tenant, session), { signal }).catch((error: unknown) => {
        if (isStatus(error, 404)) return null
        throw error
      }),
  })
  const there = run.data !== null && run.data !== undefined
  useEffect(
    () => (there ? followRun(client, tenant, session) : undefined),
    [client, tenant, session, there],
  )
  return run
}

export const startRun = (tenant: string, session: string, task: string) =>
  call<unknown>(`${agentApi(tenant)}/runs`, {
    method: 'POST',
    body: { session_id: session, task },
  })

/** Ends the app's own sign-in. Where no app runs there is none to end. */
export const signOutOfApp = (tenant: string) =>
  call<unknown>(`/app/t/${encodeURIComponent(tenant)}/auth/logout`, {
    method: 'POST',
    body: {},
  }).catch((error: unknown) => {
    if (!isStatus(error, 404)) throw error
  })

export const say = (tenant: string, session: string, text: string) =>
  call<unknown>(`${runUrl(tenant, session)}/messages`, { method: 'POST', body: { text } })

export const stopRun = (tenant: string, session: string) =>
  call<unknown>(`${runUrl(tenant, session)}/stop`, { method: 'POST', body: {} })
