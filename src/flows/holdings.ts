import type { SessionClaims } from '../core/claims.ts'
import { lostNow } from '../db/endings.ts'
import { type CatalogRow, type GrantRow, type Node, pathOf, type Tree } from '../db/tree.ts'
import { freezeFault, liveNode } from './live.ts'

/** A grant that stands now, with its catalog row as it is now. */
export type LiveGrant = GrantRow & { readonly row: CatalogRow }

export type Holdings = {
  readonly tree: Tree
  readonly node: Node
  /** Of the asking enforcement point's services alone. */
  readonly grants: readonly LiveGrant[]
  /** Every grant that stands, whoever enforces it: what a decision rests on. */
  readonly standing: readonly GrantRow[]
}

export type NotLive = 'session_over' | 'frozen'

/**
 * What a session holds now: the one meaning of "held" for introspection and for asset, data and tool checks (SPEC section 9),
 * whatever the token that was shown carries. The session and all its ancestors, its user and agent, freezes, the template and
 * the token's version are looked at; a grant counts only while the user, the ceiling and the catalog still bear it (I2, I9).
 * Pure: the tree has been read. Services other than the caller's are none of its business.
 */
export function holdingsIn(
  found: Tree | null,
  of: {
    readonly claims: Pick<SessionClaims, 'sid' | 'session_version'>
    readonly services: readonly string[]
    readonly now: number
  },
): Holdings | NotLive {
  const live = liveNode(found, of.claims.sid, of.now, of.claims.session_version)
  if (!live.ok) return 'session_over'
  const { tree, node } = live.value
  if (freezeFault(tree, node) !== null) return 'frozen'
  if (!node.enabled || pathOf(tree, node).some((n) => n.status !== 'active')) return 'session_over'
  const lost = lostNow(tree)
  const standing = node.grants.filter((grant) => !lost.has(grant.id))
  const grants = standing.flatMap((grant) => {
    const row = tree.catalog.get(grant.item.permission)
    return row !== undefined && of.services.includes(row.service) ? [{ ...grant, row }] : []
  })
  return { tree, node, grants, standing }
}
