import type { AgentCaller } from '../callers.ts'
import type { DecisionReason } from '../core/reason.ts'
import type { GrantId, ItemId, SessionId } from '../core/vocabulary.ts'
import { shareWork } from '../db/batches.ts'
import { hotRead, json } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'

export type Answered = {
  readonly id: ItemId
  readonly outcome: 'pending' | 'granted' | 'refused'
  readonly reason: DecisionReason
  /** The person's own words to the agent. */
  readonly note: string | null
}

/** A lost notification costs at most this much. */
const POLL_MILLIS = 2_000
const PROGRESS_MILLIS = 5_000

type Look = {
  readonly items: readonly Answered[]
  readonly open: boolean
  readonly held: readonly GrantId[]
}

type Asking = { readonly sessionId: SessionId; readonly ids: readonly ItemId[] }

const NOTHING: Look = { items: [], open: false, held: [] }

/** One statement for all who wait here: a kick wakes every one of them at once. */
const lookAll = (ctx: Ctx, asking: readonly Asking[]): Promise<readonly Look[]> =>
  hotRead(ctx.db, 'await_answer', async (tx) => {
    const asked = asking.map((one, n) => ({ n, ...one }))
    const rows = await tx.sql<{
      n: number
      open: boolean
      items: Answered[] | null
      held: GrantId[] | null
    }>`
      with recursive asked as (
        select * from jsonb_to_recordset(${json(asked)}::text::jsonb) as a (n integer, "sessionId" text, ids text[])),
      path as (
        select a.n, s.id, s.parent_id, s.agent_id, s.template_id from asked a join session s on s.id = a."sessionId"
        union all
        select c.n, p.id, p.parent_id, p.agent_id, p.template_id from path c join session p on p.id = c.parent_id)
      select a.n,
        s.status = 'active' and not exists (
          select from frozen f join path p
            on p.n = a.n and f.target_id in (s.tenant_id, s.user_id, p.agent_id, p.template_id)
          where f.tenant_id = s.tenant_id) as open,
        (select json_agg(x) from (
          select i.id, i.outcome, i.decision_reason as reason, r.note
          from request_item i join access_request r on r.id = i.request_id
          where i.id = any(a.ids) and i.session_id = s.id) x) as items,
        (select json_agg(g.id) from access_grant g where g.session_id = s.id) as held
      from asked a join session s on s.id = a."sessionId"`
    const seen = new Map(rows.map((row) => [row.n, row]))
    return asking.map((_, n) => {
      const row = seen.get(n)
      return row === undefined
        ? NOTHING
        : { open: row.open, items: row.items ?? [], held: row.held ?? [] }
    })
  })

const LOOKING = { id: 'all' }
const look = shareWork((ctx: Ctx, _: typeof LOOKING, all: readonly Asking[]) => lookAll(ctx, all), {
  most: 200,
  atOnce: 2,
})

/**
 * Waits until none of the items is pending, the time is up, the session ends or is frozen, or the caller has gone
 * (SPEC section 7). Writes nothing: a dropped connection cancels only the wait. Woken by kicks, from this instance or any
 * other; looks again every two seconds in case one was lost.
 */
export async function awaitAnswer(
  ctx: Ctx,
  caller: AgentCaller,
  of: {
    readonly ids: readonly ItemId[]
    readonly seconds: number
    readonly signal: AbortSignal
    readonly progress?: ((message: string, elapsedSeconds: number) => void) | undefined
  },
): Promise<Look> {
  const started = performance.now()
  const elapsed = () => performance.now() - started
  let kicked = false
  let wake = () => {}
  const unsubscribe = ctx.notify.subscribe(() => {
    kicked = true
    wake()
  })
  const gone = () => wake()
  const signal = ctx.stopping ? AbortSignal.any([of.signal, ctx.stopping]) : of.signal
  signal.addEventListener('abort', gone)
  let told = 0
  try {
    for (;;) {
      kicked = false
      const seen = await look(ctx, LOOKING, { sessionId: caller.sessionId, ids: of.ids })
      const left = of.seconds * 1000 - elapsed()
      const waiting = seen.items.some((i) => i.outcome === 'pending')
      if (!waiting || !seen.open || left <= 0 || signal.aborted) return seen
      if (of.progress && elapsed() - told >= PROGRESS_MILLIS) {
        told = elapsed()
        of.progress('Waiting for the user to answer.', Math.floor(told / 1000))
      }
      if (kicked) continue
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, POLL_MILLIS))
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  } finally {
    unsubscribe()
    signal.removeEventListener('abort', gone)
  }
}
