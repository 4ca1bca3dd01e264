import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Context, Hono } from 'hono'
import { PROXY_FAMILIES, type ProxyFamily } from '../../schema/auth-decision.ts'
import { assert } from '../core/assert.ts'
import type { Answered, Asked, Gateway } from '../gateway/gateway.ts'
import type { Trace } from '../ports.ts'

/** Node's own request, where the listener hands it in; a test's plain `Request` has none. */
type Env = { Bindings: { readonly incoming?: IncomingMessage } }

/**
 * Where each proxy puts the original request. The address picks one row and nothing falls back to another: nginx, Traefik and
 * Caddy pass their clients' headers on, so a client can send every other row's.
 */
const FAMILIES: Readonly<
  Record<ProxyFamily, { readonly method: string | null; readonly target: string | null }>
> = {
  nginx: { method: 'x-original-method', target: 'x-original-uri' },
  traefik: { method: 'x-forwarded-method', target: 'x-forwarded-uri' },
  caddy: { method: 'x-forwarded-method', target: 'x-forwarded-uri' },
  // Envoy sends the request itself: its method, and its path behind the prefix.
  envoy: { method: null, target: null },
}

const CASE_BIT = 0x20
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/
const TRACEPARENT = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/

/** What is read of a request's headers; each at most once. */
type Headers = {
  authorization: string | undefined
  secret: string | undefined
  requestId: string | undefined
  traceparent: string | undefined
  method: string | undefined
  target: string | undefined
  /** One of them came more than once. Node would keep the first of some and join others. */
  isDoubled: boolean
}
type Slot = Exclude<keyof Headers, 'isDoubled'>
type Wanted = { readonly name: string; readonly slot: Slot }

/** By the length of its name: no two that a family reads are of one length, so most headers are told apart by it alone. */
const wantedBy = (family: ProxyFamily): readonly (Wanted | undefined)[] => {
  const { method, target } = FAMILIES[family]
  const wanted: readonly Wanted[] = [
    { name: 'authorization', slot: 'authorization' },
    { name: 'x-lend-proxy-secret', slot: 'secret' },
    { name: 'x-request-id', slot: 'requestId' },
    { name: 'traceparent', slot: 'traceparent' },
    ...(method === null ? [] : [{ name: method, slot: 'method' } as const]),
    ...(target === null ? [] : [{ name: target, slot: 'target' } as const]),
  ]
  const byLength: (Wanted | undefined)[] = []
  for (const one of wanted) {
    assert(byLength[one.name.length] === undefined, 'no two names have one length')
    byLength[one.name.length] = one
  }
  return Array.from(byLength)
}
const WANTED: Readonly<Record<ProxyFamily, readonly (Wanted | undefined)[]>> = {
  nginx: wantedBy('nginx'),
  traefik: wantedBy('traefik'),
  caddy: wantedBy('caddy'),
  envoy: wantedBy('envoy'),
}

/** Whether a header has this name, in whatever case: names are ASCII tokens (RFC 9110 section 5.1), so one bit is all of it. */
function isNamed(given: string, name: string): boolean {
  for (let i = 0; i < name.length; i++)
    if ((given.charCodeAt(i) | CASE_BIT) !== name.charCodeAt(i)) return false
  return true
}

/** One look through names and values as they came. What the family does not read is not seen, however often it came. */
function headersIn(raw: readonly string[], family: ProxyFamily): Headers {
  const wanted = WANTED[family]
  const read: Headers = {
    authorization: undefined,
    secret: undefined,
    requestId: undefined,
    traceparent: undefined,
    method: undefined,
    target: undefined,
    isDoubled: false,
  }
  for (let i = 0; i < raw.length; i += 2) {
    const given = raw[i] ?? ''
    const want = wanted[given.length]
    if (want === undefined || !isNamed(given, want.name)) continue
    if (read[want.slot] === undefined) read[want.slot] = raw[i + 1]
    // W3C Trace Context section 3.2.1: more than one is none, and no reason to refuse.
    else if (want.slot === 'traceparent') read.traceparent = ''
    else read.isDoubled = true
  }
  return read
}

/** The line names the trace that the span is in: the caller's where it came with one, else its own. */
const traced = (gateway: Pick<Gateway, 'check'>, trace: Trace, seen: Seen): Promise<Answered> => {
  const { traceparent } = headersIn(seen.raw, seen.family)
  return trace.served(`forward-auth ${seen.family}`, traceparent, async (span) => {
    const traceId = trace.ids()?.trace_id ?? null
    const answered = await gateway.check({ ...askedFrom(seen), traceId })
    span.set('http.response.status_code', answered.status)
    return answered
  })
}

type Seen = {
  readonly tenant: string
  readonly family: ProxyFamily
  readonly method: string
  /** The request line as it came: a parsed URL has its dots resolved already. */
  readonly line: string
  /** Names and values in turn. */
  readonly raw: readonly string[]
}

function askedFrom({ tenant, family, method, line, raw }: Seen): Asked {
  const read = headersIn(raw, family)
  const prefix = `/t/${tenant}/forward-auth/${family}`
  const rest = line.startsWith(prefix) ? line.slice(prefix.length) : null
  const { requestId } = read
  return {
    tenant,
    family,
    requestId: requestId !== undefined && REQUEST_ID.test(requestId) ? requestId : randomUUID(),
    traceId:
      read.traceparent === undefined ? null : (TRACEPARENT.exec(read.traceparent)?.[1] ?? null),
    secret: read.secret,
    // An address whose dots or escapes led here is not the one that the proxy was configured with.
    spoiled: read.isDoubled ? 'HEADER_DUPLICATED' : rest === null ? 'PATH_HOSTILE' : null,
    method: FAMILIES[family].method === null ? method : read.method,
    target: family === 'envoy' ? (rest ?? undefined) : read.target,
    authorization: read.authorization,
  }
}

function seenIn(c: Context<Env>, family: ProxyFamily): Seen {
  const incoming = c.env?.incoming
  const { pathname, search } = new URL(c.req.url)
  return {
    tenant: c.req.param('tenant') ?? '',
    family,
    method: c.req.method,
    line: incoming?.url ?? pathname + search,
    raw: incoming?.rawHeaders ?? [...c.req.raw.headers].flat(),
  }
}

const ADDRESS =
  /^\/t\/([a-z0-9-]{1,63})\/forward-auth\/(?:(nginx|traefik|caddy)(?:$|\?)|(envoy)(?:$|[/?]))/

/**
 * `ANY /t/{tenant}/forward-auth/{nginx|traefik|caddy|envoy}`: whether a request that a proxy holds may go on (SPEC section 9).
 * Answers 200, 401 or 403 (404 for an unknown tenant) with an empty body, so that the proxy's connection can be used again.
 *
 * For Node's own server, before everything else: what a framework puts around a request costs more than the check. True: it
 * is being answered. Addresses in any other spelling are left to `forwardAuthRoutes`.
 */
export const forwardAuthListener =
  (gateway: Pick<Gateway, 'check'>, trace?: Trace) =>
  (req: IncomingMessage, res: ServerResponse): boolean => {
    const { method = '', rawHeaders: raw, url: line = '' } = req
    const [, tenant, other, envoy] = ADDRESS.exec(line) ?? []
    const family = PROXY_FAMILIES.find((one) => one === (other ?? envoy))
    if (tenant === undefined || family === undefined) return false
    const reply = ({ status, headers }: Answered): void => {
      res.writeHead(status, headers).end()
    }
    const seen = { tenant, family, method, line, raw }
    const answered =
      trace === undefined ? gateway.check(askedFrom(seen)) : traced(gateway, trace, seen)
    // Those of one turn are written together, so that whoever waits is woken once for all.
    if (answered instanceof Promise) void answered.then((one) => setImmediate(reply, one))
    else reply(answered)
    return true
  }

/** The same for any spelling of the address, and where there is no server of Node's. */
export function forwardAuthRoutes(gateway: Pick<Gateway, 'check'>, trace?: Trace): Hono<Env> {
  const app = new Hono<Env>()
  const answer = async (c: Context<Env>, family: ProxyFamily): Promise<Response> => {
    const seen = seenIn(c, family)
    const { status, headers } = await (trace === undefined
      ? gateway.check(askedFrom(seen))
      : traced(gateway, trace, seen))
    return new Response(null, { status, headers })
  }
  for (const family of PROXY_FAMILIES)
    app.all(`/t/:tenant/forward-auth/${family}`, (c) => answer(c, family))
  app.all('/t/:tenant/forward-auth/envoy/*', (c) => answer(c, 'envoy'))
  return app
}
