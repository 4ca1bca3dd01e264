/** What is recorded (SPEC section 11). The list is closed: a type that is not here does not compile. */
export const ACTIVITY_TYPES = [
  'session.started',
  'session.ended',
  'token.issued',
  'token.refused',
  'access.requested',
  'access.decided',
  'grant.created',
  'grant.ended',
  'subagent.started',
  'call.allowed',
  'call.denied',
  'rule.created',
  'rule.deleted',
  'rule.suspended',
  'rule.confirmed',
  'mode.changed',
  'template.created',
  'template.drafted',
  'template.submitted',
  'template.withdrawn',
  'template.sent_back',
  'template.commented',
  'template.published',
  'template.retired',
  'template.sponsor_changed',
  'enablement.changed',
  'enablement.adopted',
  'catalog.published',
  'catalog.proposed',
  'catalog.reviewed',
  'freeze.created',
  'freeze.ended',
  'admin.changed',
  'login.succeeded',
] as const
export type ActivityType = (typeof ACTIVITY_TYPES)[number]

/** `ocsf`: NDJSON in the Open Cybersecurity Schema Framework. */
export const EXPORT_FORMATS = ['csv', 'ndjson', 'ocsf'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

/**
 * One record in the shape that the API and the export give it; `hash` is over the canonical JSON of all the rest.
 * Anyone who holds an export can check it.
 */
export type ActivityRecord = {
  readonly id: string
  readonly tenant_id: string
  /** Counts within its chain: a session's own, or the tenant's for records without a session. From 1. */
  readonly seq: number
  /** ISO 8601 UTC with milliseconds, the precision that is stored. */
  readonly at: string
  readonly type: ActivityType
  readonly agent_id?: string
  readonly user_id?: string
  readonly session_id?: string
  readonly root_session_id?: string
  readonly template?: string
  readonly data: { readonly [key: string]: unknown }
  readonly prev_hash: string
  readonly hash: string
}

export type ChainHead = { readonly seq: number; readonly hash: string }

export const CHAIN_START: ChainHead = { seq: 0, hash: '' }
