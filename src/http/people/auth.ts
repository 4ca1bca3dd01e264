import type { TenantRef, UserCaller } from '../../callers.ts'
import { fail, type Result } from '../../fault.ts'

/** A person who is known, and until when the credential that said so is good (seconds), if that is known. */
export type Person = UserCaller & { readonly expiresAt?: number }

/** What the People API is given: how people and tenants are known, and whom to tell of bugs. */
export type PeopleDeps = {
  /** A bearer access token of one of the tenant's first-party clients, else a fault. */
  readonly verifyUser: (token: string, tenant: TenantRef) => Promise<Result<Person>>
  /**
   * Lend's own browser session; null when the request has no cookie of it. It checks Origin and Sec-Fetch-Site on writes
   * itself, since only it knows what it is bound to.
   */
  readonly browserUser?: (request: Request, tenant: TenantRef) => Promise<Result<Person> | null>
  readonly findTenant: (slug: string) => Promise<TenantRef | null>
  /** How long an event stream may be silent; 15 s when absent. Its person is looked at again each time. */
  readonly heartbeatMillis?: number
  /** Aborted when the server drains, so that event streams end and their clients go elsewhere. */
  readonly stopping?: AbortSignal
  /** Thumbprints of the keys that checkpoints of the record may be signed with, kept outside the database. */
  readonly trustedKeys?: readonly string[]
  readonly onBug: (error: unknown, requestId: string) => void
}

// RFC 6750 section 2.1: b64token.
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i

/** Who is calling. A header that is there is what counts, even when a cookie is there too. */
export async function authenticate(
  deps: PeopleDeps,
  request: Request,
  tenant: TenantRef,
): Promise<Result<Person>> {
  const header = request.headers.get('Authorization')
  if (header === null) return (await deps.browserUser?.(request, tenant)) ?? fail('unauthenticated')
  const token = BEARER.exec(header)?.[1]
  if (token === undefined) return fail('unauthenticated')
  const person = await deps.verifyUser(token, tenant)
  // I17: whoever verified it, a person of one tenant is nobody in another.
  if (person.ok && person.value.tenant.id !== tenant.id) return fail('unauthenticated')
  return person
}
