import type { ActivityRecord } from '../core/activity.ts'
import { assert } from '../core/assert.ts'
import type { TenantId, UserId } from '../core/vocabulary.ts'
import { selectRecord } from './activity-read.ts'
import type { Tx } from './tx.ts'
import type { Place } from './view-sessions.ts'

/** What compliance asks of the record, per session tree and over all of them (SPEC section 11). Times in seconds. */

/** Whose: null, anyone's in the tenant. */
export type Scope = { readonly tenantId: TenantId; readonly onlyUser: UserId | null }

export type TreeFilter = {
  readonly user?: string | undefined
  readonly agent?: string | undefined
  /** A name, for any version. */
  readonly template?: string | undefined
  readonly permission?: string | undefined
  /** Trees that were live at some time in between; from inclusive, to exclusive. */
  readonly from?: number | undefined
  readonly to?: number | undefined
}

export type Root = { readonly id: string; readonly subagents: number }

/** Root sessions, newest first, after a place of milliseconds and id. */
export async function selectRoots(
  tx: Tx,
  of: Scope & {
    readonly filter: TreeFilter
    readonly after: Place | undefined
    readonly limit: number
  },
): Promise<readonly Root[]> {
  const { user, agent, template, permission, from, to } = of.filter
  return tx.sql<Root>`
    select s.id, (select count(*)::integer - 1 from session one where one.root_id = s.id) as subagents
    from session s
    where s.tenant_id = ${of.tenantId} and s.parent_id is null
      and (${of.onlyUser}::text is null or s.user_id = ${of.onlyUser})
      and (${user ?? null}::text is null or s.user_id = ${user ?? null})
      and (${agent ?? null}::text is null or s.agent_id = ${agent ?? null})
      and (${template ?? null}::text is null or s.template_id =
        (select id from template where name = ${template ?? null}))
      and (${to ?? null}::float8 is null or s.created_at < to_timestamp(${to ?? null}::float8))
      and (${from ?? null}::float8 is null
        or coalesce(s.ended_at, s.expires_at) >= to_timestamp(${from ?? null}::float8))
      and (${permission ?? null}::text is null or exists (
        select from session one join request_item i on i.session_id = one.id
        where one.root_id = s.id and i.permission_id = ${permission ?? null}))
      and (${of.after?.[0] ?? null}::float8 is null or (s.created_at, s.id)
        < (to_timestamp(${of.after?.[0] ?? null}::float8 / 1000)::timestamptz(3), ${of.after?.[1] ?? null}::text))
    order by s.created_at desc, s.id desc limit ${of.limit}`
}

/** What happened to one permission (and resource) in one tree, counted by how it was decided. */
export type Happened = {
  readonly root: string
  readonly permission: string
  readonly resource: string | null
  readonly what: 'asked' | 'granted' | 'refused' | 'ended' | 'allowed' | 'denied'
  /** Who or what decided: user, rule, mode, inherited, policy, prompt. */
  readonly by: string | null
  readonly reason: string | null
  readonly n: number
  readonly first: number
  readonly last: number
}

/** All of it for the trees of one page, out of the record alone, in one statement. */
export const selectHappened = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly roots: readonly string[] },
): Promise<readonly Happened[]> => tx.sql<Happened>`
  with record as (
    select root_session_id as root, type, at, data from activity
    where tenant_id = ${of.tenantId} and root_session_id = any(${of.roots}::text[])
      and type in ('access.requested', 'access.decided', 'grant.created', 'grant.ended', 'call.allowed', 'call.denied')
      and coalesce(data ->> 'tool', '') not like 'iam.%'),
  fact as (
    select root, at, 'asked' as what, item ->> 'permission' as permission, item ->> 'resource' as resource,
      null as by, null as reason, 1 as n
    from record, jsonb_array_elements(data -> 'items') as item
    where type = 'access.requested' and not item ? 'already_asked'
    union all
    select root, at, 'refused', data ->> 'permission', data ->> 'resource', data ->> 'decided_by',
      data ->> 'reason', 1
    from record where type = 'access.decided' and data ->> 'outcome' = 'refused'
    union all
    select root, at, 'granted', data ->> 'permission', data ->> 'resource', data ->> 'source', null, 1
    from record where type = 'grant.created'
    union all
    select root, at, 'ended', data ->> 'permission', data ->> 'resource', null, data ->> 'reason', 1
    from record where type = 'grant.ended'
    union all
    select root, at, case type when 'call.allowed' then 'allowed' else 'denied' end,
      coalesce(data ->> 'permission', ''), data ->> 'resource', null,
      case type when 'call.denied' then data ->> 'reason' end, coalesce((data ->> 'calls')::integer, 1)
    from record where type in ('call.allowed', 'call.denied'))
  select root, permission, resource, what, by, reason, sum(n)::integer as n,
    extract(epoch from min(at))::float8 as first, extract(epoch from max(at))::float8 as last
  from fact group by root, permission, resource, what, by, reason
  order by root, min(at), permission, resource, what`

/** Calls of one session and permission in one stretch of time. */
export type CallCount = {
  readonly sessionId: string
  readonly permission: string
  /** Where the stretch begins. */
  readonly at: number
  readonly allowed: number
  readonly denied: number
}

/** A tree may have called a million times: calls are counted by stretches of `seconds`, most of them first cut. */
export const selectCalls = (
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly root: string
    readonly seconds: number
    readonly limit: number
  },
): Promise<readonly CallCount[]> => tx.sql<CallCount>`
  select session_id as "sessionId", coalesce(data ->> 'permission', '') as permission,
    floor(extract(epoch from at) / ${of.seconds}::integer)::float8 * ${of.seconds}::integer as at,
    coalesce(sum(coalesce((data ->> 'calls')::integer, 1)) filter (where type = 'call.allowed'), 0)::integer as allowed,
    coalesce(sum(coalesce((data ->> 'calls')::integer, 1)) filter (where type = 'call.denied'), 0)::integer as denied
  from activity
  where tenant_id = ${of.tenantId} and root_session_id = ${of.root}
    and type in ('call.allowed', 'call.denied') and coalesce(data ->> 'tool', '') not like 'iam.%'
  group by 1, 2, 3 order by 3, 1, 2 limit ${of.limit}`

export type UnusedRule = {
  readonly id: string
  readonly userId: UserId
  readonly login: string
  readonly template: string
  readonly permission: string
  readonly title: string
  readonly resource: string | null
  readonly createdAt: number
  readonly lastUsedAt: number | null
}

/** Allow rules that skipped no question since a time, oldest use first. */
export const selectUnusedRules = (
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly since: number
    readonly now: number
    readonly limit: number
  },
): Promise<readonly UnusedRule[]> => tx.sql<UnusedRule>`
  select r.id, r.user_id as "userId", u.login, t.name as template, r.permission_id as permission, p.title,
    r.resource, extract(epoch from r.created_at)::float8 as "createdAt",
    extract(epoch from used.at)::float8 as "lastUsedAt"
  from consent_rule r
  join app_user u on u.id = r.user_id
  join template t on t.id = r.template_id
  join permission p on p.id = r.permission_id
  left join lateral (
    select max(i.decided_at) as at from request_item i where i.rule_id = r.id) used on true
  where r.tenant_id = ${of.tenantId} and r.effect = 'allow'
    and (r.expires_at is null or r.expires_at > to_timestamp(${of.now}::float8))
    and r.created_at < to_timestamp(${of.since}::float8)
    and (used.at is null or used.at < to_timestamp(${of.since}::float8))
  order by coalesce(used.at, r.created_at), r.id limit ${of.limit}`

export type NeverUsed = {
  readonly template: string
  readonly permission: string
  readonly title: string
  /** Grants of it in the time asked for; none was ever called with. */
  readonly granted: number
  readonly sessions: number
}

/** What templates were granted since a time and no call was ever made with, most granted first. */
export const selectNeverUsed = (
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly since: number
    readonly atLeast: number
    readonly limit: number
  },
): Promise<readonly NeverUsed[]> => tx.sql<NeverUsed>`
  with granted as (
    select split_part(a.template, '@', 1) as template, a.data ->> 'permission' as permission,
      count(*)::integer as granted, count(distinct a.session_id)::integer as sessions
    from activity a
    where a.tenant_id = ${of.tenantId} and a.type = 'grant.created' and a.at >= to_timestamp(${of.since}::float8)
    group by 1, 2),
  called as (
    select distinct split_part(a.template, '@', 1) as template, a.data ->> 'permission' as permission
    from activity a
    where a.tenant_id = ${of.tenantId} and a.type = 'call.allowed' and a.at >= to_timestamp(${of.since}::float8)
      and coalesce(a.data ->> 'tool', '') not like 'iam.%')
  select g.template, g.permission, p.title, g.granted, g.sessions
  from granted g join permission p on p.id = g.permission
  where g.granted >= ${of.atLeast}
    and not exists (select from called c where c.template = g.template and c.permission = g.permission)
  order by g.granted desc, g.template, g.permission limit ${of.limit}`

export type Consent = {
  /** Null: of all templates together. */
  readonly template: string | null
  readonly title: string | null
  readonly sessions: number
  /** Items that a person was asked about. */
  readonly prompts: number
  readonly allowed: number
  readonly denied: number
  readonly expired: number
  readonly cancelled: number
  /** A yes that something else had already taken away by then. */
  readonly refused: number
  /** Seconds from question to answer; null when nothing was answered. */
  readonly median: number | null
  readonly p90: number | null
}

/** How people answer, in all (first) and by template, over requests made in a time. */
export const selectConsent = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly from: number; readonly to: number },
): Promise<readonly Consent[]> => tx.sql<Consent>`
  with ran as (
    select coalesce(t.name, '') as template, grouping(t.name) as total, max(t.title) as title,
      count(*)::integer as sessions
    from session s join template t on t.id = s.template_id
    where s.tenant_id = ${of.tenantId} and s.created_at >= to_timestamp(${of.from}::float8)
      and s.created_at < to_timestamp(${of.to}::float8)
    group by rollup (t.name)),
  item as (
    select t.name as template, t.title, i.decision_reason as reason, i.outcome,
      extract(epoch from i.decided_at - r.created_at) as seconds, i.answered_by is not null as answered
    from access_request r
    join request_item i on i.request_id = r.id
    join session s on s.id = r.session_id
    join template t on t.id = s.template_id
    where r.tenant_id = ${of.tenantId} and r.created_at >= to_timestamp(${of.from}::float8)
      and r.created_at < to_timestamp(${of.to}::float8) and i.asked_reason is not null),
  counted as (
    select coalesce(template, '') as template, grouping(template) as total, max(title) as title,
      count(*)::integer as prompts,
      count(*) filter (where reason = 'allowed_by_user')::integer as allowed,
      count(*) filter (where reason = 'denied_by_user')::integer as denied,
      count(*) filter (where reason = 'expired')::integer as expired,
      count(*) filter (where reason = 'cancelled')::integer as cancelled,
      count(*) filter (where answered and outcome = 'refused' and reason <> 'denied_by_user')::integer as refused,
      percentile_cont(0.5) within group (order by seconds) filter (where answered)::float8 as median,
      percentile_cont(0.9) within group (order by seconds) filter (where answered)::float8 as p90
    from item group by rollup (template))
  select case when total = 0 then template end as template,
    case when total = 0 then coalesce(c.title, r.title) end as title,
    coalesce(r.sessions, 0) as sessions, coalesce(c.prompts, 0) as prompts, coalesce(c.allowed, 0) as allowed,
    coalesce(c.denied, 0) as denied, coalesce(c.expired, 0) as expired, coalesce(c.cancelled, 0) as cancelled,
    coalesce(c.refused, 0) as refused, c.median, c.p90
  from ran r full join counted c using (template, total)
  order by total desc, coalesce(c.prompts, 0) desc, template`

export type LinkedRecord = {
  readonly record: ActivityRecord
  /** The neighbours on its chain; null: there is none. */
  readonly prev: { readonly id: string; readonly hash: string } | null
  readonly next: { readonly id: string; readonly prevHash: string } | null
  /** The first signed checkpoint that anchors it. */
  readonly checkpoint: { readonly n: number; readonly at: number } | null
}

/** One record with its neighbours and what anchors it, or null when the scope has no such record. */
export async function selectLinked(tx: Tx, of: Scope & { readonly id: string }) {
  const record = await selectRecord(tx, of)
  if (record === null) return null
  const chain = record.session_id ?? record.tenant_id
  const [links] = await tx.sql<Omit<LinkedRecord, 'record'>>`
    select
      (select jsonb_build_object('id', p.id, 'hash', p.hash) from activity p
        where p.chain = ${chain} and p.seq = ${record.seq - 1}) as prev,
      (select jsonb_build_object('id', f.id, 'prevHash', f.prev_hash) from activity f
        where f.chain = ${chain} and f.seq = ${record.seq + 1}) as next,
      (select jsonb_build_object('n', c.n, 'at', extract(epoch from c.at)) from activity_checkpoint c, activity a
        where a.id = ${of.id} and c.upto > a.xid::text::bigint order by c.n limit 1) as checkpoint`
  assert(links, 'a select without a table has one row')
  return { record, ...links }
}

export type NamedRule = {
  readonly id: string
  readonly effect: string
  readonly status: string
  readonly createdAt: number
}

export async function selectNamedRule(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<NamedRule | null> {
  const [row] = await tx.sql<NamedRule>`
    select id, effect, status, extract(epoch from created_at)::float8 as "createdAt"
    from consent_rule where tenant_id = ${of.tenantId} and id = ${of.id}`
  return row ?? null
}

export type Named = { readonly id: string; readonly login: string; readonly name: string }

export async function namesOf(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly users: readonly string[] },
): Promise<ReadonlyMap<string, Named>> {
  const rows = await tx.sql<Named>`
    select id, login, name from app_user where tenant_id = ${of.tenantId} and id = any(${of.users}::text[])`
  return new Map(rows.map((row) => [row.id, row]))
}

export type Titled = { readonly id: string; readonly title: string; readonly sensitive: boolean }

/** Retired ones too: what was called then is shown by its name then. */
export async function titlesOf(
  tx: Tx,
  permissions: readonly string[],
): Promise<ReadonlyMap<string, Titled>> {
  const rows = await tx.sql<Titled>`
    select id, title, sensitive from permission where id = any(${permissions}::text[])`
  return new Map(rows.map((row) => [row.id, row]))
}
