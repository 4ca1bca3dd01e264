import { createPublicKey } from 'node:crypto'
import type { TenantRef } from '../callers.ts'
import type { TenantId } from '../core/vocabulary.ts'
import type { GatewayRows } from '../db/gateway.ts'
import type { Provider } from '../identity/login.ts'
import type { VerifierKey } from '../tokens/keys.ts'
import { type Bits, bitsOf } from './bits.ts'
import { type EndpointAccess, segmentsOf, type Trie, trieOf } from './trie.ts'

export type Endpoint = {
  readonly service: string
  readonly pattern: string
  readonly access: EndpointAccess
  /** Any one is enough; none lets nobody in where access is controlled. */
  readonly permissions: readonly string[]
  readonly bits: Bits
}

export type Mount = { readonly segments: readonly string[]; readonly service: string }

export type TenantProxy = {
  readonly id: string
  /** The one header family that it asks through; null: each. */
  readonly family: string | null
  /** Longest first. */
  readonly mounts: readonly Mount[]
  /** Those that it may tell of calls to. */
  readonly services: readonly string[]
}

/** What a secret opens, and until when: one that was replaced has an end, in milliseconds. */
export type ProxySecret = { readonly proxy: TenantProxy; readonly until: number }

export type GatewayTenant = {
  readonly ref: TenantRef
  /** By the SHA-256 of their secret, in hex. */
  readonly proxies: ReadonlyMap<string, ProxySecret>
  /** Those that have asked, by the secret that they showed; as many as there are secrets at most. */
  readonly proxiesSeen: Map<string, ProxySecret>
  /** The resources that stand for a service here: what its tokens are for. */
  readonly resources: ReadonlyMap<string, readonly string[]>
  readonly everyResource: readonly string[]
  readonly keys: ReadonlyMap<string, VerifierKey>
  readonly providers: readonly Provider[]
  /** By id, disabled ones too. Whoever is not here is nobody. */
  readonly serviceAccounts: ReadonlyMap<string, ServiceAccount>
}

/** Its tokens of exactly this version count, while it is active. */
export type ServiceAccount = { readonly active: boolean; readonly version: number }

/** All that a decision needs and that does not depend on who asks. Never changed: a refresh makes a new one. */
export type Snapshot = {
  readonly registryVersion: number
  readonly bitOf: ReadonlyMap<string, number>
  /** API permissions that only read. */
  readonly reading: ReadonlySet<string>
  readonly tries: ReadonlyMap<string, Trie<Endpoint>>
  readonly bySlug: ReadonlyMap<string, GatewayTenant>
}

export const knownBits = (
  snapshot: Pick<Snapshot, 'bitOf'>,
  permissions: readonly string[],
): Bits => bitsOf(permissions.flatMap((id) => snapshot.bitOf.get(id) ?? []))

function triesOf(
  rows: GatewayRows,
  bitOf: ReadonlyMap<string, number>,
): ReadonlyMap<string, Trie<Endpoint>> {
  const services = new Set(rows.endpoints.map((endpoint) => endpoint.service))
  return new Map(
    [...services].map((service) => [
      service,
      trieOf(
        rows.endpoints
          .filter((endpoint) => endpoint.service === service)
          .map(({ method, pattern, access, permissions }) => ({
            method,
            pattern,
            value: {
              ...{ service, pattern, access, permissions },
              bits: knownBits({ bitOf }, permissions),
            },
          })),
      ),
    ]),
  )
}

type ProxyRow = GatewayRows['proxies'][number]

/** By the hash of each secret that opens, or still does for a while. */
function secretsOf(rows: GatewayRows, row: ProxyRow): readonly (readonly [string, ProxySecret])[] {
  const proxy = proxyOf(rows, row)
  const own = [row.secretHash, { proxy, until: Number.POSITIVE_INFINITY }] as const
  return row.previousHash === null || row.previousUntil === null
    ? [own]
    : [[row.previousHash, { proxy, until: row.previousUntil * 1000 }], own]
}

function proxyOf(rows: GatewayRows, { id, family }: ProxyRow): TenantProxy {
  const mounts = rows.mounts
    .filter((mount) => mount.proxyId === id)
    .map(({ prefix, service }) => ({ segments: segmentsOf(prefix), service }))
    .toSorted((a, b) => b.segments.length - a.segments.length)
  return { id, family, mounts, services: mounts.map((mount) => mount.service) }
}

function tenantOf(rows: GatewayRows, ref: TenantRef): GatewayTenant {
  const mine = <R extends { readonly tenantId: TenantId }>(all: readonly R[]) =>
    all.filter((row) => row.tenantId === ref.id)
  const resources = new Map<string, string[]>()
  for (const { resource, services } of mine(rows.resources))
    for (const service of services)
      resources.set(service, [...(resources.get(service) ?? []), resource])
  return {
    ref,
    proxies: new Map(mine(rows.proxies).flatMap((one) => secretsOf(rows, one))),
    proxiesSeen: new Map(),
    resources,
    everyResource: mine(rows.resources).map((one) => one.resource),
    keys: new Map(
      mine(rows.keys).map(({ kid, alg, publicJwk }) => [
        kid,
        { kid, alg, publicKey: createPublicKey({ key: publicJwk, format: 'jwk' }) },
      ]),
    ),
    providers: mine(rows.providers),
    serviceAccounts: new Map(
      mine(rows.serviceAccounts).map(({ id, active, version }) => [id, { active, version }]),
    ),
  }
}

export function snapshotOf(rows: GatewayRows): Snapshot {
  const bitOf = new Map(rows.permissions.map(({ id, bit }) => [id, bit]))
  return {
    registryVersion: rows.registryVersion,
    bitOf,
    reading: new Set(rows.permissions.filter((p) => p.access === 'read').map((p) => p.id)),
    tries: triesOf(rows, bitOf),
    bySlug: new Map(rows.tenants.map((ref) => [ref.slug, tenantOf(rows, ref)])),
  }
}

export type Route =
  | { readonly endpoint: Endpoint }
  | { readonly none: 'no_such_service' }
  | { readonly none: 'no_such_path'; readonly service: string }

/** Which endpoint a request is for. That the service is unknown and that it has no such path are different things. */
export function routeOf(
  snapshot: Pick<Snapshot, 'tries'>,
  proxy: TenantProxy,
  of: { readonly method: string; readonly segments: readonly string[] },
): Route {
  const mount = proxy.mounts.find(({ segments }) =>
    segments.every((segment, i) => segment === of.segments[i]),
  )
  const trie = mount === undefined ? undefined : snapshot.tries.get(mount.service)
  if (mount === undefined || trie === undefined) return { none: 'no_such_service' }
  const endpoint = trie.find(of.method, of.segments.slice(mount.segments.length))
  return endpoint === null ? { none: 'no_such_path', service: mount.service } : { endpoint }
}
