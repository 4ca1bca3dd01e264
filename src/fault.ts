/**
 * Expected failures: one closed table. A fault is returned before the first write, so nothing is half done; a refusal of
 * the decision is an outcome and never a fault; anything else that goes wrong is a bug and is thrown.
 *
 * Each row: `status` for the People API (RFC 9457), `oauth` for token and related endpoints (RFC 6749, 8693, 8707), and
 * the public sentence. Credential faults share coarse sentences so that a prober learns nothing.
 */
type OAuthError =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'invalid_target'
  | 'invalid_scope'
  | 'unauthorized_client'
  | 'unsupported_grant_type'
  | 'server_error'
  | 'temporarily_unavailable'

type Row = { readonly status: number; readonly oauth: OAuthError; readonly says: string }

export const FAULTS = {
  request_malformed: {
    status: 400,
    oauth: 'invalid_request',
    says: 'The request is not well formed.',
  },
  client_unauthenticated: {
    status: 401,
    oauth: 'invalid_client',
    says: 'The client could not be authenticated.',
  },
  unsupported_grant_type: {
    status: 400,
    oauth: 'unsupported_grant_type',
    says: 'This grant type is not supported.',
  },
  unauthenticated: {
    status: 401,
    oauth: 'invalid_request',
    says: 'A valid access token is needed.',
  },
  subject_token_invalid: {
    status: 401,
    oauth: 'invalid_request',
    says: 'The subject token is not acceptable.',
  },
  subject_token_not_for_this_agent: {
    status: 403,
    oauth: 'invalid_request',
    says: 'The subject token was not issued to an app of this agent.',
  },
  user_unknown: {
    status: 401,
    oauth: 'invalid_request',
    says: 'The subject token names nobody this organisation knows.',
  },
  user_disabled: {
    status: 403,
    oauth: 'invalid_grant',
    says: 'This person is disabled in this organisation.',
  },
  provider_unavailable: {
    status: 503,
    oauth: 'temporarily_unavailable',
    says: 'The identity provider cannot be reached, so nothing can be verified. Try again.',
  },
  not_first_party: {
    status: 403,
    oauth: 'unauthorized_client',
    says: 'Only the organisation’s own first-party clients may act for a person here.',
  },
  forbidden: { status: 403, oauth: 'unauthorized_client', says: 'This person may not do that.' },
  agent_disabled: { status: 403, oauth: 'unauthorized_client', says: 'This agent is disabled.' },
  service_account_disabled: {
    status: 403,
    oauth: 'unauthorized_client',
    says: 'This service account is disabled.',
  },
  template_unknown: { status: 422, oauth: 'invalid_request', says: 'No such template.' },
  template_not_enabled: {
    status: 422,
    oauth: 'unauthorized_client',
    says: 'This organisation has not turned the template on.',
  },
  template_not_listed: {
    status: 422,
    oauth: 'unauthorized_client',
    says: 'The agent may not run this template.',
  },
  template_version_not_adopted: {
    status: 422,
    oauth: 'invalid_request',
    says: 'Only the adopted version of the template starts sessions.',
  },
  mode_not_allowed: {
    status: 422,
    oauth: 'invalid_request',
    says: 'The template or the organisation does not allow this mode.',
  },
  mode_not_tighter: {
    status: 409,
    oauth: 'invalid_request',
    says: 'A mode can only be tightened. A looser mode needs a new session.',
  },
  child_not_allowed: {
    status: 422,
    oauth: 'unauthorized_client',
    says: 'This template may not start that child template.',
  },
  limit_reached: { status: 429, oauth: 'invalid_request', says: 'A limit is reached.' },
  rate_limited: {
    status: 429,
    oauth: 'temporarily_unavailable',
    says: 'Too many requests. Try again later.',
  },
  body_too_large: { status: 413, oauth: 'invalid_request', says: 'The body is too large.' },
  frozen: {
    status: 409,
    oauth: 'invalid_grant',
    says: 'Frozen by an administrator: nothing is issued or granted until it is unfrozen.',
  },
  session_not_found: { status: 404, oauth: 'invalid_grant', says: 'No such session.' },
  session_over: { status: 409, oauth: 'invalid_grant', says: 'The session is over.' },
  session_claimed: {
    status: 409,
    oauth: 'invalid_grant',
    says: 'The session has been claimed already.',
  },
  refresh_token_invalid: {
    status: 401,
    oauth: 'invalid_grant',
    says: 'The refresh token is not valid for this client.',
  },
  token_stale: {
    status: 401,
    oauth: 'invalid_grant',
    says: 'The token has been superseded. Re-issue it.',
  },
  not_a_control_token: {
    status: 401,
    oauth: 'invalid_request',
    says: 'Only a control token can be used here.',
  },
  target_invalid: {
    status: 400,
    oauth: 'invalid_target',
    says: 'The resource is not a registered resource server of this tenant.',
  },
  scope_not_requested: {
    status: 400,
    oauth: 'invalid_scope',
    says: 'No scope can be asked for here: a session starts with nothing and asks through iam.request_access.',
  },
  not_found: { status: 404, oauth: 'invalid_request', says: 'No such thing here.' },
  already_exists: { status: 409, oauth: 'invalid_request', says: 'It exists already.' },
  still_in_use: { status: 409, oauth: 'invalid_request', says: 'It is still in use.' },
  digest_mismatch: {
    status: 409,
    oauth: 'invalid_request',
    says: 'The request is not the one that was shown. Load it again.',
  },
  already_answered: {
    status: 409,
    oauth: 'invalid_request',
    says: 'The request has been answered already.',
  },
  request_expired: {
    status: 409,
    oauth: 'invalid_request',
    says: 'The request expired before it was answered.',
  },
  request_cancelled: {
    status: 409,
    oauth: 'invalid_request',
    says: 'The request was withdrawn before it was answered.',
  },
  answer_incomplete: {
    status: 422,
    oauth: 'invalid_request',
    says: 'An answer covers every pending item exactly once.',
  },
  change_superseded: {
    status: 409,
    oauth: 'invalid_request',
    says: 'The template has changed again since this was shown. Load it again.',
  },
  revision_stale: {
    status: 409,
    oauth: 'invalid_request',
    says: 'Somebody else has changed it since you read it. `current` is how it stands now.',
  },
  wrong_state: {
    status: 409,
    oauth: 'invalid_request',
    says: 'It is not in a state in which that can be done.',
  },
  reviewer_is_author: {
    status: 403,
    oauth: 'unauthorized_client',
    says: 'Nobody reviews what they wrote: somebody else has to.',
  },
  catalog_changed: {
    status: 409,
    oauth: 'invalid_request',
    says: 'The catalog has changed since. Look at the difference again.',
  },
  sensitive_not_remembered: {
    status: 422,
    oauth: 'invalid_request',
    says: 'A sensitive item can be allowed once, never always.',
  },
  item_invalid: { status: 422, oauth: 'invalid_request', says: 'An item is not well formed.' },
  idempotency_key_reused: {
    status: 422,
    oauth: 'invalid_request',
    says: 'This Idempotency-Key was used for a different request.',
  },
  unprocessable: {
    status: 422,
    oauth: 'invalid_request',
    says: 'The request cannot be carried out.',
  },
} as const satisfies Record<string, Row>

export type FaultCode = keyof typeof FAULTS

export type FieldError = { readonly path: string; readonly message: string }

export type Fault = {
  readonly code: FaultCode
  /** A public sentence that says more than the table's. Never evidence of a credential. */
  readonly detail?: string
  readonly errors?: readonly FieldError[]
  /** Which limit or freeze; `limit_reached` always names one. */
  readonly limit?: string
  /** How the thing stands now, in its wire shape, so that a stale write loses nothing. */
  readonly current?: { readonly [name: string]: unknown }
  readonly retryAfterSeconds?: number
}

export type Ok<T> = { readonly ok: true; readonly value: T }
export type Failed = { readonly ok: false; readonly fault: Fault }
export type Result<T> = Ok<T> | Failed

export const ok = <T>(value: T): Ok<T> => ({ ok: true, value })
export const fail = (code: FaultCode, more: Omit<Fault, 'code'> = {}): Failed => ({
  ok: false,
  fault: { code, ...more },
})
export const faultSays = (fault: Fault): string => fault.detail ?? FAULTS[fault.code].says

const codesOf = (error: unknown): readonly string[] => {
  if (typeof error !== 'object' || error === null) return []
  const own = 'code' in error && typeof error.code === 'string' ? [error.code] : []
  return [...own, ...('cause' in error ? codesOf(error.cause) : [])]
}

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'CONNECT_TIMEOUT',
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  // Too many connections; told to go away; starting up; and conflicts that outlived every retry.
  '53300',
  '57P01',
  '57P02',
  '57P03',
  '40001',
  '40P01',
  // A standby, or made read-only.
  '25006',
  // The database takes no connections, or is not there.
  '55000',
  '3D000',
])

/** Whether the database, rather than the program, is why nothing happened (I19: an outage is never an acceptance). */
export const isOutage = (error: unknown): boolean =>
  codesOf(error).some((code) => UNREACHABLE.has(code) || /^(08|53|57|58)\w{3}$/.test(code)) ||
  (error instanceof Error && /^PGlite is (closed|closing)/.test(error.message))
