import { bodyBytes } from '../body-bytes.ts'
import { type Fault, faultSays } from '../fault.ts'

/**
 * What is refused before a message is read: the wrong host or origin (DNS rebinding), the wrong
 * method, a missing or malformed credential, a body too large or not JSON. Each gives the answer,
 * or what it let through.
 */
const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']
export const BODY_BYTES_MAX = 1024 * 1024

/** JSON-RPC's own codes, and the one the protocol's transports use for what is none of them. */
const PARSE_ERROR = -32700
const INVALID_REQUEST = -32600
const INTERNAL_ERROR = -32603
const REFUSED = -32000

type Refusal = {
  readonly status: number
  readonly code: number
  readonly message: string
  readonly headers?: Readonly<Record<string, string>>
  readonly data?: object
}

function refusal({ status, code, message, headers = {}, data }: Refusal): Response {
  const error = { code, message, ...(data === undefined ? {} : { data }) }
  return new Response(JSON.stringify({ jsonrpc: '2.0', error, id: null }), {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  })
}

export type Places = { readonly hosts: ReadonlySet<string>; readonly origins: ReadonlySet<string> }

/**
 * Where this server may be addressed: its public URL and, if that is a loopback address, the others
 * on its port.
 */
export function placesOf(publicUrl: string): Places {
  const url = new URL(publicUrl)
  const names = LOOPBACK.includes(url.hostname) ? LOOPBACK : [url.hostname]
  const port = url.port === '' ? '' : `:${url.port}`
  // A default port may be written out in a Host; browsers never write it in an Origin.
  const written = url.port === '' ? (url.protocol === 'https:' ? ':443' : ':80') : port
  return {
    hosts: new Set(names.flatMap((name) => [`${name}${port}`, `${name}${written}`])),
    origins: new Set(names.map((name) => `${url.protocol}//${name}${port}`)),
  }
}

/**
 * A page of another site that reached this server by a rebound name carries its own Host or Origin.
 */
export function refuseForeign(request: Request, places: Places): Response | null {
  const host = request.headers.get('host') ?? new URL(request.url).host
  if (!places.hosts.has(host.toLowerCase()))
    return refusal({ status: 403, code: REFUSED, message: 'This Host is not served here.' })
  const origin = request.headers.get('origin')
  if (origin !== null && !places.origins.has(origin.toLowerCase()))
    return refusal({ status: 403, code: REFUSED, message: 'This Origin may not call.' })
  return null
}

/** Serving is stateless: there is no stream to GET and no session to DELETE. */
export function refuseMethod(request: Request): Response | null {
  if (request.method === 'POST') return null
  return refusal({
    status: 405,
    code: REFUSED,
    message: 'Only POST is served here.',
    headers: { allow: 'POST' },
  })
}

/**
 * An HTTP quoted-string (RFC 9110 section 5.6.4). A header holds only ASCII, so what is not is
 * replaced.
 */
function quoted(value: string): string {
  const ascii = value.replace(/[‘’]/g, "'").replace(/[^\x20-\x7e]/g, '?')
  return `"${ascii.replace(/["\\]/g, '\\$&')}"`
}

/** RFC 6750 section 3.1: a request without credentials gets a challenge without an error code. */
export function challenge(resourceMetadata: string, why?: string): Response {
  const error = why === undefined ? '' : `error="invalid_token", error_description=${quoted(why)}, `
  return refusal({
    status: 401,
    code: REFUSED,
    message: why ?? 'An access token is needed.',
    headers: { 'www-authenticate': `Bearer ${error}resource_metadata=${quoted(resourceMetadata)}` },
  })
}

/**
 * The token, `none` when the request carries no bearer credential, or `malformed`: two headers
 * arrive joined by a comma, which no token holds. Only the header is read; a token in the address
 * is no credential.
 */
export function bearerOf(request: Request): { token: string } | 'none' | 'malformed' {
  const header = request.headers.get('authorization')
  if (header === null || !/^bearer(\s|$)/i.test(header)) return 'none'
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(header)?.[1]
  return token === undefined ? 'malformed' : { token }
}

/**
 * Who calls could not be established for a reason that is not the caller's. An outage never widens
 * access (I19).
 */
export const unavailable = (): Response =>
  refusal({
    status: 503,
    code: INTERNAL_ERROR,
    message: 'The token cannot be verified just now. Try again.',
    headers: { 'retry-after': '5' },
  })

/** Asked too often: RFC 6585 section 4, with the fault's own code beside JSON-RPC's. */
export function tooOften(fault: Fault): Response {
  const { code, limit, retryAfterSeconds = 1 } = fault
  return refusal({
    status: 429,
    code: REFUSED,
    message: faultSays(fault),
    headers: { 'retry-after': String(retryAfterSeconds) },
    data: { code, limit, retry_after: retryAfterSeconds },
  })
}

/** Nothing is served at this address; said only to those who may know. */
export const notHere = (message: string): Response =>
  refusal({ status: 404, code: REFUSED, message })

const tooLarge = (): Response =>
  refusal({
    status: 413,
    code: REFUSED,
    message: `The body is larger than ${BODY_BYTES_MAX} bytes.`,
    // The rest of the body is not read, so the connection cannot be used again.
    headers: { connection: 'close' },
  })

const badJson = (): Response =>
  refusal({ status: 400, code: PARSE_ERROR, message: 'Parse error: the body is not JSON.' })

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** One JSON-RPC message, or why there is none. */
export async function messageOf(
  request: Request,
): Promise<{ message: object; refused?: never } | { refused: Response }> {
  const type = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/json')
    return {
      refused: refusal({
        status: 415,
        code: REFUSED,
        message: 'Content-Type must be application/json.',
      }),
    }
  const bytes = await bodyBytes(request, BODY_BYTES_MAX).catch(() => undefined)
  if (bytes === null) return { refused: tooLarge() }
  // What broke off on the way is no message either.
  const message = bytes === undefined ? undefined : parsed(bytes)
  if (message === undefined) return { refused: badJson() }
  if (Array.isArray(message))
    return {
      refused: refusal({
        status: 400,
        code: INVALID_REQUEST,
        message: 'Batches are not served: send one message a request.',
      }),
    }
  if (typeof message !== 'object' || message === null)
    return {
      refused: refusal({ status: 400, code: INVALID_REQUEST, message: 'Not a JSON-RPC message.' }),
    }
  return { message }
}
