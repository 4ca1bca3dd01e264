import { type Context, Hono } from 'hono'
import type { Guard } from './guard.ts'

type Draft = { readonly name: string; readonly subject: string; readonly body: string }
export type Sent = { readonly to: string; readonly subject: string; readonly body: string }

const KEPT_MAX = 200
const TEXT_MAX = 20_000
/** One plain address. What is sent where must be plain to see, so nothing cleverer is read. */
const ADDRESS = /^[A-Za-z0-9._%+-]{1,64}@([A-Za-z0-9.-]{1,253})$/

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

/** Mail that goes nowhere: templates are kept in memory, and what would be sent is recorded. */
export function mailService(guard: Guard): Hono {
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
  app.post('/send', async (c) => {
    const mail = await textsIn(c, ['to', 'subject', 'body'])
    const domain = ADDRESS.exec(mail?.to ?? '')?.[1]
    if (mail === null || domain === undefined)
      return badRequest(c, 'An email has one address to go to, a subject and a body.')
    const called = await guard.check(c, {
      permission: 'email:send',
      resource: `domain/${domain}`,
      writes: true,
    })
    if ('refused' in called) return called.refused
    keep(listOf(outbox, called.tenant.issuer), mail)
    return c.json({ sent: false, recorded: true, to: mail.to }, 202)
  })
  return app
}
