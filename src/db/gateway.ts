import type { TenantRef } from '../callers.ts'
import type { Access, ServiceAccountId, SessionId, TenantId, UserId } from '../core/vocabulary.ts'
import type { Provider } from '../identity/login.ts'
import type { FeedPlace } from './feed.ts'
import { RESTORED } from './restored.ts'
import type { Tx } from './tx.ts'

/** What a gateway holds in memory, read as one. Everything here is small: it grows with the deployment, not with its use. */
export type GatewayRows = {
  readonly registryVersion: number
  readonly permissions: readonly {
    readonly id: string
    readonly bit: number
    readonly access: Access
  }[]
  readonly endpoints: readonly {
    readonly service: string
    readonly method: string
    readonly pattern: string
    readonly access: 'OPEN' | 'AUTHENTICATED' | 'ACCESS_CONTROLLED'
    readonly permissions: readonly string[]
  }[]
  readonly tenants: readonly TenantRef[]
  /** Those that are not disabled. */
  readonly proxies: readonly {
    readonly id: string
    readonly tenantId: TenantId
    /** Null: it may ask through each. */
    readonly family: string | null
    readonly secretHash: string
    readonly previousHash: string | null
    /** Seconds; null where there is no previous secret. */
    readonly previousUntil: number | null
  }[]
  readonly mounts: readonly { readonly proxyId: string; prefix: string; service: string }[]
  readonly resources: readonly {
    readonly tenantId: TenantId
    readonly resource: string
    readonly services: readonly string[]
  }[]
  readonly keys: readonly {
    readonly tenantId: TenantId
    readonly kid: string
    readonly alg: 'ES256' | 'RS256'
    readonly publicJwk: { readonly [name: string]: unknown }
  }[]
  readonly providers: readonly (Provider & { readonly tenantId: TenantId })[]
  readonly serviceAccounts: readonly {
    readonly tenantId: TenantId
    readonly id: ServiceAccountId
    readonly active: boolean
    readonly version: number
  }[]
}

/** Of tenants without a proxy only their names: nothing is asked for them here. In one transaction, at one moment. */
export async function readGateway(tx: Tx): Promise<GatewayRows> {
  await tx.sql`set transaction isolation level repeatable read, read only`
  const [first, second] = await Promise.all([readWhatIsAsked(tx), readWhoIsKnown(tx)])
  return { ...first, ...second }
}

/** What endpoints ask for, and by which proxies they are exposed. */
async function readWhatIsAsked(tx: Tx) {
  const [version, permissions, endpoints, tenants, proxies, mounts] = await Promise.all([
    tx.sql<{ version: number }>`select coalesce(max(version), 0) as version from registry`,
    tx.sql<GatewayRows['permissions'][number]>`
        select id, bit, access from permission where kind = 'api' and not retired order by bit`,
    tx.sql<GatewayRows['endpoints'][number]>`
        select e.service_id as service, e.method, e.pattern, e.access,
          array(select p.permission_id from endpoint_permission p
            where (p.service_id, p.method, p.pattern) = (e.service_id, e.method, e.pattern)
            order by p.permission_id) as permissions
        from endpoint e order by e.service_id, e.pattern, e.method`,
    tx.sql<TenantRef>`select id, slug from tenant`,
    tx.sql<GatewayRows['proxies'][number]>`
        select id, tenant_id as "tenantId", family, secret_hash as "secretHash",
          previous_secret_hash as "previousHash",
          extract(epoch from previous_secret_until)::float8 as "previousUntil"
        from gateway_proxy where status = 'active'`,
    tx.sql<GatewayRows['mounts'][number]>`
        select proxy_id as "proxyId", prefix, service_id as service from gateway_mount`,
  ])
  const registryVersion = version[0]?.version ?? 0
  return { registryVersion, permissions, endpoints, tenants, proxies, mounts }
}

/** Whose tokens count, and for what. */
async function readWhoIsKnown(tx: Tx) {
  const [resources, keys, providers, serviceAccounts] = await Promise.all([
    tx.sql<GatewayRows['resources'][number]>`
        select tenant_id as "tenantId", resource, services from resource_server
        where tenant_id in (select tenant_id from gateway_proxy)`,
    tx.sql<GatewayRows['keys'][number]>`
        select tenant_id as "tenantId", kid, alg, public_jwk as "publicJwk" from signing_key
        where tenant_id in (select tenant_id from gateway_proxy)`,
    tx.sql<GatewayRows['providers'][number]>`
        select tenant_id as "tenantId", id, issuer, audience,
          first_party_clients as "firstPartyClients", creates_users as "createsUsers",
          private_network as "privateNetwork"
        from identity_provider
        where status = 'active' and tenant_id in (select tenant_id from gateway_proxy)`,
    tx.sql<GatewayRows['serviceAccounts'][number]>`
        select tenant_id as "tenantId", id, status = 'active' as active, version
        from service_account where tenant_id in (select tenant_id from gateway_proxy)`,
  ])
  return { resources, keys, providers, serviceAccounts }
}

/** What is frozen now, in every tenant; templates by their name, as tokens say it. */
export type FrozenRow = {
  readonly tenantId: TenantId
  readonly scope: 'tenant' | 'template' | 'agent' | 'user'
  /** An id, or a template's name. */
  readonly target: string
}

export const readFrozen = (tx: Tx): Promise<readonly FrozenRow[]> => tx.sql<FrozenRow>`
  select f.tenant_id as "tenantId", f.scope, coalesce(t.name, f.target_id) as target
  from frozen f left join template t on f.scope = 'template' and t.id = f.target_id`

/** Topics of the feed that enforcement acts on. */
export const SESSION_NARROWED = 'session_narrowed'
export const SERVICE_NARROWED = 'service_narrowed'
export const FROZEN_CHANGED = 'frozen_changed'
export const PERSON_CHANGED = 'person_changed'
export const GATEWAY_CHANGED = 'gateway_changed'

export type NarrowedRow = {
  readonly topic: string
  /** A session, or a service account. */
  readonly sid: SessionId | ServiceAccountId
  readonly version: number
  readonly active: boolean
}

/** Narrowings of the last so many seconds, by the database's clock: tokens older than that are dead by themselves. */
export const readNarrowed = (tx: Tx, seconds: number): Promise<readonly NarrowedRow[]> =>
  tx.sql<NarrowedRow>`
    select topic, data ->> 'sid' as sid, (data ->> 'version')::integer as version,
      (data ->> 'active')::boolean as active
    from gateway_feed
    where topic in (${SESSION_NARROWED}, ${SERVICE_NARROWED})
      and at > clock_timestamp() - make_interval(secs => ${seconds}::float8)`

export type EnforcedRow = FeedPlace & {
  readonly tenantId: TenantId
  readonly userId: UserId | null
  readonly topic: string
  readonly sid: SessionId | ServiceAccountId | null
  readonly version: number | null
  readonly active: boolean | null
  /** Every transaction before this row's is over, so nothing can still come before it. */
  readonly settled: boolean
}

/**
 * What stands after a place, committed rows beyond the horizon included: they are acted on at once, since to act twice is
 * harmless, but a place moves only over settled ones. So neither a late commit is skipped nor a long transaction holds
 * revocation back.
 */
export const readEnforced = (
  tx: Tx,
  of: { readonly after: FeedPlace; readonly limit: number },
): Promise<readonly EnforcedRow[]> => tx.sql<EnforcedRow>`
  select id::text, xid::text, tenant_id as "tenantId", user_id as "userId", topic,
    data ->> 'sid' as sid, (data ->> 'version')::integer as version,
    (data ->> 'active')::boolean as active, xid < (select settled_before()) as settled
  from gateway_feed
  where (xid, id) > (${of.after.xid}::text::xid8, ${of.after.id}::text::bigint)
  order by gateway_feed.xid, gateway_feed.id limit ${of.limit}`

/** What a follower asks before it goes on from its place. */
export type FeedState = {
  /** Rows after the place have been deleted, so a follower there has missed something. */
  readonly trimmed: boolean
  /** When the database was brought back from a backup, in milliseconds; null: never. Places from before it mean nothing. */
  readonly restoredAt: number | null
}

export async function feedState(tx: Tx, place: FeedPlace): Promise<FeedState> {
  const [row] = await tx.sql<FeedState>`
    select exists (select from gateway_feed_trimmed
        where (xid, id) > (${place.xid}::text::xid8, ${place.id}::text::bigint)) as trimmed,
      (select (value ->> 'at')::float8 from installation where name = ${RESTORED}) as "restoredAt"`
  return row ?? { trimmed: true, restoredAt: null }
}

/** A place that everything committed before this call is not after, save what is read again. */
export async function feedTip(tx: Tx): Promise<FeedPlace> {
  const [row] = await tx.sql<FeedPlace>`
    select xid::text, id::text from gateway_feed where xid < (select settled_before())
    order by gateway_feed.xid desc, gateway_feed.id desc limit 1`
  const [trimmed] = await tx.sql<FeedPlace>`select xid::text, id::text from gateway_feed_trimmed`
  return row ?? trimmed ?? { xid: '0', id: '0' }
}

/** What a person may call at gateways, by the catalog's API permissions. */
export type GatewayPerson = {
  readonly id: UserId
  readonly active: boolean
  readonly permissions: readonly string[]
}

export async function readGatewayPerson(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly issuer: string; readonly subject: string },
): Promise<GatewayPerson | null> {
  const [row] = await tx.sql<GatewayPerson>`
    select u.id, u.status = 'active' as active,
      array(select distinct a.permission_id from user_access a join permission p on p.id = a.permission_id
        where a.tenant_id = u.tenant_id and a.user_id = u.id and a.resource is null
          and p.kind = 'api' and not p.retired) as permissions
    from app_user u
    where u.tenant_id = ${of.tenantId} and u.issuer = ${of.issuer} and u.subject = ${of.subject}`
  return row ?? null
}

/** Rows that are too old for any follower that is alive; whoever was asleep for so long is told by the trim. */
export async function deleteOldGatewayFeed(
  tx: Tx,
  of: { readonly before: number; readonly limit: number },
): Promise<number> {
  const gone = await tx.sql`
    delete from gateway_feed where ctid = any(array(
      select ctid from gateway_feed where at < to_timestamp(${of.before}::float8)
      order by at limit ${of.limit} for update skip locked))
    returning 1`
  return gone.length
}
