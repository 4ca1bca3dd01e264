import { randomUUID } from 'node:crypto'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { TOOLS } from '../../schema/tools.ts'
import type { AgentCaller, TenantRef } from '../callers.ts'
import { faultSays, type Result } from '../fault.ts'
import {
  bearerOf,
  challenge,
  messageOf,
  placesOf,
  refuseForeign,
  refuseMethod,
  unavailable,
} from './door.ts'
import { type Serving, serverFactory } from './server.ts'
import type { IamTools } from './tools.ts'

/** Below the idle limit of common proxies, so that a wait of 50 seconds is not cut. */
const KEEP_ALIVE_MS = 10_000

export type McpEndpointOptions = {
  /** Without a trailing slash. The only address served; its loopback aliases too, if it is one. */
  readonly publicUrl: string
  /**
   * Verifies a live control token of the tenant. A fault refuses the caller; a throw is an outage.
   */
  readonly authenticate: (token: string, tenant: TenantRef) => Promise<Result<AgentCaller>>
  readonly tools: IamTools
  /** Given what a model must not see, under the id it was told. */
  readonly onBug?: (error: unknown, requestId: string) => void
  /** Given what the protocol layer refused or could not deliver: for debug logs. */
  readonly onRefused?: (error: Error) => void
  readonly version?: string
  readonly keepAliveMs?: number
}

export type McpEndpoint = (request: Request, tenant: TenantRef) => Promise<Response>

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

const ASKS = new Set(['iam.request_access', TOOLS['iam.request_access'].underscore])

/**
 * Whether the call may be held: then its answer is a stream from the start, which can be kept
 * alive.
 */
function mayWait(message: object): boolean {
  if (!('params' in message) || !isObject(message.params)) return false
  const { name, arguments: args } = message.params
  return (
    typeof name === 'string' && ASKS.has(name) && isObject(args) && Number(args.wait_seconds) > 0
  )
}

/** In place: wrapped in another, a short answer would become a stream. */
function sealed(response: Response): Response {
  response.headers.set('cache-control', 'no-store')
  return response
}

/**
 * The MCP route of every tenant (SPEC section 7): Streamable HTTP, stateless, three revisions on
 * one route. The caller's token is verified on every message, so one that died is dead here at once
 * (I11).
 */
export function createMcpEndpoint(options: McpEndpointOptions): McpEndpoint {
  const { publicUrl, authenticate, onBug = () => {}, onRefused = () => {} } = options
  const places = placesOf(publicUrl)
  const serverOf = serverFactory({
    tools: options.tools,
    version: options.version ?? '0.1.0',
    onBug,
  })
  /** Who sent a message stays beside it: the protocol layer never holds a token or a caller. */
  const served = new WeakMap<Request, Serving>()
  const handlerOf = (responseMode: 'auto' | 'sse') =>
    createMcpHandler(
      ({ requestInfo }) => {
        const serving = requestInfo === undefined ? undefined : served.get(requestInfo)
        if (serving === undefined) throw new Error('A message reached the tools without a caller')
        return serverOf(serving)
      },
      {
        responseMode,
        keepAliveMs: options.keepAliveMs ?? KEEP_ALIVE_MS,
        // Lists never change, so nobody needs to hold a connection open to hear that they did.
        maxSubscriptions: 0,
        onerror: onRefused,
      },
    )
  const handlers = { auto: handlerOf('auto'), sse: handlerOf('sse') }

  const callerOf = async (request: Request, tenant: TenantRef): Promise<AgentCaller | Response> => {
    const metadata = `${publicUrl}/.well-known/oauth-protected-resource/t/${tenant.slug}/mcp`
    const bearer = bearerOf(request)
    if (bearer === 'none') return challenge(metadata)
    if (bearer === 'malformed') return challenge(metadata, 'The credentials are not well formed.')
    try {
      const caller = await authenticate(bearer.token, tenant)
      if (caller.ok) return caller.value
      if (caller.fault.code === 'provider_unavailable') return unavailable()
      return challenge(metadata, faultSays(caller.fault))
    } catch (error) {
      onBug(error, randomUUID())
      return unavailable()
    }
  }

  const answer = async (request: Request, tenant: TenantRef): Promise<Response> => {
    const refused = refuseForeign(request, places) ?? refuseMethod(request)
    if (refused !== null) return refused
    const caller = await callerOf(request, tenant)
    if (!('as' in caller)) return caller
    const read = await messageOf(request)
    if (read.refused !== undefined) return read.refused
    const underscore = new URL(request.url).searchParams.get('tool_names') === 'underscore'
    served.set(request, { caller, spelling: underscore ? 'underscore' : 'dotted' })
    const handler = handlers[mayWait(read.message) ? 'sse' : 'auto']
    return handler.fetch(request, { parsedBody: read.message })
  }

  return async (request, tenant) => sealed(await answer(request, tenant))
}
