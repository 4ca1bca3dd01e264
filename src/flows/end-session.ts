import type { AgentCaller } from '../callers.ts'
import { Journal } from '../db/activity.ts'
import { type Ended, endSubtree } from '../db/endings.ts'
import { lockTree } from '../db/tree-read.ts'
import { withTx } from '../db/tx.ts'
import { ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { liveNode, secondsNow } from './live.ts'

/** `iam.end_session`: the session and its subtree end, all grants with them (I5, I11). Open under a freeze. */
export async function endSession(
  ctx: Ctx,
  caller: AgentCaller,
  summary: string | undefined,
): Promise<Result<Ended>> {
  const result = await withTx(ctx.db, 'end_session', async (tx): Promise<Result<Ended>> => {
    const now = secondsNow(ctx.clock)
    const { sessionId, tenant } = caller
    const found = await lockTree(tx, { tenantId: tenant.id, sessionId, now })
    const live = liveNode(found, sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const journal = new Journal(ctx, tenant.id)
    const ended = endSubtree(tx, journal, {
      ...live.value,
      top: live.value.node,
      reason: 'agent',
      now,
      summary,
    })
    await journal.write(tx)
    return ok(ended)
  })
  ctx.notify.kick()
  return result
}
