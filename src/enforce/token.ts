/** One grant as a token or an introspection carries it (RFC 9396). */
export type HeldGrant = {
  readonly type: string
  readonly permission: string
  readonly actions: readonly string[]
  /**
   * The one object or destination, or a pattern, as in `dashboard/*`. Absent: the permission takes
   * none.
   */
  readonly identifier?: string
  /** Makes a data grant smaller: only rows that match. Whoever ignores it widens. */
  readonly narrow?: Readonly<Record<string, unknown>>
  /** Only for reading, whatever the permission says. */
  readonly read_only?: true
  readonly grant_id: string
}

/** What a session token says, once it has been verified. */
export type TokenFacts = {
  readonly session: string
  readonly rootSession: string
  readonly agent: string
  /** The person it is lent by. */
  readonly user: string
  readonly tenant: string
  /** `renewal-briefs@3` */
  readonly template: string
  /** The session's version at its issue. */
  readonly version: number
  /** The session itself and its ancestors; templates without their versions. */
  readonly lineage: readonly { readonly agent: string; readonly template: string }[]
  /** Seconds since the epoch. */
  readonly issuedAt: number
  /** Seconds since the epoch. */
  readonly expiresAt: number
  readonly grants: readonly HeldGrant[]
}

const TOKEN_LIFE_SECONDS_MAX = 900
const GRANT_MEMBERS = new Set([
  'type',
  'permission',
  'actions',
  'identifier',
  'narrow',
  'read_only',
  'grant_id',
])

const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** Bits of the last letter that stand for nothing, by the length modulo 4; a length of 1 modulo 4 is no text at all. */
const UNUSED = [0, null, 15, 3] as const

/**
 * Whether a compact token is written as RFC 7515 section 2 says, in its one way: base64url without
 * padding, unused bits zero. Libraries read other spellings too, and then one token has many.
 */
export const isCanonical = (token: string): boolean =>
  token.split('.').every((part) => {
    const unused = UNUSED[part.length % 4]
    if (unused === null || unused === undefined || !/^[A-Za-z0-9_-]+$/.test(part)) return false
    return (BASE64URL.indexOf(part.at(-1) ?? '') & unused) === 0
  })

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
type Claims = Readonly<Record<string, unknown>>

export const isRecord = (value: unknown): value is Claims =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Strict: a member that is not known may be a limit, and to ignore it would widen. */
function grantOf(value: unknown): HeldGrant | null {
  if (!isRecord(value) || !Object.keys(value).every((key) => GRANT_MEMBERS.has(key))) return null
  const { type, permission, actions, identifier, narrow, read_only, grant_id } = value
  if (!isText(type) || !isText(permission) || !isText(grant_id)) return null
  if (!Array.isArray(actions) || actions.length === 0 || !actions.every(isText)) return null
  if (identifier !== undefined && !isText(identifier)) return null
  if (narrow !== undefined && !isRecord(narrow)) return null
  if (read_only !== undefined && read_only !== true) return null
  return {
    type,
    permission,
    actions,
    grant_id,
    ...(identifier === undefined ? {} : { identifier }),
    ...(narrow === undefined ? {} : { narrow }),
    ...(read_only === undefined ? {} : { read_only }),
  }
}

/** Null if any grant is not understood, or if there is no list at all: absent is not unlimited. */
function grantsOf(value: unknown): readonly HeldGrant[] | null {
  if (!Array.isArray(value)) return null
  const grants = value.map(grantOf)
  return grants.every((grant) => grant !== null) ? grants : null
}

/** `{publicUrl}/t/acme` → `acme`. */
export const tenantOf = (issuer: string): string => issuer.slice(issuer.lastIndexOf('/') + 1)

const isAct = (act: unknown, of: Claims): boolean =>
  isRecord(act) && act.sub === of.client_id && act.sid === of.sid && act.iss === of.iss

/** Who acts, and for whom they act in turn; null where a level is not understood. */
function lineageOf(act: unknown): TokenFacts['lineage'] | null {
  const levels: { readonly agent: string; readonly template: string }[] = []
  for (let at = act; at !== undefined; at = at.act) {
    if (!isRecord(at) || !isText(at.sub) || !isText(at.template)) return null
    levels.push({ agent: at.sub, template: at.template.split('@', 1)[0] ?? '' })
  }
  return levels
}

/**
 * The facts of claims whose signature and time have been checked, or of an introspection; null if
 * they are not a session token of this issuer for exactly this audience.
 */
export function factsOf(
  claims: Claims,
  expected: { readonly issuer: string; readonly audience: string },
): TokenFacts | null {
  const { sid, root_sid, client_id, on_behalf_of, tenant, template, iat, exp, sub, cnf } = claims
  // One audience a token: a list is refused, even of one (I17).
  if (claims.iss !== expected.issuer || claims.aud !== expected.audience) return null
  if (tenant !== tenantOf(expected.issuer)) return null
  if (!isText(sid) || !isText(root_sid) || !isText(client_id)) return null
  if (!isText(on_behalf_of) || !isText(tenant) || !isText(template)) return null
  if (sub !== sid && sub !== on_behalf_of) return null
  if (typeof iat !== 'number' || typeof exp !== 'number') return null
  // I4. A token bound to a key must not pass as a bearer token (RFC 9449 section 7.1).
  if (exp - iat > TOKEN_LIFE_SECONDS_MAX || exp <= iat || cnf !== undefined) return null
  if (!isAct(claims.act, claims)) return null
  const { session_version: version } = claims
  if (typeof version !== 'number' || !Number.isSafeInteger(version) || version < 1) return null
  const lineage = lineageOf(claims.act)
  const grants = grantsOf(claims.authorization_details)
  if (grants === null || lineage === null) return null
  return {
    session: sid,
    rootSession: root_sid,
    agent: client_id,
    user: on_behalf_of,
    tenant,
    template,
    version,
    lineage,
    issuedAt: iat,
    expiresAt: exp,
    grants,
  }
}
