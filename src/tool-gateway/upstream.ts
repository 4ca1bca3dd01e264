import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  StreamableHTTPClientTransport,
  StreamableHTTPError,
} from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  type CallToolResult,
  CallToolResultSchema,
  ErrorCode,
  ListToolsResultSchema,
  McpError,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js'
import type { Upstream } from '../flows/call-tool.ts'
import { FetchRefused, guardedFetch } from '../identity/fetch-guard.ts'

/**
 * One conversation with an MCP server of somebody else's, through the official client. Nothing of the caller goes with it: a
 * connection of its own, the server's own credential, and no capability that would let the server ask back. All of it is
 * bounded in time and size, whatever the server does.
 */
export type UpstreamBounds = {
  /** Of a whole exchange, handshake included. */
  readonly timeoutMillis: number
  /** Of each answer. */
  readonly maxBytes: number
  /** What goes along that is Lend's own: a trace that begins here. */
  readonly headers?: Readonly<Record<string, string>>
}

export type UpstreamProblem =
  | 'upstream_unreachable'
  | 'upstream_slow'
  | 'upstream_too_large'
  | 'upstream_redirects'
  | 'upstream_not_allowed'
  | 'upstream_refused'
  | 'upstream_bad_answer'
  | 'upstream_error'

/** The server failed, lied or refused. The message is the model's to read; nothing of the server's but what it says itself. */
export class UpstreamFailed extends Error {
  readonly code: UpstreamProblem

  constructor(code: UpstreamProblem, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'UpstreamFailed'
    this.code = code
  }
}

const SAYS: Readonly<Record<Exclude<UpstreamProblem, 'upstream_error'>, string>> = {
  upstream_unreachable: 'The tool server cannot be reached just now.',
  upstream_slow:
    'The tool server did not answer in time. Whether the call took effect is not known.',
  upstream_too_large: 'The tool server’s answer is too large.',
  upstream_redirects: 'The tool server points elsewhere, and that is not followed.',
  upstream_not_allowed: 'The tool server’s address is not one that may be called.',
  upstream_refused:
    'The tool server refused Lend’s own credential. An administrator has to look at it.',
  upstream_bad_answer: 'The tool server did not answer as the protocol asks.',
}

const failed = (code: keyof typeof SAYS, cause?: unknown) =>
  new UpstreamFailed(code, SAYS[code], cause)

const REFUSALS: Readonly<Record<FetchRefused['reason'], keyof typeof SAYS>> = {
  unreachable: 'upstream_unreachable',
  too_slow: 'upstream_slow',
  too_large: 'upstream_too_large',
  redirect: 'upstream_redirects',
  private_address: 'upstream_not_allowed',
  not_https: 'upstream_not_allowed',
  not_http: 'upstream_not_allowed',
  carries_credentials: 'upstream_not_allowed',
}

const SAID_CHARACTERS_MAX = 500

/** What an error of the client's means. What the server itself says is passed on, cut short. */
function problemOf(error: unknown): UpstreamFailed {
  if (error instanceof UpstreamFailed) return error
  if (error instanceof FetchRefused) return failed(REFUSALS[error.reason], error)
  if (error instanceof StreamableHTTPError) {
    const { code = 0 } = error
    if (code === 401 || code === 403) return failed('upstream_refused', error)
    return failed(code >= 500 ? 'upstream_unreachable' : 'upstream_bad_answer', error)
  }
  if (error instanceof McpError) {
    if (error.code === ErrorCode.RequestTimeout) return failed('upstream_slow', error)
    const said = error.message.replace(/^MCP error -?\d+: /, '').slice(0, SAID_CHARACTERS_MAX)
    return new UpstreamFailed('upstream_error', `The tool server says: ${said}`, error)
  }
  return failed('upstream_bad_answer', error)
}

type Opened = { readonly client: Client; readonly signal: AbortSignal; readonly timeout: number }

const CLOSING_MILLIS_MAX = 2000

/** The fetch that all of the client's requests go through. A standing stream is never opened: nothing waits for it. */
function fetchFor(upstream: Upstream, bounds: UpstreamBounds, until: number) {
  return async (url: string | URL, init?: RequestInit): Promise<Response> => {
    if (init?.method === 'GET') return new Response(null, { status: 405 })
    const left = init?.method === 'DELETE' ? CLOSING_MILLIS_MAX : until - performance.now()
    if (left <= 0) throw new FetchRefused('too_slow')
    const { maxBytes } = bounds
    const get = guardedFetch({
      allowPrivate: upstream.privateNetwork,
      timeoutMillis: left,
      maxBytes,
    })
    return get(url, init)
  }
}

/** Opens a conversation, uses it once and closes it. Rejects with `UpstreamFailed` alone. */
async function converse<T>(
  upstream: Upstream,
  bounds: UpstreamBounds,
  given: { readonly signal: AbortSignal; readonly use: (opened: Opened) => Promise<T> },
): Promise<T> {
  const until = performance.now() + bounds.timeoutMillis
  const stop = new AbortController()
  const signal = AbortSignal.any([given.signal, stop.signal])
  const { credential } = upstream
  const transport = new StreamableHTTPClientTransport(new URL(upstream.url), {
    fetch: fetchFor(upstream, bounds, until),
    requestInit: {
      headers: {
        ...bounds.headers,
        ...(credential === null ? {} : { [credential.header]: credential.value }),
      },
    },
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1,
      maxReconnectionDelay: 1,
      reconnectionDelayGrowFactor: 1,
    },
  })
  const client = new Client({ name: 'lend-tool-gateway', version: '0.1.0' })
  let first: unknown
  // An answer to nothing that was asked, say: waiting longer would not make it better.
  client.onerror = (error) => {
    first ??= error
    stop.abort()
  }
  const timeout = bounds.timeoutMillis
  try {
    await client.connect(transport as Parameters<Client['connect']>[0], { signal, timeout })
    return await given.use({ client, signal, timeout })
  } catch (error) {
    throw problemOf(first ?? error)
  } finally {
    client.onerror = () => {}
    if (transport.sessionId !== undefined) await transport.terminateSession().catch(() => {})
    await client.close().catch(() => {})
  }
}

const SECRET_LENGTH_MIN = 8

/** A server that echoes what Lend authenticates with would hand it to the model (I18). */
function holdingNoCredential<T>(upstream: Upstream, value: T): T {
  const secret = upstream.credential?.value.replace(/^\S+ +/, '')
  // A shorter one stands in ordinary words.
  if (secret === undefined || secret.length < SECRET_LENGTH_MIN) return value
  if (JSON.stringify(value).includes(JSON.stringify(secret).slice(1, -1)))
    throw failed('upstream_bad_answer')
  return value
}

const PAGES_MAX = 20
const TOOLS_MAX = 500
const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/

/** All tools that the server lists, as it lists them now. A name twice is a lie: which of the two would be called? */
export async function listUpstreamTools(
  upstream: Upstream,
  bounds: UpstreamBounds,
  caller: AbortSignal,
): Promise<readonly Tool[]> {
  const use = async ({ client, signal, timeout }: Opened) => {
    const tools: Tool[] = []
    let cursor: string | undefined
    for (let page = 0; page < PAGES_MAX; page++) {
      const asked = {
        method: 'tools/list',
        params: cursor === undefined ? {} : { cursor },
      } as const
      const found = await client.request(asked, ListToolsResultSchema, { signal, timeout })
      tools.push(...found.tools.filter((tool) => TOOL_NAME.test(tool.name)))
      const twice = new Set(tools.map((tool) => tool.name)).size < tools.length
      if (twice || tools.length > TOOLS_MAX) throw failed('upstream_bad_answer')
      cursor = found.nextCursor
      if (cursor === undefined) return holdingNoCredential(upstream, tools)
    }
    throw failed('upstream_bad_answer')
  }
  return converse(upstream, bounds, { signal: caller, use })
}

/** Calls one tool. What the server answers is the model's to read, an error of the tool's included. */
export async function callUpstreamTool(
  upstream: Upstream,
  bounds: UpstreamBounds,
  of: {
    readonly name: string
    readonly args: Record<string, unknown>
    readonly signal: AbortSignal
  },
): Promise<CallToolResult> {
  const params = { name: of.name, arguments: of.args }
  const use = async ({ client, signal, timeout }: Opened) => {
    const asked = { method: 'tools/call', params } as const
    const result = await client.request(asked, CallToolResultSchema, { signal, timeout })
    return holdingNoCredential(upstream, result)
  }
  const result = await converse(upstream, bounds, { signal: of.signal, use })
  const { content, structuredContent, isError } = result
  return {
    content,
    ...(structuredContent === undefined ? {} : { structuredContent }),
    ...(isError === undefined ? {} : { isError }),
  }
}
