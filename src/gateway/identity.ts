import { hash } from 'node:crypto'
import type { Act, AuthorizationDetail, SessionClaims } from '../core/claims.ts'
import type { ServiceClaims } from '../core/service-claims.ts'
import type { ServiceAccountId, TenantId } from '../core/vocabulary.ts'
import type { Provider, UserTokenVerifier } from '../identity/login.ts'
import { type Ctx, issuerOf } from '../ports.ts'
import type { JsonObject } from '../tokens/compact.ts'
import type { KeyStore } from '../tokens/keys.ts'
import {
  looksLikeLendToken,
  looksLikeServiceToken,
  unverifiedClaims,
  type VerifyInput,
  verifyServiceToken,
  verifySessionToken,
} from '../tokens/verify.ts'
import type { Bits } from './bits.ts'
import { createFrequent } from './frequent.ts'
import type { Revocable } from './revocations.ts'
import { type GatewayTenant, knownBits, type Snapshot } from './snapshot.ts'

/** What somebody may call by the catalog's API permissions. */
export type Held = {
  readonly bits: Bits
  /** Of the registry that the bits were taken from. Under another, names are compared. */
  readonly registryVersion: number
  readonly names: ReadonlySet<string>
}

/** What a verified token says: facts, which may be kept for a while. Whether it still stands is asked anew each time. */
export type SessionFacts = Revocable & {
  readonly kind: 'agent_session'
  readonly rootSid: string
  readonly audience: string
  readonly kid: string
  readonly held: Held
  readonly grantOf: ReadonlyMap<string, string>
  /** Milliseconds. */
  readonly expiresAt: number
}

export type UserFacts = {
  readonly kind: 'user'
  readonly provider: string
  readonly issuer: string
  readonly subject: string
  readonly audience: string
  readonly expiresAt: number
}

export type ServiceFacts = {
  readonly kind: 'service'
  readonly id: ServiceAccountId
  readonly version: number
  readonly audience: string
  readonly kid: string
  readonly held: Held
  readonly expiresAt: number
}

export type TokenFacts = SessionFacts | UserFacts | ServiceFacts
export type Unverified = 'invalid' | 'tenant_mismatch' | 'unavailable'
export type Read = { readonly facts: TokenFacts | Unverified; readonly cached: boolean }

const FACTS_MAX = 50_000
export const FACTS_LIFE_MILLIS_MAX = 30_000

/**
 * An API grant that counts here. None has a resource or a narrowing today; one that had would be more than this check can
 * tell, so it counts for nothing. A read-only grant does not reach what writes.
 */
const counts = (snapshot: Snapshot, detail: AuthorizationDetail): boolean =>
  detail.type === 'lend_api' &&
  detail.identifier === undefined &&
  detail.narrow === undefined &&
  (detail.read_only === undefined || snapshot.reading.has(detail.permission))

function templatesIn(act: Act | undefined): readonly string[] {
  const names: string[] = []
  for (let at = act; at !== undefined; at = at.act) names.push(at.template.split('@', 1)[0] ?? '')
  return names
}

export function heldOf(snapshot: Snapshot, permissions: readonly string[]): Held {
  return {
    bits: knownBits(snapshot, permissions),
    registryVersion: snapshot.registryVersion,
    names: new Set(permissions),
  }
}

function sessionFacts(
  snapshot: Snapshot,
  tenantId: TenantId,
  of: { readonly claims: SessionClaims; readonly kid: string },
): SessionFacts {
  const { claims, kid } = of
  const grants = claims.authorization_details.filter((detail) => counts(snapshot, detail))
  return {
    kind: 'agent_session',
    tenantId,
    sid: claims.sid,
    rootSid: claims.root_sid,
    version: claims.session_version,
    issuedAt: claims.iat,
    userId: claims.on_behalf_of,
    agentId: claims.client_id,
    templates: templatesIn(claims.act),
    audience: claims.aud,
    kid,
    held: heldOf(
      snapshot,
      grants.map((grant) => grant.permission),
    ),
    grantOf: new Map(grants.map((grant) => [grant.permission, grant.grant_id])),
    expiresAt: claims.exp * 1000,
  }
}

function serviceFacts(
  snapshot: Snapshot,
  { claims, kid }: { readonly claims: ServiceClaims; readonly kid: string },
): ServiceFacts {
  const permissions = claims.authorization_details.map((detail) => detail.permission)
  return {
    kind: 'service',
    id: claims.sub,
    version: claims.service_version,
    audience: claims.aud,
    kid,
    held: heldOf(snapshot, permissions),
    expiresAt: claims.exp * 1000,
  }
}

export type Tokens = {
  /** What the token says, if it is one of this tenant's for the service. Reads nothing but memory when it was seen lately. */
  readonly read: (
    on: { readonly snapshot: Snapshot; readonly tenant: GatewayTenant },
    of: { readonly token: string; readonly resources: readonly string[] },
  ) => Read | Promise<Read>
  readonly size: () => number
}

/**
 * Verified tokens, by a hash of theirs: bounded, and none for more than 30 seconds or past its end. The tenant is bound
 * twice: entries are the tenant's own, and the token was signed by its key and says so (I17).
 */
export function createTokens(on: {
  readonly ctx: Ctx
  readonly keys: KeyStore
  readonly verifier: UserTokenVerifier
}): Tokens {
  type Kept = { readonly facts: TokenFacts; readonly until: number }
  const kept = createFrequent<Kept>(FACTS_MAX)
  const { ctx } = on

  /** A token that Lend itself has issued: a session's, or a service account's. */
  async function ownToken(
    { snapshot, tenant }: { readonly snapshot: Snapshot; readonly tenant: GatewayTenant },
    { token, said }: { readonly token: string; readonly said: JsonObject },
  ): Promise<SessionFacts | ServiceFacts | Unverified> {
    const keys: Pick<KeyStore, 'verifierKeys'> = {
      // Keys of a rotation that is younger than the snapshot are asked for; the others are in it.
      verifierKeys: async (tenantId, kid) =>
        kid !== undefined && tenant.keys.has(kid)
          ? tenant.keys
          : on.keys.verifierKeys(tenantId, kid),
    }
    const input: VerifyInput = {
      token,
      tenant: tenant.ref,
      issuer: issuerOf(ctx, tenant.ref.slug),
      // Which of them is right depends on the service, and is asked with each request.
      audience: tenant.everyResource,
      now: ctx.clock.now() / 1000,
    }
    if (looksLikeServiceToken(said)) {
      const read = await verifyServiceToken(keys, input)
      if (read.ok) {
        const { claims, header } = read.value
        return serviceFacts(snapshot, { claims, kid: header.kid })
      }
    } else {
      const read = await verifySessionToken(keys, input)
      if (read.ok) {
        const { claims, header } = read.value
        return sessionFacts(snapshot, tenant.ref.id, { claims, kid: header.kid })
      }
    }
    const other = isOtherTenants(said, ctx.publicUrl, input.issuer)
    return other ? 'tenant_mismatch' : 'invalid'
  }

  /** A person's own token, from a provider that the tenant trusts, for one of the service's resources. */
  async function userToken(
    tenant: GatewayTenant,
    of: { readonly token: string; readonly resources: readonly string[] },
  ): Promise<UserFacts | Unverified> {
    for (const audience of of.resources) {
      const providers: readonly Provider[] = tenant.providers.map((one) => ({ ...one, audience }))
      const read = await on.verifier.verify(of.token, providers)
      if (read.ok) {
        const { provider, issuer, subject, expiresAt } = read.value
        return {
          kind: 'user',
          provider: provider.id,
          ...{ issuer, subject, audience },
          expiresAt: expiresAt * 1000,
        }
      }
      if (read.fault.code === 'provider_unavailable') return 'unavailable'
    }
    return 'invalid'
  }

  async function verified(
    ...[where, of]: Parameters<Tokens['read']>
  ): Promise<TokenFacts | Unverified> {
    try {
      const said = unverifiedClaims(of.token)
      return looksLikeLendToken(said, ctx.publicUrl)
        ? await ownToken(where, { token: of.token, said })
        : await userToken(where.tenant, of)
    } catch {
      // I19: keys that cannot be read verify nothing.
      return 'unavailable'
    }
  }

  const stands = ({ facts, until }: Kept, tenant: GatewayTenant): boolean =>
    until > ctx.clock.now() &&
    (facts.kind === 'user'
      ? tenant.providers.some((provider) => provider.id === facts.provider)
      : // A key that was dropped as leaked takes its tokens with it.
        tenant.keys.has(facts.kid))

  /** A session's token is the same for every service; a person's was verified for one resource. */
  function known(
    tenant: GatewayTenant,
    of: { readonly own: string; readonly resources: readonly string[] },
  ): TokenFacts | null {
    const hit = kept.get(of.own)
    if (hit !== undefined) return stands(hit, tenant) ? hit.facts : null
    for (const resource of of.resources) {
      const users = kept.get(`${of.own} ${resource}`)
      if (users !== undefined && stands(users, tenant)) return users.facts
    }
    return null
  }

  return {
    read: (where, of) => {
      // Of this tenant's own entries (I17).
      const own = `${where.tenant.ref.id} ${hash('sha256', of.token, 'base64url')}`
      const facts = known(where.tenant, { own, resources: of.resources })
      if (facts !== null) return { facts, cached: true }
      return verified(where, of).then((fresh) => {
        if (typeof fresh === 'object') {
          const until = Math.min(ctx.clock.now() + FACTS_LIFE_MILLIS_MAX, fresh.expiresAt)
          kept.set(fresh.kind === 'user' ? `${own} ${fresh.audience}` : own, {
            facts: fresh,
            until,
          })
        }
        return { facts: fresh, cached: false }
      })
    },
    size: kept.size,
  }
}

/** Whether an unverified token names another tenant of this deployment as its issuer. Only to say so in the refusal. */
function isOtherTenants({ iss }: JsonObject, publicUrl: string, own: string): boolean {
  return typeof iss === 'string' && iss.startsWith(`${publicUrl}/t/`) && iss !== own
}
