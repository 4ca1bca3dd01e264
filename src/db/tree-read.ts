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
import { shareReads } from './batches.ts'
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
import { type Db, hotRead, json, type Tx } from './tx.ts'

type SessionSql = Omit<
  Node,
  | 'mode'
  | 'allowedModes'
  | 'limits'
  | 'enabled'
  | 'ceilings'
  | 'sensitiveMarks'
  | 'children'
  | 'context'
  | 'grants'
  | 'pending'
  | 'head'
> & {
  chainSeq: number
  chainHash: string
  requestTimes: number[]
}

type VersionSql = {
  templateId: TemplateId
  version: number
  ceiling: Item[]
  modes: Mode[]
  limits: Limits
  sensitive: Item[]
  children: Child[]
  context: string
}

type EnabledSql = {
  templateId: TemplateId
  status: 'on' | 'off'
  adopted: number
  kept: Item[]
  modes: Mode[]
  limits: Partial<Limits>
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
  versions: VersionSql[]
  enabled: EnabledSql[]
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
    where tenant_id = ${of.tenantId} and id = any(array(select id from wanted))),
  live as materialized (
    select * from session s where s.root_id = any(array(select root_id from named)) and (s.status = 'active' or s.id = any(array(select id from named)))),
  enabled as materialized (
    select e.* from enablement e where e.tenant_id = ${of.tenantId} and e.template_id = any(array(select template_id from live)))
  select
    (select coalesce(json_agg(x), '[]') from (
      select w.n, d.id, d.root_id as "rootId", d.user_id as "userId" from wanted w join named d on d.id = w.id) x) as named,
    (select coalesce(json_agg(x), '[]') from (
      select s.id, s.tenant_id as "tenantId", s.root_id as "rootId", s.parent_id as "parentId", s.depth, s.user_id as "userId",
        s.agent_id as "agentId", a.name as "agentName", a.status = 'active' as "agentActive", u.status = 'active' as "userActive",
        s.template_id as "templateId", t.name as "templateName", t.title as "templateTitle", s.template_version as "templateVersion",
        s.status, s.end_reason as "endReason", s.read_only as "readOnly", s.version, s.task, s.claimed_at is not null as claimed,
        extract(epoch from s.created_at)::float8 as "createdAt", extract(epoch from s.expires_at)::float8 as "expiresAt",
        s.mode as "rowMode", extract(epoch from s.mode_expires_at)::float8 as "modeExpiresAt",
        s.chain_seq as "chainSeq", s.chain_hash as "chainHash", s.request_times as "requestTimes"
      from live s join agent a on a.id = s.agent_id join app_user u on u.id = s.user_id join template t on t.id = s.template_id
      order by s.depth, s.created_at, s.id) x) as sessions,
    (select coalesce(json_agg(x), '[]') from (
      select v.template_id as "templateId", v.version, v.ceiling, v.modes, v.limits, v.sensitive, v.children, v.context
      from (select template_id, template_version as version from live
        union select template_id, adopted_version from enabled) k
      join template_version v on v.template_id = k.template_id and v.version = k.version) x) as versions,
    (select coalesce(json_agg(json_build_object('templateId', template_id, 'status', status, 'adopted', adopted_version,
      'kept', kept, 'modes', modes, 'limits', limits)), '[]') from enabled) as enabled,
    (select coalesce(json_agg(x), '[]') from (
      select g.id, g.session_id as "sessionId", g.permission_id as permission, g.resource, g.narrow, g.uses,
        g.read_only as "readOnly", g.source, g.rule_id as "ruleId", g.request_id as "requestId",
        g.inherited_from as "inheritedFrom", g.parent_session_id as "parentSessionId",
        extract(epoch from g.created_at)::float8 as "createdAt", extract(epoch from g.last_used_at)::float8 as "lastUsedAt"
      from access_grant g
      where g.session_id = any(array(select id from live)) order by g.created_at, g.id) x) as grants,
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
      where r.root_id = any(array(select root_id from named)) and (i.outcome = 'pending' or i.decision_reason = 'denied_by_user') order by r.created_at, i.position) x) as items,
    (select coalesce(json_agg(x), '[]') from (
      select p.id, p.kind, p.access, p.risk, p.sensitive, p.delegable, p.title, p.description,
        p.service_id as service, p.enforced_at as "enforcedAt", p.data,
        p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource"
      from permission p
      where not p.retired and p.id in (
        select unnest(${of.asked ?? []}::text[])
        union all
        select g.permission_id from access_grant g where g.session_id = any(array(select id from live))
        union all
        select i.permission_id from access_request r join request_item i on i.request_id = r.id
        where r.root_id = any(array(select root_id from named)) and r.status = 'pending')) x) as catalog,
    (select coalesce(json_agg(json_build_object('scope', f.scope, 'targetId', f.target_id)), '[]')
      from frozen f where f.tenant_id = ${of.tenantId}) as frozen`

/** What a session's template is, as it runs and as its tenant adopted and cut it. */
type TemplateOf = {
  readonly runs: VersionSql
  readonly adopted: VersionSql | undefined
  readonly enabled: EnabledSql | undefined
}

function templateOf(row: TreeSql, session: SessionSql): TemplateOf {
  const versionIs = (version: number | undefined) =>
    row.versions.find((v) => v.templateId === session.templateId && v.version === version)
  const enabled = row.enabled.find((e) => e.templateId === session.templateId)
  const runs = versionIs(session.templateVersion)
  assert(runs, 'a session runs a template version')
  return { runs, enabled, adopted: versionIs(enabled?.adopted) }
}

function nodeOf(row: SessionSql, template: TemplateOf, now: number, of: TreeSql): Node {
  const { chainSeq, chainHash, requestTimes: _, ...rest } = row
  const { runs, adopted, enabled } = template
  const isOn = enabled?.status === 'on'
  const allowedModes = runs.modes.filter(
    (mode) => (enabled?.modes ?? []).includes(mode) && (adopted?.modes ?? []).includes(mode),
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
    limits: lowered(lowered(runs.limits, adopted?.limits ?? {}), enabled?.limits ?? {}),
    enabled: isOn,
    // Not turned on: an empty list covers nothing, so nothing is in the ceiling.
    ceilings: [runs.ceiling, adopted?.ceiling ?? [], isOn ? enabled.kept : []],
    children: [runs.children, adopted?.children ?? []],
    sensitiveMarks: [...runs.sensitive, ...(adopted?.sensitive ?? [])],
    context: runs.context,
    grants: of.grants.filter((g) => g.sessionId === row.id).map((g) => ({ ...g, item: itemOf(g) })),
    pending: of.items
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

/** `readTree` outside a transaction, for checks: those of one tenant that come at once share a statement. */
export const checkedTree = (
  db: Db,
  of: { readonly tenantId: TenantId; readonly sessionId: SessionId; readonly now: number },
): Promise<Tree | null> => checkedTrees(db, { id: of.tenantId }, of)

const checkedTrees = shareReads(
  (
    db,
    { id: tenantId }: { readonly id: TenantId },
    all: readonly { readonly sessionId: SessionId; readonly now: number }[],
  ) => {
    const now = Math.max(...all.map((one) => one.now))
    const wanted = all.map(({ sessionId }) => ({ sessionId }))
    return hotRead(db, 'check_session', (tx) => readTrees(tx, { tenantId, now }, wanted))
  },
)

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
  const nodes = sessions.map((session) => nodeOf(session, templateOf(row, session), now, row))
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
