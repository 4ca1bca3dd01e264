import type { AgentCaller, AppCaller, UserCaller } from '../../../src/callers.ts'
import type { AgentId, SessionId, TenantId, UserId } from '../../../src/core/vocabulary.ts'
import type { Db } from '../../../src/db/tx.ts'
import type { Result } from '../../../src/fault.ts'
import { startByExchange } from '../../../src/flows/start-by-exchange.ts'
import { systemIds } from '../../../src/ids.ts'
import type { Ctx } from '../../../src/ports.ts'

/** The seeded world's callers, for flows that run on either database. */
export const TENANT = { id: 'ten_acme' as TenantId, slug: 'acme' }
export const APP: AppCaller = { as: 'app', tenant: TENANT, agentId: 'agt_briefs' as AgentId }
export const MAYA: UserCaller = {
  as: 'user',
  tenant: TENANT,
  userId: 'usr_maya' as UserId,
  login: 'maya',
  name: 'Maya',
  staffRoles: [],
  clientId: 'people',
}

export const instance = (db: Db): Ctx => ({
  db,
  clock: { now: () => Date.now() },
  ids: systemIds,
  notify: { kick: () => {}, subscribe: () => () => {} },
  publicUrl: 'http://localhost:4000',
})

export function must<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(`a fault: ${JSON.stringify(result.fault)}`)
  return result.value
}

export const agentOf = (session: SessionId): AgentCaller => ({
  as: 'agent',
  tenant: TENANT,
  agentId: APP.agentId,
  userId: MAYA.userId,
  sessionId: session,
  rootId: session,
  sessionVersion: 1,
  carries: [],
  omits: 0,
})

/** Maya's session, started by the agent's app. */
export const exchange = (ctx: Ctx) =>
  startByExchange(ctx, APP, {
    person: { issuer: 'https://idp.acme.example', subject: 'maya', createsUsers: false },
    template: 'renewal-briefs',
    task: undefined,
    resource: undefined,
    sessionId: undefined,
  })
