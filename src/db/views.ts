import type { DecisionReason } from '../core/reason.ts'
import type { ItemOutcome } from '../core/session.ts'
import type { Filter, Item, Kind, Risk, RuleEffect, TenantId, UserId } from '../core/vocabulary.ts'
import { ruleSentences } from './rule-words.ts'
import { type ItemJson, itemOf } from './tree.ts'
import type { Tx } from './tx.ts'
import { iso, type Place } from './view-sessions.ts'

/** Access requests and rules, as the People API shows them. One statement a list, whatever its length. */
export type RequestFilter = {
  readonly tenantId: TenantId
  readonly userId: UserId
  readonly id?: string | undefined
  readonly sessionId?: string | undefined
  readonly status?: 'pending' | 'settled' | undefined
  readonly after?: Place | undefined
  readonly limit: number
  /** Seconds. A request whose time has run out is settled, whether or not the sweep has marked it. */
  readonly now: number
}

type RequestItemSql = ItemJson & {
  id: string
  title: string | null
  unlocks: string | null
  kind: Kind | null
  risk: Risk | null
  sensitive: boolean
  outcome: ItemOutcome
  reason: DecisionReason
  decidedAt: number | null
  /** The suspended rule that Always would renew; only of a pending item that is asked by `reconsent`. */
  rule: ItemJson | null
}

type RequestSql = {
  id: string
  sessionId: string
  rootId: string
  path: string[]
  agentId: string
  agentName: string
  template: string
  templateTitle: string
  templateVersion: number
  reason: string
  digest: string
  status: 'pending' | 'settled'
  /** Pending in the table, and its time has run out. */
  late: boolean
  createdAt: number
  expiresAt: number
  settledAt: number | null
  note: string | null
  items: RequestItemSql[]
}

const selectRequests = (tx: Tx, of: RequestFilter) => tx.sql<RequestSql>`
  with recursive shown as (
    select q.*, q.status = 'pending' and q.expires_at <= to_timestamp(${of.now}::float8) as late
    from access_request q
    where q.tenant_id = ${of.tenantId} and q.user_id = ${of.userId}
      and (${of.id ?? null}::text is null or q.id = ${of.id ?? null})
      and (${of.sessionId ?? null}::text is null or q.session_id = ${of.sessionId ?? null})
      and (${of.status ?? null}::text is null or (${of.status ?? null} = 'pending')
        = (q.status = 'pending' and q.expires_at > to_timestamp(${of.now}::float8)))
      and (${of.after?.[0] ?? null}::float8 is null or (q.created_at, q.id)
        < (to_timestamp(${of.after?.[0] ?? null}::float8 / 1000)::timestamptz(3), ${of.after?.[1] ?? null}::text))
    order by q.created_at desc, q.id desc limit ${of.limit}),
  up as (
    select s.id as of, s.id, s.parent_id, s.template_id, s.depth
    from session s where s.id in (select session_id from shown)
    union all
    select up.of, p.id, p.parent_id, p.template_id, p.depth from up join session p on p.id = up.parent_id),
  path as (
    select up.of, array_agg(t.title order by up.depth) as titles
    from up join template t on t.id = up.template_id group by up.of),
  item as (
    select i.request_id, jsonb_agg(jsonb_build_object('id', i.id, 'permission', i.permission_id,
      'resource', i.resource, 'narrow', i.narrow, 'title', p.title, 'unlocks', p.description,
      'kind', p.kind, 'risk', p.risk, 'sensitive', i.sensitive or coalesce(p.sensitive, false),
      'outcome', i.outcome, 'reason', i.decision_reason,
      'decidedAt', extract(epoch from i.decided_at)::float8,
      'rule', case when r.id is null then null else jsonb_build_object('permission', r.permission_id,
        'resource', r.resource, 'narrow', r.narrow) end) order by i.position) as items
    from request_item i
    left join permission p on p.id = i.permission_id
    left join consent_rule r on r.id = i.rule_id and i.outcome = 'pending' and i.asked_reason = 'reconsent'
    where i.request_id in (select id from shown) group by i.request_id)
  select q.id, q.session_id as "sessionId", q.root_id as "rootId", path.titles as path,
    s.agent_id as "agentId", a.name as "agentName", t.name as template, t.title as "templateTitle",
    s.template_version as "templateVersion", q.reason, q.digest, q.status, q.late,
    extract(epoch from q.created_at)::float8 as "createdAt",
    extract(epoch from q.expires_at)::float8 as "expiresAt",
    extract(epoch from q.settled_at)::float8 as "settledAt", q.note, coalesce(item.items, '[]') as items
  from shown q
  join session s on s.id = q.session_id
  join path on path.of = q.session_id
  join agent a on a.id = s.agent_id
  join template t on t.id = s.template_id
  left join item on item.request_id = q.id
  order by q.created_at desc, q.id desc`

const shownItem = (item: Item) => ({
  permission: item.permission,
  ...(item.resource === undefined ? {} : { resource: item.resource }),
  ...(item.narrow === undefined ? {} : { narrow: { ...item.narrow } }),
})

/** The rule that Always would leave, word for word: what is stored is what was shown (USER-ASKS 24). */
function previewOf(request: RequestSql, row: RequestItemSql) {
  const item = itemOf(row.rule ?? row)
  return {
    effect: 'allow' as const,
    template: request.template,
    ...shownItem(item),
    ...ruleSentences(item, {
      title: row.title ?? item.permission,
      template: request.templateTitle,
    }),
  }
}

function itemViewOf(request: RequestSql, row: RequestItemSql) {
  const outcome: ItemOutcome = request.late && row.outcome === 'pending' ? 'refused' : row.outcome
  const canRemember = outcome === 'pending' && !row.sensitive
  return {
    id: row.id,
    ...shownItem(itemOf(row)),
    title: row.title ?? row.permission,
    unlocks: row.unlocks ?? 'The catalog has no permission of this id.',
    ...(row.kind === null ? {} : { kind: row.kind }),
    ...(row.risk === null ? {} : { risk: row.risk }),
    sensitive: row.sensitive,
    outcome,
    decision_reason:
      outcome === row.outcome ? row.reason : ('expired' as const satisfies DecisionReason),
    ...(row.decidedAt === null ? {} : { decided_at: iso(row.decidedAt) }),
    can_remember: canRemember,
    ...(canRemember ? { rule_preview: previewOf(request, row) } : {}),
  }
}

function requestOf(row: RequestSql) {
  const settledAt = row.late ? row.expiresAt : row.settledAt
  return {
    id: row.id,
    session_id: row.sessionId,
    root_session_id: row.rootId,
    path: row.path,
    agent: { id: row.agentId, name: row.agentName },
    template: { name: row.template, title: row.templateTitle, version: row.templateVersion },
    reason: row.reason,
    digest: row.digest,
    status: row.late ? ('settled' as const) : row.status,
    created_at: iso(row.createdAt),
    expires_at: iso(row.expiresAt),
    ...(settledAt === null ? {} : { settled_at: iso(settledAt) }),
    ...(row.note === null ? {} : { note: row.note }),
    items: row.items.map((item) => itemViewOf(row, item)),
  }
}

/** Newest first; those of subagents are among their user's. */
export async function requestViews(tx: Tx, of: RequestFilter) {
  return (await selectRequests(tx, of)).map(requestOf)
}

export type RuleFilter = {
  readonly tenantId: TenantId
  readonly userId: UserId
  readonly id?: string | undefined
  /** By name. */
  readonly template?: string | undefined
  readonly effect?: RuleEffect | undefined
  readonly after?: Place | undefined
  readonly limit: number
  readonly now: number
}

type RuleSql = {
  id: string
  template: string
  permission: string
  title: string
  resource: string | null
  narrow: Filter | null
  effect: RuleEffect
  status: 'active' | 'suspended'
  createdFrom: string | null
  createdAt: number
  expiresAt: number | null
}

/** Rules that have not run out, newest first. */
export async function ruleViews(tx: Tx, of: RuleFilter) {
  const rows = await tx.sql<RuleSql>`
    select r.id, t.name as template, r.permission_id as permission, p.title, r.resource, r.narrow,
      r.effect, r.status, r.created_from as "createdFrom",
      extract(epoch from r.created_at)::float8 as "createdAt",
      extract(epoch from r.expires_at)::float8 as "expiresAt"
    from consent_rule r
    join template t on t.id = r.template_id
    join permission p on p.id = r.permission_id
    where r.tenant_id = ${of.tenantId} and r.user_id = ${of.userId}
      and (r.expires_at is null or r.expires_at > to_timestamp(${of.now}::float8))
      and (${of.id ?? null}::text is null or r.id = ${of.id ?? null})
      and (${of.template ?? null}::text is null or t.name = ${of.template ?? null})
      and (${of.effect ?? null}::text is null or r.effect = ${of.effect ?? null})
      and (${of.after?.[0] ?? null}::float8 is null or (r.created_at, r.id)
        < (to_timestamp(${of.after?.[0] ?? null}::float8 / 1000)::timestamptz(3), ${of.after?.[1] ?? null}::text))
    order by r.created_at desc, r.id desc limit ${of.limit}`
  return rows.map((row) => ({
    id: row.id,
    template: row.template,
    ...shownItem(itemOf(row)),
    title: row.title,
    effect: row.effect,
    status: row.status,
    ...(row.createdFrom === null ? {} : { created_from: row.createdFrom }),
    created_at: iso(row.createdAt),
    ...(row.expiresAt === null ? {} : { expires_at: iso(row.expiresAt) }),
  }))
}
