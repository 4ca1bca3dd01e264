import { z } from 'zod'

/**
 * The line that every forward-auth request leaves (SPEC section 9): exactly one, every field every time, null where there is
 * nothing to say. Dashboards and alerts read it, so it is a contract: a field or a reason is added, never renamed or
 * dropped, without a new `v`.
 */
export const AUTH_DECISION_VERSION = 1

/** Every way in which a request ends, with what the proxy is answered. Closed: a reason that is not here cannot be given. */
export const AUTH_REASONS = {
  OPEN_ENDPOINT: { status: 200 },
  AUTHENTICATED: { status: 200 },
  PERMISSION_HELD: { status: 200 },

  MISSING_TOKEN: { status: 401 },
  AUTHORIZATION_MALFORMED: { status: 401 },
  TOKEN_INVALID: { status: 401 },
  TOKEN_EXPIRED: { status: 401 },
  TENANT_MISMATCH: { status: 401 },
  AUDIENCE_MISMATCH: { status: 401 },
  SESSION_ENDED: { status: 401 },
  SESSION_VERSION_STALE: { status: 401 },
  USER_UNKNOWN: { status: 401 },
  USER_DISABLED: { status: 401 },
  SERVICE_UNKNOWN: { status: 401 },
  SERVICE_DISABLED: { status: 401 },
  SERVICE_VERSION_STALE: { status: 401 },

  SESSION_FROZEN: { status: 403 },
  SERVICE_FROZEN: { status: 403 },
  USER_FROZEN: { status: 403 },
  PERMISSION_MISSING: { status: 403 },
  NO_SUCH_SERVICE: { status: 403 },
  NO_SUCH_PATH: { status: 403 },
  PATH_HOSTILE: { status: 403 },
  PATH_TOO_LONG: { status: 403 },
  REQUEST_INCOMPLETE: { status: 403 },
  HEADER_DUPLICATED: { status: 403 },
  PROXY_UNAUTHENTICATED: { status: 403 },
  NOT_READY: { status: 403 },
  FACTS_UNAVAILABLE: { status: 403 },
  INTERNAL_ERROR: { status: 403 },
  // SPEC section 6: an unknown tenant is not found, everywhere. To every proxy this is a refusal too.
  NO_SUCH_TENANT: { status: 404 },
} as const satisfies Record<string, { readonly status: 200 | 401 | 403 | 404 }>

export type AuthReason = keyof typeof AUTH_REASONS
const REASONS = Object.keys(AUTH_REASONS) as [AuthReason, ...AuthReason[]]

export const PROXY_FAMILIES = ['nginx', 'traefik', 'caddy', 'envoy'] as const
export type ProxyFamily = (typeof PROXY_FAMILIES)[number]

const text = z.string().nullable()

export const authDecision = z
  .strictObject({
    v: z.literal(AUTH_DECISION_VERSION),
    event: z.literal('AUTH_DECISION'),
    time: z.iso.datetime({ precision: 3 }),
    request_id: z.string(),
    trace_id: text.meta({ description: 'Of the request’s `traceparent` (W3C Trace Context)' }),
    tenant: z.string().meta({ description: 'As the address names it, known or not' }),
    tenant_id: text,
    proxy_id: text,
    family: z.enum(PROXY_FAMILIES),
    method: text,
    path: text.meta({ description: 'As the client sent it, without its query' }),
    service: text,
    endpoint: text.meta({ description: 'The pattern that matched' }),
    endpoint_access: z.enum(['OPEN', 'AUTHENTICATED', 'ACCESS_CONTROLLED']).nullable(),
    identity_type: z.enum(['agent_session', 'user', 'service']).nullable(),
    identity_id: text,
    session_id: text,
    root_session_id: text,
    agent_id: text,
    user_id: text.meta({ description: 'The person, also where a session acts for them' }),
    permission: text.meta({ description: 'What let it through, or one of those that would have' }),
    grant_id: text,
    decision: z.enum(['allow', 'deny']),
    decision_reason: z.enum(REASONS),
    status: z.int(),
    token_cache: z.enum(['hit', 'miss', 'none']),
    route_cache: z.enum(['hit', 'miss', 'none']),
    checked_by: z
      .enum(['bits', 'names', 'none'])
      .meta({ description: 'names: the token was read under another registry version' }),
    micros: z.int().meta({ description: 'From the request’s arrival at the check to its answer' }),
  })
  .meta({ id: 'AuthDecision' })

export type AuthDecision = z.infer<typeof authDecision>
