import type { ActivityType } from '../core/activity.ts'
import type { TenantId, UserId } from '../core/vocabulary.ts'
import type { Tx } from './tx.ts'

/**
 * A person's events are their records, in commit order: a sequence alone would skip the row of a transaction that
 * commits late. Both halves are 64-bit numbers as decimal text.
 */
export type EventPlace = { readonly xid: string; readonly n: string }

export type EventRow = EventPlace & {
  readonly type: ActivityType
  readonly at: number
  readonly sessionId: string | null
  readonly rootSessionId: string | null
  readonly agentId: string | null
  readonly template: string | null
  readonly data: { readonly [key: string]: unknown }
}

/** Where the record stands now: whatever commits later is after it. */
export async function eventHorizon(tx: Tx): Promise<EventPlace> {
  const [row] = await tx.sql<{ xid: string }>`
    select settled_before()::text as xid`
  return { xid: row?.xid ?? '0', n: '0' }
}

/** Whether a place lies ahead of all that was ever written here: it is another server's, from before a restore. */
export async function isAhead(tx: Tx, place: EventPlace): Promise<boolean> {
  const [row] = await tx.sql<{ ahead: boolean }>`
    select ${place.xid}::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot()) as ahead`
  return row?.ahead ?? false
}

/** The next events of one person after a place. Rows of a transaction that others may still overtake wait. */
export const eventsAfter = (
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly userId: UserId
    readonly types: readonly ActivityType[]
    readonly after: EventPlace
    readonly limit: number
  },
): Promise<readonly EventRow[]> => tx.sql<EventRow>`
  select a.xid::text, a.n::text, a.type, extract(epoch from a.at)::float8 as at,
    a.session_id as "sessionId", a.root_session_id as "rootSessionId", a.agent_id as "agentId",
    a.template, a.data
  from activity a
  where a.tenant_id = ${of.tenantId} and a.user_id = ${of.userId}
    and a.type = any(${of.types}::text[])
    and a.xid < (select settled_before())
    and (a.xid, a.n) > (${of.after.xid}::text::xid8, ${of.after.n}::text::bigint)
  order by a.xid, a.n limit ${of.limit}`
