import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Hono } from 'hono'
import type { AppTenant } from '../app/config.ts'
import { createAgentApp } from '../app/start.ts'
import { json, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { accountsTable } from './accounts-table.ts'
import { doorRoutes } from './door.ts'
import { demoFacts } from './facts.ts'
import { DEMO_CLIENTS, demoIssuerOf } from './idp/provider.ts'
import { createDemoIdp } from './idp/serve.ts'
import { secretOf } from './secrets.ts'
import { type DemoSecrets, newDemoSecrets, rebaseDemo, seedDemo } from './seed.ts'
import { createDemoServices } from './services/app.ts'
import { seedToolServers } from './tool-servers.ts'
import { DEMO_APP_AGENT, DEMO_APP_TENANTS, DEMO_TEMPLATES, DEMO_TENANTS } from './world.ts'

export type Demo = {
  /** Answers what is the demo identity provider's, before Lend's own routes. */
  readonly handle: (req: IncomingMessage, res: ServerResponse) => boolean
  /** Once requests are answered: the agent app goes on with what was under way. */
  readonly listening: () => void
  readonly stop: () => void
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
  /** Where the agent app keeps its transcripts; null: nowhere. */
  readonly appFolder: string | null
  readonly anthropicKey: string | undefined
  readonly onBug: (error: unknown) => void
}): Promise<Demo> {
  const { ctx, doorSecret, app, onBug } = of
  const { publicUrl } = ctx
  const secrets = await secretsOf(ctx)
  await seedDemo(ctx, { secrets })
  await rebaseDemo(ctx)
  await seedToolServers(ctx, secrets)
  const idp = await createDemoIdp({
    ...secrets.idp,
    publicUrl,
    tenants: DEMO_TENANTS,
    onError: onBug,
  })
  app.route('/', doorRoutes({ ctx, secrets, secret: doorSecret }))
  const accounts = await accountsTable(ctx)
  const services = await createDemoServices({ ctx, secrets, accounts })
  app.route('/', services.routes)
  const agentApp = await createAgentApp({
    publicUrl,
    tenants: await appTenants(ctx, secrets),
    folder: of.appFolder,
    onBug,
    ...(of.anthropicKey === undefined ? {} : { anthropicKey: of.anthropicKey }),
  })
  app.route('/', agentApp.routes)
  return {
    handle: idp.handle,
    listening: agentApp.resume,
    stop: () => {
      agentApp.stop()
      services.stop()
    },
  }
}

/** What the agent app is told when it is registered: its client at Lend, and its own at each identity provider. */
async function appTenants(ctx: Ctx, secrets: DemoSecrets): Promise<AppTenant[]> {
  const tenants: AppTenant[] = []
  for (const slug of DEMO_APP_TENANTS) {
    const facts = await demoFacts(ctx, slug)
    const agent = facts?.agents.find((one) => one.name === DEMO_APP_AGENT)
    if (agent === undefined) continue
    tenants.push({
      slug,
      agent: {
        id: agent.id,
        name: agent.name,
        secret: secretOf(secrets, { kind: 'agents', tenant: slug, name: agent.name }),
      },
      templates: agent.templates.map((name) => ({ name, title: titleOf(name) })),
      signIn: {
        issuer: demoIssuerOf(ctx.publicUrl, slug),
        clientId: DEMO_CLIENTS.app,
        clientSecret: secrets.idp.clientSecrets[slug]?.app ?? '',
        privateNetwork: true,
      },
    })
  }
  return tenants
}

const titleOf = (name: string): string =>
  DEMO_TEMPLATES.find((template) => template.name === name)?.title ?? name
