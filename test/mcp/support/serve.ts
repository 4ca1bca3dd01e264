import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Hono } from 'hono'
import { createMcpEndpoint, type McpEndpoint } from '../../../src/mcp/endpoint.ts'
import { ACME, authenticate, type Backend, createBackend } from './backend.ts'

export type Bug = { error: unknown; requestId: string }

export type Served = {
  backend: Backend
  bugs: Bug[]
  port: number
  url: string
  close: () => Promise<void>
}

/** The endpoint as the product mounts it, on a free loopback port, over real HTTP. */
export async function served({ keepAliveMs = 10_000 } = {}): Promise<Served> {
  const backend = createBackend()
  const bugs: Bug[] = []
  const app = new Hono()
  let endpoint: McpEndpoint | undefined
  app.all('/t/acme/mcp', async (c) =>
    endpoint === undefined ? c.text('not ready', 503) : endpoint(c.req.raw, ACME),
  )
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  endpoint = createMcpEndpoint({
    publicUrl: `http://localhost:${port}`,
    authenticate,
    tools: backend.tools,
    onBug: (error, requestId) => void bugs.push({ error, requestId }),
    keepAliveMs,
  })
  return {
    backend,
    bugs,
    port,
    url: `http://127.0.0.1:${port}/t/acme/mcp`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        if ('closeAllConnections' in server) server.closeAllConnections()
      }),
  }
}

export type Raw = { status: number; headers: IncomingHttpHeaders; body: string }
type RawOptions = {
  method?: string
  path?: string
  headers?: OutgoingHttpHeaders
  body?: string | Buffer
}

export const JSON_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
}
export const HEADERS = { ...JSON_HEADERS, authorization: 'Bearer live' }

/**
 * A request as it is on the wire: fetch would not let a test choose Host or send a header twice.
 */
export function raw(served: Served, options: RawOptions = {}): Promise<Raw> {
  const { method = 'POST', path = '/t/acme/mcp', headers = HEADERS, body = LIST } = options
  return new Promise((resolve, reject) => {
    const req = request(
      { host: '127.0.0.1', port: served.port, method, path, headers },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString(),
          }),
        )
      },
    )
    req.on('error', reject)
    // Node frames no body of its own accord for the other methods.
    req.end(method === 'POST' ? body : undefined)
  })
}

export const rpc = (method: string, params: object = {}, id: number | undefined = 1): string =>
  JSON.stringify({ jsonrpc: '2.0', ...(id === undefined ? {} : { id }), method, params })
export const LIST = rpc('tools/list')

/** The JSON-RPC message of an answer, whether it came as JSON or as one event. */
export function messageOf(answer: Raw): {
  id: unknown
  result?: Record<string, unknown>
  error?: { code: number; message: string; data?: unknown }
} {
  const data = answer.body.split('\n').filter((line) => line.startsWith('data: '))
  return JSON.parse(data.at(-1)?.slice('data: '.length) ?? answer.body)
}

export type Revision = '2025-06-18' | '2025-11-25' | '2026-07-28'
export const REVISIONS: readonly Revision[] = ['2025-06-18', '2025-11-25', '2026-07-28']

export type ToolAnswer = {
  content: { type: string; text: string }[]
  structuredContent?: Record<string, unknown>
  isError?: boolean
}
/** The JSON a model reads. */
export const bodyOf = (answer: ToolAnswer): Record<string, unknown> =>
  JSON.parse(answer.content[0]?.text ?? 'null')

type Progress = { progress: number; message?: string | undefined }
type CallOptions = { onprogress?: (progress: Progress) => void; signal?: AbortSignal }

/** What the tests need of either official client. */
export type AnyClient = {
  list: () => Promise<Record<string, unknown>[]>
  call: (name: string, args?: object, options?: CallOptions) => Promise<ToolAnswer>
  instructions: () => string | undefined
  revision: () => string | undefined
  close: () => Promise<void>
}

/**
 * The older client always offers its newest revision; an older offer is written into the message it
 * sends.
 */
const offering =
  (revision: Revision): typeof fetch =>
  (url, init) => {
    const body = typeof init?.body === 'string' ? JSON.parse(init.body) : undefined
    if (body?.method !== 'initialize') return fetch(url, init)
    body.params.protocolVersion = revision
    return fetch(url, { ...init, body: JSON.stringify(body) })
  }

async function older(
  url: URL,
  revision: Revision,
  headers: Record<string, string>,
): Promise<AnyClient> {
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers },
    fetch: offering(revision),
  })
  // Its declared types predate exactOptionalPropertyTypes.
  await client.connect(transport as Parameters<Client['connect']>[0])
  return {
    list: async () => (await client.listTools()).tools,
    call: async (name, args = {}, options = {}) =>
      (await client.callTool({ name, arguments: { ...args } }, undefined, options)) as ToolAnswer,
    instructions: () => client.getInstructions(),
    revision: () => transport.protocolVersion,
    close: () => client.close(),
  }
}

async function newer(
  url: URL,
  revision: Revision,
  headers: Record<string, string>,
): Promise<AnyClient> {
  const client = new ModernClient(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode: { pin: revision } } },
  )
  await client.connect(new ModernTransport(url, { requestInit: { headers } }))
  return {
    list: async () => (await client.listTools()).tools,
    call: async (name, args = {}, options = {}) =>
      (await client.callTool({ name, arguments: { ...args } }, options)) as ToolAnswer,
    instructions: () => client.getInstructions(),
    revision: () => client.getNegotiatedProtocolVersion(),
    close: () => client.close(),
  }
}

export function connect(served: Served, revision: Revision, query = ''): Promise<AnyClient> {
  const make = revision === '2026-07-28' ? newer : older
  return make(new URL(`${served.url}${query}`), revision, { authorization: 'Bearer live' })
}
