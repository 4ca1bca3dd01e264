import type { UserCaller } from '../callers.ts'
import { isLooser } from '../core/facts.ts'
import type { AgentId, GrantId, Mode, SessionId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { type Ended, endGrants, endSubtree } from '../db/endings.ts'
import { type Node, nodeIn, subjectOf, subtreeOf, type Tree } from '../db/tree.ts'
import { lockTree } from '../db/tree-read.ts'
import { json, type Tx } from '../db/tx.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'
import { startRoot } from './start-session.ts'

/** What people do with sessions: start one with a mode, tighten it, take access back, end it (SPEC sections 5, 8). */
export type NewSessionInput = {
  readonly agentId: string
  readonly template: string
  readonly mode: Mode
  /** Seconds. */
  readonly modeExpiresAt?: number | undefined
  readonly task?: string | undefined
}

/** A session that holds nothing (I1) and that no agent has taken up yet. The only way to a mode other than `ask` (I7). */
export async function createSession(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  input: NewSessionInput,
): Promise<Result<{ readonly id: SessionId }>> {
  const wrong = expiryProblem(input.mode, input.modeExpiresAt, secondsNow(ctx.clock))
  if (wrong !== null) return { ok: false, fault: wrong }
  const journal = new Journal(ctx, caller.tenant.id)
  const started = await startRoot(
    ctx,
    tx,
    caller.tenant,
    {
      who: { userId: caller.userId },
      // It came from outside and names an agent only if the tenant has one of this id.
      agentId: input.agentId as AgentId,
      template: input.template,
      mode: input.mode,
      modeExpiresAt: input.modeExpiresAt,
      task: input.task,
      by: 'user',
    },
    journal,
  )
  if (started.ok) await journal.write(tx)
  return started
}

function expiryProblem(mode: Mode, expiresAt: number | undefined, now: number): Fault | null {
  const wrong = (message: string): Fault => ({
    code: 'unprocessable',
    errors: [{ path: 'mode_expires_at', message }],
  })
  if (expiresAt === undefined) return null
  if (mode === 'ask') return wrong('ask does not run out')
  return expiresAt <= now ? wrong('must be in the future') : null
}

type Found = {
  readonly tree: Tree
  readonly node: Node
  readonly own: boolean
  readonly now: number
}

/** The session under its root's lock: the caller's own, or with `admin` anyone's in the tenant. Live, else a fault. */
async function lockOwn(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  id: string,
  how: { readonly admin: boolean },
): Promise<Result<Found>> {
  const tenantId = caller.tenant.id
  const now = secondsNow(ctx.clock)
  const tree = await lockTree(tx, { tenantId, sessionId: id as SessionId, now })
  const node = tree === null ? undefined : nodeIn(tree, tree.named)
  const own = node?.userId === caller.userId
  const mayAct = own || (how.admin && caller.staffRoles.includes('org_admin'))
  if (tree === null || node === undefined || !mayAct) return fail('session_not_found')
  // Not `liveNode`: ending, tightening and taking back stay open while the agent or its user is disabled or frozen.
  if (node.status !== 'active' || now >= node.expiresAt)
    return fail('session_over', {
      detail: `The session is over (${node.endReason ?? 'timeout'}).`,
    })
  return ok({ tree, node, own, now })
}

/**
 * Ends a session and its subtree (I5, I11): by its own user with the reason `user`, by an org admin with `admin`. Faults:
 * `session_not_found`, `session_over`.
 */
export async function endByPerson(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  id: string,
): Promise<Result<Ended>> {
  const found = await lockOwn(ctx, tx, caller, id, { admin: true })
  if (!found.ok) return found
  const { tree, node, own, now } = found.value
  const journal = new Journal(ctx, caller.tenant.id)
  const ended = endSubtree(tx, journal, {
    tree,
    top: node,
    reason: own ? 'user' : 'admin',
    now,
    by: caller.userId,
  })
  await journal.write(tx)
  return ok(ended)
}

/**
 * Takes one grant back, with whatever subagents inherited from it (I9), and answers how many went. Its version rises, so
 * tokens that carry it are dead at once. Faults: `session_not_found`, `session_over`, `not_found`.
 */
export async function takeBack(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  of: { readonly sessionId: string; readonly grantId: string },
): Promise<Result<{ readonly revoked: number }>> {
  const found = await lockOwn(ctx, tx, caller, of.sessionId, { admin: true })
  if (!found.ok) return found
  const { tree, node, own } = found.value
  const grant = node.grants.find((one) => one.id === of.grantId)
  if (grant === undefined) return fail('not_found', { detail: 'The session has no such grant.' })
  const journal = new Journal(ctx, caller.tenant.id)
  const reason = own ? 'taken_back' : 'admin'
  const lost = new Map<GrantId, 'taken_back' | 'admin'>([[grant.id, reason]])
  const after = endGrants(tx, journal, tree, lost, { userId: caller.userId })
  await journal.write(tx)
  return ok({ revoked: heldIn(tree) - heldIn(after) })
}

const heldIn = (tree: Tree): number => tree.nodes.reduce((n, node) => n + node.grants.length, 0)

type Tight = { readonly mode: Mode; readonly expiresAt: number | null }

const sooner = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b)

/**
 * The stricter of what a session has and what its user now wants, in mode and in time. A mode that runs out drops to
 * `ask`, so a longer time is looser even when the mode itself is not.
 */
function tightest(node: Node, wanted: Tight): Tight {
  if (node.rowMode === 'ask') return { mode: 'ask', expiresAt: node.modeExpiresAt }
  const mode = isLooser(node.rowMode, wanted.mode) ? wanted.mode : node.rowMode
  return { mode, expiresAt: mode === 'ask' ? null : sooner(node.modeExpiresAt, wanted.expiresAt) }
}

const changes = (node: Node, to: Tight): boolean =>
  to.mode !== node.rowMode || to.expiresAt !== node.modeExpiresAt

/** Whether the wish is nothing but tighter than what is in force: stricter, or as strict for a shorter time. */
function isTighter(node: Node, wanted: Tight): boolean {
  // In force, not in the row: a bypass that has run out is `ask`, and `auto` would loosen it.
  if (isLooser(wanted.mode, node.mode)) return false
  if (wanted.mode === 'ask') return node.rowMode !== 'ask'
  if (
    node.modeExpiresAt !== null &&
    (wanted.expiresAt ?? Number.POSITIVE_INFINITY) > node.modeExpiresAt
  )
    return false
  return changes(node, wanted)
}

/**
 * Tightens the mode of a session and of every live session below it that is looser (I7): only its own user, and only a
 * stricter mode or the same one for a shorter time; without a time of its own it keeps the one it has. What is held stays
 * held. Faults: `session_not_found`, `session_over`, `mode_not_tighter`.
 */
export async function tightenMode(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  of: {
    readonly id: string
    readonly mode: Mode
    /** Seconds. */
    readonly modeExpiresAt?: number | undefined
  },
): Promise<Result<{ readonly id: SessionId }>> {
  const found = await lockOwn(ctx, tx, caller, of.id, { admin: false })
  if (!found.ok) return found
  const { tree, node, now } = found.value
  const wrong = expiryProblem(of.mode, of.modeExpiresAt, now)
  if (wrong !== null) return { ok: false, fault: wrong }
  const kept = of.mode === 'ask' ? null : node.modeExpiresAt
  const wanted: Tight = { mode: of.mode, expiresAt: of.modeExpiresAt ?? kept }
  if (!isTighter(node, wanted)) return fail('mode_not_tighter')

  const journal = new Journal(ctx, caller.tenant.id)
  const rows = subtreeOf(tree, node)
    .filter((one) => one.status === 'active')
    .map((one) => ({ one, to: tightest(one, wanted) }))
    .filter(({ one, to }) => changes(one, to))
  for (const { one, to } of rows) {
    journal.session(subjectOf(one), 'mode.changed', {
      from: one.mode,
      to: to.mode,
      ...(to.expiresAt === null ? {} : { expires_at: new Date(to.expiresAt * 1000).toISOString() }),
      by: caller.userId,
      via: caller.clientId,
    })
  }
  const values = rows.map(({ one, to }) => ({ id: one.id, mode: to.mode, expires: to.expiresAt }))
  await tx.sql`
    update session s set mode = r.mode, mode_expires_at = to_timestamp(r.expires)
    from jsonb_to_recordset(${json(values)}::text::jsonb) as r (id text, mode text, expires float8)
    where s.id = r.id`
  await journal.write(tx)
  return ok({ id: node.id })
}
