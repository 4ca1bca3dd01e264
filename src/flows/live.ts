import type { Limits, SessionId } from '../core/vocabulary.ts'
import { frozenBy, type Node, nodeIn, type Tree } from '../db/tree.ts'
import { type Fault, fail, type Result } from '../fault.ts'
import type { Clock } from '../ports.ts'

/** Shared questions of the flows that act for a session. All are pure: the tree has been read under its lock. */

export const secondsNow = (clock: Clock): number => clock.now() / 1000

/** How long a client should leave a frozen thing alone. Freezes have no end of their own. */
const FROZEN_RETRY_SECONDS = 60

const over = (why: string): Fault => ({
  code: 'session_over',
  detail: `The session is over (${why}).`,
})

/**
 * The session and every ancestor is active, its agent and user are, and the token is not below its version. A session
 * past its end is over whether or not the sweep has marked it yet.
 */
export function liveNode(
  tree: Tree | null,
  id: SessionId,
  now: number,
  presentedVersion?: number,
): Result<{ readonly tree: Tree; readonly node: Node }> {
  const node = tree === null ? undefined : nodeIn(tree, id)
  if (tree === null || node === undefined) return fail('session_not_found')
  if (node.status !== 'active') return { ok: false, fault: over(node.endReason ?? node.status) }
  if (now >= node.expiresAt) return { ok: false, fault: over('timeout') }
  if (!node.userActive) return fail('user_disabled')
  if (!node.agentActive) return fail('agent_disabled')
  if (presentedVersion !== undefined && presentedVersion < node.version) return fail('token_stale')
  return { ok: true, value: { tree, node } }
}

/** Null when nothing above, at or around the session is frozen. */
export function freezeFault(tree: Tree, node: Node): Fault | null {
  const scope = frozenBy(tree, node)
  return scope === null
    ? null
    : { code: 'frozen', limit: scope, retryAfterSeconds: FROZEN_RETRY_SECONDS }
}

export type LimitName = keyof Limits

export const limitFault = (limit: LimitName, retryAfterSeconds: number, detail: string): Fault => ({
  code: 'limit_reached',
  limit,
  retryAfterSeconds,
  detail,
})

/** The template version as tokens and records name it: `renewal-briefs@3`. */
export const templateRef = (node: Node): string => `${node.templateName}@${node.templateVersion}`
