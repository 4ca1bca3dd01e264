import { Journal } from '../db/activity.ts'
import { sweepBrowserSessions } from '../db/browser-sessions.ts'
import { endSubtree, expirePrompts } from '../db/endings.ts'
import { deleteOldGatewayFeed } from '../db/gateway.ts'
import { deleteOldRates } from '../db/rate-store.ts'
import {
  type DueTree,
  deleteOldAssertions,
  deleteOldKeys,
  deletePassedFeed,
  dueTrees,
} from '../db/sweep.ts'
import { type Node, subtreeOf, type Tree } from '../db/tree.ts'
import { lockTree } from '../db/tree-read.ts'
import { withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'
import { type Job, startPeriodic } from './periodic.ts'

export type Swept = {
  readonly sessions: number
  readonly prompts: number
  readonly keys: number
  readonly assertions: number
  readonly feedRows: number
}

const TREES_A_BATCH = 100
const ROWS_A_BATCH = 1000
const DAY_SECONDS = 24 * 3600

/** Sessions past their end whose parents are not: each ends with all below it. */
const expiredTops = (tree: Tree, now: number): readonly Node[] => {
  const expired = tree.nodes.filter((node) => node.status === 'active' && node.expiresAt <= now)
  return expired.filter((node) =>
    expired.every((other) => other === node || !subtreeOf(tree, other).includes(node)),
  )
}

/** What is due in one session tree, looked at again under its lock: another instance may have been here. */
async function sweepTree(ctx: Ctx, due: DueTree): Promise<Pick<Swept, 'sessions' | 'prompts'>> {
  return withTx(ctx.db, 'sweep_tree', async (tx) => {
    const now = secondsNow(ctx.clock)
    const { tenantId, rootId } = due
    const found = await lockTree(tx, { tenantId, sessionId: rootId, now })
    if (found === null || found.root.status !== 'active') return { sessions: 0, prompts: 0 }
    const journal = new Journal(ctx, tenantId)
    // Prompts first: a question that waited until its session's end expired, nobody withdrew it.
    const { tree, prompts } = expirePrompts(tx, journal, found, now)
    let sessions = 0
    for (const top of expiredTops(tree, now))
      sessions += endSubtree(tx, journal, { tree, top, reason: 'timeout', now }).sessions
    await journal.write(tx)
    return { sessions, prompts }
  })
}

/**
 * Does what is due by time alone: ends sessions and questions that are over (I4, I5), and forgets idempotency keys after a
 * day, used client assertions after their life, and rows of the feed that everyone has passed, after a day. Bounded; what
 * remains is done next time. Safe on several instances at once. Throws after all else is done if a tree failed.
 */
export async function sweep(ctx: Ctx): Promise<Swept> {
  const now = secondsNow(ctx.clock)
  const due = await withTx(ctx.db, 'due_trees', (tx) => dueTrees(tx, { now, limit: TREES_A_BATCH }))
  const failures: unknown[] = []
  let sessions = 0
  let prompts = 0
  for (const tree of due) {
    try {
      const one = await sweepTree(ctx, tree)
      sessions += one.sessions
      prompts += one.prompts
    } catch (error) {
      failures.push(error)
    }
  }
  if (sessions + prompts > 0) ctx.notify.kick()
  const old = { before: now - DAY_SECONDS, limit: ROWS_A_BATCH }
  const [keys, assertions, feedRows] = await withTx(ctx.db, 'forget', async (tx) => [
    await deleteOldKeys(tx, old),
    await deleteOldAssertions(tx, { ...old, before: now }),
    await deletePassedFeed(tx, old),
    await sweepBrowserSessions(tx, now),
    await deleteOldGatewayFeed(tx, old),
    await deleteOldRates(tx, { ...old, before: now }),
  ])
  if (failures.length > 0)
    throw new AggregateError(failures, `the sweep failed in ${failures.length} session trees`)
  return { sessions, prompts, keys, assertions, feedRows }
}

const EVERY_MILLIS = 1000

/** Sweeps every second. Errors go to `onBug`. */
export const startSweepJob = (
  ctx: Ctx,
  onBug: (error: unknown) => void,
  everyMillis = EVERY_MILLIS,
): Job => startPeriodic({ run: () => sweep(ctx), everyMillis, onBug })
