import { isRecord, tenantOf } from './token.ts'

/** What a service account's token says, or an introspection of it: a program of the tenant's own, which acts for nobody. */
export type ServiceFacts = {
  readonly service: string
  /** API permissions of its own: held, not lent, so there is no grant. */
  readonly permissions: ReadonlySet<string>
}

const TOKEN_LIFE_SECONDS_MAX = 900
/** What only a session's token has, or one that is bound to a key. */
const FOREIGN = ['sid', 'root_sid', 'session_version', 'on_behalf_of', 'act', 'template', 'cnf']
const DETAIL_MEMBERS = new Set(['type', 'permission', 'actions'])

/** Null where a member is not known: it may be a limit, and to ignore it would widen. */
function permissionOf(detail: unknown): string | null {
  if (!isRecord(detail) || !Object.keys(detail).every((key) => DETAIL_MEMBERS.has(key))) return null
  const { type, permission, actions } = detail
  const isWhole = type === 'lend_api' && Array.isArray(actions) && actions.length > 0
  return isWhole && typeof permission === 'string' && permission !== '' ? permission : null
}

/**
 * The facts of claims whose signature and time have been checked, or of an introspection; null if they are not a service
 * account's token of this issuer for exactly this audience.
 */
export function serviceFactsOf(
  claims: Readonly<Record<string, unknown>>,
  expected: { readonly issuer: string; readonly audience: string },
): ServiceFacts | null {
  const { iss, aud, tenant, sub, client_id, iat, exp, service_version } = claims
  if (iss !== expected.issuer || aud !== expected.audience) return null
  if (tenant !== tenantOf(expected.issuer) || FOREIGN.some((name) => name in claims)) return null
  if (typeof sub !== 'string' || !sub.startsWith('svc_') || sub !== client_id) return null
  if (typeof iat !== 'number' || typeof exp !== 'number') return null
  if (exp <= iat || exp - iat > TOKEN_LIFE_SECONDS_MAX) return null
  if (!Number.isSafeInteger(service_version) || Number(service_version) < 1) return null
  if (!Array.isArray(claims.authorization_details)) return null
  const permissions = claims.authorization_details.map(permissionOf)
  return permissions.every((one) => one !== null)
    ? { service: sub, permissions: new Set(permissions) }
    : null
}
