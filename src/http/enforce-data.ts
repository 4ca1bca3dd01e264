import { Hono } from 'hono'
import { z } from 'zod'
import { ACCESS } from '../core/vocabulary.ts'
import { tenantCtx } from '../db/shares.ts'
import { DATA_REASONS, type DataAccess, dataAccess } from '../flows/data-access.ts'
import { jsonObject } from '../tokens/compact.ts'
import type { AuthZenDeps } from './authzen.ts'
import { callerOf, refusal } from './enforce.ts'
import { claimsOfAny } from './oauth.ts'
import { requestIdOf } from './people/app.ts'
import { readBody } from './people/body.ts'
import { thrownResponse } from './problem.ts'

type Env = { Variables: { requestId?: string } }

const BODY_BYTES_MAX = 128 * 1024

const body = z.strictObject({
  token: z
    .string()
    .min(1)
    .max(64 * 1024),
  entity: z.string().regex(/^[A-Za-z][A-Za-z0-9._-]{0,63}$/, {
    error: 'must be the name of an entity, as in account',
  }),
  action: z.enum(ACCESS),
})

/** The session that a token says it is of: not evidence, only what to look up while it is verified. */
function sessionIn(token: string): string {
  const payload = Buffer.from(token.split('.', 2)[1] ?? '', 'base64url').toString()
  const sid = jsonObject(payload)?.sid
  return typeof sid === 'string' && /^ses_[A-Za-z0-9_-]{1,64}$/.test(sid) ? sid : 'ses_none'
}

const view = (of: DataAccess, asked: { readonly entity: string; readonly action: string }) => ({
  reason: of.reason,
  message: DATA_REASONS[of.reason],
  ...(of.sessionId === null ? {} : { session_id: of.sessionId }),
  entity: asked.entity,
  action: asked.action,
  parts: of.parts.map((part) => ({
    grant_id: part.grantId,
    permission: part.permission,
    rows: part.rows,
    fields: part.fields,
    sql: part.condition,
  })),
  masked: of.masked,
  blocked: of.blocked,
  ...(of.ask.length === 0 ? {} : { ask: { tool: 'iam.request_access', items: of.ask } }),
})

async function answer(deps: AuthZenDeps, request: Request, slug: string, requestId: string) {
  const tenant = await deps.findTenant(slug)
  if (tenant === null)
    return refusal({ code: 'not_found', detail: 'No such organisation.' }, requestId)
  const caller = await callerOf(deps, tenant, request)
  if (!caller.ok) return refusal(caller.fault, requestId)
  const read = await readBody(request, BODY_BYTES_MAX)
  if (!read.ok) return refusal(read.fault, requestId)
  const parsed = body.safeParse(read.value)
  if (!parsed.success) {
    const errors = parsed.error.issues.map((issue) => ({
      path: issue.path.join('.'),
      message: issue.message,
    }))
    return refusal({ code: 'request_malformed', errors }, requestId)
  }
  const { token, ...asked } = parsed.data
  const verified = claimsOfAny(deps, tenant, token, caller.value.resources)
  const sessionId = sessionIn(token)
  const ctx = tenantCtx(deps.ctx, tenant)
  const access = await dataAccess(ctx, caller.value, { ...asked, verified, sessionId })
  return Response.json(view(access, asked), { headers: { 'cache-control': 'no-store' } })
}

/** `POST /t/{tenant}/enforce/data`: which rows and fields of an entity a session shows. For mounting at the root. */
export function enforceDataRoutes(deps: AuthZenDeps): Hono<Env> {
  const app = new Hono<Env>()
  app.post('/t/:tenant/enforce/data', async (c) => {
    const requestId = c.get('requestId') ?? requestIdOf(c.req.raw)
    try {
      return await answer(deps, c.req.raw, c.req.param('tenant'), requestId)
    } catch (error) {
      return thrownResponse(error, requestId, deps.onBug)
    }
  })
  return app
}
