import type { EnforcementCaller, ServiceAccountCaller } from '../callers.ts'
import {
  type ServiceClaims,
  type ServiceDetail,
  serviceClaimsOf,
  serviceDetail,
} from '../core/service-claims.ts'
import { Journal } from '../db/activity.ts'
import { guardTenantShared } from '../db/guard.ts'
import { readServiceStanding, type ServiceStanding } from '../db/service-accounts.ts'
import { hotRead, type Tx, withTx } from '../db/tx.ts'
import { type Failed, fail, ok, type Result } from '../fault.ts'
import { type Ctx, issuerOf } from '../ports.ts'
import { secondsNow } from './live.ts'

/** The services behind a registered resource server of the tenant; Lend's own addresses are none. */
async function servicesAt(
  tx: Tx,
  of: { readonly tenantId: string; readonly resource: string },
): Promise<readonly string[] | null> {
  const [row] = await tx.sql<{ services: readonly string[] }>`
    select services from resource_server
    where tenant_id = ${of.tenantId} and resource = ${of.resource}`
  return row?.services ?? null
}

function faultOf(standing: ServiceStanding | null, caller: ServiceAccountCaller): Failed | null {
  if (standing === null) return fail('client_unauthenticated')
  if (standing.status !== 'active') return fail('service_account_disabled')
  // Its credential was checked before this transaction; one that was replaced since opens nothing.
  if (standing.version !== caller.version) return fail('client_unauthenticated')
  return standing.frozen ? fail('frozen') : null
}

/**
 * One token of a service account for one registered resource server (RFC 6749 section 4.4, RFC 8707): its own permissions that
 * are enforced there, read now under the tenant's guard. The issue, or the refusal, is recorded in the same commit (I12).
 *
 * Faults: `target_invalid`, `service_account_disabled`, `frozen` (the whole tenant), `client_unauthenticated` when its credential
 * was replaced meanwhile.
 */
export const issueServiceToken = (
  ctx: Ctx,
  caller: ServiceAccountCaller,
  resource: string,
): Promise<Result<ServiceClaims>> =>
  withTx(ctx.db, 'issue_service_token', async (tx): Promise<Result<ServiceClaims>> => {
    const { tenant, serviceAccountId: id } = caller
    await guardTenantShared(tx, tenant.id)
    const services = await servicesAt(tx, { tenantId: tenant.id, resource })
    const of = { tenantId: tenant.id, id, services: services ?? [] }
    const standing = await readServiceStanding(tx, of)
    const fault = faultOf(standing, caller) ?? (services === null ? fail('target_invalid') : null)
    const journal = new Journal(ctx, tenant.id)
    const how = 'client_credentials'
    if (fault !== null || standing === null) {
      const refusal = fault ?? fail('client_unauthenticated')
      journal.tenant('token.refused', { how, service_account: id, reason: refusal.fault.code })
      await journal.write(tx)
      return refusal
    }
    const claims = serviceClaimsOf({
      ...{ issuer: issuerOf(ctx, tenant.slug), audience: resource, tenant: tenant.slug, id },
      ...{ version: standing.version, permissions: standing.permissions },
      ...{ jti: ctx.ids.secret(), now: secondsNow(ctx.clock) },
    })
    journal.tenant('token.issued', {
      how,
      service_account: id,
      jti: claims.jti,
      audience: claims.aud,
      expires_at: new Date(claims.exp * 1000).toISOString(),
      service_version: claims.service_version,
      permissions: claims.authorization_details.map((detail) => detail.permission),
    })
    await journal.write(tx)
    return ok(claims)
  })

export type ServiceIntrospected =
  | { readonly active: false }
  | (Omit<ServiceClaims, 'authorization_details' | 'scope'> & {
      readonly active: true
      readonly authorization_details: readonly ServiceDetail[]
      readonly scope?: string
    })

/**
 * RFC 7662 for a service account's token: live. It stands for exactly the version that its account has now, and for what the
 * account holds now that the asking enforcement point enforces.
 */
export const introspectService = (
  ctx: Ctx,
  caller: EnforcementCaller,
  claims: ServiceClaims,
): Promise<ServiceIntrospected> =>
  hotRead(ctx.db, 'introspect_service', async (tx): Promise<ServiceIntrospected> => {
    const { tenant } = caller
    const at = await servicesAt(tx, { tenantId: tenant.id, resource: claims.aud })
    const services = (at ?? []).filter((service) => caller.services.includes(service))
    const of = { tenantId: tenant.id, id: claims.sub, services }
    const standing = await readServiceStanding(tx, of)
    const stands =
      standing?.status === 'active' &&
      standing.version === claims.service_version &&
      !standing.frozen
    if (standing === null || !stands) return { active: false }
    const { scope: _, grants_omitted: __, ...rest } = claims
    const { permissions } = standing
    return {
      ...rest,
      active: true,
      authorization_details: permissions.map(serviceDetail),
      ...(permissions.length === 0 ? {} : { scope: permissions.join(' ') }),
    }
  })
