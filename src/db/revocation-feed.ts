import type { TenantId } from '../core/vocabulary.ts'
import type { FeedPlace } from './feed.ts'
import { FROZEN_CHANGED, type FrozenRow, SESSION_NARROWED } from './gateway.ts'
import type { Tx } from './tx.ts'

/** What one tenant's enforcement points may hear: whose tokens are dead below which version, and what is frozen. */
export type TenantNarrowed = {
  readonly sid: string
  readonly version: number
  readonly active: boolean
}

export const readTenantFrozen = (
  tx: Tx,
  tenantId: TenantId,
): Promise<readonly Omit<FrozenRow, 'tenantId'>[]> => tx.sql<Omit<FrozenRow, 'tenantId'>>`
  select f.scope, coalesce(t.name, f.target_id) as target
  from frozen f left join template t on f.scope = 'template' and t.id = f.target_id
  where f.tenant_id = ${tenantId} order by 1, 2`

/** Narrowings of the last so many seconds, by the database's clock. */
export const readTenantNarrowed = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly seconds: number },
): Promise<readonly TenantNarrowed[]> => tx.sql<TenantNarrowed>`
  select data ->> 'sid' as sid, (data ->> 'version')::integer as version,
    (data ->> 'active')::boolean as active
  from gateway_feed
  where topic = ${SESSION_NARROWED} and tenant_id = ${of.tenantId}
    and at > clock_timestamp() - make_interval(secs => ${of.seconds}::float8)`

export type TenantFeedRow = FeedPlace & {
  readonly topic: string
  readonly sid: string | null
  readonly version: number | null
  readonly active: boolean | null
  /** Nothing can still commit before it. */
  readonly settled: boolean
}

/** What stands after a place, unsettled rows included: whoever acts on a row twice does no harm, and waits for nobody. */
export const readTenantFeed = (
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly after: FeedPlace; readonly limit: number },
): Promise<readonly TenantFeedRow[]> => tx.sql<TenantFeedRow>`
  select id::text, xid::text, topic, data ->> 'sid' as sid, (data ->> 'version')::integer as version,
    (data ->> 'active')::boolean as active, xid < (select settled_before()) as settled
  from gateway_feed
  where tenant_id = ${of.tenantId} and topic in (${SESSION_NARROWED}, ${FROZEN_CHANGED})
    and (xid, id) > (${of.after.xid}::text::xid8, ${of.after.id}::text::bigint)
  order by gateway_feed.xid, gateway_feed.id limit ${of.limit}`
