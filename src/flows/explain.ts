import type { AgentCaller } from '../callers.ts'
import { decide, type Verdict } from '../core/decide.ts'
import { factsOf, isSensitive } from '../core/facts.ts'
import { patternCovers } from '../core/resource.ts'
import type { Item, Kind } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { type CatalogMatch, searchCatalog } from '../db/catalog.ts'
import { type CatalogRow, type Node, subjectOf, type Tree, worldOf } from '../db/tree.ts'
import { lockTree, readTree } from '../db/tree-read.ts'
import { withTx } from '../db/tx.ts'
import { ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { freezeFault, liveNode, secondsNow } from './live.ts'
import { rateFault } from './rate.ts'

/** How a permission stands for one session, without naming what its user holds. */
export type Standing = {
  readonly inCeiling: boolean
  readonly held: boolean
  readonly sensitive: boolean
  /** The widest resource the session may ask for, as in `dashboard/*`. */
  readonly resourceHint?: string
}

/** Items of the ceiling for one permission that all its layers allow, widest first as they stand. */
function ceilingItems(node: Node, permission: string): readonly Item[] {
  const lists = node.ceilings.map((list) => list.filter((item) => item.permission === permission))
  const [first = [], ...rest] = lists
  return first.flatMap((item) => {
    let meets: readonly Item[] = [item]
    for (const list of rest) {
      meets = meets.flatMap((a) =>
        list.flatMap((b) =>
          patternCovers(b.resource, a.resource)
            ? [a]
            : patternCovers(a.resource, b.resource)
              ? [b]
              : [],
        ),
      )
    }
    return meets
  })
}

export function standingOf(tree: Tree, node: Node, permission: string): Standing {
  const allowed = ceilingItems(node, permission)
  const resource = allowed.find((item) => item.resource !== undefined)?.resource
  return {
    inCeiling: allowed.length > 0,
    held: node.grants.some((g) => g.item.permission === permission),
    sensitive: isSensitive(worldOf(tree, node), allowed[0] ?? { permission }),
    ...(resource === undefined ? {} : { resourceHint: resource }),
  }
}

/** What would be decided if the session asked for it: of a permission that takes a resource, for the best it could name. */
function wouldBe(tree: Tree, node: Node, permission: string): Verdict {
  const world = worldOf(tree, node)
  const inReach = ceilingItems(node, permission)
  const usable = tree.userAccess.filter(
    (a) =>
      a.permission === permission && inReach.some((c) => patternCovers(c.resource, a.resource)),
  )
  const item = usable[0] ?? inReach[0] ?? { permission }
  return decide(
    factsOf(world, {
      permission,
      ...(item.resource === undefined ? {} : { resource: item.resource }),
    }),
  )
}

export type Explained = {
  readonly permission: string
  readonly row: CatalogRow | null
  readonly standing: Standing
  readonly would: Verdict
}

/** `iam.explain`: counted against the request rate and recorded, since it tells how a request would be decided. */
export const explain = (
  ctx: Ctx,
  caller: AgentCaller,
  permission: string,
): Promise<Result<Explained>> =>
  withTx(ctx.db, 'explain', async (tx): Promise<Result<Explained>> => {
    const now = secondsNow(ctx.clock)
    const { sessionId, tenant } = caller
    const found = await lockTree(tx, {
      tenantId: tenant.id,
      sessionId,
      now,
      asked: [permission],
    })
    const live = liveNode(found, sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const { tree, node } = live.value
    const journal = new Journal(ctx, tenant.id)
    const rate = rateFault(tree, now)
    const fault = freezeFault(tree, node) ?? rate.fault
    const data = { tool: 'iam.explain', permission }
    if (fault) {
      journal.session(subjectOf(node), 'call.denied', { ...data, reason: fault.code })
      await journal.write(tx)
      return { ok: false, fault }
    }
    journal.charge(node.rootId, rate.times)
    const would = wouldBe(tree, node, permission)
    journal.session(subjectOf(node), 'call.allowed', { ...data, would: would.reason })
    await journal.write(tx)
    return ok({
      permission,
      row: tree.catalog.get(permission) ?? null,
      standing: standingOf(tree, node, permission),
      would,
    })
  })

export type Described = CatalogMatch & { readonly standing: Standing }

/** `iam.describe_permissions`: the catalog ranked for a task, each row with how it stands for this session. */
export const describePermissions = (
  ctx: Ctx,
  caller: AgentCaller,
  of: { readonly task: string; readonly kind?: Kind | undefined; readonly limit: number },
): Promise<Result<readonly Described[]>> =>
  withTx(ctx.db, 'describe_permissions', async (tx): Promise<Result<readonly Described[]>> => {
    const now = secondsNow(ctx.clock)
    const [found, rows] = await Promise.all([
      readTree(tx, { tenantId: caller.tenant.id, sessionId: caller.sessionId, now }),
      searchCatalog(tx, of),
    ])
    const live = liveNode(found, caller.sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const { tree, node } = live.value
    const described = rows.map((row): [string, CatalogRow] => [row.id, { ...row, data: null }])
    const seen: Tree = { ...tree, catalog: new Map([...tree.catalog, ...described]) }
    return ok(rows.map((row) => ({ ...row, standing: standingOf(seen, node, row.id) })))
  })
