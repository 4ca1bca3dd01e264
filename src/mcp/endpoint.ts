import { TOOLS } from '../../schema/tools.ts'
import type { AgentCaller, TenantRef } from '../callers.ts'
import { createMcpRoute, type McpRoute, type McpRouteOptions } from './route.ts'
import { serverFactory } from './server.ts'
import type { IamTools } from './tools.ts'

export type McpEndpointOptions = Pick<
  McpRouteOptions<TenantRef, AgentCaller>,
  'publicUrl' | 'authenticate' | 'onBug' | 'onRefused' | 'keepAliveMs'
> & {
  readonly tools: IamTools
  readonly version?: string
}

export type McpEndpoint = McpRoute<TenantRef>

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

const ASKS = new Set(['iam.request_access', TOOLS['iam.request_access'].underscore])

function mayWait(message: object): boolean {
  if (!('params' in message) || !isObject(message.params)) return false
  const { name, arguments: args } = message.params
  return (
    typeof name === 'string' && ASKS.has(name) && isObject(args) && Number(args.wait_seconds) > 0
  )
}

/** The MCP route of every tenant (SPEC section 7), with the seven tools behind it. */
export function createMcpEndpoint(options: McpEndpointOptions): McpEndpoint {
  const { tools, version = '0.1.0', ...route } = options
  const serverOf = serverFactory({ tools, version, onBug: options.onBug ?? (() => {}) })
  return createMcpRoute<TenantRef, AgentCaller>({
    ...route,
    metadataOf: (tenant) =>
      `${options.publicUrl}/.well-known/oauth-protected-resource/t/${tenant.slug}/mcp`,
    serverOf: (caller, request) => {
      const underscore = new URL(request.url).searchParams.get('tool_names') === 'underscore'
      return serverOf({ caller, spelling: underscore ? 'underscore' : 'dotted' })
    },
    mayWait,
  })
}
