/** The words of the product as types. One word per idea; the names are SPEC section 1's. */

declare const brand: unique symbol
type Branded<Name extends string> = string & { readonly [brand]: Name }

export type TenantId = Branded<'TenantId'>
export type UserId = Branded<'UserId'>
export type AgentId = Branded<'AgentId'>
export type SessionId = Branded<'SessionId'>
export type TemplateId = Branded<'TemplateId'>
export type RequestId = Branded<'RequestId'>
export type ItemId = Branded<'ItemId'>
export type GrantId = Branded<'GrantId'>
/** A tenant's backend program: no agent, and nothing that is lent can be its. */
export type ServiceAccountId = Branded<'ServiceAccountId'>
export type RuleId = Branded<'RuleId'>

export const KINDS = ['api', 'data', 'asset', 'tool'] as const
export type Kind = (typeof KINDS)[number]

export const ACCESS = ['read', 'write', 'admin'] as const
export type Access = (typeof ACCESS)[number]

export const RISKS = ['low', 'medium', 'high'] as const
export type Risk = (typeof RISKS)[number]

export const ENFORCED_AT = ['gateway', 'data', 'asset', 'tool_gateway'] as const
export type EnforcedAt = (typeof ENFORCED_AT)[number]

/** Strictest first: a mode's index is its looseness. */
export const MODES = ['ask', 'auto', 'bypass'] as const
export type Mode = (typeof MODES)[number]

export const RULE_EFFECTS = ['allow', 'deny', 'ask'] as const
export type RuleEffect = (typeof RULE_EFFECTS)[number]

/** A filter over a record's fields, in the operator subset of SPEC section 2 (checked by `filter.ts`). */
export type Filter = { readonly [key: string]: unknown }

/**
 * Something that can be asked for, in canonical form: the resource is NFC and its domain, if it is one, a lower-case
 * A-label. Absent and empty are different: an absent resource is a permission that takes none.
 */
export type Item = {
  readonly permission: string
  readonly resource?: string
  readonly narrow?: Filter
}

/** What the decision needs to know of a catalog row. */
export type Permission = {
  readonly id: string
  readonly kind: Kind
  readonly access: Access
  readonly risk: Risk
  readonly sensitive: boolean
  readonly delegable: boolean
  /** Whether items of it must name a resource: assets do, and tools that declare a destination. */
  readonly takesResource: boolean
}

/** Bounds that a template version sets; the tenant may lower them and never raise them (I15). */
export type Limits = {
  readonly sessionLifeSeconds: number
  readonly subagentDepth: number
  readonly liveChildren: number
  readonly liveRootsPerUser: number
  readonly itemsPerRequest: number
  readonly requestsPerMinute: number
  readonly openRequests: number
  /** Absent: a request waits until its session ends. */
  readonly requestWaitSeconds?: number
}
