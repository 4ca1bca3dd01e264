import type { JWTPayload } from 'jose'

/** Longest subject that OpenID Connect allows (Core section 2). The other texts keep to it too. */
const TEXT_CHARACTERS_MAX = 255

/**
 * Control characters and half of a surrogate pair: nothing a database or a page keeps as it came.
 */
const UNCLEAN = /[\p{Cc}\p{Cs}]/u

/**
 * Claims that an access token for an API has no business carrying. `act` and `sid`: already
 * exchanged, or of a session (SPEC section 6). `nonce`, `at_hash`, `c_hash`, `s_hash`: an ID token
 * (OpenID Connect Core sections 2 and 3.3.2.11). `events`: a logout or security event token (RFC
 * 8417). `cnf`: bound to a key (RFC 7800), which a bearer does not prove; to accept it would undo
 * the binding.
 */
const REFUSED_CLAIMS = ['act', 'sid', 'nonce', 'at_hash', 'c_hash', 's_hash', 'events', 'cnf']

export type UserClaims = {
  readonly issuer: string
  readonly subject: string
  readonly clientId: string | null
  readonly mayAct: string | null
  readonly expiresAt: number
  readonly profile: { readonly login?: string; readonly name?: string; readonly email?: string }
}

type Expected = {
  readonly issuer: string
  readonly audience: string
  readonly firstPartyClients: readonly string[]
}

/**
 * What Lend reads from a user's access token, or null if this cannot be one for
 * `expected.audience`. Pure; times are left to the verification of the signature.
 */
export function readClaims(claims: JWTPayload, expected: Expected): UserClaims | null {
  if (claims.iss !== expected.issuer) return null
  if (REFUSED_CLAIMS.some((name) => Object.hasOwn(claims, name))) return null
  // Some providers put the kind of token in the claims: `ID`, `Refresh`, `Logout` are not `Bearer`.
  if (claims.typ !== undefined && claims.typ !== 'Bearer') return null
  if (!isText(claims.sub)) return null
  if (typeof claims.exp !== 'number' || !Number.isFinite(claims.exp)) return null
  const clientId = clientOf(claims)
  if (clientId === undefined) return null
  if (!isForApi(claims.aud, clientId, expected)) return null
  const mayAct = mayActOf(claims)
  if (mayAct === undefined) return null
  return {
    issuer: expected.issuer,
    subject: claims.sub,
    clientId,
    mayAct,
    expiresAt: claims.exp,
    profile: profileOf(claims),
  }
}

/** A text that can be kept and shown as it came. */
export const isText = (value: unknown): value is string =>
  typeof value === 'string' &&
  value.length > 0 &&
  value.length <= TEXT_CHARACTERS_MAX &&
  !UNCLEAN.test(value)

/** Null if the token names none; undefined if it names it badly or names two. */
function clientOf(claims: JWTPayload): string | null | undefined {
  const named = [claims.azp, claims.client_id].filter((value) => value !== undefined)
  if (!named.every(isText)) return undefined
  const [first, second] = named
  if (second !== undefined && first !== second) return undefined
  return first ?? null
}

/**
 * `aud` names us, and not only clients: a token whose every audience is a client is that client's
 * ID token.
 */
function isForApi(aud: unknown, clientId: string | null, expected: Expected): boolean {
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (!audiences.every((audience) => typeof audience === 'string')) return false
  if (!audiences.includes(expected.audience)) return false
  const clients: readonly unknown[] = [clientId, ...expected.firstPartyClients]
  return !audiences.every((audience) => clients.includes(audience))
}

/**
 * Null if absent; undefined if it is there and says nothing that can be read (RFC 8693 section
 * 4.4).
 */
function mayActOf(claims: JWTPayload): string | null | undefined {
  if (!Object.hasOwn(claims, 'may_act')) return null
  const mayAct: unknown = claims.may_act
  if (typeof mayAct !== 'object' || mayAct === null || !('sub' in mayAct)) return undefined
  return isText(mayAct.sub) ? mayAct.sub : undefined
}

/**
 * For display and for creating users; never an identity. What is not clean is left out rather than
 * repaired.
 */
function profileOf(claims: JWTPayload): UserClaims['profile'] {
  const { preferred_username: login, name, email } = claims
  return {
    ...(isText(login) ? { login } : {}),
    ...(isText(name) ? { name } : {}),
    ...(isText(email) && claims.email_verified !== false ? { email } : {}),
  }
}
