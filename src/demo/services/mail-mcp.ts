import {
  createMcpHandler,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from '@modelcontextprotocol/server'
import type { Hono } from 'hono'
import { z } from 'zod'

export type Sent = {
  readonly to: readonly string[]
  readonly subject: string
  readonly body: string
}

const TEXT_MAX = 20_000
const text = z.string().min(1).max(TEXT_MAX)
const email = z.strictObject({
  to: z.union([text, z.array(text).min(1).max(50)]),
  subject: text,
  body: text,
})

const SEND_EMAIL = {
  name: 'send_email',
  title: 'Send an email',
  description: 'Sends an email to one address or several.',
  inputSchema: {
    type: 'object' as const,
    properties: {
      to: {
        anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' }, minItems: 1 }],
        description: 'An address, as in jo@customer.example, or a list of them',
      },
      subject: { type: 'string' },
      body: { type: 'string' },
    },
    required: ['to', 'subject', 'body'],
    additionalProperties: false,
  },
  annotations: { destructiveHint: true, openWorldHint: true },
}

/** Who may send is the gateway's to say: this server knows one customer from another, and nothing of sessions. */
function mailServer(keep: (mail: Sent) => void): Server {
  const server = new Server({ name: 'demo-mail', version: '1' }, { capabilities: { tools: {} } })
  server.setRequestHandler('tools/list', () => ({ tools: [SEND_EMAIL] }))
  server.setRequestHandler('tools/call', ({ params }) => {
    if (params.name !== SEND_EMAIL.name)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown tool')
    const read = email.safeParse(params.arguments ?? {})
    if (!read.success) {
      const said = 'An email has someone to go to, a subject and a body, and nothing else.'
      return { content: [{ type: 'text', text: said }], isError: true }
    }
    const to = [read.data.to].flat()
    keep({ ...read.data, to })
    const result = { sent: false, recorded: true, to }
    return {
      content: [{ type: 'text', text: JSON.stringify(result) }],
      structuredContent: result,
    }
  })
  return server
}

/** `POST /mcp`, for whoever shows a customer's credential. Stateless. */
export function mountMailMcp(
  app: Hono,
  of: {
    /** Customers by the value of their `Authorization` header. */
    readonly customers: ReadonlyMap<string, string>
    readonly keep: (customer: string, mail: Sent) => void
  },
): void {
  app.post('/mcp', async (c) => {
    const customer = of.customers.get(c.req.header('authorization') ?? '')
    if (customer === undefined) return c.json({ error: 'unauthorized' }, 401)
    return createMcpHandler(() => mailServer((mail) => of.keep(customer, mail))).fetch(c.req.raw)
  })
}
