import { type Context, Hono } from 'hono'
import type { EnforcementCaller, TenantRef } from '../callers.ts'
import { tenantCtx } from '../db/shares.ts'
import { type Fault, fail, faultSays, ok, type Result } from '../fault.ts'
import { DENIED, type Decision, evaluateAccess, type Verify } from '../flows/evaluate-access.ts'
import {
  type Found,
  searchActions,
  searchResources,
  searchSubjects,
} from '../flows/search-access.ts'
import { type Ctx, issuerOf } from '../ports.ts'
import type { KeyStore } from '../tokens/keys.ts'
import {
  type Asked,
  actionSearch,
  batchOf,
  evaluation,
  resourceSearch,
  subjectSearch,
} from './authzen-shapes.ts'
import { callerOf, refusal } from './enforce.ts'
import { claimsOfAny } from './oauth.ts'
import { requestIdOf } from './people/app.ts'
import { readBody } from './people/body.ts'
import { thrownResponse, type WireFault } from './problem.ts'

export type AuthZenDeps = {
  readonly ctx: Ctx
  readonly keys: KeyStore
  readonly findTenant: (slug: string) => Promise<TenantRef | null>
  readonly onBug: (error: unknown, requestId: string) => void
}

type Env = { Variables: { requestId?: string } }
type Refused = { readonly ok: false; readonly fault: Fault | WireFault }
type Answered = Result<object> | Refused

const BODY_BYTES_MAX = 256 * 1024

/** AuthZEN 1.0 metadata: the well-known part stands before the tenant's path (RFC 8615). */
export function authzenMetadata(ctx: Pick<Ctx, 'publicUrl'>, tenant: string) {
  const base = issuerOf(ctx, tenant)
  return {
    policy_decision_point: base,
    access_evaluation_endpoint: `${base}/access/v1/evaluation`,
    access_evaluations_endpoint: `${base}/access/v1/evaluations`,
    search_subject_endpoint: `${base}/access/v1/search/subject`,
    search_resource_endpoint: `${base}/access/v1/search/resource`,
    search_action_endpoint: `${base}/access/v1/search/action`,
  }
}

/** A decision as AuthZEN 1.0 says it. A denial that can be asked for names the exact item for `iam.request_access`. */
const decisionView = (of: Decision) =>
  of.allowed
    ? {
        decision: true,
        context: {
          reason: 'granted',
          permission: of.permission,
          ...(of.grantId === undefined ? {} : { grant_id: of.grantId }),
        },
      }
    : {
        decision: false,
        context: {
          reason: of.reason,
          message: DENIED[of.reason],
          ...(of.ask === undefined ? {} : { ask: { tool: 'iam.request_access', items: [of.ask] } }),
        },
      }

/** A question that cannot be answered, inside a batch that otherwise can: denied, with what is wrong with it. */
const errorView = (fault: Fault) => ({
  decision: false,
  context: {
    reason: fault.code,
    error: {
      status: fault.code === 'forbidden' ? 403 : 400,
      message: [
        faultSays(fault),
        ...(fault.errors ?? []).map((e) => `${e.path} ${e.message}`),
      ].join(' '),
    },
  },
})

const NOT_ABOUT_USERS = fail('forbidden', {
  detail:
    'This enforcement point may ask about sessions that it is shown a token of, not about people.',
})

/** Asking about a person is a privilege of its own: their whole access must not stand in for what a session holds. */
const mayAsk = (caller: EnforcementCaller, type: string): boolean =>
  type !== 'user' || caller.asksAboutUsers === true

type Asking = {
  readonly ctx: Ctx
  readonly caller: EnforcementCaller
  readonly verify: Verify
  readonly body: unknown
}

const questionOf = (caller: EnforcementCaller, body: unknown): Result<Asked> => {
  const read = evaluation(body)
  return read.ok && !mayAsk(caller, read.value.subject.type) ? NOT_ABOUT_USERS : read
}

async function evaluate({ ctx, caller, verify, body }: Asking): Promise<Answered> {
  const read = questionOf(caller, body)
  if (!read.ok) return read
  const [decision] = await evaluateAccess(ctx, caller, verify, [read.value])
  return decision === undefined ? fail('not_found') : ok(decisionView(decision))
}

async function evaluateMany(asking: Asking): Promise<Answered> {
  const { ctx, caller, verify } = asking
  const batch = batchOf(asking.body)
  if (!batch.ok) return batch
  if (batch.value.items.length === 0) return evaluate(asking)
  const read = batch.value.items.map((item) => questionOf(caller, item))
  const good = read.flatMap((one) => (one.ok ? [one.value] : []))
  const decisions = [...(await evaluateAccess(ctx, caller, verify, good))]
  const evaluations: { readonly decision: boolean }[] = []
  for (const one of read) {
    const decision = one.ok ? decisions.shift() : undefined
    const view = one.ok
      ? decision === undefined
        ? errorView({ code: 'not_found' })
        : decisionView(decision)
      : errorView(one.fault)
    evaluations.push(view)
    if (view.decision === batch.value.stopAt) break
  }
  return ok({ evaluations })
}

/** The last of what was seen, so that a page begins where the one before ended, whatever changed between them. */
const pageView = (found: Found) => ({
  next_token: found.next === null ? '' : Buffer.from(found.next).toString('base64url'),
  count: found.results.length,
})

async function findSubjects({ ctx, caller, body }: Asking): Promise<Answered> {
  const read = subjectSearch(body)
  if (!read.ok) return read
  const { page, ...of } = read.value
  if (!mayAsk(caller, of.type)) return NOT_ABOUT_USERS
  const found = await searchSubjects(ctx, caller, of, page)
  const results = found.results.map((id) => ({ type: of.type, id }))
  return ok({ results, page: pageView(found) })
}

async function findResources({ ctx, caller, verify, body }: Asking): Promise<Answered> {
  const read = resourceSearch(body)
  if (!read.ok) return read
  const { page, ...of } = read.value
  if (!mayAsk(caller, of.subject.type)) return NOT_ABOUT_USERS
  const found = await searchResources(ctx, caller, verify, of, page)
  const results = found.results.map((item) => ({
    type: of.type,
    id: item.slice(of.type.length + 1),
  }))
  const context = found.patterns === undefined ? {} : { context: { patterns: found.patterns } }
  return ok({ results, page: pageView(found), ...context })
}

async function findActions({ ctx, caller, verify, body }: Asking): Promise<Answered> {
  const read = actionSearch(body)
  if (!read.ok) return read
  if (!mayAsk(caller, read.value.subject.type)) return NOT_ABOUT_USERS
  const found = await searchActions(ctx, caller, verify, read.value)
  return ok({ results: found.results.map((name) => ({ name })), page: pageView(found) })
}

/** AuthZEN 1.0 wants 400 where HTTP has a finer word, and for a body that is not there. */
async function bodyOf(request: Request): Promise<Answered> {
  const read = await readBody(request, BODY_BYTES_MAX)
  if (!read.ok)
    return read.fault.code === 'content_type_unsupported'
      ? fail('request_malformed', { detail: 'The body must be application/json.' })
      : read
  const { value } = read
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? ok(value)
    : fail('request_malformed', { detail: 'The body must be a JSON object.' })
}

async function answer(
  deps: AuthZenDeps,
  c: Context<Env>,
  how: { readonly requestId: string; readonly ask: (asking: Asking) => Promise<Answered> },
): Promise<Response> {
  const tenant = await deps.findTenant(c.req.param('tenant') ?? '')
  if (tenant === null)
    return refusal({ code: 'not_found', detail: 'No such organisation.' }, how.requestId)
  const ctx = tenantCtx(deps.ctx, tenant)
  const caller = await callerOf(deps, tenant, c.req.raw)
  if (!caller.ok) return refusal(caller.fault, how.requestId)
  const read = await bodyOf(c.req.raw)
  if (!read.ok) return refusal(read.fault, how.requestId)
  const verify: Verify = (token) => claimsOfAny(deps, tenant, token, caller.value.resources)
  const said = await how.ask({ ctx, caller: caller.value, verify, body: read.value })
  return said.ok
    ? Response.json(said.value, { headers: { 'cache-control': 'no-store' } })
    : refusal(said.fault, how.requestId)
}

/** `POST /t/{tenant}/access/v1/…` (OpenID AuthZEN 1.0; SPEC section 9) and its metadata. For mounting at the root. */
export function authzenRoutes(deps: AuthZenDeps): Hono<Env> {
  const app = new Hono<Env>()
  const post = (path: string, ask: (asking: Asking) => Promise<Answered>) =>
    app.post(`/t/:tenant/access/v1/${path}`, async (c) => {
      const requestId = c.get('requestId') ?? requestIdOf(c.req.raw)
      try {
        return await answer(deps, c, { requestId, ask })
      } catch (error) {
        return thrownResponse(error, requestId, deps.onBug)
      }
    })
  post('evaluation', evaluate)
  post('evaluations', evaluateMany)
  post('search/subject', findSubjects)
  post('search/resource', findResources)
  post('search/action', findActions)
  app.get('/.well-known/authzen-configuration/t/:tenant', async (c) => {
    const requestId = c.get('requestId') ?? requestIdOf(c.req.raw)
    try {
      const tenant = await deps.findTenant(c.req.param('tenant'))
      return tenant === null
        ? refusal({ code: 'not_found', detail: 'No such organisation.' }, requestId)
        : Response.json(authzenMetadata(deps.ctx, tenant.slug))
    } catch (error) {
      return thrownResponse(error, requestId, deps.onBug)
    }
  })
  return app
}
