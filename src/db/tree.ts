import type { ChainHead } from '../core/activity.ts'
import { assert } from '../core/assert.ts'
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
import { guardKey } from './guard.ts'
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

/** Which tree: by one of its sessions, by the refresh token that one of an agent's sessions has, or by a user's prompt. */
type TreeOf = {
  readonly tenantId: TenantId
  readonly now: number
  /** Permissions to know of beside those that are held or asked of the user. */
  readonly asked?: readonly string[]
} & (
  | { readonly sessionId: SessionId }
  | { readonly refreshHash: string; readonly agentId: AgentId }
  | { readonly requestId: RequestId; readonly userId: UserId }
)

/** The one of three that is there, as three parameters. */
const named = (of: TreeOf) => ({
  sessionId: 'sessionId' in of ? of.sessionId : null,
  hash: 'refreshHash' in of ? of.refreshHash : null,
  agentId: 'refreshHash' in of ? of.agentId : null,
  requestId: 'requestId' in of ? of.requestId : null,
  userId: 'requestId' in of ? of.userId : null,
})

/**
 * The guards of `guardShared` and then the root's lock, in one statement. The row is locked when it comes out of the join,
 * so after the guards; a lock reads the row as it is then, whatever snapshot the statement began with. A stronger guard that
 * the transaction has already is no hindrance.
 */
const guardAndLockRoot = (tx: Tx, of: TreeOf, by = named(of)) => tx.sql`
  with named as (
    select root_id, user_id from session
    where tenant_id = ${of.tenantId} and id = coalesce(${by.sessionId}::text,
      (select id from session where refresh_hash = ${by.hash} and agent_id = ${by.agentId}),
      (select session_id from access_request where id = ${by.requestId} and user_id = ${by.userId}))),
  guard as materialized (
    select pg_advisory_xact_lock_shared(hashtextextended(${guardKey(of.tenantId)}::text, 0)),
      pg_advisory_xact_lock_shared(hashtextextended(${guardKey('')}::text || user_id, 0))
    from named)
  select from guard cross join session s where s.id = (select root_id from named)
  for update of s`

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

type TreeSql = {
  named: SessionId | null
  sessions: SessionSql[]
  grants: GrantSql[]
  access: ItemJson[]
  rules: RuleSql[]
  items: ItemSql[]
  catalog: CatalogRow[]
  frozen: { scope: FreezeScope; targetId: string }[]
}

/**
 * All of it in one statement, so on one snapshot. The person is named by themselves, not by a join: only so does Postgres
 * look them up in each part of the access view instead of reading every membership of the deployment.
 */
const selectTree = (tx: Tx, of: TreeOf, by = named(of)) => tx.sql<TreeSql>`
  with named as (
    select id, root_id, tenant_id, user_id from session
    where tenant_id = ${of.tenantId} and id = coalesce(${by.sessionId}::text,
      (select id from session where refresh_hash = ${by.hash} and agent_id = ${by.agentId}),
      (select session_id from access_request where id = ${by.requestId} and user_id = ${by.userId})))
  select (select id from named) as named,
    (select coalesce(json_agg(x), '[]') from (
      select s.id, s.tenant_id as "tenantId", s.root_id as "rootId", s.parent_id as "parentId", s.depth,
        s.user_id as "userId", s.agent_id as "agentId", a.name as "agentName",
        a.status = 'active' as "agentActive", u.status = 'active' as "userActive",
        s.template_id as "templateId", t.name as "templateName", t.title as "templateTitle",
        s.template_version as "templateVersion", s.status, s.end_reason as "endReason",
        s.read_only as "readOnly", s.version, s.task, s.claimed_at is not null as claimed,
        extract(epoch from s.created_at)::float8 as "createdAt", extract(epoch from s.expires_at)::float8 as "expiresAt",
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
      where s.root_id = (select root_id from named) and (s.status = 'active' or s.id = (select id from named))
      order by s.depth, s.created_at, s.id) x) as sessions,
    (select coalesce(json_agg(x), '[]') from (
      select g.id, g.session_id as "sessionId", g.permission_id as permission, g.resource, g.narrow, g.uses,
        g.read_only as "readOnly", g.source, g.rule_id as "ruleId", g.request_id as "requestId",
        g.inherited_from as "inheritedFrom", g.parent_session_id as "parentSessionId",
        extract(epoch from g.created_at)::float8 as "createdAt", extract(epoch from g.last_used_at)::float8 as "lastUsedAt"
      from access_grant g join session s on s.id = g.session_id
      where s.root_id = (select root_id from named)
      order by g.created_at, g.id) x) as grants,
    (select coalesce(json_agg(x), '[]') from (
      select distinct x.permission_id as permission, x.resource, null::jsonb as narrow from user_access x
      where x.user_id = (select user_id from named) and x.tenant_id = (select tenant_id from named)) x) as access,
    (select coalesce(json_agg(x), '[]') from (
      select r.id, r.template_id as "templateId", r.effect, r.status = 'suspended' as suspended,
        r.permission_id as permission, r.resource, r.narrow from consent_rule r
      where r.tenant_id = (select tenant_id from named) and r.user_id = (select user_id from named)
        and (r.expires_at is null or r.expires_at > to_timestamp(${of.now}::float8))
      order by r.created_at, r.id) x) as rules,
    (select coalesce(json_agg(x), '[]') from (
      select i.id, i.request_id as "requestId", i.session_id as "sessionId", i.permission_id as permission,
        i.resource, i.narrow, i.outcome, i.decision_reason as reason,
        extract(epoch from r.created_at)::float8 as "createdAt", extract(epoch from r.expires_at)::float8 as "expiresAt"
      from request_item i join access_request r on r.id = i.request_id
      where r.root_id = (select root_id from named)
        and (i.outcome = 'pending' or i.decision_reason = 'denied_by_user')
      order by r.created_at, i.position) x) as items,
    (select coalesce(json_agg(x), '[]') from (
      select p.id, p.kind, p.access, p.risk, p.sensitive, p.delegable, p.title, p.description,
        p.service_id as service, p.enforced_at as "enforcedAt", p.data,
        p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource"
      from permission p
      where not p.retired and p.id in (
        select unnest(${of.asked ?? []}::text[])
        union all
        select g.permission_id from access_grant g join session s on s.id = g.session_id
        where s.root_id = (select root_id from named)
        union all
        select i.permission_id from access_request r join request_item i on i.request_id = r.id
        where r.root_id = (select root_id from named) and r.status = 'pending')) x) as catalog,
    (select coalesce(json_agg(x), '[]') from (
      select f.scope, f.target_id as "targetId" from frozen f where f.tenant_id = (select tenant_id from named)) x) as frozen`

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
 * the permissions to look up beside those that are held.
 */
export async function lockTree(tx: Tx, of: TreeOf): Promise<Tree | null> {
  // Statements of their own, in this order: what is read after the lock is what is true under it.
  const [, tree] = await Promise.all([guardAndLockRoot(tx, of), readTree(tx, of)])
  return tree
}

/** The same without the lock, for questions that change nothing: what it says may be over by the time it is read. */
export async function readTree(tx: Tx, of: TreeOf): Promise<Tree | null> {
  const [row] = await selectTree(tx, of)
  assert(row, 'a statement without a from has one row')
  const { sessions, grants, access, rules, items, catalog, frozen } = row
  const nodes = sessions.map((session) => nodeOf(session, of.now, grants, items))
  const root = nodes.find((node) => node.parentId === null) ?? nodes[0]
  if (root === undefined || row.named === null) return null
  const byTemplate = new Map<TemplateId, Rule[]>()
  for (const rule of rules) {
    const list = byTemplate.get(rule.templateId) ?? []
    list.push({ id: rule.id, effect: rule.effect, suspended: rule.suspended, item: itemOf(rule) })
    byTemplate.set(rule.templateId, list)
  }
  return {
    named: row.named,
    root,
    nodes,
    userAccess: access.map(itemOf),
    rules: byTemplate,
    denied: items.filter((i) => i.outcome === 'refused').map(itemOf),
    catalog: new Map(catalog.map((row) => [row.id, row])),
    frozen,
    openRequests: new Set(
      items.filter((i) => i.outcome === 'pending' && i.expiresAt > of.now).map((i) => i.requestId),
    ).size,
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
