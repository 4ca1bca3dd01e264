import { randomUUID } from 'node:crypto'
import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool,
} from '@modelcontextprotocol/server'
import type { AgentCaller, TenantRef } from '../callers.ts'
import { tenantCtx } from '../db/shares.ts'
import { fail, type Result } from '../fault.ts'
import { admitCall, callableTools, type Refusal, toolServerExists } from '../flows/call-tool.ts'
import { faultResult, thrownResult, toolError } from '../mcp/reply.ts'
import { createMcpRoute, type McpRoute } from '../mcp/route.ts'
import { REVISIONS } from '../mcp/server.ts'
import type { Ctx } from '../ports.ts'
import { callUpstreamTool, listUpstreamTools, UpstreamFailed } from './upstream.ts'

export type ToolGatewayLimits = {
  /** Of one exchange with a tool server. */
  readonly timeoutMillis?: number
  /** Of one answer of a tool server's. */
  readonly maxBytes?: number
}

export type ToolGatewayOptions = ToolGatewayLimits & {
  readonly ctx: Ctx
  /** Verifies a live session token for this server's address, or a control token. */
  readonly authenticate: (token: string, at: ToolServerAt) => Promise<Result<AgentCaller>>
  readonly onBug: (error: unknown, requestId: string) => void
}

export type ToolServerAt = { readonly tenant: TenantRef; readonly server: string }

/** Below the limits of common clients and proxies. */
const TIMEOUT_MILLIS = 25_000
const ANSWER_BYTES_MAX = 1024 * 1024
/** Deeper arguments are no tool's, and would exhaust whoever walks them. */
const DEPTH_MAX = 64
const RETRY_SECONDS = 5

const INSTRUCTIONS = `These tools belong to another service. You see those that this session may call.
A call that is refused says exactly what to ask for: pass its "ask" to iam.request_access of the Lend server, then call again.`

function depthOf(value: unknown): number {
  let level: unknown[] = [value]
  for (let depth = 0; ; depth++) {
    const below = level.filter((one) => typeof one === 'object' && one !== null)
    if (below.length === 0 || depth > DEPTH_MAX) return depth
    level = below.flatMap((one) => Object.values(one as object))
  }
}

/** A refusal is for the model to act on: what to ask for, in the words of `iam.request_access`. */
function refusal(verdict: Refusal): CallToolResult {
  const { reason, ask, problem } = verdict
  if (problem !== undefined)
    return toolError({
      error: 'destination_unclear',
      code: 'destination_unclear',
      reason,
      message: `It is not clear where this call goes, so it was not made: ${problem.path} ${problem.message}.`,
      errors: [problem],
    })
  return toolError({
    error: 'access_needed',
    code: 'access_needed',
    reason,
    message: 'This session does not hold what this call needs. Ask for it, then call again.',
    ask: { tool: 'iam.request_access', items: ask },
  })
}

const upstreamError = ({ code, message }: UpstreamFailed): CallToolResult =>
  toolError({
    error: code,
    code,
    message,
    ...(code === 'upstream_unreachable' ? { retry_after: RETRY_SECONDS } : {}),
  })

/** Of a server's tools, what a model needs; the rest is between the server and its own clients. */
const shown = ({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: Tool): Tool => ({
  name,
  inputSchema,
  ...(title === undefined ? {} : { title }),
  ...(description === undefined ? {} : { description }),
  ...(outputSchema === undefined ? {} : { outputSchema }),
  ...(annotations === undefined ? {} : { annotations }),
})

type Serving = {
  readonly ctx: Ctx
  readonly caller: AgentCaller
  readonly name: string
  readonly bounds: { readonly timeoutMillis: number; readonly maxBytes: number }
}

/** Nothing of the caller's goes to a tool server (SPEC section 9), its trace included: a new one does. */
const outgoing = <T>(
  { trace }: Ctx,
  name: string,
  body: (headers: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> => (trace === undefined ? body({}) : trace.outgoing(name, body))

async function listed(
  { ctx, caller, name, bounds }: Serving,
  signal: AbortSignal,
): Promise<Tool[]> {
  const callable = await callableTools(ctx, caller, name)
  if (!callable.ok) throw new ProtocolError(ProtocolErrorCode.InvalidRequest, callable.fault.code)
  const { upstream, mayCall } = callable.value
  // Nothing may be called, so there is nothing to ask the server for.
  if (upstream === null) return []
  try {
    const tools = await outgoing(ctx, 'list tools', (headers) =>
      listUpstreamTools(upstream, { ...bounds, headers }, signal),
    )
    return tools.filter((tool) => mayCall(tool.name)).map((tool) => shown(tool as Tool))
  } catch (error) {
    if (!(error instanceof UpstreamFailed)) throw error
    throw new ProtocolError(ProtocolErrorCode.InternalError, error.message, { code: error.code })
  }
}

async function called(
  { ctx, caller, name, bounds }: Serving,
  of: {
    readonly tool: string
    readonly args: Record<string, unknown>
    readonly signal: AbortSignal
  },
): Promise<CallToolResult> {
  const { tool, args, signal } = of
  if (depthOf(args) > DEPTH_MAX)
    return faultResult({ code: 'request_malformed', detail: 'The arguments are nested too deep.' })
  const admitted = await admitCall(ctx, caller, { server: name, tool, args })
  if (!admitted.ok) return faultResult(admitted.fault)
  const { value } = admitted
  if (value.as === 'unknown')
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown tool')
  if (value.as === 'refused') return refusal(value.verdict)
  try {
    const result = await outgoing(ctx, 'call tool', (headers) =>
      callUpstreamTool(value.upstream, { ...bounds, headers }, { name: tool, args, signal }),
    )
    return result as CallToolResult
  } catch (error) {
    if (!(error instanceof UpstreamFailed)) throw error
    return upstreamError(error)
  }
}

function serverFor(serving: Serving, onBug: ToolGatewayOptions['onBug']): Server {
  const server = new Server(
    { name: `lend-tools-${serving.name}`, title: `${serving.name}, behind Lend`, version: '0.1.0' },
    {
      capabilities: { tools: {} },
      instructions: INSTRUCTIONS,
      supportedProtocolVersions: REVISIONS,
    },
  )
  server.setRequestHandler('tools/list', async (_request, { mcpReq }) => ({
    tools: await listed(serving, mcpReq.signal),
  }))
  server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
    const args = params.arguments ?? {}
    try {
      return await called(serving, { tool: params.name, args, signal: mcpReq.signal })
    } catch (error) {
      if (error instanceof ProtocolError) throw error
      const requestId = randomUUID()
      onBug(error, requestId)
      return thrownResult(error, requestId)
    }
  })
  return server
}

/**
 * `POST /t/{tenant}/tools/{server}/mcp` (SPEC section 9): a registered MCP server, of which a session sees and calls what it
 * holds. List and call are one decision; every call is on record; nothing of the caller's is passed on.
 */
export function createToolGateway(options: ToolGatewayOptions): McpRoute<ToolServerAt> {
  const { ctx, onBug } = options
  const bounds = {
    timeoutMillis: options.timeoutMillis ?? TIMEOUT_MILLIS,
    maxBytes: options.maxBytes ?? ANSWER_BYTES_MAX,
  }
  return createMcpRoute<ToolServerAt, AgentCaller>({
    publicUrl: ctx.publicUrl,
    metadataOf: ({ tenant, server }) =>
      `${ctx.publicUrl}/.well-known/oauth-protected-resource/t/${tenant.slug}/tools/${encodeURIComponent(server)}/mcp`,
    authenticate: async (token, at) => {
      const caller = await options.authenticate(token, at)
      if (!caller.ok) return caller
      const exists = await toolServerExists(ctx, at.tenant, at.server)
      return exists ? caller : fail('not_found', { detail: 'No such tool server here.' })
    },
    serverOf: (caller, _request, { server: name }) =>
      serverFor({ ctx: tenantCtx(ctx, caller.tenant), caller, name, bounds }, onBug),
    onBug,
  })
}
