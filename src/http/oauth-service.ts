import type { EnforcementCaller, TenantRef } from '../callers.ts'
import { hotRead } from '../db/tx.ts'
import { fail, ok, type Result } from '../fault.ts'
import { introspectService, issueServiceToken } from '../flows/service-tokens.ts'
import { type Ctx, issuerOf } from '../ports.ts'
import type { ClientIdentity } from '../tokens/client-auth.ts'
import type { KeyStore } from '../tokens/keys.ts'
import { signToken } from '../tokens/sign.ts'
import { verifyServiceToken } from '../tokens/verify.ts'
import { malformed, oauthJson, param, resourceOf } from './oauth-form.ts'

type Deps = { readonly ctx: Ctx; readonly keys: KeyStore }

/** RFC 6749 section 4.4, with `resource` required (RFC 8707): one audience a token, and none by default. */
export async function serviceToken(
  deps: Deps,
  of: {
    readonly tenant: TenantRef
    readonly client: ClientIdentity
    readonly form: URLSearchParams
  },
): Promise<Result<object>> {
  const { tenant, client, form } = of
  // I13: an agent has nothing of its own, so there is no token that it could have without a person.
  if (client.kind !== 'service_account')
    return fail('forbidden', { detail: 'Only a service account’s client may do this.' })
  if (param(form, 'scope') !== undefined) return fail('scope_not_requested')
  const resource = resourceOf(form)
  if (!resource.ok) return resource
  if (resource.value === undefined) return malformed('resource', 'is required')
  const caller = { as: 'service_account', tenant, serviceAccountId: client.id } as const
  const { version } = client
  const issued = await issueServiceToken(deps.ctx, { ...caller, version }, resource.value)
  if (!issued.ok) return issued
  const claims = issued.value
  return ok({
    access_token: await signToken(deps.keys, { tenantId: tenant.id, claims }),
    token_type: 'Bearer',
    expires_in: claims.exp - claims.iat,
    ...(claims.scope === undefined ? {} : { scope: claims.scope }),
    authorization_details: claims.authorization_details,
  })
}

/** RFC 7662 for what says that it is a service account's token: live, and only of a resource server that shares a service. */
export async function introspectServiceToken(
  deps: Deps,
  caller: EnforcementCaller & { readonly resources: readonly string[] },
  token: string,
): Promise<Response> {
  const { ctx, keys } = deps
  const { tenant } = caller
  const verified = await verifyServiceToken(keys, {
    ...{ token, tenant },
    issuer: issuerOf(ctx, tenant.slug),
    audience: caller.resources,
    now: ctx.clock.now() / 1000,
  })
  if (!verified.ok) return oauthJson({ active: false })
  const live = await introspectService(ctx, caller, verified.value.claims)
  return oauthJson(live.active ? { ...live, token_type: 'Bearer' } : live)
}

/** What the tenant's tokens are for: its resource servers, and its addresses of the tool gateway. */
export async function resourcesOf(ctx: Ctx, tenant: TenantRef): Promise<readonly string[]> {
  const rows = await hotRead(
    ctx.db,
    'load_resources',
    (tx) =>
      tx.sql<{ resource: string }>`
      select resource from resource_server where tenant_id = ${tenant.id}
      union all
      select ${issuerOf(ctx, tenant.slug)} || '/tools/' || name || '/mcp' from tool_server
        where tenant_id = ${tenant.id}`,
  )
  return rows.map((r) => r.resource)
}
