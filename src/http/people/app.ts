import { OpenAPIHono } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { tenantCtx } from '../../db/shares.ts'
import type { Ctx } from '../../ports.ts'
import { problemResponse, thrownResponse } from '../problem.ts'
import type { PeopleDeps } from './auth.ts'
import type { PeopleApi, PeopleEnv } from './endpoint.ts'
import { MOUNTS } from './mounts.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/

/** The caller's own X-Request-Id if it is harmless in a header and a log; else a new one. */
export function requestIdOf(request: Request): string {
  const given = request.headers.get('X-Request-Id')
  return given !== null && REQUEST_ID.test(given) ? given : crypto.randomUUID()
}

function mounted(): PeopleApi {
  const api = new OpenAPIHono<PeopleEnv>()
  for (const mount of MOUNTS) mount(api)
  return api
}

/** The People API (SPEC section 8), for mounting at the root: its routes are under `/t/{tenant}/api`. */
export function createPeopleApi(ctx: Ctx, deps: PeopleDeps): PeopleApi {
  const api = new OpenAPIHono<PeopleEnv>()
  const prepare: MiddlewareHandler<PeopleEnv> = async (c, next) => {
    // Whoever it is mounted in may have named the request already; then its log and this problem agree.
    const requestId = c.get('requestId') ?? requestIdOf(c.req.raw)
    c.set('requestId', requestId)
    c.set('ctx', ctx)
    c.set('deps', deps)
    await next()
    c.res.headers.set('X-Request-Id', requestId)
    c.res.headers.set('Cache-Control', 'no-store')
  }
  // Only its own addresses: it is mounted beside the token endpoint, MCP and the enforcement points.
  api.use('/openapi.json', prepare)
  api.use('/t/:tenant/api/*', prepare)
  api.use('/t/:tenant/api/*', async (c, next) => {
    const tenant = await deps.findTenant(c.req.param('tenant'))
    if (tenant === null)
      return problemResponse(
        { code: 'not_found', detail: 'No such organisation.' },
        c.var.requestId,
      )
    c.set('tenant', tenant)
    c.set('ctx', tenantCtx(ctx, tenant))
    return next()
  })
  api.get('/openapi.json', (c) => c.json(openApiDocument()))
  for (const mount of MOUNTS) mount(api)
  api.all('/t/:tenant/api/*', (c) =>
    problemResponse({ code: 'not_found', detail: 'No such address here.' }, c.var.requestId),
  )
  api.onError((error, c) => thrownResponse(error, c.var.requestId, deps.onBug))
  return api
}

let document: ReturnType<PeopleApi['getOpenAPI31Document']> | undefined

/** OpenAPI 3.1 of all the routes, from the schemas that check them. The same for every tenant, and no secret. */
export function openApiDocument() {
  document ??= describeAll()
  return document
}

function describeAll() {
  const api = mounted()
  api.openAPIRegistry.registerComponent('securitySchemes', 'person', {
    type: 'http',
    scheme: 'bearer',
    description:
      'An access token of a person, from one of the tenant’s first-party clients. Agents and their apps are refused.',
  })
  api.openAPIRegistry.registerComponent('securitySchemes', 'service', {
    type: 'http',
    scheme: 'basic',
    description: 'The client of a service that publishes its part of the catalog.',
  })
  return api.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Lend People API',
      version: '1',
      description:
        'For people only: sessions, answers, rules, catalog, templates, administration and the record.',
    },
  })
}
