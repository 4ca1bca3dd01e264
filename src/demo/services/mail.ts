import { type Context, Hono } from 'hono'
import type { Guard } from './guard.ts'
import { mountMailMcp, type Sent } from './mail-mcp.ts'

type Draft = { readonly name: string; readonly subject: string; readonly body: string }

const KEPT_MAX = 200
const TEXT_MAX = 20_000

const keep = <T>(list: T[], one: T): void => {
  list.push(one)
  if (list.length > KEPT_MAX) list.shift()
}

async function textsIn<Name extends string>(
  c: Context,
  names: readonly Name[],
): Promise<Readonly<Record<Name, string>> | null> {
  const body: unknown = await c.req.json().catch(() => null)
  if (typeof body !== 'object' || body === null) return null
  const given: Readonly<Record<string, unknown>> = { ...body }
  const read = names.map((name) => [name, given[name]] as const)
  return read.every(([, v]) => typeof v === 'string' && v !== '' && v.length <= TEXT_MAX)
    ? (Object.fromEntries(read) as Record<Name, string>)
    : null
}

const badRequest = (c: Context, message: string) => c.json({ error: 'bad_request', message }, 400)

/**
 * Mail that goes nowhere: templates are kept in memory, and what would be sent is recorded. Templates are an API that checks
 * tokens itself; sending is an MCP server behind the tool gateway.
 */
export function mailService(guard: Guard, customers: ReadonlyMap<string, string>): Hono {
  const app = new Hono()
  const drafts = new Map<string, Draft[]>()
  const outbox = new Map<string, Sent[]>()
  const listOf = <T>(of: Map<string, T[]>, tenant: string): T[] => {
    const list = of.get(tenant) ?? []
    of.set(tenant, list)
    return list
  }
  app.post('/templates', async (c) => {
    const called = await guard.check(c, { permission: 'email-templates:write', writes: true })
    if ('refused' in called) return called.refused
    const draft = await textsIn(c, ['name', 'subject', 'body'])
    if (draft === null) return badRequest(c, 'A template has a name, a subject and a body.')
    keep(listOf(drafts, called.tenant.issuer), draft)
    return c.json({ saved: draft.name }, 201)
  })
  mountMailMcp(app, { customers, keep: (customer, mail) => keep(listOf(outbox, customer), mail) })
  return app
}
