import type { RequestView, SessionView } from '../api/types.ts'
import { words } from '../words.ts'
import { plain } from './text.ts'

/** Sessions as a person sees them: a title, a tree, and which of them want something. */
export const isLive = (session: SessionView): boolean => session.status === 'active'

export function titleOf(session: SessionView): string {
  const task = session.task === null ? '' : plain(session.task)
  return task === '' ? plain(session.path.at(-1) ?? session.template) : task
}

export const templateTitle = (session: SessionView): string =>
  plain(session.path.at(-1) ?? session.template)

export function endedWords(session: SessionView): string {
  const reasons: Readonly<Record<string, string>> = words.endReason
  return reasons[session.end_reason ?? ''] ?? words.endReason.unknown
}

export type Tree = { readonly session: SessionView; readonly children: readonly Tree[] }

/** Roots newest first, children in the order they began. */
export function treesOf(sessions: readonly SessionView[]): readonly Tree[] {
  const known = new Set(sessions.map((one) => one.id))
  const below = (id: string) => sessions.filter((one) => one.parent_id === id)
  const grown = (session: SessionView): Tree => ({
    session,
    children: below(session.id).toReversed().map(grown),
  })
  return sessions
    .filter((one) => one.parent_id === undefined || !known.has(one.parent_id))
    .map(grown)
}

export const GROUPS = ['waiting', 'running', 'today', 'older'] as const
export type Group = (typeof GROUPS)[number]

/** Where a tree stands in the list. What waits for an answer comes first, however old. */
export function groupOf({ session }: Tree, pending: readonly RequestView[], now: number): Group {
  if (pending.some((one) => one.root_session_id === session.root_id)) return 'waiting'
  if (isLive(session)) return 'running'
  const ended = new Date(session.ended_at ?? session.created_at)
  return ended.toDateString() === new Date(now).toDateString() ? 'today' : 'older'
}

/** A session and all below it, ended ones too. */
export function subtreeIds(sessions: readonly SessionView[], id: string): readonly string[] {
  const below = sessions.filter((one) => one.parent_id === id)
  return [id, ...below.flatMap((one) => subtreeIds(sessions, one.id))]
}
