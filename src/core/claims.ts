import { TOKEN_GRANTS_LENGTH_MAX, TOKEN_LIFE_SECONDS_MAX } from './limits.ts'
import type { AgentId, Filter, GrantId, Kind, SessionId, UserId } from './vocabulary.ts'

/** One grant as a token carries it (RFC 9396; SPEC section 6). */
export type AuthorizationDetail = {
  readonly type: `lend_${Kind}`
  readonly permission: string
  readonly actions: readonly string[]
  readonly identifier?: string
  readonly narrow?: Filter
  readonly read_only?: true
  readonly grant_id: GrantId
}

/** RFC 8693 section 4.1: outermost is the current actor, each level inward an earlier one. */
export type Act = {
  readonly iss: string
  readonly sub: AgentId
  readonly sub_profile: 'ai_agent'
  readonly sid: SessionId
  readonly template: string
  readonly act?: Act
}

export type CarriedGrant = {
  readonly id: GrantId
  readonly permission: string
  readonly kind: Kind
  readonly resource?: string
  readonly narrow?: Filter
  readonly readOnly: boolean
}

/** One level of the server's own session tree. */
export type Level = {
  readonly sid: SessionId
  readonly agentId: AgentId
  readonly template: string
}

/** `accounts.rows:my_region` → `my_region`. */
export const actionOf = (permission: string): string =>
  permission.slice(permission.lastIndexOf(':') + 1)

export function authorizationDetail(grant: CarriedGrant): AuthorizationDetail {
  return {
    type: `lend_${grant.kind}`,
    permission: grant.permission,
    actions: [actionOf(grant.permission)],
    ...(grant.resource === undefined ? {} : { identifier: grant.resource }),
    ...(grant.narrow === undefined ? {} : { narrow: grant.narrow }),
    ...(grant.readOnly ? { read_only: true as const } : {}),
    grant_id: grant.id,
  }
}

/**
 * As many grants as a token has room for; API grants first, since only those are read from the token (SPEC section 9), the
 * others being looked up by session. A token that leaves some out says how many: less than is held is always allowed (I3).
 */
export function fitting(grants: readonly CarriedGrant[]): readonly AuthorizationDetail[] {
  const details: AuthorizationDetail[] = []
  let length = 0
  const byNeed = [
    ...grants.filter((g) => g.kind === 'api'),
    ...grants.filter((g) => g.kind !== 'api'),
  ]
  for (const grant of byNeed) {
    const detail = authorizationDetail(grant)
    length += JSON.stringify(detail).length + 1
    if (length > TOKEN_GRANTS_LENGTH_MAX) break
    details.push(detail)
  }
  return details
}

/** Built from the session tree, root first; never from a presented token (USER-ASKS 10). */
function actOf(iss: string, levels: readonly Level[]): Act | undefined {
  return levels.reduce<Act | undefined>(
    (inner, level) => ({
      iss,
      sub: level.agentId,
      sub_profile: 'ai_agent',
      sid: level.sid,
      template: level.template,
      ...(inner === undefined ? {} : { act: inner }),
    }),
    undefined,
  )
}

export type ClaimsInput = {
  readonly issuer: string
  readonly audience: string
  /** Who `sub` names: the session (default), or the user for a resource server that chose so. */
  readonly subject: 'session' | 'user'
  readonly tenant: string
  readonly userId: UserId
  /** From the root to the session itself; never empty. */
  readonly path: readonly [Level, ...Level[]]
  readonly sessionVersion: number
  readonly sessionExpiresAt: number
  readonly grants: readonly CarriedGrant[]
  readonly jti: string
  readonly now: number
}

/** The claims of a session token (RFC 9068; SPEC section 6, I3, I4). The only place that knows what goes in `sub`. */
export function claimsOf(input: ClaimsInput) {
  const self = input.path.at(-1) ?? input.path[0]
  const now = Math.floor(input.now)
  const act = actOf(input.issuer, input.path)
  const details = fitting(input.grants)
  const omitted = input.grants.length - details.length
  const scope = [...new Set(details.filter((d) => d.type === 'lend_api').map((d) => d.permission))]
  return {
    iss: input.issuer,
    aud: input.audience,
    sub: input.subject === 'user' ? input.userId : self.sid,
    client_id: self.agentId,
    jti: input.jti,
    iat: now,
    exp: Math.min(now + TOKEN_LIFE_SECONDS_MAX, Math.floor(input.sessionExpiresAt)),
    sid: self.sid,
    root_sid: input.path[0].sid,
    session_version: input.sessionVersion,
    tenant: input.tenant,
    template: self.template,
    on_behalf_of: input.userId,
    ...(act === undefined ? {} : { act }),
    // Always there, `[]` when nothing is held: absent would read as unlimited somewhere (USER-ASKS 1).
    authorization_details: details,
    ...(omitted === 0 ? {} : { grants_omitted: omitted }),
    ...(scope.length === 0 ? {} : { scope: scope.join(' ') }),
  }
}

export type SessionClaims = ReturnType<typeof claimsOf>
