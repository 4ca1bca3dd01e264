import { randomUUID } from 'node:crypto'
import { createMcpHandler, type Server } from '@modelcontextprotocol/server'
import { faultSays, type Result } from '../fault.ts'
import {
  bearerOf,
  challenge,
  messageOf,
  notHere,
  placesOf,
  refuseForeign,
  refuseMethod,
  tooOften,
  unavailable,
} from './door.ts'

/** Below the idle limit of common proxies, so that a wait of 50 seconds is not cut. */
const KEEP_ALIVE_MS = 10_000

export type McpRouteOptions<At, Who> = {
  /** Without a trailing slash. The only address served; its loopback aliases too, if it is one. */
  readonly publicUrl: string
  /** Where the metadata of what is served at a place is (RFC 9728). */
  readonly metadataOf: (at: At) => string
  /**
   * Verifies a live session token for this place. A fault refuses the caller, `not_found` the place,
   * `rate_limited` the hurry; a throw is an outage.
   */
  readonly authenticate: (token: string, at: At) => Promise<Result<Who>>
  /** The server of one message: it knows its caller and forgets them. */
  readonly serverOf: (who: Who, request: Request, at: At) => Server
  /**
   * Whether the call may be held: then its answer is a stream from the start, which can be kept
   * alive.
   */
  readonly mayWait?: (message: object) => boolean
  /** Given what a model must not see, under the id it was told. */
  readonly onBug?: (error: unknown, requestId: string) => void
  /** Given what the protocol layer refused or could not deliver: for debug logs. */
  readonly onRefused?: (error: Error) => void
  readonly keepAliveMs?: number
}

export type McpRoute<At> = (request: Request, at: At) => Promise<Response>

/** In place: wrapped in another, a short answer would become a stream. */
function sealed(response: Response): Response {
  response.headers.set('cache-control', 'no-store')
  return response
}

/**
 * A route that speaks MCP (SPEC section 7): Streamable HTTP, stateless, three revisions on one
 * route. The caller's token is verified on every message, so one that died is dead here at once
 * (I11).
 */
export function createMcpRoute<At, Who>(options: McpRouteOptions<At, Who>): McpRoute<At> {
  const { authenticate, onBug = () => {}, onRefused = () => {}, mayWait = () => false } = options
  const places = placesOf(options.publicUrl)
  /** Who sent a message stays beside it: the protocol layer never holds a token or a caller. */
  const served = new WeakMap<Request, () => Server>()
  const handlerOf = (responseMode: 'auto' | 'sse') =>
    createMcpHandler(
      ({ requestInfo }) => {
        const server = requestInfo === undefined ? undefined : served.get(requestInfo)
        if (server === undefined) throw new Error('A message reached the tools without a caller')
        return server()
      },
      {
        responseMode,
        keepAliveMs: options.keepAliveMs ?? KEEP_ALIVE_MS,
        // Nobody is told of changed lists, so nobody needs to hold a connection open to hear of them.
        maxSubscriptions: 0,
        onerror: onRefused,
      },
    )
  const handlers = { auto: handlerOf('auto'), sse: handlerOf('sse') }

  const callerOf = async (request: Request, at: At): Promise<{ who: Who } | Response> => {
    const metadata = options.metadataOf(at)
    const bearer = bearerOf(request)
    if (bearer === 'none') return challenge(metadata)
    if (bearer === 'malformed') return challenge(metadata, 'The credentials are not well formed.')
    try {
      const caller = await authenticate(bearer.token, at)
      if (caller.ok) return { who: caller.value }
      if (caller.fault.code === 'provider_unavailable') return unavailable()
      if (caller.fault.code === 'rate_limited') return tooOften(caller.fault)
      if (caller.fault.code === 'not_found') return notHere(faultSays(caller.fault))
      return challenge(metadata, faultSays(caller.fault))
    } catch (error) {
      onBug(error, randomUUID())
      return unavailable()
    }
  }

  const answer = async (request: Request, at: At): Promise<Response> => {
    const refused = refuseForeign(request, places) ?? refuseMethod(request)
    if (refused !== null) return refused
    const caller = await callerOf(request, at)
    if (!('who' in caller)) return caller
    const read = await messageOf(request)
    if (read.refused !== undefined) return read.refused
    served.set(request, () => options.serverOf(caller.who, request, at))
    const handler = handlers[mayWait(read.message) ? 'sse' : 'auto']
    return handler.fetch(request, { parsedBody: read.message })
  }

  return async (request, at) => sealed(await answer(request, at))
}
