import { expect } from 'vitest'
import type { SessionClaims } from '../../src/core/claims.ts'
import {
  ACCESS_TOKEN,
  type Answer,
  type AskedItem,
  type Body,
  type Credentials,
  type Form,
  type LiveServer,
  TOKEN_EXCHANGE,
  type TokenAnswer,
} from './live-server.ts'
import { verified } from './oauth-client.ts'

export const ACCOUNTS: AskedItem = { permission: 'accounts:read' }
export const ROWS: AskedItem = { permission: 'accounts.rows:my_region' }
export const PIPELINE: AskedItem = {
  permission: 'dashboard:view',
  resource: 'dashboard/q3-pipeline',
}
export const MAIL: AskedItem = { permission: 'email:send', resource: 'domain/customer.example' }

type Claims = Pick<SessionClaims, 'authorization_details'>
export const carried = (claims: Claims): string[] =>
  claims.authorization_details.map((d) => d.permission).sort()

export const okBody = <T>(answer: Answer<T>): T => {
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

type Child = { readonly session_id: string; readonly inherited: readonly Body[] }

/** What the renewal assistant does with maya's sessions at the token endpoint. */
export function sessionsOf(lend: LiveServer, agent: Credentials) {
  const exchange = (form: Form, credentials: Credentials = agent) =>
    lend.token(
      { grant_type: TOKEN_EXCHANGE, subject_token_type: ACCESS_TOKEN, ...form },
      credentials,
    )
  return {
    exchange,
    refresh: (token: string, form: Form = {}, credentials: Credentials = agent) =>
      lend.token({ grant_type: 'refresh_token', refresh_token: token, ...form }, credentials),
    control: (token: string) => verified(lend, token, lend.mcpUrl()),
    /** A session of maya's that holds these items, and a control token that lists them. */
    holding: async (...items: AskedItem[]): Promise<TokenAnswer> => {
      const started = await lend.start('maya')
      if (items.length === 0) return started
      await lend.lend('maya', started.access_token, items)
      return lend.reissue(started.refresh_token)
    },
    subagent: async (token: string, template = 'email-drafter'): Promise<Child> => {
      const mcp = await lend.mcp(token)
      const child = await mcp.call<Child>('iam.start_subagent', { template })
      await mcp.close()
      return child
    },
    claim: (parentToken: string, sessionId: string, credentials: Credentials = agent) =>
      exchange({ subject_token: parentToken, session_id: sessionId }, credentials),
    isActive: async (token: string): Promise<unknown> => {
      const point = await lend.enforcementPoint()
      return (await lend.oauth<Body>('introspect', { token }, point)).body.active
    },
  }
}
