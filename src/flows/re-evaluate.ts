import type { SessionId, TenantId, UserId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { endSubtree, narrowTree } from '../db/endings.ts'
import {
  ACCESS_CHANGED,
  type FeedRow,
  moveCursor,
  readCursor,
  readFeed,
  tellAccessChanged,
} from '../db/feed.ts'
import { liveRootsOf } from '../db/rules.ts'
import { liveUsersOf } from '../db/sweep.ts'
import { lockTree } from '../db/tree-read.ts'
import { withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'
import { type Job, startPeriodic } from './periodic.ts'

/** Live sessions that were looked at, and grants that ended. */
export type ReEvaluated = { readonly sessions: number; readonly lost: number }

type UserRef = { readonly tenantId: TenantId; readonly userId: UserId }

/**
 * One session tree against what its user, agent and tenant allow now, in its own transaction. Repeating it is harmless: a
 * second look finds nothing and writes nothing (SPEC section 5).
 */
async function reEvaluateRoot(ctx: Ctx, of: UserRef, rootId: SessionId): Promise<ReEvaluated> {
  return withTx(ctx.db, 're_evaluate', async (tx) => {
    const now = secondsNow(ctx.clock)
    const tree = await lockTree(tx, { tenantId: of.tenantId, sessionId: rootId, now })
    if (tree === null || tree.root.status !== 'active') return { sessions: 0, lost: 0 }
    const { root } = tree
    const journal = new Journal(ctx, of.tenantId)
    const sessions = tree.nodes.length
    let lost: number
    if (root.userActive && root.agentActive) lost = narrowTree(tx, journal, tree).lost
    else {
      // The change that disables ends sessions itself; this catches one made past the flows.
      const reason = root.userActive ? 'agent_disabled' : 'user_disabled'
      lost = endSubtree(tx, journal, { tree, top: root, reason, now }).grants
    }
    await journal.write(tx)
    return { sessions, lost }
  })
}

/**
 * Ends what one user's live sessions can no longer hold (I2, I3), each session tree in a transaction of its own. A tree
 * that fails does not keep the others from being looked at; then this throws once all are done.
 */
export async function reEvaluateUser(ctx: Ctx, of: UserRef): Promise<ReEvaluated> {
  const roots = await withTx(ctx.db, 'live_roots', (tx) => liveRootsOf(tx, of))
  const failures: unknown[] = []
  let sessions = 0
  let lost = 0
  for (const root of roots) {
    try {
      // The column holds a session's id.
      const one = await reEvaluateRoot(ctx, of, root as SessionId)
      sessions += one.sessions
      lost += one.lost
    } catch (error) {
      failures.push(error)
    }
  }
  if (lost > 0) ctx.notify.kick()
  if (failures.length > 0)
    throw new AggregateError(
      failures,
      `re-evaluating ${of.userId} failed in ${failures.length} trees`,
    )
  return { sessions, lost }
}

export const RE_EVALUATE_JOB = 're-evaluate'
const ROWS_A_BATCH = 200
const USERS_A_PAGE = 200

export type Followed = ReEvaluated & {
  /** Rows of the feed that were passed. */
  readonly rows: number
}

/** Everyone whom these rows concern, once, though many rows name them: all were committed before this looks. */
async function* usersOf(ctx: Ctx, rows: readonly FeedRow[]): AsyncGenerator<UserRef> {
  const changes = rows.filter((row) => row.topic === ACCESS_CHANGED)
  const whole = new Set(changes.filter((row) => row.userId === null).map((row) => row.tenantId))
  for (const tenantId of whole) {
    let after = ''
    for (;;) {
      const page = { tenantId, after, limit: USERS_A_PAGE }
      const users = await withTx(ctx.db, 'live_users', (tx) => liveUsersOf(tx, page))
      for (const userId of users) yield { tenantId, userId }
      const last = users.at(-1)
      if (users.length < USERS_A_PAGE || last === undefined) break
      after = last
    }
  }
  const seen = new Set<string>()
  for (const { tenantId, userId } of changes) {
    if (userId === null || whole.has(tenantId) || seen.has(userId)) continue
    seen.add(userId)
    yield { tenantId, userId }
  }
}

/**
 * Acts on every change of access since the job last looked, and returns how much that was. The place in the feed moves
 * only after the work, so a crash in the middle repeats it, which is harmless; so do two instances that follow at once.
 * It is not kept locked meanwhile: an open transaction would hold back the horizon of every reader of the feed, revocation
 * among them. With nothing new it writes nothing.
 *
 * Whoever cannot be re-evaluated is told of again at the feed's end, in the transaction that moves on, so that one broken
 * session neither blocks the others nor is forgotten. Then this throws, and the caller tries again later.
 */
export async function followFeed(ctx: Ctx): Promise<Followed> {
  let done: Followed = { rows: 0, sessions: 0, lost: 0 }
  for (;;) {
    const rows = await withTx(ctx.db, 'read_feed', async (tx) => {
      const after = await readCursor(tx, RE_EVALUATE_JOB)
      return readFeed(tx, { after, limit: ROWS_A_BATCH })
    })
    const last = rows.at(-1)
    if (last === undefined) return done
    const failed: { of: UserRef; error: unknown }[] = []
    for await (const of of usersOf(ctx, rows)) {
      try {
        const one = await reEvaluateUser(ctx, of)
        done = { ...done, sessions: done.sessions + one.sessions, lost: done.lost + one.lost }
      } catch (error) {
        failed.push({ of, error })
      }
    }
    await withTx(ctx.db, 'move_feed_cursor', async (tx) => {
      for (const { of } of failed)
        await tellAccessChanged(tx, {
          tenantId: of.tenantId,
          users: [of.userId],
          what: 'tried again',
          now: secondsNow(ctx.clock),
        })
      await moveCursor(tx, RE_EVALUATE_JOB, last)
    })
    done = { ...done, rows: done.rows + rows.length }
    if (failed.length > 0)
      throw new AggregateError(
        failed.map((f) => f.error),
        `re-evaluation failed for ${failed.length} people and will be tried again`,
      )
    if (rows.length < ROWS_A_BATCH) return done
  }
}

const EVERY_MILLIS = 1000

/** Follows the feed on every kick and every second, on any number of instances. Errors go to `onBug`. */
export const startFeedJob = (
  ctx: Ctx,
  onBug: (error: unknown) => void,
  everyMillis = EVERY_MILLIS,
): Job =>
  startPeriodic({
    run: () => followFeed(ctx),
    everyMillis,
    onBug,
    subscribe: ctx.notify.subscribe,
  })
