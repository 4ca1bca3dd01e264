import { effectiveMode } from '../core/facts.ts'
import type { SessionStatus } from '../core/session.ts'
import type { Mode, SessionId, TenantId, UserId } from '../core/vocabulary.ts'
import type { Tx } from './tx.ts'

/**
 * Sessions and what they hold, as the People API shows them. Each list is one statement, whatever its length. A session
 * past its end reads `expired` whether or not the sweep has marked it. Times in seconds come out as ISO 8601.
 */
export const iso = (seconds: number): string => new Date(Math.round(seconds * 1000)).toISOString()

export type Place = readonly [at: number, id: string]

export type SessionFilter = {
  readonly tenantId: TenantId
  /** Absent: anyone's in the tenant. */
  readonly userId?: UserId | undefined
  readonly id?: string | undefined
  readonly ids?: readonly string[] | undefined
  readonly rootId?: string | undefined
  readonly status?: SessionStatus | undefined
  /** Milliseconds and id of the last row before. */
  readonly after?: Place | undefined
  readonly limit: number
  /** Seconds. */
  readonly now: number
}

type SessionSql = {
  id: SessionId
  rootId: SessionId
  parentId: SessionId | null
  path: string[]
  userId: UserId
  agentId: string
  agentName: string
  template: string
  templateVersion: number
  mode: Mode
  modeExpiresAt: number | null
  modes: Mode[]
  keptModes: Mode[] | null
  adoptedModes: Mode[] | null
  status: SessionStatus
  endReason: string | null
  readOnly: boolean
  version: number
  claimed: boolean
  task: string | null
  createdAt: number
  expiresAt: number
  endedAt: number | null
}

const selectSessions = (tx: Tx, of: SessionFilter) => tx.sql<SessionSql>`
  with recursive shown as (
    select s.*, case when s.status = 'active' and s.expires_at <= to_timestamp(${of.now}::float8)
      then 'expired' else s.status end as status_now
    from session s
    where s.tenant_id = ${of.tenantId}
      and (${of.userId ?? null}::text is null or s.user_id = ${of.userId ?? null})
      and (${of.id ?? null}::text is null or s.id = ${of.id ?? null})
      and (${of.ids ?? null}::text[] is null or s.id = any(${of.ids ?? null}::text[]))
      and (${of.rootId ?? null}::text is null or s.root_id = ${of.rootId ?? null})
      and (${of.status ?? null}::text is null or ${of.status ?? null} =
        case when s.status = 'active' and s.expires_at <= to_timestamp(${of.now}::float8)
          then 'expired' else s.status end)
      and (${of.after?.[0] ?? null}::float8 is null or (s.created_at, s.id)
        < (to_timestamp(${of.after?.[0] ?? null}::float8 / 1000)::timestamptz(3), ${of.after?.[1] ?? null}::text))
    order by s.created_at desc, s.id desc limit ${of.limit}),
  up as (
    select id as of, id, parent_id, template_id, depth from shown
    union all
    select up.of, p.id, p.parent_id, p.template_id, p.depth from up join session p on p.id = up.parent_id),
  path as (
    select up.of, array_agg(t.title order by up.depth) as titles
    from up join template t on t.id = up.template_id group by up.of)
  select s.id, s.root_id as "rootId", s.parent_id as "parentId", path.titles as path,
    s.user_id as "userId", s.agent_id as "agentId", a.name as "agentName", t.name as template,
    s.template_version as "templateVersion", s.mode,
    extract(epoch from s.mode_expires_at)::float8 as "modeExpiresAt", v.modes,
    e.modes as "keptModes", w.modes as "adoptedModes", s.status_now as status,
    case when s.status_now <> s.status then 'timeout' else s.end_reason end as "endReason",
    s.read_only as "readOnly", s.version, s.claimed_at is not null as claimed, s.task,
    extract(epoch from s.created_at)::float8 as "createdAt",
    extract(epoch from s.expires_at)::float8 as "expiresAt",
    extract(epoch from case when s.status_now <> s.status then s.expires_at else s.ended_at end)::float8
      as "endedAt"
  from shown s
  join path on path.of = s.id
  join agent a on a.id = s.agent_id
  join template t on t.id = s.template_id
  join template_version v on v.template_id = s.template_id and v.version = s.template_version
  left join enablement e on e.tenant_id = s.tenant_id and e.template_id = s.template_id
  left join template_version w on w.template_id = e.template_id and w.version = e.adopted_version
  order by s.created_at desc, s.id desc`

function sessionOf(row: SessionSql, now: number) {
  const mode = effectiveMode({
    mode: row.mode,
    modeExpiresAt: row.modeExpiresAt,
    allowed: row.modes.filter(
      (one) => (row.keptModes ?? []).includes(one) && (row.adoptedModes ?? []).includes(one),
    ),
    now,
  })
  return {
    id: row.id,
    root_id: row.rootId,
    ...(row.parentId === null ? {} : { parent_id: row.parentId }),
    path: row.path,
    user_id: row.userId,
    agent_id: row.agentId,
    agent_name: row.agentName,
    template: row.template,
    template_version: row.templateVersion,
    mode,
    ...(row.modeExpiresAt === null || mode !== row.mode
      ? {}
      : { mode_expires_at: iso(row.modeExpiresAt) }),
    status: row.status,
    ...(row.endReason === null ? {} : { end_reason: row.endReason }),
    read_only: row.readOnly,
    version: row.version,
    claimed: row.claimed,
    task: row.task,
    created_at: iso(row.createdAt),
    expires_at: iso(row.expiresAt),
    ...(row.endedAt === null ? {} : { ended_at: iso(row.endedAt) }),
  }
}

/** Newest first. */
export async function sessionViews(tx: Tx, of: SessionFilter) {
  return (await selectSessions(tx, of)).map((row) => sessionOf(row, of.now))
}

type GrantSql = {
  id: string
  sessionId: SessionId
  permission: string
  title: string
  kind: 'api' | 'data' | 'asset' | 'tool'
  resource: string | null
  narrow: { [key: string]: unknown } | null
  readOnly: boolean
  by: 'user' | 'rule' | 'mode' | 'inherited'
  ruleId: string | null
  requestId: string | null
  fromSession: string | null
  since: number
  uses: number
  lastUsedAt: number | null
}

const grantOf = (row: GrantSql) => ({
  id: row.id,
  permission: row.permission,
  title: row.title,
  kind: row.kind,
  ...(row.resource === null ? {} : { resource: row.resource }),
  ...(row.narrow === null ? {} : { narrow: row.narrow }),
  read_only: row.readOnly,
  source: {
    by: row.by,
    ...(row.ruleId === null ? {} : { rule_id: row.ruleId }),
    ...(row.requestId === null ? {} : { request_id: row.requestId }),
    ...(row.fromSession === null ? {} : { from_session: row.fromSession }),
  },
  since: iso(row.since),
  uses: row.uses,
  ...(row.lastUsedAt === null ? {} : { last_used_at: iso(row.lastUsedAt) }),
})

/** What the sessions of a tree hold now, by session, in the order it was given. */
export async function grantViews(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly root: string },
) {
  const rows = await tx.sql<GrantSql>`
    select g.id, g.session_id as "sessionId", g.permission_id as permission, p.title, p.kind, g.resource,
      g.narrow, g.read_only as "readOnly", g.source as by, g.rule_id as "ruleId",
      g.request_id as "requestId", g.parent_session_id as "fromSession",
      extract(epoch from g.created_at)::float8 as since, g.uses,
      extract(epoch from g.last_used_at)::float8 as "lastUsedAt"
    from access_grant g
    join permission p on p.id = g.permission_id
    join session s on s.id = g.session_id
    where s.tenant_id = ${of.tenantId} and s.root_id = ${of.root}
    order by g.created_at, g.id`
  const bySession = new Map<string, ReturnType<typeof grantOf>[]>()
  for (const row of rows)
    bySession.set(row.sessionId, [...(bySession.get(row.sessionId) ?? []), grantOf(row)])
  return bySession
}
