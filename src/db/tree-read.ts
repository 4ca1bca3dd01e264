import { assert } from '../core/assert.ts'
import { effectiveMode, type Rule } from '../core/facts.ts'
import { lowered } from '../core/limits.ts'
import type { DecisionReason } from '../core/reason.ts'
import type {
  AgentId,
  Item,
  ItemId,
  Limits,
  Mode,
  RequestId,
  RuleId,
  SessionId,
  TemplateId,
  TenantId,
  UserId,
} from '../core/vocabulary.ts'
import { CATALOG_GUARD, guardKey } from './guard.ts'
import {
  type CatalogRow,
  type Child,
  type FreezeScope,
  type GrantRow,
  type ItemJson,
  itemOf,
  type Node,
  type Tree,
} from './tree.ts'
import { json, type Tx } from './tx.ts'

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
export type Wanted =
  | { readonly sessionId: SessionId }
  | { readonly refreshHash: string; readonly agentId: AgentId }
  | { readonly requestId: RequestId; readonly userId: UserId }

type Reading = {
  readonly tenantId: TenantId
  readonly now: number
  /** Permissions to know of beside those that are held or asked of the user. */
  readonly asked?: readonly string[]
}

type TreeOf = Reading & Wanted

const numbered = (wanted: readonly Wanted[]): string =>
  json(wanted.map((one, n) => ({ n, ...one })))

/**
 * The guards of `guardShared` and then the roots' locks, in one statement and one order. The guards are counted before a
 * row is looked at, and a lock reads its row as it is then, whatever snapshot the statement began with. A stronger guard
 * that the transaction has already is no hindrance.
 */
const guardAndLockRoots = (tx: Tx, tenantId: TenantId, wanted: readonly Wanted[]) => tx.sql`
  with wanted as materialized (
    select coalesce(w."sessionId",
      (select id from session where refresh_hash = w."refreshHash" and agent_id = w."agentId"),
      (select session_id from access_request where id = w."requestId" and user_id = w."userId")) as id
    from jsonb_to_recordset(${numbered(wanted)}::text::jsonb)
      as w ("sessionId" text, "refreshHash" text, "agentId" text, "requestId" text, "userId" text)),
  named as materialized (
    select root_id, user_id from session
    where tenant_id = ${tenantId} and id = any(array(select id from wanted))),
  guard as materialized (
    select pg_advisory_xact_lock_shared(hashtextextended(key, 0)) from (
      select ${CATALOG_GUARD}::text as key, -1 as turn
      union
      select ${guardKey(tenantId)}::text, 0
      union
      select ${guardKey('')}::text || user_id, 1 from named
      order by turn, key) keys)
  select from session s
  where (select count(*) from guard) > 0 and s.id = any(array(select root_id from named))
  order by s.id for update of s`

type GrantSql = Omit<GrantRow, 'item'> & ItemJson
type RuleSql = ItemJson & {
  id: RuleId
  templateId: TemplateId
  effect: Rule['effect']
  suspended: boolean
}
type ItemSql = ItemJson & {
  id: ItemId
  rootId: SessionId
  requestId: RequestId
  sessionId: SessionId
  outcome: 'pending' | 'refused'
  reason: DecisionReason
  createdAt: number
  expiresAt: number
}

type NamedSql = { n: number; id: SessionId; rootId: SessionId; userId: UserId }

type TreeSql = {
  named: NamedSql[]
  sessions: SessionSql[]
  grants: GrantSql[]
  access: (ItemJson & { userId: UserId })[]
  rules: (RuleSql & { userId: UserId })[]
  items: ItemSql[]
  catalog: CatalogRow[]
  frozen: { scope: FreezeScope; targetId: string }[]
}

/**
 * All of it in one statement, so on one snapshot. The person is named by themselves, not by a join: only so does Postgres
 * look them up in each part of the access view instead of reading every membership of the deployment.
 */
const selectTrees = (tx: Tx, of: Reading, wanted: readonly Wanted[]) => tx.sql<TreeSql>`
  with wanted as materialized (
    select w.n, coalesce(w."sessionId",
      (select id from session where refresh_hash = w."refreshHash" and agent_id = w."agentId"),
      (select session_id from access_request where id = w."requestId" and user_id = w."userId")) as id
    from jsonb_to_recordset(${numbered(wanted)}::text::jsonb)
      as w (n integer, "sessionId" text, "refreshHash" text, "agentId" text, "requestId" text, "userId" text)),
  named as materialized (
    select id, root_id, user_id from session
    where tenant_id = ${of.tenantId} and id = any(array(select id from wanted)))
  select
    (select coalesce(json_agg(x), '[]') from (
      select w.n, d.id, d.root_id as "rootId", d.user_id as "userId"
      from wanted w join named d on d.id = w.id) x) as named,
    (select coalesce(json_agg(x), '[]') from (
      select s.id, s.tenant_id as "tenantId", s.root_id as "rootId", s.parent_id as "parentId", s.depth, s.user_id as "userId",
        s.agent_id as "agentId", a.name as "agentName", a.status = 'active' as "agentActive", u.status = 'active' as "userActive",
        s.template_id as "templateId", t.name as "templateName", t.title as "templateTitle", s.template_version as "templateVersion",
        s.status, s.end_reason as "endReason", s.read_only as "readOnly", s.version, s.task, s.claimed_at is not null as claimed,
        extract(epoch from s.created_at)::float8 as "createdAt", extract(epoch from s.expires_at)::float8 as "expiresAt",
        s.mode as "rowMode", extract(epoch from s.mode_expires_at)::float8 as "modeExpiresAt",
        s.chain_seq as "chainSeq", s.chain_hash as "chainHash", s.request_times as "requestTimes",
        v.ceiling, v.modes, v.limits as "ownLimits", v.sensitive, v.children, v.context, e.status as enablement, e.kept, e.modes as "keptModes", e.limits as "keptLimits",
        w.ceiling as "adoptedCeiling", w.modes as "adoptedModes", w.limits as "adoptedLimits",
        w.sensitive as "adoptedSensitive", w.children as "adoptedChildren"
      from session s
      join agent a on a.id = s.agent_id
      join app_user u on u.id = s.user_id
      join template t on t.id = s.template_id
      join template_version v on v.template_id = s.template_id and v.version = s.template_version
      left join enablement e on e.tenant_id = s.tenant_id and e.template_id = s.template_id
      left join template_version w on w.template_id = e.template_id and w.version = e.adopted_version
      where s.root_id = any(array(select root_id from named))
        and (s.status = 'active' or s.id = any(array(select id from named))) order by s.depth, s.created_at, s.id) x) as sessions,
    (select coalesce(json_agg(x), '[]') from (
      select g.id, g.session_id as "sessionId", g.permission_id as permission, g.resource, g.narrow, g.uses,
        g.read_only as "readOnly", g.source, g.rule_id as "ruleId", g.request_id as "requestId",
        g.inherited_from as "inheritedFrom", g.parent_session_id as "parentSessionId",
        extract(epoch from g.created_at)::float8 as "createdAt", extract(epoch from g.last_used_at)::float8 as "lastUsedAt"
      from access_grant g join session s on s.id = g.session_id
      where s.root_id = any(array(select root_id from named)) order by g.created_at, g.id) x) as grants,
    (select coalesce(json_agg(x), '[]') from (
      select distinct x.user_id as "userId", x.permission_id as permission, x.resource, null::jsonb as narrow from user_access x
      where x.user_id = any(array(select user_id from named)) and x.tenant_id = ${of.tenantId}) x) as access,
    (select coalesce(json_agg(x), '[]') from (
      select r.id, r.user_id as "userId", r.template_id as "templateId", r.effect, r.status = 'suspended' as suspended,
        r.permission_id as permission, r.resource, r.narrow from consent_rule r
      where r.tenant_id = ${of.tenantId} and r.user_id = any(array(select user_id from named))
        and (r.expires_at is null or r.expires_at > to_timestamp(${of.now}::float8)) order by r.created_at, r.id) x) as rules,
    (select coalesce(json_agg(x), '[]') from (
      select i.id, i.request_id as "requestId", i.session_id as "sessionId", r.root_id as "rootId", i.permission_id as permission,
        i.resource, i.narrow, i.outcome, i.decision_reason as reason,
        extract(epoch from r.created_at)::float8 as "createdAt", extract(epoch from r.expires_at)::float8 as "expiresAt"
      from request_item i join access_request r on r.id = i.request_id
      where r.root_id = any(array(select root_id from named))
        and (i.outcome = 'pending' or i.decision_reason = 'denied_by_user') order by r.created_at, i.position) x) as items,
    (select coalesce(json_agg(x), '[]') from (
      select p.id, p.kind, p.access, p.risk, p.sensitive, p.delegable, p.title, p.description,
        p.service_id as service, p.enforced_at as "enforcedAt", p.data,
        p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource"
      from permission p
      where not p.retired and p.id in (
        select unnest(${of.asked ?? []}::text[])
        union all
        select g.permission_id from access_grant g join session s on s.id = g.session_id where s.root_id = any(array(select root_id from named))
        union all
        select i.permission_id from access_request r join request_item i on i.request_id = r.id
        where r.root_id = any(array(select root_id from named)) and r.status = 'pending')) x) as catalog,
    (select coalesce(json_agg(x), '[]') from (
      select f.scope, f.target_id as "targetId" from frozen f where f.tenant_id = ${of.tenantId}) x) as frozen`

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
 * Locks root sessions and reads their trees, in the order wanted. Null where the tenant has no such session. `now` in
 * seconds; `asked` names the permissions to look up beside those that are held. Of two that are in one tree, the second
 * does not know what is done with the first.
 */
export async function lockTrees(
  tx: Tx,
  of: Reading,
  wanted: readonly Wanted[],
): Promise<readonly (Tree | null)[]> {
  // Statements of their own, in this order: what is read after the lock is what is true under it.
  const [, trees] = await Promise.all([
    guardAndLockRoots(tx, of.tenantId, wanted),
    readTrees(tx, of, wanted),
  ])
  return trees
}

export const lockTree = async (tx: Tx, of: TreeOf): Promise<Tree | null> =>
  (await lockTrees(tx, of, [wantedIn(of)]))[0] ?? null

/** The same without the lock, for questions that change nothing: what it says may be over by the time it is read. */
export const readTree = async (tx: Tx, of: TreeOf): Promise<Tree | null> =>
  (await readTrees(tx, of, [wantedIn(of)]))[0] ?? null

const wantedIn = (of: TreeOf): Wanted => {
  if ('sessionId' in of) return { sessionId: of.sessionId }
  if ('refreshHash' in of) return { refreshHash: of.refreshHash, agentId: of.agentId }
  return { requestId: of.requestId, userId: of.userId }
}

async function readTrees(
  tx: Tx,
  of: Reading,
  wanted: readonly Wanted[],
): Promise<readonly (Tree | null)[]> {
  const [row] = await selectTrees(tx, of, wanted)
  assert(row, 'a statement without a from has one row')
  const catalog = new Map(row.catalog.map((one) => [one.id, one]))
  const read = new Map(row.named.map((named) => [named.n, treeOf(row, catalog, named, of.now)]))
  return wanted.map((_, n) => read.get(n) ?? null)
}

/** One tree of those that were read together. */
function treeOf(row: TreeSql, catalog: Tree['catalog'], named: NamedSql, now: number): Tree | null {
  const sessions = row.sessions.filter(
    (s) => s.rootId === named.rootId && (s.status === 'active' || s.id === named.id),
  )
  const items = row.items.filter((i) => i.rootId === named.rootId)
  const nodes = sessions.map((session) => nodeOf(session, now, row.grants, items))
  const root = nodes.find((node) => node.parentId === null) ?? nodes[0]
  if (root === undefined) return null
  const byTemplate = new Map<TemplateId, Rule[]>()
  for (const rule of row.rules) {
    if (rule.userId !== named.userId) continue
    const list = byTemplate.get(rule.templateId) ?? []
    list.push({ id: rule.id, effect: rule.effect, suspended: rule.suspended, item: itemOf(rule) })
    byTemplate.set(rule.templateId, list)
  }
  const open = items.filter((i) => i.outcome === 'pending' && i.expiresAt > now)
  return {
    named: named.id,
    root,
    nodes,
    userAccess: row.access.filter((item) => item.userId === named.userId).map(itemOf),
    rules: byTemplate,
    denied: items.filter((i) => i.outcome === 'refused').map(itemOf),
    catalog,
    frozen: row.frozen,
    openRequests: new Set(open.map((i) => i.requestId)).size,
    requestTimes: sessions.find((one) => one.parentId === null)?.requestTimes ?? [],
  }
}
