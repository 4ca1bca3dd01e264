/** The life of a session. The same legal changes stand as rows in `session_transition`; a test compares them. */
export const SESSION_STATUSES = ['active', 'ended', 'revoked', 'expired'] as const
export type SessionStatus = (typeof SESSION_STATUSES)[number]

/** Every end is final (SPEC section 5). */
export const SESSION_TRANSITIONS = {
  active: ['ended', 'revoked', 'expired'],
  ended: [],
  revoked: [],
  expired: [],
} as const satisfies Record<SessionStatus, readonly SessionStatus[]>

/** Why a session is over, and the state that reason leads to. */
export const SESSION_END_REASONS = {
  agent: 'ended',
  user: 'ended',
  parent: 'ended',
  timeout: 'expired',
  admin: 'revoked',
  user_disabled: 'revoked',
  agent_disabled: 'revoked',
  template_off: 'revoked',
  token_revoked: 'revoked',
} as const satisfies Record<string, SessionStatus>
export type SessionEndReason = keyof typeof SESSION_END_REASONS

export const REQUEST_STATUSES = ['pending', 'settled'] as const

/** A prompt's life: asked, then exactly one end (I16). */
export const ITEM_OUTCOMES = ['pending', 'granted', 'refused'] as const
export type ItemOutcome = (typeof ITEM_OUTCOMES)[number]
