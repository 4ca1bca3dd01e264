import type { Context } from 'hono'
import {
  bearerOf,
  createEnforcer,
  type DataVerdict,
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
  /** The same for one object, asked of Lend live. */
  readonly asset: (
    c: Context,
    wanted: { readonly permission: string; readonly resource: string },
  ) => Promise<Guarded | Refused>
  /**
   * What the session shows of an entity. Refused is only a token that is no good: that it shows nothing is an answer.
   * `permission` is what the record names when nothing is held.
   */
  readonly data: (
    c: Context,
    wanted: Parameters<Enforcer['data']>[1] & { readonly permission: string },
  ) => Promise<{ readonly shown: DataVerdict } | Refused>
  /** Ends what goes on beside the requests. */
  readonly close: () => void
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
  /** Verifies tokens by itself and follows what is taken back, instead of asking Lend about each call. */
  readonly follows?: boolean
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
          ...(of.follows ? { follow: {} } : {}),
          ...(of.fetch === undefined ? {} : { fetch: of.fetch }),
        }),
      },
    ]),
  )
  const mount = new URL(of.audience).pathname
  const targetOf = (c: Context) => `${c.req.method} ${c.req.path.slice(mount.length)}`.slice(0, 256)
  const find = (c: Context) => {
    const token = bearerOf(c.req.header('authorization'))
    return { token, found: token === null ? undefined : enforcers.get(issuerIn(token) ?? '') }
  }

  const checked = async (
    c: Context,
    wanted: Wanted,
    ask: (enforcer: Enforcer, token: string | null) => Promise<Verdict>,
  ): Promise<Guarded | Refused> => {
    const { token, found } = find(c)
    if (found === undefined)
      return refused(unknownIssuer(wanted, token === null ? 'token_missing' : 'token_invalid'))
    const { tenant, enforcer } = found
    const verdict = await ask(enforcer, token)
    // Without a session there is nobody to record it for; what nobody authenticated is not on a
    // chain.
    if (verdict.session !== null) {
      enforcer.report({
        session: verdict.session,
        ...verdict.ask,
        ...(verdict.grant === null ? {} : { grant: verdict.grant.grant_id }),
        outcome: verdict.allowed ? 'allowed' : 'denied',
        ...(verdict.allowed ? {} : { reason: verdict.reason }),
        target: targetOf(c),
      })
      // At once, not with the next batch: whoever watches the demo wants to see it now.
      void enforcer.flush()
    }
    return verdict.allowed ? { tenant, verdict } : refused(verdict)
  }

  return {
    check: (c, wanted) => checked(c, wanted, (enforcer, token) => enforcer.check(token, wanted)),
    asset: (c, wanted) => checked(c, wanted, (enforcer, token) => enforcer.asset(token, wanted)),
    data: async (c, { permission, ...wanted }) => {
      const { token, found } = find(c)
      if (found === undefined)
        return refused(
          unknownIssuer({ permission }, token === null ? 'token_missing' : 'token_invalid'),
        )
      const { enforcer } = found
      const shown = await enforcer.data(token, wanted)
      const { session, reason, status } = shown
      if (session !== null) {
        const call = { session, target: targetOf(c) }
        for (const part of shown.parts)
          enforcer.report({
            ...call,
            permission: part.permission,
            grant: part.grant_id,
            outcome: 'allowed',
          })
        if (!shown.allowed) enforcer.report({ ...call, permission, outcome: 'denied', reason })
        void enforcer.flush()
      }
      if (shown.allowed || status === 403) return { shown }
      return refused({
        ...unknownIssuer({ permission }, 'token_invalid'),
        ...shown,
        ask: { permission },
      })
    },
    close: () => {
      for (const { enforcer } of enforcers.values()) void enforcer.close()
    },
  }
}
