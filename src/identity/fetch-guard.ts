import type { LookupAddress, LookupOptions } from 'node:dns'
import { lookup as systemLookup } from 'node:dns/promises'
import type { ClientRequest, IncomingMessage, RequestOptions } from 'node:http'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { isPublicAddress } from './addresses.ts'

/**
 * Why a guarded fetch did not answer. `unreachable` is the network's doing; all others are the
 * guard's.
 */
export type FetchRefusal =
  | 'not_http'
  | 'not_https'
  | 'carries_credentials'
  | 'private_address'
  | 'redirect'
  | 'too_large'
  | 'too_slow'
  | 'unreachable'

/** Carries no part of the request or the answer, so that it can be logged. */
export class FetchRefused extends Error {
  readonly reason: FetchRefusal

  constructor(reason: FetchRefusal, cause?: unknown) {
    super(`outgoing request refused: ${reason}`, cause === undefined ? undefined : { cause })
    this.name = 'FetchRefused'
    this.reason = reason
  }
}

/** Every address that a host name stands for. */
export type ResolveHost = (host: string) => Promise<readonly LookupAddress[]>

export type FetchGuard = {
  /**
   * Allows plain http and addresses of private networks. Only an operator's explicit setting may
   * turn it on.
   */
  readonly allowPrivate: boolean
  /** From the call to the last byte of the answer, name resolution included. */
  readonly timeoutMillis: number
  /** Of the answer's body. */
  readonly maxBytes: number
  readonly resolve?: ResolveHost
}

/**
 * As `RequestInit`, and members that are there but undefined count as absent, as libraries pass
 * them.
 */
export type FetchInit = { readonly [Member in keyof RequestInit]?: RequestInit[Member] | undefined }

/** A `fetch`, but for streaming: the answer comes when it is there whole. */
export type GuardedFetch = (input: string | URL | Request, init?: FetchInit) => Promise<Response>

const resolveBySystem: ResolveHost = (host) => systemLookup(host, { all: true, verbatim: true })

/**
 * A `fetch` for addresses that others may choose: identity providers, callbacks, upstreams. Http(s)
 * only and https unless `allowPrivate`; no credentials in the URL; no redirects; the answer is read
 * whole, within time and size.
 *
 * Unless `allowPrivate`, a host is refused if any address it resolves to is not public (RFC 6890).
 * The name is resolved once and the connection is made to what was checked, so an answer that
 * changes afterwards (DNS rebinding) changes nothing; the connected peer is checked again. Proxies
 * from the environment are never used.
 *
 * Rejects with `FetchRefused`, never with anything that quotes the request or the answer. Safe as
 * the custom fetch of oauth4webapi and of jose.
 */
export function guardedFetch(guard: FetchGuard): GuardedFetch {
  return async (input, init) => {
    const address = input instanceof Request ? input.url : String(input)
    const url = URL.canParse(address) ? new URL(address) : null
    const refusal = url === null ? 'not_http' : refusalOfUrl(url, guard)
    if (url === null || refusal !== null) throw new FetchRefused(refusal ?? 'not_http')
    const given = Object.entries(init ?? {}).filter(([, value]) => value !== undefined)
    const request = new Request(input, { ...Object.fromEntries(given), redirect: 'manual' })
    const body = request.body === null ? null : Buffer.from(await request.arrayBuffer())
    return send({ url, request, body, guard })
  }
}

function refusalOfUrl(url: URL, guard: FetchGuard): FetchRefusal | null {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'not_http'
  if (url.protocol === 'http:' && !guard.allowPrivate) return 'not_https'
  if (url.username !== '' || url.password !== '') return 'carries_credentials'
  // A literal is never looked up, so it is checked here. WHATWG URLs spell every IPv4 form (octal,
  // decimal) as one.
  const literal = hostOf(url)
  if (isIP(literal) !== 0 && !isAllowed(literal, guard)) return 'private_address'
  return null
}

const hostOf = (url: URL): string => url.hostname.replace(/^\[(.*)\]$/, '$1')

const isAllowed = (address: string, guard: FetchGuard): boolean =>
  guard.allowPrivate || isPublicAddress(address)

/**
 * Resolves, checks and pins in one step: what this hands to the socket is all the socket will ever
 * connect to.
 */
function checkedLookup(guard: FetchGuard): LookupFunction {
  const resolve = guard.resolve ?? resolveBySystem
  return (host: string, options: LookupOptions, done) => {
    resolve(host).then(
      (addresses) => {
        const [first] = addresses
        if (first === undefined) return done(new FetchRefused('unreachable'), '', 0)
        if (!addresses.every(({ address }) => isAllowed(address, guard))) {
          return done(new FetchRefused('private_address'), '', 0)
        }
        return options.all === true
          ? done(null, [...addresses])
          : done(null, first.address, first.family)
      },
      (cause: unknown) => done(new FetchRefused('unreachable', cause), '', 0),
    )
  }
}

type Outgoing = {
  readonly url: URL
  readonly request: Request
  readonly body: Buffer | null
  readonly guard: FetchGuard
}

function send({ url, request, body, guard }: Outgoing): Promise<Response> {
  const headers = new Headers(request.headers)
  // Nothing is decompressed here: a small answer must not be able to become a large one.
  headers.set('accept-encoding', 'identity')
  if (body !== null) headers.set('content-length', String(body.byteLength))
  const options: RequestOptions = {
    method: request.method,
    headers: Object.fromEntries(headers),
    lookup: checkedLookup(guard),
    // A connection of its own: none is reused that was made under another guard.
    agent: false,
  }
  return new Promise((settle, reject) => {
    const outgoing = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, options)
    const stop = (reason: FetchRefusal, cause?: unknown) => {
      reject(new FetchRefused(reason, cause))
      outgoing.destroy()
    }
    const timer = setTimeout(() => stop('too_slow'), guard.timeoutMillis)
    const abort = () => stop('unreachable', request.signal.reason)
    request.signal.addEventListener('abort', abort, { once: true })
    outgoing.on('close', () => {
      clearTimeout(timer)
      request.signal.removeEventListener('abort', abort)
      // Without effect once settled; otherwise the connection went away under us.
      reject(new FetchRefused('unreachable'))
    })
    outgoing.on('error', (cause) => {
      stop(cause instanceof FetchRefused ? cause.reason : 'unreachable', cause)
    })
    checkPeer(outgoing, guard, stop)
    outgoing.on('response', (incoming) => receive({ incoming, guard, settle, stop }))
    if (request.signal.aborted) abort()
    else outgoing.end(body)
  })
}

/**
 * The second of two checks of the same property: whatever way the socket found, its peer must be
 * allowed.
 */
function checkPeer(
  outgoing: ClientRequest,
  guard: FetchGuard,
  stop: (reason: FetchRefusal) => void,
): void {
  outgoing.on('socket', (socket) => {
    socket.once('connect', () => {
      const peer = socket.remoteAddress
      if (peer === undefined || !isAllowed(peer, guard)) stop('private_address')
    })
  })
}

const NO_BODY = new Set([204, 205, 304])

type Incoming = {
  readonly incoming: IncomingMessage
  readonly guard: FetchGuard
  readonly settle: (response: Response) => void
  readonly stop: (reason: FetchRefusal, cause?: unknown) => void
}

function receive({ incoming, guard, settle, stop }: Incoming): void {
  const status = incoming.statusCode ?? 0
  // Following a redirect would need every check again, and no endpoint we call needs it.
  if (status >= 300 && status < 400 && status !== 304) {
    stop('redirect')
    return
  }
  const chunks: Buffer[] = []
  let size = 0
  incoming.on('data', (chunk: Buffer) => {
    size += chunk.byteLength
    if (size > guard.maxBytes) return stop('too_large')
    chunks.push(chunk)
  })
  incoming.on('error', (cause) => stop('unreachable', cause))
  incoming.on('end', () => {
    if (!incoming.complete || status < 200 || status > 599) return stop('unreachable')
    const body = NO_BODY.has(status) ? null : Buffer.concat(chunks)
    settle(new Response(body, { status, headers: headersOf(incoming) }))
  })
}

function headersOf(incoming: IncomingMessage): Headers {
  const headers = new Headers()
  for (let i = 0; i + 1 < incoming.rawHeaders.length; i += 2) {
    headers.append(incoming.rawHeaders[i] ?? '', incoming.rawHeaders[i + 1] ?? '')
  }
  return headers
}
