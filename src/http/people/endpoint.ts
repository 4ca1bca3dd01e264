import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { z } from 'zod'
import { problem as problemSchema } from '../../../schema/people.ts'
import type { TenantRef, UserCaller } from '../../callers.ts'
import { FAULTS, type Fault, type FaultCode, fail, ok, type Result } from '../../fault.ts'
import { fieldErrors } from '../../mcp/arguments.ts'
import type { Ctx } from '../../ports.ts'
import { PROBLEM_TYPE, problemResponse, type WireFault } from '../problem.ts'
import { overRate } from '../rate.ts'
import { authenticate, type PeopleDeps, type Person } from './auth.ts'
import { BODY_BYTES_MAX, readBody, textProblem } from './body.ts'

/**
 * How a route of the People API is made. One description gives the checks, the types of what the handler is handed, and
 * the OpenAPI document; so the three cannot differ. Order: tenant (404), caller (401, 403), role (403), path (404), query
 * and body (400, 413, 415), handler.
 */
export type BareEnv = {
  Variables: {
    ctx: Ctx
    deps: PeopleDeps
    requestId: string
    tenant: TenantRef
  }
}
export type PeopleEnv = {
  Variables: BareEnv['Variables'] & {
    caller: Person
    /** As parsed from JSON, before its schema; undefined when there was none. */
    rawBody: unknown
  }
}
export type PeopleContext = Context<PeopleEnv>
export type PeopleApi = OpenAPIHono<PeopleEnv>
/** Adds a group of routes. Listed in `mounts.ts`. */
export type Mount = (api: PeopleApi) => void

export type StaffRole = 'org_admin' | 'auditor' | 'builder' | 'reviewer'

type Shape = z.ZodType
type Described<Params extends Shape, Query extends Shape, Body extends Shape> = {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** Under `/t/{tenant}/api`, as in `/sessions/{id}`. */
  readonly path: `/${string}`
  readonly summary: string
  readonly tag: string
  readonly params?: Params
  /** Strict: a parameter that is not known is an error. */
  readonly query?: Query
  readonly body?: Body
  /** An absent body is `{}`. */
  readonly bodyOptional?: boolean
  readonly bodyBytesMax?: number
  /** By status; null: no body. Any media type but JSON is named by `answerType`. */
  readonly answers: { readonly [status: number]: Shape | null }
  readonly answerType?: string
  /** Faults of its own, for the document; those that any route can have are added. */
  readonly faults?: readonly FaultCode[]
  /** Ends, denies, takes back or suspends: counted apart, so that nothing else a person's token does keeps them from it. */
  readonly takesAway?: boolean
  /** A write takes Idempotency-Key; it must then go through `write`. */
  readonly idempotent?: boolean
}

type Given<Params extends Shape, Query extends Shape, Body extends Shape> = {
  readonly params: z.output<Params>
  readonly query: z.output<Query>
  readonly body: z.output<Body>
}

const NOTHING = z.strictObject({})
type Nothing = typeof NOTHING

/** 403 problem that says which role is needed, or null. Any one of `roles` will do. */
export function needs(caller: UserCaller, ...roles: readonly StaffRole[]): Fault | null {
  if (roles.some((role) => caller.staffRoles.includes(role))) return null
  return { code: 'forbidden', detail: `This needs the staff role ${roles.join(' or ')}.` }
}

export const problemFor = (c: Context<PeopleEnv>, fault: Fault | WireFault): Response =>
  problemResponse(fault, c.var.requestId, {
    presented: c.req.header('Authorization') !== undefined,
  })

/** A parameter that is given twice stays a list, which no schema here takes. */
function queryOf(c: PeopleContext): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(c.req.queries()).map(([name, values]) => [
      name,
      values.length === 1 && values[0] !== undefined ? values[0] : values,
    ]),
  )
}

function checked<S extends Shape>(schema: S, value: unknown): Result<z.output<S>> {
  const read = schema.safeParse(value)
  return read.success
    ? ok(read.data)
    : fail('request_malformed', { errors: fieldErrors(read.error, value) })
}

type Failure = { readonly ok: false; readonly fault: Fault | WireFault }

async function bodyOf<Body extends Shape>(
  c: PeopleContext,
  schema: Body | undefined,
  how: { readonly optional: boolean; readonly bytesMax: number },
): Promise<{ readonly ok: true; readonly value: z.output<Body> } | Failure> {
  if (schema === undefined) return checked(NOTHING, {}) as Result<z.output<Body>>
  const raw = await readBody(c.req.raw, how.bytesMax)
  if (!raw.ok) return raw
  const value = raw.value === undefined && how.optional ? {} : raw.value
  c.set('rawBody', value)
  if (value === undefined)
    return fail('request_malformed', { errors: [{ path: '', message: 'a JSON body is required' }] })
  return checked(schema, value)
}

async function given<Params extends Shape, Query extends Shape, Body extends Shape>(
  c: PeopleContext,
  of: Described<Params, Query, Body>,
): Promise<{ readonly ok: true; readonly value: Given<Params, Query, Body> } | Failure> {
  const pathValues = c.req.param()
  const { tenant: _, ...ids } = pathValues as Record<string, string>
  const params = checked(of.params ?? NOTHING, ids)
  // An id that cannot be one names nothing.
  if (!params.ok || textProblem(ids) !== null) return fail('not_found')
  const raw = queryOf(c)
  const bad = textProblem(raw)
  if (bad !== null) return fail('request_malformed', { errors: [bad] })
  const query = checked(of.query ?? NOTHING, raw)
  if (!query.ok) return query
  const body = await bodyOf(c, of.body, {
    optional: of.bodyOptional ?? false,
    bytesMax: of.bodyBytesMax ?? BODY_BYTES_MAX,
  })
  if (!body.ok) return body
  return ok({
    params: params.value as z.output<Params>,
    query: query.value as z.output<Query>,
    body: body.value,
  })
}

const IDEMPOTENCY_KEY = z
  .string()
  .min(1)
  .max(255)
  .optional()
  .meta({ description: 'A repeat with the same key and body answers as the first did.' })

const ANY_FAULT: readonly FaultCode[] = [
  'request_malformed',
  'unauthenticated',
  'not_found',
  'rate_limited',
]

function responsesOf(of: Described<Shape, Shape, Shape>, faults: readonly FaultCode[]) {
  const good = Object.entries(of.answers).map(([status, schema]) => [
    status,
    {
      description: of.summary,
      ...(schema === null
        ? {}
        : { content: { [of.answerType ?? 'application/json']: { schema } } }),
    },
  ])
  const byStatus = new Map<number, FaultCode[]>()
  for (const code of faults) {
    const { status } = FAULTS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  const content = { [PROBLEM_TYPE]: { schema: problemSchema } }
  const bad = [...byStatus].map(([status, codes]) => [
    String(status),
    { description: codes.join(', '), content },
  ])
  return Object.fromEntries([
    ...good,
    ...bad,
    ['default', { description: 'Any other problem, server_error among them', content }],
  ])
}

function describe(
  api: PeopleApi,
  of: Described<Shape, Shape, Shape>,
  how: {
    readonly security: string
    readonly roles: readonly string[]
    readonly faults: readonly FaultCode[]
  },
): void {
  const object = (schema: Shape | undefined): z.ZodObject =>
    schema instanceof z.ZodObject ? schema : z.object({})
  const params = z.object({ tenant: z.string(), ...object(of.params).shape })
  const headers = of.idempotent ? z.object({ 'Idempotency-Key': IDEMPOTENCY_KEY }) : undefined
  api.openAPIRegistry.registerPath({
    method: of.method,
    path: `/t/{tenant}/api${of.path}`,
    summary: of.summary,
    tags: [of.tag],
    security: [{ [how.security]: [] }],
    'x-lend-roles': [...how.roles],
    request: {
      params,
      ...(of.query === undefined ? {} : { query: object(of.query) }),
      ...(headers === undefined ? {} : { headers }),
      ...(of.body === undefined
        ? {}
        : {
            body: {
              required: !of.bodyOptional,
              content: { 'application/json': { schema: of.body } },
            },
          }),
    },
    responses: responsesOf(of, [...ANY_FAULT, ...how.faults, ...(of.faults ?? [])]),
  })
}

const honoPath = (path: string): string =>
  `/t/:tenant/api${path.replaceAll(/\{([a-zA-Z_]+)\}/g, ':$1')}`

/** A route for people. `roles`: the caller needs any one of these staff roles. */
export function endpoint<
  Params extends Shape = Nothing,
  Query extends Shape = Nothing,
  Body extends Shape = Nothing,
>(
  api: PeopleApi,
  of: Described<Params, Query, Body> & { readonly roles?: readonly StaffRole[] },
  handler: (c: PeopleContext, given: Given<Params, Query, Body>) => Promise<Response>,
): void {
  const { roles = ['user'] } = of
  describe(api, of, { security: 'person', roles, faults: of.roles ? ['forbidden'] : [] })
  api.on(of.method.toUpperCase(), honoPath(of.path), async (c) => {
    const caller = await authenticate(c.var.deps, c.req.raw, c.var.tenant)
    if (!caller.ok) return problemFor(c, caller.fault)
    const { userId } = caller.value
    const over = await overRate(c.var.ctx, 'person', of.takesAway ? `${userId}:away` : userId)
    if (over !== null) return problemFor(c, over.fault)
    c.set('caller', caller.value)
    const refused = of.roles === undefined ? null : needs(caller.value, ...of.roles)
    if (refused !== null) return problemFor(c, refused)
    const read = await given(c, of)
    return read.ok ? handler(c, read.value) : problemFor(c, read.fault)
  })
}

/**
 * A route that authenticates its own kind of caller (a service's client) and never a person: `verify` runs before
 * anything of the request but the tenant is looked at, and what it answers is handed to the handler.
 */
export function serviceEndpoint<
  Caller,
  Params extends Shape = Nothing,
  Query extends Shape = Nothing,
  Body extends Shape = Nothing,
>(
  api: PeopleApi,
  of: Described<Params, Query, Body> & {
    readonly verify: (c: Context<BareEnv>) => Promise<Result<Caller>>
  },
  handler: (
    c: Context<BareEnv>,
    given: Given<Params, Query, Body> & { readonly service: Caller },
  ) => Promise<Response>,
): void {
  const roles = ['service']
  describe(api, of, { security: 'service', roles, faults: ['client_unauthenticated'] })
  api.on(of.method.toUpperCase(), honoPath(of.path), async (c) => {
    const bare = c as unknown as Context<BareEnv>
    const service = await of.verify(bare)
    if (!service.ok) return problemFor(c, service.fault)
    const read = await given(c, of)
    return read.ok
      ? handler(bare, { ...read.value, service: service.value })
      : problemFor(c, read.fault)
  })
}
