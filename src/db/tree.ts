import type { ChainHead } from '../core/activity.ts'
import type { Rule, World } from '../core/facts.ts'
import type { Held } from '../core/held.ts'
import type { DecisionReason } from '../core/reason.ts'
import type { SessionEndReason, SessionStatus } from '../core/session.ts'
import type {
  AgentId,
  EnforcedAt,
  Filter,
  Item,
  ItemId,
  Limits,
  Mode,
  Permission,
  RequestId,
  RuleId,
  SessionId,
  TemplateId,
  TenantId,
  UserId,
} from '../core/vocabulary.ts'
import type { Subject } from './activity.ts'

/** A live grant as its row says. */
export type GrantRow = Held & {
  readonly sessionId: SessionId
  readonly source: 'user' | 'rule' | 'mode' | 'inherited'
  readonly ruleId: RuleId | null
  readonly requestId: RequestId | null
  readonly parentSessionId: SessionId | null
  readonly createdAt: number
  readonly uses: number
  readonly lastUsedAt: number | null
}

export type PendingRow = {
  readonly id: ItemId
  readonly requestId: RequestId
  readonly sessionId: SessionId
  readonly item: Item
  /** Why it was asked. */
  readonly reason: DecisionReason
  readonly createdAt: number
  readonly expiresAt: number
}

export type Child = { readonly template: string; readonly version?: number }

/** One session of the tree, with the template version it runs and what the tenant made of it. */
export type Node = {
  readonly id: SessionId
  readonly tenantId: TenantId
  readonly rootId: SessionId
  readonly parentId: SessionId | null
  readonly depth: number
  readonly userId: UserId
  readonly agentId: AgentId
  readonly agentName: string
  readonly agentActive: boolean
  readonly userActive: boolean
  readonly templateId: TemplateId
  readonly templateName: string
  readonly templateTitle: string
  readonly templateVersion: number
  readonly status: SessionStatus
  readonly endReason: SessionEndReason | null
  readonly readOnly: boolean
  readonly version: number
  readonly task: string | null
  readonly claimed: boolean
  readonly createdAt: number
  readonly expiresAt: number
  readonly rowMode: Mode
  readonly modeExpiresAt: number | null
  /** The row's mode, dropped to `ask` when it ran out or is no longer allowed. */
  readonly mode: Mode
  readonly allowedModes: readonly Mode[]
  readonly limits: Limits
  /** False: the tenant turned the template off, or never on. Then the ceiling is empty. */
  readonly enabled: boolean
  readonly ceilings: readonly (readonly Item[])[]
  readonly sensitiveMarks: readonly Item[]
  /** Child templates as the session's version lists them, and as the adopted one does: both must. */
  readonly children: readonly (readonly Child[])[]
  readonly context: string
  readonly grants: readonly GrantRow[]
  readonly pending: readonly PendingRow[]
  readonly head: ChainHead
}

export type FreezeScope = 'tenant' | 'template' | 'agent' | 'user'

/** A session tree and all that its decisions rest on, read under the root session's lock (SPEC section 4). */
export type Tree = {
  /** The session asked for. */
  readonly named: SessionId
  readonly root: Node
  /** Live sessions, parents before children, and the one asked for even when it is over. */
  readonly nodes: readonly Node[]
  readonly userAccess: readonly Item[]
  /** Unexpired rules of the user, by template. */
  readonly rules: ReadonlyMap<TemplateId, readonly Rule[]>
  readonly denied: readonly Item[]
  readonly catalog: ReadonlyMap<string, CatalogRow>
  /** All of the tenant's freezes: a subagent's template is in none of the nodes yet. */
  readonly frozen: readonly { readonly scope: FreezeScope; readonly targetId: string }[]
  readonly openRequests: number
  /** Seconds; times of the requests of the last minute. */
  readonly requestTimes: readonly number[]
}

export type CatalogRow = Permission & {
  readonly title: string
  readonly description: string
  readonly service: string
  readonly enforcedAt: EnforcedAt
  readonly data: { readonly entity: string; readonly fields: readonly string[] } | null
}

export type ItemJson = { permission: string; resource: string | null; narrow: Filter | null }

/** A row's three columns as an item: null is absent, and absent is not empty. */
export const itemOf = (row: ItemJson): Item => ({
  permission: row.permission,
  ...(row.resource === null ? {} : { resource: row.resource }),
  ...(row.narrow === null ? {} : { narrow: row.narrow }),
})

export const nodeIn = (tree: Tree, id: SessionId): Node | undefined =>
  tree.nodes.find((node) => node.id === id)

/** From the root to the session itself. */
export function pathOf(tree: Tree, node: Node): readonly [Node, ...Node[]] {
  const parent = node.parentId === null ? undefined : nodeIn(tree, node.parentId)
  return parent === undefined ? [node] : [...pathOf(tree, parent), node]
}

/** The session and everything below it, parents first. */
export function subtreeOf(tree: Tree, top: Node): readonly Node[] {
  return tree.nodes.filter((node) => pathOf(tree, node).includes(top))
}

/** What one session's decisions rest on. */
export const worldOf = (tree: Tree, node: Node): World => ({
  catalog: tree.catalog,
  ceilings: node.ceilings,
  sensitiveMarks: node.sensitiveMarks,
  userAccess: tree.userAccess,
  rules: tree.rules.get(node.templateId) ?? [],
  held: node.grants.map((g) => g.item),
  denied: tree.denied,
  mode: node.mode,
})

/** A freeze of the tenant, the user, or the agent or template of the session or any ancestor (SPEC section 5). */
export function frozenBy(tree: Tree, node: Node): FreezeScope | null {
  const path = pathOf(tree, node)
  const hit = tree.frozen.find(
    ({ scope, targetId }) =>
      scope === 'tenant' ||
      (scope === 'user' && targetId === node.userId) ||
      path.some((n) => targetId === (scope === 'agent' ? n.agentId : n.templateId)),
  )
  return hit?.scope ?? null
}

export const subjectOf = (node: Node): Subject => ({
  id: node.id,
  rootId: node.rootId,
  agentId: node.agentId,
  userId: node.userId,
  template: `${node.templateName}@${node.templateVersion}`,
  head: node.head,
})
