import type { PGlite } from '@electric-sql/pglite'
import { EPOCH } from '../support/world-seed.ts'

/**
 * The small world that the model and the real system both live in. Nothing but data: the model reads it, the seed writes
 * it to the database, and neither takes anything from the other.
 */
export type Item = {
  readonly permission: string
  readonly resource?: string
  /** Name of one of `NARROWS`. */
  readonly narrow?: string
}

export type Mode = 'ask' | 'auto' | 'bypass'
export const LOOSENESS: readonly Mode[] = ['ask', 'auto', 'bypass']

export type Permission = {
  readonly kind: 'api' | 'data' | 'asset' | 'tool'
  readonly access: 'read' | 'write' | 'admin'
  readonly risk: 'low' | 'medium' | 'high'
  readonly service: 's1' | 's2'
  readonly sensitive: boolean
  readonly delegable: boolean
  readonly retired: boolean
}

const permission = (
  kind: Permission['kind'],
  access: Permission['access'],
  risk: Permission['risk'],
  service: Permission['service'],
  flags: { readonly sensitive?: boolean; readonly delegable?: boolean } = {},
): Permission => ({
  kind,
  access,
  risk,
  service,
  sensitive: false,
  delegable: true,
  retired: false,
  ...flags,
})

export const CATALOG: Readonly<Record<string, Permission>> = {
  'm.api:read': permission('api', 'read', 'low', 's1'),
  'm.api:write': permission('api', 'write', 'medium', 's1'),
  'm.rows:all': permission('data', 'read', 'low', 's2'),
  'm.board:view': permission('asset', 'read', 'low', 's2'),
  'm.mail:send': permission('tool', 'write', 'high', 's1'),
  'm.pay:see': permission('data', 'read', 'medium', 's2', { sensitive: true }),
  'm.root:admin': permission('api', 'admin', 'high', 's1', { delegable: false }),
}
export const PERMISSIONS = Object.keys(CATALOG)

/** Everything a pattern could match, by name: what a pattern means here is the set of these that it matches. */
export const NAMES = [
  'board/a',
  'board/b',
  'board/other',
  'board/x/c',
  'board/x/other',
  'domain/a.example',
  'domain/b.example',
  'domain/other.example',
]

/** Filters by name; the first way of writing each is how it is stored in ceilings. */
export const NARROWS: Readonly<Record<string, readonly object[]>> = {
  near: [{ x: 1 }],
  both: [
    { x: 1, y: 2 },
    { y: 2, x: 1 },
  ],
}

const item = (p: string, resource?: string, narrow?: string): Item => ({
  permission: p,
  ...(resource === undefined ? {} : { resource }),
  ...(narrow === undefined ? {} : { narrow }),
})

export const API_READ = item('m.api:read')
export const API_WRITE = item('m.api:write')
export const ROWS = item('m.rows:all')
export const ROWS_NEAR = item('m.rows:all', undefined, 'near')
export const ROWS_BOTH = item('m.rows:all', undefined, 'both')
export const BOARDS = item('m.board:view', 'board/*')
export const BOARD_A = item('m.board:view', 'board/a')
export const BOARD_B = item('m.board:view', 'board/b')
export const BOARD_XC = item('m.board:view', 'board/x/c')
export const BOARDS_X = item('m.board:view', 'board/x/*')
export const MAIL = item('m.mail:send', 'domain/*')
export const MAIL_A = item('m.mail:send', 'domain/a.example')
export const MAIL_B = item('m.mail:send', 'domain/b.example')
export const PAY = item('m.pay:see')
export const PAY_NEAR = item('m.pay:see', undefined, 'near')
export const ADMIN = item('m.root:admin')

/** What an agent can write in a request, and what it means. `malformed`: only while the catalog knows the permission. */
export type Wish = {
  readonly item: Item
  readonly raw?: {
    readonly resource?: string
    readonly narrow?: { readonly [field: string]: unknown }
  }
  readonly malformed?: boolean
}
const SOUND: readonly Wish[] = [
  { item: API_READ },
  { item: API_WRITE },
  { item: ROWS },
  { item: ROWS_NEAR },
  { item: ROWS_BOTH },
  { item: ROWS_BOTH, raw: { narrow: { y: 2, x: 1 } } },
  { item: BOARDS },
  { item: BOARD_A },
  { item: BOARD_B },
  { item: BOARD_XC },
  { item: BOARDS_X },
  { item: MAIL },
  { item: MAIL_A },
  { item: MAIL_A, raw: { resource: 'domain/A.Example.' } },
  { item: MAIL_B },
  { item: PAY },
  { item: PAY_NEAR },
  { item: ADMIN },
  { item: item('m.none:read') },
]
const MALFORMED: readonly Wish[] = [
  { item: item('m.api:read', 'board/a'), malformed: true },
  { item: item('m.board:view'), malformed: true },
  { item: item('m.api:read', undefined, 'near'), malformed: true },
]
export const WISHES: readonly Wish[] = [...SOUND, ...MALFORMED]
export const SOUND_WISHES = SOUND.length

/** What a person may have directly; the first few are where each sequence starts. */
export const ACCESS: readonly Item[] = [
  API_READ,
  API_WRITE,
  ROWS,
  BOARDS,
  MAIL,
  PAY,
  ADMIN,
  BOARD_A,
  BOARD_B,
  BOARD_XC,
  MAIL_A,
]
export const ACCESS_AT_FIRST = 7

export type Limits = {
  readonly sessionLifeSeconds: number
  readonly subagentDepth: number
  readonly liveChildren: number
  readonly liveRootsPerUser: number
  readonly itemsPerRequest: number
  readonly requestsPerMinute: number
  readonly openRequests: number
  readonly requestWaitSeconds?: number
}
const LIMITS: Limits = {
  sessionLifeSeconds: 3600,
  subagentDepth: 2,
  liveChildren: 2,
  liveRootsPerUser: 3,
  itemsPerRequest: 3,
  requestsPerMinute: 8,
  openRequests: 3,
}
const WAITING: Limits = { ...LIMITS, requestWaitSeconds: 300 }

export type Version = {
  readonly ceiling: readonly Item[]
  readonly modes: readonly Mode[]
  readonly limits: Limits
  readonly children: readonly string[]
  readonly sensitive: readonly Item[]
}

const ROOT_CEILING = [
  API_READ,
  API_WRITE,
  ROWS,
  BOARDS,
  BOARD_XC,
  MAIL,
  PAY,
  ADMIN,
  item('m.none:read'),
]

/** By name, then by version. `m-idle` is turned on by nobody. */
export const TEMPLATES: Readonly<Record<string, Readonly<Record<number, Version>>>> = {
  'm-root': {
    1: {
      ceiling: ROOT_CEILING,
      modes: ['ask', 'auto', 'bypass'],
      limits: WAITING,
      children: ['m-child', 'm-leaf'],
      sensitive: [BOARD_B],
    },
    2: {
      ceiling: [API_READ, API_WRITE, ROWS_NEAR, BOARDS, MAIL_A, PAY, ADMIN],
      modes: ['ask', 'auto', 'bypass'],
      limits: { ...LIMITS, requestWaitSeconds: 120 },
      children: ['m-child'],
      sensitive: [BOARD_B, MAIL_A],
    },
  },
  'm-child': {
    1: {
      ceiling: [API_READ, API_WRITE, ROWS_NEAR, BOARDS, MAIL_A, PAY],
      modes: ['ask', 'auto'],
      limits: { ...LIMITS, sessionLifeSeconds: 1800 },
      children: ['m-leaf'],
      sensitive: [MAIL],
    },
  },
  'm-leaf': {
    1: {
      ceiling: [API_READ, BOARD_A, ROWS],
      modes: ['ask', 'auto', 'bypass'],
      limits: WAITING,
      children: ['m-child'],
      sensitive: [],
    },
  },
  'm-other': {
    1: {
      ceiling: [API_READ, ROWS, BOARDS, PAY],
      modes: ['ask', 'bypass'],
      limits: LIMITS,
      children: [],
      sensitive: [],
    },
  },
  'm-idle': {
    1: { ceiling: [API_READ], modes: ['ask'], limits: LIMITS, children: [], sensitive: [] },
  },
}
export const TEMPLATE_NAMES = Object.keys(TEMPLATES)
export const ENABLED = TEMPLATE_NAMES.filter((name) => name !== 'm-idle')
/** Gates roots only. */
export const LISTED: readonly string[] = ['m-root', 'm-other', 'm-idle']

/** What a tenant can keep of a ceiling, besides all of it. The last two reach past what any version allows. */
export const KEEPABLE: readonly Item[] = [
  API_READ,
  API_WRITE,
  ROWS,
  ROWS_NEAR,
  BOARDS,
  BOARD_A,
  BOARD_XC,
  MAIL,
  MAIL_A,
  PAY,
  ADMIN,
  item('m.none:read'),
  BOARDS_X,
]

/** Tenant limits that a narrowing may set. */
export const TIGHT_LIMITS: readonly Partial<Limits>[] = [
  {},
  { requestsPerMinute: 2, requestWaitSeconds: 60 },
  { openRequests: 1, itemsPerRequest: 2 },
  { subagentDepth: 1, liveChildren: 1, sessionLifeSeconds: 600 },
]

/** Resource servers by audience, with the services whose grants a token for them carries. */
export const SERVERS: Readonly<
  Record<string, { readonly services: readonly string[]; readonly subject: 'session' | 'user' }>
> = {
  'https://s1.example': { services: ['s1'], subject: 'session' },
  'https://all.example': { services: ['s1', 's2'], subject: 'user' },
}

export const ACME = 'ten_acme'
export const GLOBEX = 'ten_globex'
export const USERS = ['usr_m0', 'usr_m1'] as const
/** Of the other tenant. */
export const STRANGER = 'usr_mg'
export const AGENT = 'agt_model'
/** Of the same tenant, with the same templates; runs nothing. */
export const OTHER_AGENT = 'agt_model2'
export const STRANGER_AGENT = 'agt_modelg'
export const templateId = (name: string): string => `tpl_${name}`

const quote = (value: unknown): string =>
  value === null
    ? 'null'
    : typeof value === 'string'
      ? `'${value}'`
      : `'${JSON.stringify(value)}'::jsonb`
const array = (values: readonly string[]): string =>
  `array[${values.map(quote).join(', ')}]::text[]`

/** An item as ceilings store it. */
export const stored = (of: Item): object => ({
  permission: of.permission,
  ...(of.resource === undefined ? {} : { resource: of.resource }),
  ...(of.narrow === undefined ? {} : { narrow: NARROWS[of.narrow]?.[0] }),
})

const FACTS = {
  api: ['null', 'null', 'null'],
  data: [quote({ entity: 'rows', rows: {}, fields: ['x', 'y'] }), 'null', 'null'],
  asset: ['null', quote({ type: 'board' }), 'null'],
  tool: ['null', 'null', quote({ tools: ['mail/send'], destination: '/to' })],
}
const AT = { api: 'gateway', data: 'data', asset: 'asset', tool: 'tool_gateway' }

function seedSql(): string {
  const sql: string[] = [`insert into service values ('s1', 's1'), ('s2', 's2')`]
  for (const [i, [id, p]] of Object.entries(CATALOG).entries())
    sql.push(`insert into permission (id, kind, title, description, service_id, access, risk, sensitive,
      delegable, enforced_at, bit, data, asset, tool, registry_version) values (${quote(id)},
      '${p.kind}', ${quote(id)}, 'x', '${p.service}', '${p.access}', '${p.risk}', ${p.sensitive},
      ${p.delegable}, '${AT[p.kind]}', ${1000 + i}, ${FACTS[p.kind].join(', ')}, 1)`)
  for (const [name, versions] of Object.entries(TEMPLATES)) {
    sql.push(`insert into template values ('${templateId(name)}', '${name}', '${name}', 'ten_studio',
      'public', '${EPOCH}')`)
    for (const [n, v] of Object.entries(versions))
      sql.push(`insert into template_version (template_id, version, status, purpose, ceiling, context,
        modes, limits, children, sensitive, sponsor, author, reviewer, published_at) values
        ('${templateId(name)}', ${n}, 'published', 'x', ${quote(v.ceiling.map(stored))}, 'x',
        ${array(v.modes)}, ${quote(v.limits)},
        ${quote(v.children.map((template) => ({ template, version: 1 })))},
        ${quote(v.sensitive.map(stored))}, 'usr_rhea', 'usr_bo', 'usr_rhea', '${EPOCH}')`)
  }
  for (const [user, tenant] of [...USERS.map((u) => [u, ACME] as const), [STRANGER, GLOBEX]])
    sql.push(`insert into app_user (id, tenant_id, issuer, subject, login, name, created_at) values
      ('${user}', '${tenant}', 'https://idp.example', '${user}', '${user}', 'x', '${EPOCH}')`)
  for (const [agent, tenant] of [
    [AGENT, ACME],
    [OTHER_AGENT, ACME],
    [STRANGER_AGENT, GLOBEX],
  ])
    sql.push(`insert into agent (id, tenant_id, name, secret_hash, app_clients, template_ids, created_at)
      values ('${agent}', '${tenant}', '${agent}', 'none', array['app'],
      ${array(LISTED.map(templateId))}, '${EPOCH}')`)
  for (const [audience, { services, subject }] of Object.entries(SERVERS))
    sql.push(`insert into resource_server values ('rsv_${services.length}', '${ACME}', '${audience}',
      'x', '${subject}', ${array(services)}, '${EPOCH}')`)
  for (const name of ENABLED)
    for (const tenant of [ACME, GLOBEX])
      sql.push(`insert into enablement values ('${tenant}', '${templateId(name)}', 'on', 1, '[]',
        ${array(LOOSENESS)}, '{}', '${EPOCH}')`)
  return `${sql.join(';\n')};`
}

/** Adds the universe to a world that has been made. */
export async function seedUniverse(pg: PGlite): Promise<void> {
  await pg.exec(`${seedSql()}${resetSql()}`)
}

/** Brings tenant acme and the catalog back to where every sequence starts. The record stays: it is append-only. */
export function resetSql(): string {
  const mine = `where tenant_id = '${ACME}'`
  const sql = [
    `delete from access_grant ${mine}`,
    `delete from request_item i using access_request r where r.id = i.request_id and r.tenant_id = '${ACME}'`,
    `delete from access_request ${mine}`,
    `delete from session ${mine}`,
    `delete from consent_rule ${mine}`,
    `delete from frozen ${mine}`,
    `delete from feed`,
    `delete from user_permission ${mine} and user_id like 'usr_m%'`,
    `update app_user set status = 'active' ${mine} and id like 'usr_m%'`,
    `update agent set status = 'active' ${mine}`,
    `insert into user_permission (id, tenant_id, user_id, permission_id, resource, created_at) values
      ${USERS.flatMap((user) =>
        ACCESS.slice(0, ACCESS_AT_FIRST).map(
          (a, i) =>
            `('prm_${user}_${i}', '${ACME}', '${user}', '${a.permission}', ${quote(a.resource ?? null)}, '${EPOCH}')`,
        ),
      ).join(', ')}`,
    ...Object.entries(CATALOG).map(
      ([id, p]) => `update permission set sensitive = ${p.sensitive}, delegable = ${p.delegable},
        retired = false where id = '${id}' and (sensitive, delegable, retired) is distinct from
        (${p.sensitive}, ${p.delegable}, false)`,
    ),
    ...ENABLED.map(
      (
        name,
      ) => `update enablement set status = 'on', adopted_version = 1, modes = ${array(LOOSENESS)},
        limits = '{}', kept = ${quote(TEMPLATES[name]?.[1]?.ceiling.map(stored))}
        where template_id = '${templateId(name)}'`,
    ),
  ]
  return `${sql.join(';\n')};`
}
