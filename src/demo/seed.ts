import { assert } from '../core/assert.ts'
import type { Item, TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { insertService, insertServiceClient, insertVersion, writeSlice } from '../db/registry.ts'
import { CannotSeal, keeping } from '../db/sealed.ts'
import { json, type Tx, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { issuerOf } from '../ports.ts'
import { hashSecret } from '../tokens/client-auth.ts'
import { createTenantKeys } from '../tokens/keys.ts'
import { DEMO_PERMISSIONS, DEMO_SERVICES, demoSlice } from './catalog.ts'
import { DEMO_CLIENTS, demoIssuerOf } from './idp/provider.ts'
import { type ClientKind, type DemoSecrets, newDemoSecrets, secretOf } from './secrets.ts'
import {
  ACCOUNT_MANAGER_ACCESS,
  ACCOUNT_MANAGER_MASK,
  ACCOUNT_MANAGER_ROLE,
  ACCOUNT_MANAGERS_GROUP,
  DEMO_OPERATOR,
  DEMO_TEMPLATES,
  DEMO_TENANTS,
  type DemoEnablementData,
  type DemoTemplateData,
  type DemoTenantData,
  type DemoVersionData,
  DIRECT_PERMISSIONS,
} from './world.ts'

export { type DemoSecrets, newDemoSecrets }

type Seeding = {
  readonly ctx: Ctx
  readonly tx: Tx
  readonly secrets: DemoSecrets
  /** Seconds. */
  readonly now: number
  readonly tenants: ReadonlyMap<string, TenantId>
  readonly templates: ReadonlyMap<string, string>
  /** User ids by `tenant/login`. */
  readonly users: ReadonlyMap<string, string>
}

const SEEDED_BY = 'the demo’s seed'

function idIn(map: ReadonlyMap<string, string>, key: string): string {
  const id = map.get(key)
  assert(id !== undefined, `the demo world knows ${key}`)
  return id
}

/**
 * Fills an empty database with the demo world (SPEC section 12), in one transaction. Does nothing
 * when tenant `acme` exists, and says whether it seeded. Safe to call from two instances at once.
 */
export async function seedDemo(
  ctx: Ctx,
  of: { readonly secrets: DemoSecrets },
): Promise<{ readonly seeded: boolean }> {
  return withTx(ctx.db, 'seed_demo', async (tx) => {
    await tx.sql`select pg_advisory_xact_lock(hashtextextended('lend:seed_demo', 0))`
    const [there] = await tx.sql`select id from tenant where slug = 'acme'`
    if (there !== undefined) return { seeded: false }
    const ids = <Row>(rows: readonly Row[], key: (row: Row) => string, id: () => string) =>
      new Map(rows.map((row) => [key(row), id()]))
    const people = DEMO_TENANTS.flatMap((t) => t.users.map((u) => `${t.slug}/${u.login}`))
    const seeding: Seeding = {
      ctx,
      tx,
      secrets: of.secrets,
      now: ctx.clock.now() / 1000,
      tenants: new Map(DEMO_TENANTS.map((t) => [t.slug, ctx.ids.id<TenantId>('tenant')])),
      templates: ids(
        DEMO_TEMPLATES,
        (t) => t.name,
        () => ctx.ids.id('template'),
      ),
      users: ids(
        people,
        (p) => p,
        () => ctx.ids.id('user'),
      ),
    }
    for (const tenant of DEMO_TENANTS) await seedTenant(seeding, tenant)
    await seedCatalog(seeding)
    for (const template of DEMO_TEMPLATES) await seedTemplate(seeding, template)
    for (const tenant of DEMO_TENANTS) {
      await seedAccess(seeding, tenant)
      await seedClients(seeding, tenant)
      await seedProxies(seeding, tenant)
    }
    await seedRecords(seeding)
    return { seeded: true }
  })
}

async function seedTenant(s: Seeding, tenant: DemoTenantData): Promise<void> {
  const { tx, ctx, now } = s
  const tenantId = idIn(s.tenants, tenant.slug) as TenantId
  const issuer = demoIssuerOf(ctx.publicUrl, tenant.slug)
  await tx.sql`insert into tenant (id, slug, name, created_at)
    values (${tenantId}, ${tenant.slug}, ${tenant.name}, to_timestamp(${now}::float8))`
  await tx.sql`insert into tenant_chain (tenant_id) values (${tenantId})`
  await createTenantKeys(tx, { tenantId, now, vault: ctx.vault })
  const keep = await keeping(tx, ctx.vault)
  if (keep === null) throw new CannotSeal()
  const id = ctx.ids.id<string>('identityProvider')
  const secret = s.secrets.idp.clientSecrets[tenant.slug]?.people
  assert(secret !== undefined, `the demo's provider of ${tenant.slug} has a client for people`)
  const { clear, sealed } = keep({ kind: 'identity_provider', tenantId, id }, secret)
  await tx.sql`
    insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, web_client_id,
      web_client_secret, sealed_web_client_secret, private_network, created_at)
    values (${id}, ${tenantId}, ${issuer}, ${issuerOf(ctx, tenant.slug)},
      ${[DEMO_CLIENTS.people]}::text[], ${DEMO_CLIENTS.people}, ${clear}, ${sealed}, true,
      to_timestamp(${now}::float8))`
  for (const user of tenant.users) {
    const attributes = user.region === undefined ? {} : { region: user.region }
    await tx.sql`
      insert into app_user (id, tenant_id, issuer, subject, login, name, email, attributes, staff_roles,
        created_at)
      values (${idIn(s.users, `${tenant.slug}/${user.login}`)}, ${tenantId}, ${issuer}, ${user.subject},
        ${user.login}, ${user.name}, ${user.email}, ${json(attributes)}::text::jsonb,
        ${user.staffRoles}::text[], to_timestamp(${now}::float8))`
  }
}

/** One registry version a service, published as a service's own client would. */
async function seedCatalog(s: Seeding): Promise<void> {
  const { tx, ctx, now, secrets } = s
  const tenantId = idIn(s.tenants, DEMO_OPERATOR) as TenantId
  await tx.sql`insert into operator_tenant (tenant_id) values (${tenantId})`
  for (const [service, title] of Object.entries(DEMO_SERVICES)) {
    await insertService(tx, { id: service, title })
    const secret = secretOf(secrets, { kind: 'services', tenant: DEMO_OPERATOR, name: service })
    const id = ctx.ids.id('serviceClient')
    const secretHash = hashSecret(secret)
    await insertServiceClient(tx, { id, tenantId, service, secretHash, jwks: null, now })
    const slice = demoSlice(service)
    const by = { by: SEEDED_BY, how: 'published' } as const
    const version = await insertVersion(tx, { service, slice, now, ...by })
    await writeSlice(tx, { service, version, slice })
  }
}

async function seedProxies(s: Seeding, tenant: DemoTenantData): Promise<void> {
  const { tx, ctx, now } = s
  const tenantId = idIn(s.tenants, tenant.slug)
  for (const { name, mounts } of tenant.proxies) {
    const id = ctx.ids.id('proxy')
    const hash = hashSecret(secretOf(s.secrets, { kind: 'proxies', tenant: tenant.slug, name }))
    await tx.sql`insert into gateway_proxy (id, tenant_id, name, secret_hash, created_at)
      values (${id}, ${tenantId}, ${name}, ${hash}, to_timestamp(${now}::float8))`
    for (const [prefix, service] of Object.entries(mounts))
      await tx.sql`insert into gateway_mount (tenant_id, proxy_id, prefix, service_id)
        values (${tenantId}, ${id}, ${prefix}, ${service})`
  }
}

async function seedTemplate(s: Seeding, template: DemoTemplateData): Promise<void> {
  const { tx, now } = s
  const id = idIn(s.templates, template.name)
  await tx.sql`insert into template (id, name, title, tenant_id, visibility, created_at)
    values (${id}, ${template.name}, ${template.title}, ${idIn(s.tenants, DEMO_OPERATOR)}, 'public',
      to_timestamp(${now}::float8))`
  const author = idIn(s.users, `${DEMO_OPERATOR}/bo`)
  const reviewer = idIn(s.users, `${DEMO_OPERATOR}/rhea`)
  for (const v of template.versions) {
    await tx.sql`
      insert into template_version (template_id, version, status, purpose, ceiling, context, modes, limits,
        children, sensitive, sponsor, author, reviewer, published_at)
      values (${id}, ${v.version}, ${v.status}, ${v.purpose}, ${json(v.ceiling)}::text::jsonb, ${v.context},
        ${v.modes}::text[], ${json(v.limits)}::text::jsonb, ${json(v.children)}::text::jsonb,
        ${json(v.sensitive)}::text::jsonb, ${author}, ${author}, ${reviewer},
        to_timestamp(${now}::float8))`
  }
}

async function seedAccess(s: Seeding, tenant: DemoTenantData): Promise<void> {
  const { tx, ctx, now } = s
  const tenantId = idIn(s.tenants, tenant.slug)
  const managers = tenant.users.filter((user) => user.accountManager)
  if (managers.length > 0) await seedManagers(s, tenant)
  for (const one of DIRECT_PERMISSIONS.filter((d) => d.tenant === tenant.slug)) {
    await tx.sql`
      insert into user_permission (id, tenant_id, user_id, permission_id, resource, created_at)
      values (${ctx.ids.id('userPermission')}, ${tenantId}, ${idIn(s.users, `${one.tenant}/${one.login}`)},
        ${one.permission}, ${one.resource ?? null}, to_timestamp(${now}::float8))`
  }
}

/** What account managers may do reaches them through a role that their group has. */
async function seedManagers(s: Seeding, tenant: DemoTenantData): Promise<void> {
  const { tx, ctx, now } = s
  const tenantId = idIn(s.tenants, tenant.slug)
  const groupId = ctx.ids.id('group')
  const roleId = ctx.ids.id('role')
  await tx.sql`insert into user_group (id, tenant_id, name, created_at)
    values (${groupId}, ${tenantId}, ${ACCOUNT_MANAGERS_GROUP}, to_timestamp(${now}::float8))`
  for (const user of tenant.users.filter((one) => one.accountManager))
    await tx.sql`insert into group_member (tenant_id, group_id, user_id)
      values (${tenantId}, ${groupId}, ${idIn(s.users, `${tenant.slug}/${user.login}`)})`
  await tx.sql`insert into role (id, tenant_id, name, created_at)
    values (${roleId}, ${tenantId}, ${ACCOUNT_MANAGER_ROLE}, to_timestamp(${now}::float8))`
  for (const item of ACCOUNT_MANAGER_ACCESS)
    await tx.sql`insert into role_permission (role_id, permission_id, resource)
      values (${roleId}, ${item.permission}, ${item.resource ?? null})`
  await tx.sql`insert into role_assignment (id, tenant_id, role_id, group_id, created_at)
    values (${ctx.ids.id('assignment')}, ${tenantId}, ${roleId}, ${groupId},
      to_timestamp(${now}::float8))`
  await tx.sql`insert into restriction (id, tenant_id, group_id, entity, masks, created_at)
    values (${ctx.ids.id('restriction')}, ${tenantId}, ${groupId}, ${ACCOUNT_MANAGER_MASK.entity},
      ${[...ACCOUNT_MANAGER_MASK.masks]}::text[], to_timestamp(${now}::float8))`
}

async function seedClients(s: Seeding, tenant: DemoTenantData): Promise<void> {
  const { tx, ctx, now, secrets } = s
  const tenantId = idIn(s.tenants, tenant.slug)
  const hashOf = (kind: ClientKind, name: string) =>
    hashSecret(secretOf(secrets, { kind, tenant: tenant.slug, name }))
  for (const agent of tenant.agents) {
    const templates = agent.templates.map((name) => idIn(s.templates, name))
    await tx.sql`
      insert into agent (id, tenant_id, name, secret_hash, app_clients, template_ids, created_at)
      values (${ctx.ids.id('agent')}, ${tenantId}, ${agent.name}, ${hashOf('agents', agent.name)},
        ${agent.appClients}::text[], ${templates}::text[], to_timestamp(${now}::float8))`
  }
  for (const point of tenant.enforcementPoints)
    await tx.sql`
      insert into enforcement_point (id, tenant_id, name, secret_hash, services, created_at)
      values (${ctx.ids.id('enforcementPoint')}, ${tenantId}, ${point.name},
        ${hashOf('enforcementPoints', point.name)}, ${point.services}::text[],
        to_timestamp(${now}::float8))`
  for (const server of tenant.resourceServers)
    await tx.sql`
      insert into resource_server (id, tenant_id, resource, name, subject, services, created_at)
      values (${ctx.ids.id('resourceServer')}, ${tenantId}, ${`${ctx.publicUrl}${server.path}`},
        ${server.name}, ${server.subject}, ${server.services}::text[], to_timestamp(${now}::float8))`
  for (const one of tenant.enablements)
    await tx.sql`
      insert into enablement (tenant_id, template_id, status, adopted_version, kept, modes, limits,
        updated_at)
      values (${tenantId}, ${idIn(s.templates, one.template)}, 'on', ${one.version},
        ${json(keptBy(one))}::text::jsonb, ${one.modes}::text[], '{}', to_timestamp(${now}::float8))`
}

const versionIn = (name: string, version: number): DemoVersionData => {
  const found = DEMO_TEMPLATES.find((t) => t.name === name)?.versions.find(
    (v) => v.version === version,
  )
  assert(found !== undefined, `the demo world knows ${name}@${version}`)
  return found
}

/**
 * What is kept is stored, so that a newcomer to the ceiling enters only by adoption (SPEC section
 * 3).
 */
const keptBy = (one: DemoEnablementData): readonly Item[] =>
  versionIn(one.template, one.version).ceiling.filter(
    (item) => !one.removed.includes(item.permission),
  )

/**
 * I12: that the world came to be is on record, on the chain of the tenant where each thing
 * happened.
 */
async function seedRecords(s: Seeding): Promise<void> {
  const operator = new Journal(s.ctx, idIn(s.tenants, DEMO_OPERATOR) as TenantId)
  for (const [i, service] of Object.keys(DEMO_SERVICES).entries()) {
    const permissions = DEMO_PERMISSIONS.filter((p) => p.service === service).map((p) => p.id)
    operator.tenant('catalog.published', { service, version: i + 1, permissions, by: SEEDED_BY })
  }
  for (const template of DEMO_TEMPLATES)
    for (const v of template.versions) {
      const ref = `${template.name}@${v.version}`
      const by = { userId: idIn(s.users, `${DEMO_OPERATOR}/rhea`), template: ref }
      operator.tenant('template.published', { version: v.version }, by)
      if (v.status === 'retired') operator.tenant('template.retired', { version: v.version }, by)
    }
  await operator.write(s.tx)
  for (const tenant of DEMO_TENANTS) {
    if (tenant.enablements.length === 0) continue
    const journal = new Journal(s.ctx, idIn(s.tenants, tenant.slug) as TenantId)
    const admin = tenant.users.find((user) => user.staffRoles.includes('org_admin'))
    for (const one of tenant.enablements)
      journal.tenant(
        'enablement.adopted',
        { version: one.version, modes: one.modes, removed: one.removed },
        {
          template: `${one.template}@${one.version}`,
          ...(admin === undefined
            ? {}
            : { userId: idIn(s.users, `${tenant.slug}/${admin.login}`) }),
        },
      )
    await journal.write(s.tx)
  }
}

const DEMO_PATH = '/demo/idp/'

/**
 * Follows a `PUBLIC_URL` that changed between two starts: the demo's providers, their people and
 * its resource servers are named by it. A provider that an admin has pointed elsewhere is left
 * alone. Says how many tenants it moved.
 */
export async function rebaseDemo(ctx: Ctx): Promise<{ readonly moved: number }> {
  return withTx(ctx.db, 'rebase_demo', async (tx) => {
    const slugs = DEMO_TENANTS.map((tenant) => tenant.slug)
    const rows = await tx.sql<{ tenantId: TenantId; slug: string; issuer: string }>`
      select t.id as "tenantId", t.slug, i.issuer
      from identity_provider i join tenant t on t.id = i.tenant_id
      where t.slug = any(${slugs}::text[]) and i.issuer like '%' || ${DEMO_PATH} || t.slug
      order by t.slug for update of i`
    const moving = rows.filter((row) => row.issuer !== demoIssuerOf(ctx.publicUrl, row.slug))
    for (const { tenantId, slug, issuer } of moving) {
      const from = issuer.slice(0, issuer.indexOf(DEMO_PATH))
      const to = demoIssuerOf(ctx.publicUrl, slug)
      await tx.sql`update identity_provider set issuer = ${to}, audience = ${issuerOf(ctx, slug)}
        where tenant_id = ${tenantId} and issuer = ${issuer}`
      await tx.sql`update app_user set issuer = ${to}
        where tenant_id = ${tenantId} and issuer = ${issuer}`
      await tx.sql`
        update resource_server set resource = ${ctx.publicUrl} || substr(resource, ${from.length + 1})
        where tenant_id = ${tenantId} and starts_with(resource, ${`${from}/demo/`})`
      const journal = new Journal(ctx, tenantId)
      journal.tenant('admin.changed', { what: 'public_url.moved', from, to: ctx.publicUrl })
      await journal.write(tx)
    }
    return { moved: moving.length }
  })
}
