import type { Context } from 'hono'
import {
  bearerOf,
  createEnforcer,
  type Enforcer,
  refusalOf,
  type Verdict,
  type Wanted,
} from '../../enforce/index.ts'

/**
 * One customer of the demo's services: whose tokens they take, and with which credentials they ask
 * about them.
 */
export type ServiceTenant = {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  /** The services' own table of employees, by Lend's user id. */
  readonly employees: ReadonlyMap<string, { readonly region: string }>
}

export type Guarded = {
  readonly tenant: ServiceTenant
  readonly verdict: Verdict
}

export type Refused = { readonly refused: Response; readonly verdict: Verdict }

export type Guard = {
  /** Checks the request's token and reports the call, whichever way it went. */
  readonly check: (c: Context, wanted: Wanted) => Promise<Guarded | Refused>
}

/** Not verified: it only chooses who is to verify. */
function issuerIn(token: string): string | null {
  try {
    const claims: unknown = JSON.parse(
      atob((token.split('.')[1] ?? '').replace(/-/g, '+').replace(/_/g, '/')),
    )
    return typeof claims === 'object' &&
      claims !== null &&
      'iss' in claims &&
      typeof claims.iss === 'string'
      ? claims.iss
      : null
  } catch {
    return null
  }
}

const refused = (verdict: Verdict): Refused => ({ refused: refusalOf(verdict), verdict })

const unknownIssuer = (wanted: Wanted, reason: 'token_missing' | 'token_invalid'): Verdict => ({
  allowed: false,
  reason,
  status: 401,
  session: null,
  agent: null,
  user: null,
  grant: null,
  grants: [],
  ask: { permission: wanted.permission },
})

/**
 * The guard of one service. `audience` is the service's own address, as it is registered with every
 * customer.
 */
export function createGuard(of: {
  readonly audience: string
  readonly tenants: readonly ServiceTenant[]
  readonly fetch?: typeof globalThis.fetch
}): Guard {
  const enforcers = new Map<
    string,
    { readonly tenant: ServiceTenant; readonly enforcer: Enforcer }
  >(
    of.tenants.map((tenant) => [
      tenant.issuer,
      {
        tenant,
        enforcer: createEnforcer({
          issuer: tenant.issuer,
          audience: of.audience,
          introspect: { clientId: tenant.clientId, clientSecret: tenant.clientSecret },
          ...(of.fetch === undefined ? {} : { fetch: of.fetch }),
        }),
      },
    ]),
  )
  const mount = new URL(of.audience).pathname
  return {
    check: async (c, wanted) => {
      const token = bearerOf(c.req.header('authorization'))
      const found = token === null ? undefined : enforcers.get(issuerIn(token) ?? '')
      if (found === undefined)
        return refused(unknownIssuer(wanted, token === null ? 'token_missing' : 'token_invalid'))
      const { tenant, enforcer } = found
      const verdict = await enforcer.check(token, wanted)
      // Without a session there is nobody to record it for; what nobody authenticated is not on a
      // chain.
      if (verdict.session !== null) {
        enforcer.report({
          session: verdict.session,
          ...verdict.ask,
          ...(verdict.grant === null ? {} : { grant: verdict.grant.grant_id }),
          outcome: verdict.allowed ? 'allowed' : 'denied',
          ...(verdict.allowed ? {} : { reason: verdict.reason }),
          target: `${c.req.method} ${c.req.path.slice(mount.length)}`.slice(0, 256),
        })
        // At once, not with the next batch: whoever watches the demo wants to see it now.
        void enforcer.flush()
      }
      return verdict.allowed ? { tenant, verdict } : refused(verdict)
    },
  }
}
