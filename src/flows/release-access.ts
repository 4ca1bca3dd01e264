import type { AgentCaller } from '../callers.ts'
import type { GrantEndReason } from '../core/held.ts'
import { covers } from '../core/item.ts'
import { canonicalResource } from '../core/resource.ts'
import type { GrantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { endGrants } from '../db/endings.ts'
import { type GrantRow, nodeIn } from '../db/tree.ts'
import { lockTree } from '../db/tree-read.ts'
import { withTx } from '../db/tx.ts'
import { type FieldError, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { liveNode, secondsNow } from './live.ts'

export type Release =
  | { readonly grantId: string }
  | { readonly permission: string; readonly resource?: string | undefined }

export type Released = { readonly released: readonly GrantRow[]; readonly held: readonly GrantId[] }

/** Without a resource a permission's every grant goes; a pattern takes all that it matches; a narrow does not matter. */
function matcher(
  release: Release,
  path: string,
): { error: FieldError } | { matches: (grant: GrantRow) => boolean } {
  if ('grantId' in release) return { matches: (grant) => grant.id === release.grantId }
  const { permission, resource } = release
  if (resource === undefined) return { matches: (grant) => grant.item.permission === permission }
  const canonical = canonicalResource(resource)
  if (!canonical.ok) return { error: { path: `${path}.resource`, message: canonical.why } }
  return { matches: (grant) => covers({ permission, resource: canonical.value }, grant.item) }
}

/**
 * `iam.release_access`: gives grants back, with whatever subagents inherited from them (I9). Raises the session's version,
 * so the presented token is dead afterwards. What is not held is passed over. Open under a freeze.
 */
export async function releaseAccess(
  ctx: Ctx,
  caller: AgentCaller,
  releases: readonly Release[],
): Promise<Result<Released>> {
  const matchers = releases.map((release, i) => matcher(release, `items.${i}`))
  const errors = matchers.flatMap((m) => ('error' in m ? [m.error] : []))
  if (errors.length > 0) return fail('item_invalid', { errors })
  const result = await withTx(ctx.db, 'release_access', async (tx): Promise<Result<Released>> => {
    const now = secondsNow(ctx.clock)
    const { sessionId, tenant } = caller
    const found = await lockTree(tx, { tenantId: tenant.id, sessionId, now })
    const live = liveNode(found, sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const { tree, node } = live.value
    const released = node.grants.filter((grant) =>
      matchers.some((m) => 'matches' in m && m.matches(grant)),
    )
    const journal = new Journal(ctx, tenant.id)
    const lost = new Map<GrantId, GrantEndReason>(released.map((grant) => [grant.id, 'released']))
    const after = endGrants(tx, journal, tree, lost)
    await journal.write(tx)
    return ok({ released, held: (nodeIn(after, node.id) ?? node).grants.map((g) => g.id) })
  })
  ctx.notify.kick()
  return result
}
