import { actionOf } from './claims.ts'
import { TOKEN_GRANTS_LENGTH_MAX, TOKEN_LIFE_SECONDS_MAX } from './limits.ts'
import type { ServiceAccountId } from './vocabulary.ts'

/** One permission as a service account's token carries it (RFC 9396). It is held, not lent, so it names no grant. */
export type ServiceDetail = {
  readonly type: 'lend_api'
  readonly permission: string
  readonly actions: readonly string[]
}

export const serviceDetail = (permission: string): ServiceDetail => ({
  type: 'lend_api',
  permission,
  actions: [actionOf(permission)],
})

/** As many as a token has room for: less than is held is always allowed (I3). */
function fittingDetails(permissions: readonly string[]): readonly ServiceDetail[] {
  const details: ServiceDetail[] = []
  let length = 0
  for (const permission of permissions) {
    const detail = serviceDetail(permission)
    length += JSON.stringify(detail).length + 1
    if (length > TOKEN_GRANTS_LENGTH_MAX) break
    details.push(detail)
  }
  return details
}

/**
 * The claims of a service account's token (RFC 9068, I4). It has none of what makes a session's: no session, no actor, nobody on
 * whose behalf; and `service_version`, which no session's token has. So neither verifier takes the other's.
 */
export function serviceClaimsOf(of: {
  readonly issuer: string
  readonly audience: string
  readonly tenant: string
  readonly id: ServiceAccountId
  readonly version: number
  /** Those that its audience enforces, in order. */
  readonly permissions: readonly string[]
  readonly jti: string
  /** Seconds. */
  readonly now: number
}) {
  const now = Math.floor(of.now)
  const details = fittingDetails(of.permissions)
  const omitted = of.permissions.length - details.length
  return {
    iss: of.issuer,
    aud: of.audience,
    sub: of.id,
    client_id: of.id,
    jti: of.jti,
    iat: now,
    exp: now + TOKEN_LIFE_SECONDS_MAX,
    tenant: of.tenant,
    service_version: of.version,
    // Always there, as in a session's token: absent would read as unlimited somewhere.
    authorization_details: details,
    ...(omitted === 0 ? {} : { grants_omitted: omitted }),
    ...(details.length === 0 ? {} : { scope: details.map((d) => d.permission).join(' ') }),
  }
}

export type ServiceClaims = ReturnType<typeof serviceClaimsOf>
