import type { AgentCaller } from '../callers.ts'
import { lostNow } from '../db/endings.ts'
import type { Node, Tree } from '../db/tree.ts'
import { readTree } from '../db/tree-read.ts'
import { withTx } from '../db/tx.ts'
import { ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { liveNode, secondsNow } from './live.ts'

/** `iam.my_access`: what the session holds now, cut by what its user has now (I2). Changes nothing. */
export const myAccess = (
  ctx: Ctx,
  caller: AgentCaller,
): Promise<Result<{ readonly tree: Tree; readonly node: Node }>> =>
  withTx(ctx.db, 'my_access', async (tx) => {
    const now = secondsNow(ctx.clock)
    const found = await readTree(tx, {
      tenantId: caller.tenant.id,
      sessionId: caller.sessionId,
      now,
    })
    const live = liveNode(found, caller.sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const { tree, node } = live.value
    const lost = lostNow(tree)
    return ok({ tree, node: { ...node, grants: node.grants.filter((g) => !lost.has(g.id)) } })
  })
