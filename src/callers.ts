import type {
  AgentId,
  GrantId,
  ServiceAccountId,
  SessionId,
  TenantId,
  UserId,
} from './core/vocabulary.ts'

/**
 * Who is calling, once a credential has been verified. Each flow names the arm it takes, so that "an agent cannot approve
 * itself" is a compile error before it is a test (I6).
 */
export type TenantRef = { readonly id: TenantId; readonly slug: string }

/** A person, through one of the tenant's first-party clients. */
export type UserCaller = {
  readonly as: 'user'
  readonly tenant: TenantRef
  readonly userId: UserId
  readonly login: string
  readonly name: string
  readonly staffRoles: readonly string[]
  readonly clientId: string
}

/** A session, by a live control token of its own. */
export type AgentCaller = {
  readonly as: 'agent'
  readonly tenant: TenantRef
  readonly agentId: AgentId
  readonly userId: UserId
  readonly sessionId: SessionId
  readonly rootId: SessionId
  readonly sessionVersion: number
  /** What the presented token carries, to tell whether it should be re-issued. */
  readonly carries: readonly GrantId[]
  /** How many more were held at its issue and had no room in it. */
  readonly omits: number
}

/** A deployed agent's app: the confidential client authenticated at the token endpoint. */
export type AppCaller = {
  readonly as: 'app'
  readonly tenant: TenantRef
  readonly agentId: AgentId
}

/** A tenant's backend program: authenticated at the token endpoint, and good for nothing but a token of its own. */
export type ServiceAccountCaller = {
  readonly as: 'service_account'
  readonly tenant: TenantRef
  readonly serviceAccountId: ServiceAccountId
  /** As it was when its credential was checked. */
  readonly version: number
}

/** An enforcement point of the tenant, authenticated by its own secret. */
export type EnforcementCaller = {
  readonly as: 'enforcement'
  readonly tenant: TenantRef
  readonly id: string
  readonly services: readonly string[]
  /** May ask what a person themselves may do; absent: only what a session holds. */
  readonly asksAboutUsers?: boolean
}

/** A service's own client, in the operator's tenant: it publishes that service's part of the catalog and nothing else. */
export type ServiceCaller = {
  readonly as: 'service'
  readonly tenant: TenantRef
  readonly clientId: string
  readonly service: string
}
