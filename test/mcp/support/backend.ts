import { setTimeout } from 'node:timers/promises'
import type { ItemOutcome, RequestAccessResult } from '../../../schema/tools.ts'
import type { AgentCaller, TenantRef } from '../../../src/callers.ts'
import { REASONS, type Reason } from '../../../src/core/reason.ts'
import type { AgentId, SessionId, TenantId, UserId } from '../../../src/core/vocabulary.ts'
import { fail, ok, type Result } from '../../../src/fault.ts'
import type { IamTools, ToolExtra } from '../../../src/mcp/tools.ts'

/**
 * A small honest backend: it holds grants in memory, keeps what is asked pending until `answer`, and remembers every
 * call it got. It decides by a table, not by the product's rules: what is under test is the way in and out.
 */
export const ACME: TenantRef = { id: 'ten_acme' as TenantId, slug: 'acme' }

export const caller = (tenant: TenantRef): AgentCaller => ({
  as: 'agent',
  tenant,
  agentId: 'agt_1' as AgentId,
  userId: 'usr_maya' as UserId,
  sessionId: 'ses_1' as SessionId,
  rootId: 'ses_1' as SessionId,
  sessionVersion: 1,
  carries: [],
})

const DECIDED: Readonly<Record<string, Reason>> = {
  'accounts:read': 'mode_auto',
  'email:send': 'mode_ask',
  'billing:admin': 'never_delegable',
}

export type Seen = { tool: string; caller: AgentCaller; args: unknown }

export async function authenticate(token: string, tenant: TenantRef): Promise<Result<AgentCaller>> {
  if (token === 'live') return ok(caller(tenant))
  if (token === 'stale') return fail('token_stale')
  if (token === 'odd')
    return fail('token_stale', { detail: 'say "no" \\ to the user’s 日本\r\nX: y' })
  if (token === 'provider') return fail('provider_unavailable')
  if (token === 'outage') throw new Error('connection refused to 10.0.0.5 password=hunter2')
  return fail('unauthenticated')
}

/** Resolves early when the signal says so; the loop that waits looks at the signal itself. */
const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  setTimeout(ms, undefined, { signal }).catch(() => {})

export type Backend = ReturnType<typeof createBackend>

export function createBackend({ tickMs = 20 } = {}) {
  const seen: Seen[] = []
  const answers = new Map<string, 'allowed_by_user' | 'denied_by_user'>()
  const held = new Map<string, { id: string; permission: string; resource?: string }>()
  const waits = { started: 0, aborted: 0 }

  const see = <Name extends keyof IamTools>(tool: Name, run: IamTools[Name]): IamTools[Name] =>
    (async (who: AgentCaller, args: never, extra: ToolExtra) => {
      seen.push({ tool, caller: who, args })
      return run(who, args, extra)
    }) as IamTools[Name]

  const outcomeOf = (permission: string, resource: string | undefined): ItemOutcome => {
    const reason = DECIDED[permission] ?? 'unknown_permission'
    const row = REASONS[reason]
    const answer = answers.get(permission)
    const what = { permission, ...(resource === undefined ? {} : { resource }) }
    if (row.outcome === 'asked' && answer === undefined)
      return {
        ...what,
        outcome: 'pending',
        reason,
        message: row.says,
        retry: row.retry,
        request_id: 'req_1',
      }
    const granted = row.outcome === 'granted' || answer === 'allowed_by_user'
    if (granted) held.set(permission, { id: `grt_${held.size + 1}`, ...what })
    return {
      ...what,
      outcome: granted ? 'granted' : 'refused',
      reason: answer ?? reason,
      message: row.says,
      retry: row.retry,
    }
  }

  const tools: IamTools = {
    'iam.describe_permissions': see('iam.describe_permissions', async (_, { limit = 10 }) =>
      ok({
        permissions: [
          {
            id: 'accounts:read',
            title: 'Accounts API · Read',
            unlocks: 'Reads accounts',
            kind: 'api' as const,
            risk: 'low' as const,
            sensitive: false,
            delegable: true,
            in_ceiling: true,
            held: held.has('accounts:read'),
            why: 'It reads accounts.',
          },
        ].slice(0, limit),
      }),
    ),
    'iam.explain': see('iam.explain', async (_, { permission }) => {
      const reason = DECIDED[permission] ?? 'unknown_permission'
      return ok({
        permission,
        in_ceiling: permission in DECIDED,
        held: held.has(permission),
        would: { outcome: REASONS[reason].outcome, reason, message: REASONS[reason].says },
      })
    }),
    'iam.request_access': see('iam.request_access', async (_, args, extra) => {
      const permissions = args.items.map((item) => item.permission)
      if (permissions.includes('crash:now'))
        throw new Error('select * from secret_table where token = eyJhbGciOi')
      if (permissions.includes('limit:hit'))
        return fail('limit_reached', { limit: 'requests_per_minute', retryAfterSeconds: 17 })
      if (permissions.includes('frozen:all')) return fail('frozen')
      const answerNow = () => args.items.map((item) => outcomeOf(item.permission, item.resource))
      const until = Date.now() + (args.wait_seconds ?? 0) * 1000
      const started = Date.now()
      let items = answerNow()
      if (args.wait_seconds) waits.started += 1
      while (items.some((item) => item.outcome === 'pending') && Date.now() < until) {
        extra.progress?.('Waiting for the user', (Date.now() - started) / 1000)
        await sleep(tickMs, extra.signal)
        if (extra.signal.aborted) {
          waits.aborted += 1
          break
        }
        items = answerNow()
      }
      const result: RequestAccessResult = { items, token_refresh: held.size > 0 }
      // A flow that let something slip, which the endpoint must not pass on.
      if (permissions.includes('leak:token'))
        return ok({
          ...result,
          access_token: 'eyJhbGciOiJFUzI1NiJ9.e30.sig',
        } as RequestAccessResult)
      if (permissions.includes('broken:shape'))
        return ok({ items: 'none' } as unknown as RequestAccessResult)
      return ok(result)
    }),
    'iam.my_access': see('iam.my_access', async () =>
      ok({
        grants: [...held.values()].map((grant) => ({
          ...grant,
          read_only: false,
          source: { by: 'mode' as const },
          since: '2026-01-01T00:00:00Z',
          uses: 0,
        })),
        pending: [],
        mode: 'auto' as const,
        expires_at: '2026-01-01T08:00:00Z',
        template: 'renewal-briefs@3',
        context: 'Writes renewal briefs.',
      }),
    ),
    'iam.start_subagent': see('iam.start_subagent', async (_, { template, read_only = false }) =>
      ok({
        session_id: 'ses_2',
        template,
        inherited: [...held.values()].map((grant) => ({ ...grant, read_only })),
        expires_at: '2026-01-01T08:00:00Z',
        mode: 'ask' as const,
        read_only,
      }),
    ),
    'iam.release_access': see('iam.release_access', async (_, { items }) => {
      const released = [...held.values()].filter((grant) =>
        items.some((item) =>
          'grant_id' in item ? item.grant_id === grant.id : item.permission === grant.permission,
        ),
      )
      for (const grant of released) held.delete(grant.permission)
      return ok({ released, token_refresh: released.length > 0 })
    }),
    'iam.end_session': see('iam.end_session', async () => {
      const grants = held.size
      held.clear()
      return ok({ sessions_ended: 1, grants_revoked: grants })
    }),
  }
  return {
    tools,
    seen,
    waits,
    answer: (permission: string, end: 'allowed_by_user' | 'denied_by_user') =>
      void answers.set(permission, end),
  }
}
