import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { EnforcementCaller, TenantRef } from '../callers.ts'
import { RESOURCE_LENGTH_MAX } from '../core/limits.ts'
import { tenantCtx } from '../db/shares.ts'
import { fail, ok, type Result } from '../fault.ts'
import { reportCalls } from '../flows/report-calls.ts'
import { type Ctx, issuerOf } from '../ports.ts'
import { authenticateClient } from '../tokens/client-auth.ts'
import { requestIdOf } from './people/app.ts'
import { readBody } from './people/body.ts'
import { problemResponse, thrownResponse } from './problem.ts'
import { overRate } from './rate.ts'

export type EnforceDeps = {
  readonly ctx: Ctx
  readonly findTenant: (slug: string) => Promise<TenantRef | null>
  readonly onBug: (error: unknown, requestId: string) => void
}

type Env = { Variables: { requestId?: string } }

const BODY_BYTES_MAX = 128 * 1024
const CALLS_MAX = 100
const LOST_MAX = 1_000_000
const KEY = /^[\x21-\x7e]{1,128}$/

const id = (prefix: string) =>
  z.string().regex(new RegExp(`^${prefix}_[A-Za-z0-9_-]{1,64}$`), {
    error: `must be an id, as in ${prefix}_…`,
  })

const call = z.strictObject({
  at: z.iso.datetime({ error: 'must be a time in UTC, as in 2026-11-30T12:00:00Z' }),
  session_id: id('ses'),
  permission: z.string().min(1).max(128),
  resource: z.string().min(1).max(RESOURCE_LENGTH_MAX).optional(),
  grant_id: id('grt').optional(),
  outcome: z.enum(['allowed', 'denied']),
  reason: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,63}$/, { error: 'must be a code, as in not_granted' })
    .optional(),
  // No query: it may carry what never belongs in a record (SPEC section 11).
  target: z
    .string()
    .regex(/^[^\p{C}?#]{1,256}$/u, {
      error: 'must be at most 256 visible characters without a query, as in GET /accounts',
    })
    .optional(),
})

const body = z.strictObject({
  calls: z.array(call).max(CALLS_MAX, { error: `takes at most ${CALLS_MAX} calls` }),
  lost: z.int().min(0).max(LOST_MAX).optional(),
})

/** An enforcement point, and what the tokens that it may ask about are for. */
export type EnforcementAsker = EnforcementCaller & { readonly resources: readonly string[] }

/** The tenant's enforcement point that makes a request, by its own secret; `rate_limited` when it asks too often. */
export async function callerOf(
  deps: Pick<EnforceDeps, 'ctx'>,
  tenant: TenantRef,
  request: Request,
): Promise<Result<EnforcementAsker>> {
  const { ctx } = deps
  const client = await authenticateClient(
    { db: ctx.db, clock: ctx.clock, issuer: issuerOf(ctx, tenant.slug), tenant },
    {
      authorization: request.headers.get('authorization') ?? undefined,
      form: new URLSearchParams(),
    },
  )
  if (!client.ok) return client
  if (client.value.kind !== 'enforcement_point')
    return fail('forbidden', { detail: 'Only an enforcement point may call this.' })
  const { id, services, resources, asksAboutUsers } = client.value
  const over = await overRate(ctx, 'point', id)
  if (over !== null) return over
  const point = { as: 'enforcement', tenant, id, services, resources } as const
  return ok(asksAboutUsers ? { ...point, asksAboutUsers } : point)
}

/**
 * A refused credential is challenged for the scheme that is taken here (RFC 9110 section 11.6.1).
 */
export function refusal(fault: Parameters<typeof problemResponse>[0], requestId: string): Response {
  const answer = problemResponse(fault, requestId)
  if (answer.status === 401) answer.headers.set('www-authenticate', 'Basic realm="lend"')
  return answer
}

async function calls(deps: EnforceDeps, c: Context<Env>, requestId: string): Promise<Response> {
  const tenant = await deps.findTenant(c.req.param('tenant') ?? '')
  if (tenant === null)
    return refusal({ code: 'not_found', detail: 'No such organisation.' }, requestId)
  const caller = await callerOf(deps, tenant, c.req.raw)
  if (!caller.ok) return refusal(caller.fault, requestId)
  const read = await readBody(c.req.raw, BODY_BYTES_MAX)
  if (!read.ok) return refusal(read.fault, requestId)
  const parsed = body.safeParse(read.value)
  if (!parsed.success) {
    const errors = parsed.error.issues.map((issue) => ({
      path: issue.path.join('.'),
      message: issue.message,
    }))
    return refusal({ code: 'request_malformed', errors }, requestId)
  }
  const key = c.req.header('idempotency-key')
  if (key !== undefined && !KEY.test(key)) {
    const message = 'must be 1 to 128 visible ASCII characters'
    const errors = [{ path: 'Idempotency-Key', message }]
    return refusal({ code: 'request_malformed', errors }, requestId)
  }
  const reported = await reportCalls(tenantCtx(deps.ctx, tenant), caller.value, {
    calls: parsed.data.calls.map((one) => ({
      at: Date.parse(one.at) / 1000,
      sessionId: one.session_id,
      permission: one.permission,
      resource: one.resource,
      grantId: one.grant_id,
      outcome: one.outcome,
      reason: one.reason,
      target: one.target,
    })),
    lost: parsed.data.lost ?? 0,
    key,
  })
  return Response.json(reported, { headers: { 'cache-control': 'no-store' } })
}

/**
 * `POST /t/{tenant}/enforce/calls`: enforcement points tell of the calls they let through and
 * turned away (I12). For mounting at the root.
 */
export function enforceRoutes(deps: EnforceDeps): Hono<Env> {
  const app = new Hono<Env>()
  app.post('/t/:tenant/enforce/calls', async (c) => {
    // Whoever it is mounted in may have named the request already.
    const requestId = c.get('requestId') ?? requestIdOf(c.req.raw)
    try {
      return await calls(deps, c, requestId)
    } catch (error) {
      return thrownResponse(error, requestId, deps.onBug)
    }
  })
  return app
}
