import type { ChainHead } from '../core/activity.ts'
import { effectiveMode, type Rule, type World } from '../core/facts.ts'
import type { Held } from '../core/held.ts'
import { lowered } from '../core/limits.ts'
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
import { guardShared } from './guard.ts'
import type { Tx } from './tx.ts'

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

type SessionSql = Omit<
  Node,
  | 'mode'
  | 'allowedModes'
  | 'limits'
  | 'enabled'
  | 'ceilings'
  | 'sensitiveMarks'
  | 'children'
  | 'grants'
  | 'pending'
  | 'head'
> & {
  chainSeq: number
  chainHash: string
  requestTimes: number[]
  ceiling: Item[]
  modes: Mode[]
  ownLimits: Limits
  sensitive: Item[]
  enablement: 'on' | 'off' | null
  kept: Item[] | null
  keptModes: Mode[] | null
  keptLimits: Partial<Limits> | null
  adoptedCeiling: Item[] | null
  adoptedModes: Mode[] | null
  adoptedLimits: Limits | null
  adoptedSensitive: Item[] | null
  children: Child[]
  adoptedChildren: Child[] | null
}

const lockRoot = (tx: Tx, { tenantId, sessionId }: TreeOf) => tx.sql<{ id: SessionId }>`
  select id from session
  where id = (select root_id from session where id = ${sessionId} and tenant_id = ${tenantId})
  for update`

const selectSessions = (tx: Tx, tenantId: TenantId, sessionId: SessionId) => tx.sql<SessionSql>`
  select s.id, s.tenant_id as "tenantId", s.root_id as "rootId", s.parent_id as "parentId", s.depth,
    s.user_id as "userId", s.agent_id as "agentId", a.name as "agentName",
    a.status = 'active' as "agentActive", u.status = 'active' as "userActive",
    s.template_id as "templateId", t.name as "templateName", t.title as "templateTitle",
    s.template_version as "templateVersion", s.status, s.end_reason as "endReason",
    s.read_only as "readOnly", s.version, s.task, s.claimed_at is not null as claimed,
    extract(epoch from s.created_at)::float8 as "createdAt",
    extract(epoch from s.expires_at)::float8 as "expiresAt",
    s.mode as "rowMode", extract(epoch from s.mode_expires_at)::float8 as "modeExpiresAt",
    s.chain_seq as "chainSeq", s.chain_hash as "chainHash", s.request_times as "requestTimes",
    v.ceiling, v.modes, v.limits as "ownLimits", v.sensitive, v.children, v.context,
    e.status as enablement, e.kept, e.modes as "keptModes", e.limits as "keptLimits",
    w.ceiling as "adoptedCeiling", w.modes as "adoptedModes", w.limits as "adoptedLimits",
    w.sensitive as "adoptedSensitive", w.children as "adoptedChildren"
  from session s
  join agent a on a.id = s.agent_id
  join app_user u on u.id = s.user_id
  join template t on t.id = s.template_id
  join template_version v on v.template_id = s.template_id and v.version = s.template_version
  left join enablement e on e.tenant_id = s.tenant_id and e.template_id = s.template_id
  left join template_version w on w.template_id = e.template_id and w.version = e.adopted_version
  where s.root_id = (select root_id from session where id = ${sessionId} and tenant_id = ${tenantId})
    and (s.status = 'active' or s.id = ${sessionId})
  order by s.depth, s.created_at, s.id`

type GrantSql = Omit<GrantRow, 'item'> & ItemJson
type RuleSql = ItemJson & {
  id: RuleId
  templateId: TemplateId
  effect: Rule['effect']
  suspended: boolean
}
type ItemSql = ItemJson & {
  id: ItemId
  requestId: RequestId
  sessionId: SessionId
  outcome: 'pending' | 'refused'
  reason: DecisionReason
  createdAt: number
  expiresAt: number
}

const selectGrants = (tx: Tx, sessionId: SessionId) => tx.sql<GrantSql>`
  select g.id, g.session_id as "sessionId", g.permission_id as permission, g.resource, g.narrow,
    g.read_only as "readOnly", g.source, g.rule_id as "ruleId", g.request_id as "requestId",
    g.inherited_from as "inheritedFrom", g.parent_session_id as "parentSessionId",
    extract(epoch from g.created_at)::float8 as "createdAt", g.uses,
    extract(epoch from g.last_used_at)::float8 as "lastUsedAt"
  from access_grant g join session s on s.id = g.session_id
  where s.root_id = (select root_id from session where id = ${sessionId})
  order by g.created_at, g.id`

// The person is named by themselves, not by a join: only so does Postgres look them up in each part of the view instead of
// reading every membership of the deployment.
const selectAccess = (tx: Tx, sessionId: SessionId) => tx.sql<ItemJson>`
  select distinct x.permission_id as permission, x.resource, null::jsonb as narrow
  from user_access x
  where x.user_id = (select user_id from session where id = ${sessionId})
    and x.tenant_id = (select tenant_id from session where id = ${sessionId})`

const selectRules = (tx: Tx, sessionId: SessionId, now: number) => tx.sql<RuleSql>`
  select r.id, r.template_id as "templateId", r.effect, r.status = 'suspended' as suspended,
    r.permission_id as permission, r.resource, r.narrow
  from consent_rule r join session s on s.tenant_id = r.tenant_id and s.user_id = r.user_id
  where s.id = ${sessionId} and (r.expires_at is null or r.expires_at > to_timestamp(${now}::float8))
  order by r.created_at, r.id`

const selectItems = (tx: Tx, sessionId: SessionId) => tx.sql<ItemSql>`
  select i.id, i.request_id as "requestId", i.session_id as "sessionId", i.permission_id as permission,
    i.resource, i.narrow, i.outcome, i.decision_reason as reason,
    extract(epoch from r.created_at)::float8 as "createdAt", extract(epoch from r.expires_at)::float8 as "expiresAt"
  from request_item i join access_request r on r.id = i.request_id
  where r.root_id = (select root_id from session where id = ${sessionId})
    and (i.outcome = 'pending' or i.decision_reason = 'denied_by_user')
  order by r.created_at, i.position`

const selectCatalog = (
  tx: Tx,
  sessionId: SessionId,
  asked: readonly string[],
) => tx.sql<CatalogRow>`
  select p.id, p.kind, p.access, p.risk, p.sensitive, p.delegable, p.title, p.description,
    p.service_id as service, p.enforced_at as "enforcedAt", p.data,
    p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource"
  from permission p
  where not p.retired and (p.id = any(${asked}::text[]) or p.id in (
    select g.permission_id from access_grant g join session s on s.id = g.session_id
    where s.root_id = (select root_id from session where id = ${sessionId})))`

const selectFrozen = (tx: Tx, sessionId: SessionId) => tx.sql<{
  scope: FreezeScope
  targetId: string
}>`
  select f.scope, f.target_id as "targetId" from frozen f
  where f.tenant_id = (select tenant_id from session where id = ${sessionId})`

function nodeOf(row: SessionSql, now: number, grants: GrantSql[], items: ItemSql[]): Node {
  const {
    chainSeq,
    chainHash,
    requestTimes: _,
    ceiling,
    modes,
    ownLimits,
    sensitive,
    ...rest
  } = row
  const enabled = row.enablement === 'on'
  const allowedModes = modes.filter(
    (mode) => (row.keptModes ?? []).includes(mode) && (row.adoptedModes ?? []).includes(mode),
  )
  return {
    ...rest,
    mode: effectiveMode({
      mode: row.rowMode,
      modeExpiresAt: row.modeExpiresAt,
      allowed: allowedModes,
      now,
    }),
    allowedModes,
    limits: lowered(lowered(ownLimits, row.adoptedLimits ?? {}), row.keptLimits ?? {}),
    enabled,
    // Not turned on: an empty list covers nothing, so nothing is in the ceiling.
    ceilings: [ceiling, row.adoptedCeiling ?? [], enabled ? (row.kept ?? []) : []],
    children: [row.children, row.adoptedChildren ?? []],
    sensitiveMarks: [...sensitive, ...(row.adoptedSensitive ?? [])],
    grants: grants.filter((g) => g.sessionId === row.id).map((g) => ({ ...g, item: itemOf(g) })),
    pending: items
      .filter((i) => i.sessionId === row.id && i.outcome === 'pending')
      .map((i) => ({ ...i, item: itemOf(i) })),
    head: { seq: chainSeq, hash: chainHash },
  }
}

/**
 * Locks the root session and reads its tree. Null when the tenant has no such session. `now` in seconds; `asked` names
 * the permissions to look up beside those that are held. A fixed number of statements, sent together.
 */
export async function lockTree(
  tx: Tx,
  of: TreeOf & {
    readonly userId: UserId
    /** The caller has taken a stronger guard already. */
    readonly guarded?: boolean
  },
): Promise<Tree | null> {
  // Each is a statement of its own, in this order: what is read after the lock is what is true under it.
  const [, , tree] = await Promise.all([
    of.guarded ? undefined : guardShared(tx, of),
    lockRoot(tx, of),
    readTree(tx, of),
  ])
  return tree
}

type TreeOf = {
  readonly tenantId: TenantId
  readonly sessionId: SessionId
  readonly now: number
  readonly asked?: readonly string[]
}

/** The same without the lock, for questions that change nothing: what it says may be over by the time it is read. */
export async function readTree(tx: Tx, of: TreeOf): Promise<Tree | null> {
  const { tenantId, sessionId, now } = of
  const [sessions, grants, access, rules, items, catalog, frozen] = await Promise.all([
    selectSessions(tx, tenantId, sessionId),
    selectGrants(tx, sessionId),
    selectAccess(tx, sessionId),
    selectRules(tx, sessionId, now),
    selectItems(tx, sessionId),
    selectCatalog(tx, sessionId, of.asked ?? []),
    selectFrozen(tx, sessionId),
  ])
  const nodes = sessions.map((row) => nodeOf(row, now, grants, items))
  const root = nodes.find((node) => node.parentId === null) ?? nodes[0]
  if (root === undefined) return null
  const byTemplate = new Map<TemplateId, Rule[]>()
  for (const row of rules) {
    const list = byTemplate.get(row.templateId) ?? []
    list.push({ id: row.id, effect: row.effect, suspended: row.suspended, item: itemOf(row) })
    byTemplate.set(row.templateId, list)
  }
  return {
    root,
    nodes,
    userAccess: access.map(itemOf),
    rules: byTemplate,
    denied: items.filter((i) => i.outcome === 'refused').map(itemOf),
    catalog: new Map(catalog.map((row) => [row.id, row])),
    frozen,
    openRequests: new Set(items.filter((i) => i.outcome === 'pending').map((i) => i.requestId))
      .size,
    requestTimes: sessions.find((row) => row.parentId === null)?.requestTimes ?? [],
  }
}

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
