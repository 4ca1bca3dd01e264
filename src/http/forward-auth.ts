import type { IncomingMessage } from 'node:http'
import { type Context, Hono } from 'hono'
import { PROXY_FAMILIES, type ProxyFamily } from '../../schema/auth-decision.ts'
import type { Asked, Gateway } from '../gateway/gateway.ts'
import type { Trace } from '../ports.ts'

/** Node's own request, where the listener hands it in; a test's plain `Request` has none. */
type Env = { Bindings: { readonly incoming?: IncomingMessage } }

type Named = (name: string) => string | undefined

/**
 * Where each proxy puts the original request. The address picks one row and nothing falls back to another: nginx, Traefik and
 * Caddy pass their clients' headers on, so a client can send every other row's.
 */
const FAMILIES: Readonly<
  Record<ProxyFamily, { readonly headers: readonly string[]; readonly method: string | null }>
> = {
  nginx: { headers: ['x-original-method', 'x-original-uri'], method: 'x-original-method' },
  traefik: { headers: ['x-forwarded-method', 'x-forwarded-uri'], method: 'x-forwarded-method' },
  caddy: { headers: ['x-forwarded-method', 'x-forwarded-uri'], method: 'x-forwarded-method' },
  // Envoy sends the request itself: its method, and its path behind the prefix.
  envoy: { headers: [], method: null },
}
const TARGET: Readonly<Record<Exclude<ProxyFamily, 'envoy'>, string>> = {
  nginx: 'x-original-uri',
  traefik: 'x-forwarded-uri',
  caddy: 'x-forwarded-uri',
}
const ONCE = ['authorization', 'x-lend-proxy-secret', 'x-request-id']

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/
const TRACEPARENT = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/

const ONCE_OF = new Map(
  PROXY_FAMILIES.map((family) => [family, new Set([...ONCE, ...FAMILIES[family].headers])]),
)
/** Most headers are told apart by this alone. */
const LENGTHS = new Set([...ONCE_OF.values()].flatMap((names) => [...names].map((n) => n.length)))

/** Whether one of the headers came more than once. Node keeps the first of some and joins others. */
function isDoubled(raw: readonly string[], once: ReadonlySet<string>): boolean {
  let seen: Set<string> | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const given = raw[i] ?? ''
    if (!LENGTHS.has(given.length)) continue
    const name = given.toLowerCase()
    if (!once.has(name)) continue
    if (seen?.has(name)) return true
    seen ??= new Set()
    seen.add(name)
  }
  return false
}

/** The line names the trace that the span is in: the caller's where it came with one, else its own. */
const traced = (
  gateway: Pick<Gateway, 'check'>,
  asked: Asked,
  of: { readonly trace: Trace; readonly traceparent: string | undefined },
) =>
  of.trace.served(`forward-auth ${asked.family}`, of.traceparent, async (span) => {
    const answered = await gateway.check({ ...asked, traceId: of.trace.ids()?.trace_id ?? null })
    span.set('http.response.status_code', answered.status)
    return answered
  })

/** The request line as it came, where it can be had: a parsed URL has its dots resolved already. */
function lineOf(c: Context<Env>): string {
  const incoming = c.env?.incoming
  if (incoming?.url !== undefined) return incoming.url
  const { pathname, search } = new URL(c.req.url)
  return pathname + search
}

function headersOf(c: Context<Env>): Named {
  const incoming = c.env?.incoming
  if (incoming === undefined) return (name) => c.req.header(name)
  const { headers } = incoming
  return (name) => {
    const value = headers[name]
    return typeof value === 'string' ? value : undefined
  }
}

function askedFrom(c: Context<Env>, tenant: string, family: ProxyFamily): Asked {
  const header = headersOf(c)
  const prefix = `/t/${tenant}/forward-auth/${family}`
  const line = lineOf(c)
  const rest = line.startsWith(prefix) ? line.slice(prefix.length) : null
  const doubled = isDoubled(c.env?.incoming?.rawHeaders ?? [], ONCE_OF.get(family) ?? new Set())
  const given = header('x-request-id')
  const { method } = FAMILIES[family]
  return {
    tenant,
    family,
    requestId: given !== undefined && REQUEST_ID.test(given) ? given : crypto.randomUUID(),
    traceId: TRACEPARENT.exec(header('traceparent') ?? '')?.[1] ?? null,
    secret: header('x-lend-proxy-secret'),
    // An address whose dots or escapes led here is not the one that the proxy was configured with.
    spoiled: doubled ? 'HEADER_DUPLICATED' : rest === null ? 'PATH_HOSTILE' : null,
    method: method === null ? c.req.method : header(method),
    target: family === 'envoy' ? (rest ?? undefined) : header(TARGET[family]),
    authorization: header('authorization'),
  }
}

/**
 * `ANY /t/{tenant}/forward-auth/{nginx|traefik|caddy|envoy}`: whether a request that a proxy holds may go on (SPEC section 9).
 * Answers 200, 401 or 403 (404 for an unknown tenant) with an empty body, so that the proxy's connection can be used
 * again. To be mounted before everything else: what others put around a request costs more than the check.
 */
export function forwardAuthRoutes(gateway: Pick<Gateway, 'check'>, trace?: Trace): Hono<Env> {
  const app = new Hono<Env>()
  const answer = (c: Context<Env>, family: ProxyFamily): Response | Promise<Response> => {
    const asked = askedFrom(c, c.req.param('tenant') ?? '', family)
    const answered =
      trace === undefined
        ? gateway.check(asked)
        : traced(gateway, asked, { trace, traceparent: c.req.header('traceparent') })
    return answered instanceof Promise
      ? answered.then(({ status, headers }) => new Response(null, { status, headers }))
      : new Response(null, answered)
  }
  for (const family of PROXY_FAMILIES)
    app.all(`/t/:tenant/forward-auth/${family}`, (c) => answer(c, family))
  app.all('/t/:tenant/forward-auth/envoy/*', (c) => answer(c, 'envoy'))
  return app
}
