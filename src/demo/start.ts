import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Hono } from 'hono'
import { json, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { doorRoutes } from './door.ts'
import { createDemoIdp } from './idp/serve.ts'
import { type DemoSecrets, newDemoSecrets, rebaseDemo, seedDemo } from './seed.ts'
import { createDemoServices } from './services/app.ts'
import { DEMO_TENANTS } from './world.ts'

export type Demo = {
  /** Answers what is the demo identity provider's, before Lend's own routes. */
  readonly handle: (req: IncomingMessage, res: ServerResponse) => boolean
}

/** Random per installation, and the same for all instances on one database. */
async function secretsOf(ctx: Ctx): Promise<DemoSecrets> {
  const made = await newDemoSecrets()
  return withTx(ctx.db, 'demo_secrets', async (tx) => {
    await tx.sql`insert into installation (name, value)
      values ('demo', ${json(made)}::text::jsonb) on conflict do nothing`
    const [kept] = await tx.sql<{
      value: DemoSecrets
    }>`select value from installation where name = 'demo'`
    return kept?.value ?? made
  })
}

/** Seeds the demo world once and puts its identity provider, services and CLI door beside Lend. Loopback only. */
export async function startDemo(of: {
  readonly ctx: Ctx
  /** The secret of the CLI's door. */
  readonly doorSecret: string
  // biome-ignore lint/suspicious/noExplicitAny: any environment: only routes are added
  readonly app: Hono<any>
  readonly onBug: (error: unknown) => void
}): Promise<Demo> {
  const { ctx, doorSecret, app, onBug } = of
  const { publicUrl } = ctx
  const secrets = await secretsOf(ctx)
  await seedDemo(ctx, { secrets })
  await rebaseDemo(ctx)
  const idp = await createDemoIdp({
    ...secrets.idp,
    publicUrl,
    tenants: DEMO_TENANTS,
    onError: onBug,
  })
  app.route('/', doorRoutes({ ctx, secrets, secret: doorSecret }))
  app.route('/', await createDemoServices({ ctx, secrets }))
  return { handle: idp.handle }
}
