import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { createMcpHandler, Server, type Tool } from '@modelcontextprotocol/server'

/** A real MCP server of somebody else's, that remembers what reached it and misbehaves on demand. */
export type Upstream = {
  readonly url: string
  /** Every request that arrived, as it arrived. */
  readonly seen: {
    readonly method: string
    readonly headers: IncomingMessage['headers']
    readonly body: string
  }[]
  readonly calls: { readonly name: string; readonly args: unknown }[]
  /** What it lists. */
  tools: Tool[]
  /** Answers instead of the server; false: not this request. */
  fault: ((body: string, res: ServerResponse, req: IncomingMessage) => boolean) | null
  /** What a call answers. */
  answer: (name: string, args: unknown) => object
  readonly reset: () => void
  readonly close: () => Promise<void>
}

type Properties = NonNullable<Tool['inputSchema']['properties']>

const tool = (name: string, properties: Properties = {}): Tool => ({
  name,
  title: `The tool ${name}`,
  description: `Does ${name}.`,
  inputSchema: { type: 'object', properties },
})

const TOOLS = (): Tool[] => [
  tool('send_email', { to: {}, subject: { type: 'string' }, body: { type: 'string' } }),
  tool('delete_all'),
  tool('search'),
]

const bodyOf = async (req: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  for await (const chunk of req) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).toString()
}

function serverOf(it: Upstream): Server {
  const server = new Server({ name: 'mail', version: '1' }, { capabilities: { tools: {} } })
  server.setRequestHandler('tools/list', () => ({ tools: it.tools }))
  server.setRequestHandler('tools/call', ({ params }) => {
    it.calls.push({ name: params.name, args: params.arguments })
    return it.answer(params.name, params.arguments) as { content: [] }
  })
  return server
}

/** Listens on a loopback port of its own; close it when done. */
export async function startUpstream(): Promise<Upstream> {
  const sent = (name: string) => ({ content: [{ type: 'text', text: `${name} done` }] })
  const handler = createMcpHandler(() => serverOf(it))
  const listener = getRequestListener(
    async (request) => {
      const body = request.headers.get('x-body') ?? ''
      const parsedBody = body === '' ? undefined : JSON.parse(decodeURIComponent(body))
      return handler.fetch(request, { parsedBody })
    },
    { overrideGlobalObjects: false },
  )
  const server = createServer(async (req, res) => {
    const body = await bodyOf(req)
    it.seen.push({ method: req.method ?? '', headers: { ...req.headers }, body })
    if (it.fault?.(body, res, req) === true) return
    // The body has been read, so it travels beside the request.
    req.headers['x-body'] = encodeURIComponent(body)
    req.rawHeaders.push('x-body', encodeURIComponent(body))
    await listener(req, res)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  const it: Upstream = {
    url: `http://127.0.0.1:${port}/mcp`,
    seen: [],
    calls: [],
    tools: TOOLS(),
    fault: null,
    answer: sent,
    reset: () => {
      it.seen.length = 0
      it.calls.length = 0
      it.tools = TOOLS()
      it.fault = null
      it.answer = sent
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
  return it
}
