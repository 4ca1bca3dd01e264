import type { PGlite } from '@electric-sql/pglite'
import type { Item } from '../../src/core/vocabulary.ts'

/** The rows of the test world: SPEC section 12's people, catalog and templates, and a little that only tests need. */

const LIMITS = {
  sessionLifeSeconds: 28_800,
  subagentDepth: 2,
  liveChildren: 10,
  liveRootsPerUser: 20,
  itemsPerRequest: 20,
  requestsPerMinute: 30,
  openRequests: 10,
}

export const TENANT_IDS = { acme: 'ten_acme', globex: 'ten_globex', studio: 'ten_studio' } as const
export type TenantSlug = keyof typeof TENANT_IDS

type Person = {
  readonly tenant: TenantSlug
  readonly name: string
  readonly staff?: readonly string[]
  readonly region?: string
}

export const PEOPLE = {
  maya: { tenant: 'acme', name: 'Maya', region: 'emea' },
  omar: { tenant: 'acme', name: 'Omar', region: 'amer' },
  adam: { tenant: 'acme', name: 'Adam', staff: ['org_admin'] },
  cleo: { tenant: 'acme', name: 'Cleo', staff: ['auditor'] },
  bo: { tenant: 'studio', name: 'Bo', staff: ['builder'] },
  rhea: { tenant: 'studio', name: 'Rhea', staff: ['reviewer'] },
  bea: { tenant: 'studio', name: 'Bea', staff: ['builder', 'reviewer'] },
  sol: { tenant: 'studio', name: 'Sol', staff: ['auditor'] },
  gus: { tenant: 'globex', name: 'Gus', region: 'emea' },
  gina: { tenant: 'globex', name: 'Gina', staff: ['org_admin'] },
} as const satisfies Record<string, Person>
export type Login = keyof typeof PEOPLE

type Row = {
  kind: 'api' | 'data' | 'asset' | 'tool'
  title: string
  unlocks: string
  service: string
  access?: 'read' | 'write' | 'admin'
  risk?: 'low' | 'medium' | 'high'
  sensitive?: boolean
  delegable?: boolean
  at: 'gateway' | 'data' | 'asset' | 'tool_gateway'
  facts?: object
}

export const CATALOG: Readonly<Record<string, Row>> = {
  'accounts:read': {
    kind: 'api',
    title: 'Accounts API · Read',
    unlocks: 'Reads account records through the Accounts API.',
    service: 'accounts',
    at: 'gateway',
  },
  'accounts.rows:my_region': {
    kind: 'data',
    title: 'Account rows · Own region',
    unlocks: 'Rows of accounts in the person’s own region.',
    service: 'accounts',
    at: 'data',
    facts: {
      entity: 'accounts',
      rows: { region: { $user: 'region' } },
      fields: ['id', 'name', 'region', 'renewal_in_days', 'phone'],
    },
  },
  'dashboard:view': {
    kind: 'asset',
    title: 'Dashboard · View',
    unlocks: 'Opens one dashboard.',
    service: 'dashboards',
    at: 'asset',
    facts: { type: 'dashboard' },
  },
  'contracts.fields:pricing': {
    kind: 'data',
    title: 'Contract pricing',
    unlocks: 'Shows what each customer pays.',
    service: 'contracts',
    risk: 'medium',
    sensitive: true,
    at: 'data',
    facts: { entity: 'contracts', rows: {}, fields: ['id', 'account_id', 'price'] },
  },
  'email:send': {
    kind: 'tool',
    title: 'Email · Send',
    unlocks: 'Sends e-mail to one domain.',
    service: 'mail',
    access: 'write',
    risk: 'high',
    at: 'tool_gateway',
    facts: { tools: ['mail/send_email'], destination: '/to' },
  },
  'email-templates:write': {
    kind: 'api',
    title: 'Email templates · Write',
    unlocks: 'Writes e-mail templates.',
    service: 'mail',
    access: 'write',
    risk: 'medium',
    at: 'gateway',
  },
  'billing:admin': {
    kind: 'api',
    title: 'Billing · Admin',
    unlocks: 'Administers billing.',
    service: 'accounts',
    access: 'admin',
    risk: 'high',
    delegable: false,
    at: 'gateway',
  },
}

type Version = {
  ceiling: readonly Item[]
  children?: readonly { template: string; version: number }[]
  sensitive?: readonly Item[]
}
type Template = {
  id: string
  title: string
  visibility: 'public' | 'private'
  versions: Readonly<Record<number, Version>>
}

const briefs: readonly Item[] = [
  { permission: 'accounts:read' },
  { permission: 'accounts.rows:my_region' },
  { permission: 'dashboard:view', resource: 'dashboard/*' },
  { permission: 'contracts.fields:pricing' },
  { permission: 'email:send', resource: 'domain/*' },
]

export const TEMPLATES: Readonly<Record<string, Template>> = {
  'renewal-briefs': {
    id: 'tpl_briefs',
    title: 'Renewal briefs',
    visibility: 'public',
    versions: {
      2: { ceiling: briefs.slice(0, 3) },
      3: { ceiling: briefs, children: [{ template: 'email-drafter', version: 1 }] },
    },
  },
  'email-drafter': {
    id: 'tpl_drafter',
    title: 'Email drafter',
    visibility: 'public',
    versions: {
      1: {
        ceiling: [
          { permission: 'email-templates:write' },
          { permission: 'accounts:read' },
          { permission: 'accounts.rows:my_region' },
          { permission: 'dashboard:view', resource: 'dashboard/*' },
          { permission: 'contracts.fields:pricing' },
        ],
      },
    },
  },
  // Marks as sensitive what the catalog does not.
  'board-notes': {
    id: 'tpl_board',
    title: 'Board notes',
    visibility: 'public',
    versions: {
      1: {
        ceiling: [
          { permission: 'accounts:read' },
          { permission: 'dashboard:view', resource: 'dashboard/*' },
        ],
        sensitive: [{ permission: 'dashboard:view', resource: 'dashboard/board' }],
      },
    },
  },
  // Public, and turned on by nobody.
  'idle-job': {
    id: 'tpl_idle',
    title: 'Idle job',
    visibility: 'public',
    versions: { 1: { ceiling: [{ permission: 'accounts:read' }] } },
  },
  'studio-secret': {
    id: 'tpl_secret',
    title: 'Studio’s own',
    visibility: 'private',
    versions: { 1: { ceiling: [{ permission: 'accounts:read' }] } },
  },
}

export const AGENTS = {
  briefs: {
    id: 'agt_briefs',
    tenant: 'acme',
    name: 'Renewal assistant',
    templates: ['tpl_briefs', 'tpl_board', 'tpl_idle'],
  },
  globex: {
    id: 'agt_globex',
    tenant: 'globex',
    name: 'Globex assistant',
    templates: ['tpl_briefs'],
  },
} as const

/** When the world was made; its clock starts here. */
export const EPOCH = '2026-11-30T09:00:00.000Z'

async function seedTenants(pg: PGlite) {
  for (const [slug, id] of Object.entries(TENANT_IDS)) {
    await pg.query('insert into tenant values ($1, $2, $3, $4)', [
      id,
      slug,
      slug[0]?.toUpperCase() + slug.slice(1),
      EPOCH,
    ])
    await pg.query('insert into tenant_chain (tenant_id) values ($1)', [id])
  }
  for (const [login, person] of Object.entries<Person>(PEOPLE)) {
    await pg.query(
      `insert into app_user (id, tenant_id, issuer, subject, login, name, attributes, staff_roles, created_at)
       values ($1, $2, $3, $4, $4, $5, $6::text::jsonb, $7, $8)`,
      [
        `usr_${login}`,
        TENANT_IDS[person.tenant],
        `https://idp.${person.tenant}.example`,
        login,
        person.name,
        JSON.stringify(person.region === undefined ? {} : { region: person.region }),
        person.staff ?? [],
        EPOCH,
      ],
    )
  }
}

/** The secret of a service's own client, in studio. */
export const serviceSecret = (service: string): string => `secret of ${service}`

async function seedCatalog(pg: PGlite) {
  for (const service of ['accounts', 'dashboards', 'contracts', 'mail'])
    await pg.query('insert into service values ($1, $1)', [service])
  await pg.query('insert into operator_tenant (tenant_id) values ($1)', [TENANT_IDS.studio])
  for (const service of ['accounts', 'dashboards', 'contracts', 'mail'])
    await pg.query(
      `insert into service_client (id, tenant_id, service_id, secret_hash, created_at)
       values ($1, $2, $3, encode(sha256(convert_to($4, 'UTF8')), 'hex'), $5)`,
      [`scl_${service}`, TENANT_IDS.studio, service, serviceSecret(service), EPOCH],
    )
  await pg.query(`insert into registry values (1, 'accounts', $1, 'test')`, [EPOCH])
  for (const [bit, [id, row]] of Object.entries(CATALOG).entries()) {
    const facts = (kind: Row['kind']) => (row.kind === kind ? JSON.stringify(row.facts) : null)
    await pg.query(
      `insert into permission (id, kind, title, description, service_id, access, risk, sensitive, delegable,
         enforced_at, bit, data, asset, tool, registry_version)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::jsonb, $13::text::jsonb,
         $14::text::jsonb, 1)`,
      [
        id,
        row.kind,
        row.title,
        row.unlocks,
        row.service,
        row.access ?? 'read',
        row.risk ?? 'low',
        row.sensitive ?? false,
        row.delegable ?? true,
        row.at,
        bit,
        facts('data'),
        facts('asset'),
        facts('tool'),
      ],
    )
  }
}

async function seedTemplates(pg: PGlite) {
  for (const [name, template] of Object.entries(TEMPLATES)) {
    await pg.query('insert into template values ($1, $2, $3, $4, $5, $6)', [
      template.id,
      name,
      template.title,
      TENANT_IDS.studio,
      template.visibility,
      EPOCH,
    ])
    for (const [version, v] of Object.entries(template.versions))
      await pg.query(
        `insert into template_version (template_id, version, status, purpose, ceiling, context, modes,
           limits, children, sensitive, sponsor, author, reviewer, published_at)
         values ($1, $2, 'published', $3, $4::text::jsonb, 'Be brief.', array['ask', 'auto', 'bypass'],
           $5::text::jsonb, $6::text::jsonb, $7::text::jsonb, 'usr_rhea', 'usr_bo', 'usr_rhea', $8)`,
        [
          template.id,
          Number(version),
          template.title,
          JSON.stringify(v.ceiling),
          JSON.stringify(LIMITS),
          JSON.stringify(v.children ?? []),
          JSON.stringify(v.sensitive ?? []),
          EPOCH,
        ],
      )
  }
}

const newest = (template: Template): readonly [number, Version] => {
  const [version, v] = Object.entries(template.versions).at(-1) ?? []
  if (version === undefined || v === undefined) throw new Error('a template has a version')
  return [Number(version), v]
}

/** Turned on whole, in every mode, at the newest version. */
async function enable(pg: PGlite, tenant: TenantSlug, name: string) {
  const template = TEMPLATES[name]
  if (template === undefined) throw new Error(`no template ${name}`)
  const [version, v] = newest(template)
  await pg.query(
    `insert into enablement (tenant_id, template_id, status, adopted_version, kept, modes, limits, updated_at)
     values ($1, $2, 'on', $3, $4::text::jsonb, array['ask', 'auto', 'bypass'], '{}', $5)`,
    [TENANT_IDS[tenant], template.id, version, JSON.stringify(v.ceiling), EPOCH],
  )
}

async function seedAccess(pg: PGlite) {
  const manager: readonly Item[] = [
    { permission: 'accounts:read' },
    { permission: 'accounts.rows:my_region' },
    { permission: 'contracts.fields:pricing' },
    { permission: 'email-templates:write' },
    { permission: 'email:send', resource: 'domain/*' },
  ]
  for (const tenant of ['acme', 'globex'] as const) {
    const role = `rol_manager_${tenant}`
    await pg.query('insert into role values ($1, $2, $3, $4)', [
      role,
      TENANT_IDS[tenant],
      'Account manager',
      EPOCH,
    ])
    for (const item of manager)
      await pg.query('insert into role_permission values ($1, $2, $3)', [
        role,
        item.permission,
        item.resource ?? null,
      ])
  }
  for (const login of ['maya', 'omar', 'gus'] as const) {
    const { tenant } = PEOPLE[login]
    await pg.query(
      `insert into role_assignment (id, tenant_id, role_id, user_id, created_at) values ($1, $2, $3, $4, $5)`,
      [`asg_${login}`, TENANT_IDS[tenant], `rol_manager_${tenant}`, `usr_${login}`, EPOCH],
    )
  }
  await pg.query(
    `insert into user_permission values ('prm_q3', $1, 'usr_maya', 'dashboard:view', 'dashboard/q3-pipeline', $2)`,
    [TENANT_IDS.acme, EPOCH],
  )
}

/** Fills a migrated database. */
export async function seed(pg: PGlite): Promise<void> {
  await seedTenants(pg)
  await seedCatalog(pg)
  await seedTemplates(pg)
  for (const name of ['renewal-briefs', 'email-drafter', 'board-notes'])
    await enable(pg, 'acme', name)
  await enable(pg, 'globex', 'renewal-briefs')
  for (const agent of Object.values(AGENTS))
    await pg.query(
      `insert into agent (id, tenant_id, name, secret_hash, app_clients, template_ids, created_at)
       values ($1, $2, $3, 'not a hash of anything', array['agent-app'], $4, $5)`,
      [agent.id, TENANT_IDS[agent.tenant], agent.name, agent.templates, EPOCH],
    )
  await seedAccess(pg)
}
