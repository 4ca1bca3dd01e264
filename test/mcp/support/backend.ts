import { setTimeout } from 'node:timers/promises'
import type {
  ItemOutcome,
  RequestAccessArguments,
  RequestAccessResult,
} from '../../../schema/tools.ts'
import type { AgentCaller, TenantRef } from '../../../src/callers.ts'
import { REASONS, type Reason } from '../../../src/core/reason.ts'
import type { AgentId, Item, SessionId, TenantId, UserId } from '../../../src/core/vocabulary.ts'
import { fail, ok, type Result } from '../../../src/fault.ts'
import type { IamTools, ToolExtra } from '../../../src/mcp/tools.ts'

/**
 * A small honest backend: it holds grants in memory, keeps what is asked pending until `answer`,
 * and remembers every call it got. It decides by a table, not by the product's rules: what is under
 * test is the way in and out.
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
  omits: 0,
})

const TICK_MS = 20

export const BURST = Array.from({ length: 50 }, (_, i) => i + 1)

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

/** Faults, bugs and slips on demand, so that what becomes of them can be seen. */
function onDemand(permission: string, extra: ToolExtra): Result<RequestAccessResult> | null {
  const result: RequestAccessResult = { items: [], token_refresh: false }
  switch (permission) {
    case 'crash:now':
      throw new Error('select * from secret_table where token = eyJhbGciOi')
    case 'limit:hit':
      return fail('limit_reached', { limit: 'requests_per_minute', retryAfterSeconds: 17 })
    case 'frozen:all':
      return fail('frozen')
    case 'leak:token':
      return ok({ ...result, access_token: 'eyJhbGciOiJFUzI1NiJ9.e30.sig' } as RequestAccessResult)
    case 'broken:shape':
      return ok({ items: 'none' } as unknown as RequestAccessResult)
    case 'burst:now':
      for (const at of [...BURST, 0, 1, BURST.length]) extra.progress?.(`at ${at}`, at)
      return ok(result)
    default:
      return null
  }
}

const DESCRIBED = {
  id: 'accounts:read',
  title: 'Accounts API · Read',
  unlocks: 'Reads accounts',
  kind: 'api',
  risk: 'low',
  sensitive: false,
  delegable: true,
  in_ceiling: true,
  held: false,
  why: 'It reads accounts.',
} as const

type Held = Map<string, { id: string; permission: string; resource?: string }>
type Answers = Map<string, 'allowed_by_user' | 'denied_by_user'>
type State = { held: Held; answers: Answers; waits: { started: number; aborted: number } }

function outcomeOf({ held, answers }: State, item: Item): ItemOutcome {
  const { permission } = item
  const reason = DECIDED[permission] ?? 'unknown_permission'
  const row = REASONS[reason]
  const answer = answers.get(permission)
  const base = { ...item, reason: answer ?? reason, message: row.says, retry: row.retry }
  if (row.outcome === 'asked' && answer === undefined)
    return { ...base, outcome: 'pending', request_id: 'req_1' }
  const granted = row.outcome === 'granted' || answer === 'allowed_by_user'
  if (granted) held.set(permission, { id: `grt_${held.size + 1}`, permission })
  return { ...base, outcome: granted ? 'granted' : 'refused' }
}

async function requestAccess(
  state: State,
  args: RequestAccessArguments,
  extra: ToolExtra,
): Promise<Result<RequestAccessResult>> {
  const demanded = onDemand(args.items[0]?.permission ?? '', extra)
  if (demanded !== null) return demanded
  const started = Date.now()
  const until = started + (args.wait_seconds ?? 0) * 1000
  if (args.wait_seconds) state.waits.started += 1
  let items = args.items.map((item) => outcomeOf(state, item))
  while (items.some((item) => item.outcome === 'pending') && Date.now() < until) {
    extra.progress?.('Waiting for the user', (Date.now() - started) / 1000)
    await sleep(TICK_MS, extra.signal)
    if (extra.signal.aborted) {
      state.waits.aborted += 1
      break
    }
    items = args.items.map((item) => outcomeOf(state, item))
  }
  return ok({ items, token_refresh: state.held.size > 0 })
}

/** The tools that only look. */
const looking = ({
  held,
}: State): Pick<IamTools, 'iam.describe_permissions' | 'iam.explain' | 'iam.my_access'> => ({
  'iam.describe_permissions': async (_, { limit = 10 }) =>
    ok({ permissions: [DESCRIBED].slice(0, limit) }),
  'iam.explain': async (_, { permission }) => {
    const reason = DECIDED[permission] ?? 'unknown_permission'
    return ok({
      permission,
      in_ceiling: permission in DECIDED,
      held: held.has(permission),
      would: { outcome: REASONS[reason].outcome, reason, message: REASONS[reason].says },
    })
  },
  'iam.my_access': async () =>
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
})

const toolsOf = (state: State): IamTools => ({
  ...looking(state),
  'iam.request_access': (_, args, extra) => requestAccess(state, args, extra),
  'iam.start_subagent': async (_, { template, read_only = false }) =>
    ok({
      session_id: 'ses_2',
      template,
      inherited: [...state.held.values()].map((grant) => ({ ...grant, read_only })),
      expires_at: '2026-01-01T08:00:00Z',
      mode: 'ask' as const,
      read_only,
    }),
  'iam.release_access': async (_, { items }) => {
    const released = [...state.held.values()].filter((grant) =>
      items.some((item) =>
        'grant_id' in item ? item.grant_id === grant.id : item.permission === grant.permission,
      ),
    )
    for (const grant of released) state.held.delete(grant.permission)
    return ok({ released, token_refresh: released.length > 0 })
  },
  'iam.end_session': async () => {
    const grants_revoked = state.held.size
    state.held.clear()
    return ok({ sessions_ended: 1, grants_revoked })
  },
})

/** Each tool, remembering what reached it. */
function watched(tools: IamTools, seen: Seen[]): IamTools {
  const watch = ([tool, run]: [string, (...call: never[]) => unknown]) => [
    tool,
    (who: AgentCaller, args: never, extra: never) => {
      seen.push({ tool, caller: who, args })
      return run(who as never, args, extra)
    },
  ]
  return Object.fromEntries(Object.entries(tools).map(watch)) as IamTools
}

export type Backend = ReturnType<typeof createBackend>

export function createBackend() {
  const seen: Seen[] = []
  const state: State = { held: new Map(), answers: new Map(), waits: { started: 0, aborted: 0 } }
  return {
    tools: watched(toolsOf(state), seen),
    seen,
    waits: state.waits,
    answer: (permission: string, end: 'allowed_by_user' | 'denied_by_user') =>
      void state.answers.set(permission, end),
  }
}
