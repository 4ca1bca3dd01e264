import { createHmac } from 'node:crypto'
import type { TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { json, type Tx, withTx } from '../db/tx.ts'
import { sealedFor } from '../flows/tool-credential.ts'
import type { Ctx } from '../ports.ts'
import { type DemoSecrets, secretOf } from './secrets.ts'
import { DEMO_SERVICES_POINT, DEMO_TENANTS } from './world.ts'

/** The demo's mail server, as the customers of the demo have it behind the tool gateway. */
const NAME = 'mail'
const PATH = '/demo/mail/mcp'
const SEEDED = 'demo_tool_servers'

/** What the mail server and Lend agree on, for one customer. Made from what an installation has already. */
export function mailCredential(secrets: DemoSecrets, tenant: string): string {
  const of = { kind: 'enforcementPoints', tenant, name: DEMO_SERVICES_POINT } as const
  const key = createHmac('sha256', secretOf(secrets, of)).update(`${NAME} ${tenant}`)
  return `Bearer ${key.digest('base64url')}`
}

export const MAIL_CUSTOMERS: readonly string[] = DEMO_TENANTS.filter(({ enforcementPoints }) =>
  enforcementPoints.some(({ name }) => name === DEMO_SERVICES_POINT),
).map(({ slug }) => slug)

type Row = { readonly id: string; readonly tenantId: TenantId; readonly slug: string }

async function register(ctx: Ctx, tx: Tx): Promise<void> {
  const tenants = await tx.sql<{ id: TenantId; slug: string }>`
    select id, slug from tenant where slug = any(${MAIL_CUSTOMERS}::text[]) order by slug`
  for (const tenant of tenants) {
    const id = ctx.ids.id('toolServer')
    const made = await tx.sql`
      insert into tool_server (id, tenant_id, name, title, url, private_network, created_at)
      values (${id}, ${tenant.id}, ${NAME}, 'Mail', ${`${ctx.publicUrl}${PATH}`}, true,
        to_timestamp(${ctx.clock.now() / 1000}::float8))
      on conflict do nothing returning id`
    if (made.length === 0) continue
    const journal = new Journal(ctx, tenant.id)
    const changes = { name: NAME, by: 'the demo’s seed' }
    journal.tenant('admin.changed', { what: 'tool_server.created', id, changes })
    await journal.write(tx)
  }
}

/**
 * Registers the mail server once an installation, and at every start lets its row follow the public URL and this instance's
 * key. One that an admin has pointed elsewhere, or removed, is left alone.
 */
export async function seedToolServers(ctx: Ctx, secrets: DemoSecrets): Promise<void> {
  await withTx(ctx.db, 'seed_tool_servers', async (tx) => {
    const [first] = await tx.sql`
      insert into installation (name, value) values (${SEEDED}, ${json(true)}::text::jsonb)
      on conflict do nothing returning name`
    if (first !== undefined) await register(ctx, tx)
    const rows = await tx.sql<Row>`
      select s.id, s.tenant_id as "tenantId", t.slug from tool_server s join tenant t on t.id = s.tenant_id
      where t.slug = any(${MAIL_CUSTOMERS}::text[]) and s.name = ${NAME} and s.url like '%' || ${PATH}
      order by t.slug`
    for (const { id, tenantId, slug } of rows) {
      const sealed = sealedFor(ctx, { tenantId, id }, mailCredential(secrets, slug))
      await tx.sql`update tool_server set url = ${`${ctx.publicUrl}${PATH}`}, sealed_credential = ${sealed}
        where id = ${id}`
    }
  })
}
