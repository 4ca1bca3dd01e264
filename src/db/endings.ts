import { type GrantEndReason, whyLost } from '../core/held.ts'
import type { DecisionReason } from '../core/reason.ts'
import { SESSION_END_REASONS, type SessionEndReason } from '../core/session.ts'
import type { GrantId, Item, UserId } from '../core/vocabulary.ts'
import type { Journal } from './activity.ts'
import { deleteGrants } from './grants.ts'
import { settleItems } from './requests.ts'
import { takesBack } from './taken-back.ts'
import { type GrantRow, type Node, subjectOf, subtreeOf, type Tree, worldOf } from './tree.ts'
import type { Tx } from './tx.ts'

/** An item's members, for a record's data. */
export const itemData = (item: Item) => ({
  permission: item.permission,
  ...(item.resource === undefined ? {} : { resource: item.resource }),
  ...(item.narrow === undefined ? {} : { narrow: item.narrow }),
})

export type Lost = ReadonlyMap<GrantId, GrantEndReason>

/** Adds what follows from it: inherited grants go with the parent's, all the way down (I9). */
function withDescendants(tree: Tree, lost: Lost): Map<GrantId, GrantEndReason> {
  const all = new Map(lost)
  for (const node of tree.nodes) {
    for (const grant of node.grants) {
      if (grant.inheritedFrom !== null && all.has(grant.inheritedFrom) && !all.has(grant.id))
        all.set(grant.id, 'parent_lost')
    }
  }
  return all
}

/** What can no longer be held anywhere in the tree, judged from the root down. Pure. */
export function lostNow(tree: Tree): Lost {
  const lost = new Map<GrantId, GrantEndReason>()
  for (const node of tree.nodes) {
    const parent = tree.nodes.find((one) => one.id === node.parentId)
    const parentHeld =
      parent === undefined
        ? null
        : new Set(parent.grants.map((g) => g.id).filter((id) => !lost.has(id)))
    for (const grant of node.grants) {
      const why = whyLost({ ...worldOf(tree, node), parentHeld }, grant)
      if (why !== null) lost.set(grant.id, why)
    }
  }
  return lost
}

type Ending = { readonly tree: Tree; readonly lost: Lost }

/**
 * Ends grants of several trees, and those that follow them, in one commit with their records: a session that loses
 * something has its version raised. Nothing lost, nothing written; and however many trees, the same few statements. Returns
 * the trees as they are now, in the same order.
 */
export function endGrantsIn(
  tx: Tx,
  journal: Journal,
  endings: readonly Ending[],
  by: { readonly userId?: UserId } = {},
): readonly Tree[] {
  const ended = endings.map(({ tree, lost }) => {
    const all = withDescendants(tree, lost)
    const losers = tree.nodes.filter((node) => node.grants.some((g) => all.has(g.id)))
    return { tree, all, losers }
  })
  for (const { all, losers } of ended)
    for (const node of losers)
      for (const grant of node.grants) {
        const reason = all.get(grant.id)
        if (reason === undefined) continue
        journal.session(subjectOf(node), 'grant.ended', {
          grant_id: grant.id,
          ...itemData(grant.item),
          reason,
          ...(by.userId === undefined ? {} : { by: by.userId }),
        })
      }
  const grants = ended.flatMap(({ all }) => [...all.keys()])
  if (grants.length > 0) takesBack(tx)
  deleteGrants(
    tx,
    grants,
    ended.flatMap(({ losers }) => losers.map((node) => node.id)),
  )
  return ended.map(({ tree, all, losers }) => {
    if (losers.length === 0) return tree
    const nodes = tree.nodes.map((node) =>
      losers.includes(node)
        ? { ...node, version: node.version + 1, grants: node.grants.filter((g) => !all.has(g.id)) }
        : node,
    )
    return { ...tree, nodes, root: nodes.find((n) => n.id === tree.root.id) ?? tree.root }
  })
}

/** The same of one tree. */
export function endGrants(
  tx: Tx,
  journal: Journal,
  tree: Tree,
  lost: Lost,
  by: { readonly userId?: UserId } = {},
): Tree {
  const [after = tree] = endGrantsIn(tx, journal, [{ tree, lost }], by)
  return after
}

/** Ends what the tree can no longer hold. A re-evaluation that finds nothing writes nothing (SPEC section 5). */
export function narrowTree(
  tx: Tx,
  journal: Journal,
  tree: Tree,
): { readonly tree: Tree; readonly lost: number } {
  const lost = withDescendants(tree, lostNow(tree))
  return { tree: endGrants(tx, journal, tree, lost), lost: lost.size }
}

/**
 * Ends prompts that no user has answered: `cancelled` or `expired`, never `denied_by_user`. One whose time had run out
 * expired, whatever ends it now: it has been shown so since then (SPEC section 4).
 */
export function withdrawPrompts(
  tx: Tx,
  journal: Journal,
  of: {
    readonly nodes: readonly Node[]
    readonly end: 'cancelled' | 'expired'
    readonly now: number
  },
): number {
  const items = of.nodes.flatMap((node) =>
    node.pending.map((pending) => {
      const reason: DecisionReason = pending.expiresAt <= of.now ? 'expired' : of.end
      return { node, pending, reason }
    }),
  )
  for (const { node, pending, reason } of items) {
    journal.session(subjectOf(node), 'access.decided', {
      request_id: pending.requestId,
      item_id: pending.id,
      ...itemData(pending.item),
      outcome: 'refused',
      reason,
      decided_by: 'policy',
    })
  }
  settleItems(
    tx,
    { now: of.now },
    items.map(({ pending, reason }) => ({ id: pending.id, outcome: 'refused', reason })),
  )
  return items.length
}

/** Ends the questions whose time is up as `expired`, and hands back the tree without them. */
export function expirePrompts(
  tx: Tx,
  journal: Journal,
  tree: Tree,
  now: number,
): { readonly tree: Tree; readonly prompts: number } {
  const due = tree.nodes.map((node) => ({
    ...node,
    pending: node.pending.filter((p) => p.expiresAt <= now),
  }))
  const prompts = withdrawPrompts(tx, journal, { nodes: due, end: 'expired', now })
  if (prompts === 0) return { tree, prompts }
  const nodes = tree.nodes.map((node) => ({
    ...node,
    pending: node.pending.filter((p) => p.expiresAt > now),
  }))
  return {
    tree: { ...tree, nodes, root: nodes.find((n) => n.id === tree.root.id) ?? tree.root },
    prompts,
  }
}

export type Ended = { readonly sessions: number; readonly grants: number; readonly prompts: number }

/**
 * Ends a session and its whole subtree in one commit (I5, I11): grants go, prompts are cancelled, credentials die,
 * versions rise. Children end with the reason `parent`.
 */
export function endSubtree(
  tx: Tx,
  journal: Journal,
  of: {
    readonly tree: Tree
    readonly top: Node
    readonly reason: SessionEndReason
    readonly now: number
    readonly by?: UserId
    readonly summary?: string | undefined
  },
): Ended {
  takesBack(tx)
  const nodes = subtreeOf(of.tree, of.top).filter((node) => node.status === 'active')
  const lost = new Map<GrantId, GrantEndReason>(
    nodes.flatMap((node) => node.grants.map((g: GrantRow) => [g.id, 'session_over'] as const)),
  )
  endGrants(tx, journal, of.tree, lost)
  const prompts = withdrawPrompts(tx, journal, { nodes, end: 'cancelled', now: of.now })
  for (const node of nodes) {
    journal.session(subjectOf(node), 'session.ended', {
      reason: node.id === of.top.id ? of.reason : 'parent',
      status: SESSION_END_REASONS[of.reason],
      grants_ended: node.grants.length,
      ...(of.by === undefined ? {} : { by: of.by }),
      ...(node.id === of.top.id && of.summary !== undefined ? { summary: of.summary } : {}),
    })
  }
  tx.later`
    update session set status = ${SESSION_END_REASONS[of.reason]},
      end_reason = case when id = ${of.top.id} then ${of.reason}::text else 'parent' end,
      ended_at = to_timestamp(${of.now}::float8), version = version + 1
    where id = any(${nodes.map((node) => node.id)}::text[])`
  return { sessions: nodes.length, grants: lost.size, prompts }
}
