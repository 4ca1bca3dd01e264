import { withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'

/** What the seed gave ids to, as the demo's own programs need it. Never a secret. */
export type DemoFacts = {
  readonly slug: string
  /** User ids by login. */
  readonly users: Readonly<Record<string, string>>
  readonly agents: readonly {
    readonly id: string
    readonly name: string
    readonly templates: readonly string[]
  }[]
  readonly enforcementPoints: readonly { readonly id: string; readonly name: string }[]
  readonly proxies: readonly { readonly name: string; readonly mounts: readonly string[] }[]
  /** Services whose clients are of this tenant: it is the operator's, or there are none. */
  readonly services: readonly { readonly id: string; readonly service: string }[]
  readonly resourceServers: readonly {
    readonly resource: string
    readonly subject: 'session' | 'user'
  }[]
}

/** Reads one tenant as it is now; null when there is none of that slug. */
export async function demoFacts(ctx: Ctx, slug: string): Promise<DemoFacts | null> {
  return withTx(ctx.db, 'demo_facts', async (tx) => {
    const [tenant] = await tx.sql<{ id: string }>`select id from tenant where slug = ${slug}`
    if (tenant === undefined) return null
    const users = await tx.sql<{ id: string; login: string }>`
      select id, login from app_user where tenant_id = ${tenant.id} order by login`
    const agents = await tx.sql<{ id: string; name: string; templates: string[] }>`
      select a.id, a.name, array(select t.name from template t
        where t.id = any(a.template_ids) order by t.name) as templates
      from agent a where a.tenant_id = ${tenant.id} order by a.created_at, a.id`
    const enforcementPoints = await tx.sql<{ id: string; name: string }>`
      select id, name from enforcement_point where tenant_id = ${tenant.id} order by created_at, id`
    const resourceServers = await tx.sql<{ resource: string; subject: 'session' | 'user' }>`
      select resource, subject from resource_server where tenant_id = ${tenant.id}
      order by created_at, id`
    const proxies = await tx.sql<{ name: string; mounts: string[] }>`
      select name, array(select prefix from gateway_mount m where m.proxy_id = p.id order by 1) as mounts
      from gateway_proxy p where tenant_id = ${tenant.id} order by created_at, id`
    const services = await tx.sql<{ id: string; service: string }>`
      select id, service_id as service from service_client
      where tenant_id = ${tenant.id} and status = 'active' order by service_id`
    return {
      slug,
      users: Object.fromEntries(users.map((user) => [user.login, user.id])),
      agents,
      enforcementPoints,
      proxies,
      services,
      resourceServers,
    }
  })
}
