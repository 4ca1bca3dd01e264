import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { EnforcementCaller } from '../callers.ts'
import { type Cursor, followRevocations, type Heard } from '../flows/follow-revocations.ts'
import type { Ctx } from '../ports.ts'
import { callerOf, type EnforceDeps, refusal } from './enforce.ts'
import { requestIdOf } from './people/app.ts'
import { thrownResponse } from './problem.ts'

type Env = { Variables: { requestId?: string } }

const WAIT_SECONDS_MAX = 25
/** A kick can be lost. */
const LOOK_MILLIS = 500
/** Above it an enforcement point is answered at once: each that waits holds a connection. */
const WAITING_MAX = 100

const BIGGEST = { xid: 2n ** 64n - 1n, id: 2n ** 63n - 1n }

const place = z
  .string()
  .regex(/^(\d{1,15}-)?\d{1,20}-\d{1,19}$/, { error: 'must be a cursor that was answered here' })
  .transform((text): Cursor => {
    const [id = '0', xid = '0', restored] = text.split('-').toReversed()
    return { xid, id, restoredAt: restored === undefined ? null : Number(restored) }
  })
  .refine(({ xid, id }) => BigInt(xid) <= BIGGEST.xid && BigInt(id) <= BIGGEST.id, {
    error: 'must be a cursor that was answered here',
  })

const query = z.strictObject({
  after: place.optional(),
  wait: z
    .string()
    .regex(/^\d{1,2}$/, { error: 'must be a number of seconds' })
    .transform(Number)
    .refine((seconds) => seconds <= WAIT_SECONDS_MAX, {
      error: `must be at most ${WAIT_SECONDS_MAX}`,
    })
    .optional(),
})

const cursorOf = ({ restoredAt, xid, id }: Cursor): string =>
  `${restoredAt === null ? '' : `${restoredAt}-`}${xid}-${id}`

const view = (heard: Heard) => ({
  cursor: cursorOf(heard.cursor),
  reset: heard.reset,
  more: heard.more,
  sessions: heard.sessions.map(({ sid, version, active }) => ({
    session_id: sid,
    version,
    active,
  })),
  frozen: heard.frozen,
  // What was taken back before a restore is not known any more.
  ...(heard.cursor.restoredAt === null
    ? {}
    : { good_after: Math.floor(heard.cursor.restoredAt / 1000) }),
})

/** Resolves at the next kick, when the time is up, or when nobody waits any more. */
function woken(ctx: Ctx, gone: AbortSignal, millis: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      unsubscribe()
      for (const signal of signals) signal.removeEventListener('abort', done)
      resolve()
    }
    const signals = ctx.stopping === undefined ? [gone] : [gone, ctx.stopping]
    const timer = setTimeout(done, millis)
    const unsubscribe = ctx.notify.subscribe(done)
    for (const signal of signals) signal.addEventListener('abort', done)
  })
}

async function heardWithin(
  ctx: Ctx,
  caller: EnforcementCaller,
  of: {
    readonly after: Cursor | null
    readonly seconds: number
    readonly gone: AbortSignal
  },
): Promise<Heard> {
  const until = performance.now() + of.seconds * 1000
  for (;;) {
    const heard = await followRevocations(ctx, caller, of.after)
    const left = until - performance.now()
    const over = left <= 0 || of.gone.aborted || ctx.stopping?.aborted === true
    if (heard.news || over) return heard
    await woken(ctx, of.gone, Math.min(left, LOOK_MILLIS))
  }
}

/**
 * `GET /t/{tenant}/enforce/revocations?after=&wait=`: what an enforcement point has to hear to refuse by itself what was taken
 * back (SPEC section 9). Answers `{cursor, reset, more, sessions: [{session_id, version, active}], frozen: [{scope, target}]}`; a
 * session's tokens below `version` are dead, and all of them where it is not active. Without `after`, or when its place was
 * trimmed or is from before a restore, `reset` is true and it is the whole state; `good_after`, if there is one, is the second of
 * that restore: tokens issued until then are dead. With nothing new it waits `wait` seconds at most.
 */
export function enforceRevocationsRoutes(deps: EnforceDeps): Hono<Env> {
  const app = new Hono<Env>()
  const waiting = new Map<string, number>()
  async function answer(c: Context<Env>, requestId: string): Promise<Response> {
    const tenant = await deps.findTenant(c.req.param('tenant') ?? '')
    if (tenant === null)
      return refusal({ code: 'not_found', detail: 'No such organisation.' }, requestId)
    const caller = await callerOf(deps, tenant, c.req.raw)
    if (!caller.ok) return refusal(caller.fault, requestId)
    const parsed = query.safeParse(c.req.query())
    if (!parsed.success) {
      const errors = parsed.error.issues.map((issue) => ({
        path: issue.path.join('.'),
        message: issue.message,
      }))
      return refusal({ code: 'request_malformed', errors }, requestId)
    }
    const { id } = caller.value
    const others = waiting.get(id) ?? 0
    const seconds = others < WAITING_MAX ? (parsed.data.wait ?? 0) : 0
    waiting.set(id, others + 1)
    try {
      const of = { after: parsed.data.after ?? null, seconds, gone: c.req.raw.signal }
      const heard = await heardWithin(deps.ctx, caller.value, of)
      return Response.json(view(heard), { headers: { 'cache-control': 'no-store' } })
    } finally {
      const left = (waiting.get(id) ?? 1) - 1
      if (left > 0) waiting.set(id, left)
      else waiting.delete(id)
    }
  }
  app.get('/t/:tenant/enforce/revocations', async (c) => {
    const requestId = c.get('requestId') ?? requestIdOf(c.req.raw)
    try {
      return await answer(c, requestId)
    } catch (error) {
      return thrownResponse(error, requestId, deps.onBug)
    }
  })
  return app
}
