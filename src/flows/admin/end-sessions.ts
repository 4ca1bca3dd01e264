import type { UserCaller } from '../../callers.ts'
import type { SessionEndReason } from '../../core/session.ts'
import type { SessionId, UserId } from '../../core/vocabulary.ts'
import type { Journal } from '../../db/activity.ts'
import { liveRoots } from '../../db/directory.ts'
import { endSubtree } from '../../db/endings.ts'
import { lockTree } from '../../db/tree-read.ts'
import type { Tx } from '../../db/tx.ts'
import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'

export type EndedLive = {
  /** For the record. */
  readonly counts: { readonly sessions_ended: number; readonly grants_ended: number }
  /** Whose they were. */
  readonly users: readonly UserId[]
}

/**
 * Ends every live session of a person or an agent, with all below it (I11). The caller holds the tenant's guard alone, so
 * none can start meanwhile. Returns how many sessions and grants ended (USER-ASKS 49).
 */
export async function endLiveSessions(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  caller: UserCaller,
  of: {
    readonly userId?: string
    readonly agentId?: string
    readonly reason: SessionEndReason
  },
): Promise<EndedLive> {
  const now = secondsNow(ctx.clock)
  const { reason, ...whose } = of
  const tenantId = caller.tenant.id
  let sessions = 0
  let grants = 0
  const users = new Set<UserId>()
  for (const { rootId, userId } of await liveRoots(tx, { tenantId, ...whose })) {
    const sessionId = rootId as SessionId
    const tree = await lockTree(tx, { tenantId, sessionId, now })
    if (tree === null || tree.root.status !== 'active') continue
    const by = caller.userId
    const ended = endSubtree(tx, journal, { tree, top: tree.root, reason, now, by })
    users.add(userId)
    sessions += ended.sessions
    grants += ended.grants
  }
  return { counts: { sessions_ended: sessions, grants_ended: grants }, users: [...users] }
}
