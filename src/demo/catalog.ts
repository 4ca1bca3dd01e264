import { ENFORCED_WHERE, type Slice } from '../core/slice.ts'
import type { Access, EnforcedAt, Filter, Kind, Risk } from '../core/vocabulary.ts'

/** The demo's catalog as data: what its five services lend (SPEC sections 2 and 12), published as their slices. */

export const DEMO_SERVICES = {
  accounts: 'Accounts',
  dashboards: 'Dashboards',
  contracts: 'Contracts',
  mail: 'Mail',
  platform: 'Platform',
} as const
export type DemoService = keyof typeof DEMO_SERVICES

export type DemoPermission = {
  readonly id: string
  readonly kind: Kind
  readonly title: string
  readonly description: string
  readonly service: DemoService
  readonly access: Access
  readonly risk: Risk
  readonly sensitive?: true
  readonly delegable?: false
  readonly enforcedAt: EnforcedAt
  /** Words that people use for it and its title does not. */
  readonly keywords: string
  readonly data?: {
    readonly entity: string
    readonly rows: Filter
    readonly fields: readonly string[]
  }
  readonly asset?: { readonly type: string }
  readonly tool?: { readonly tools: readonly string[]; readonly destination: string }
}

export const ACCOUNT_FIELDS = [
  'id',
  'name',
  'region',
  'owner',
  'segment',
  'renewal_date',
  'renewal_in_days',
  'arr',
  'phone',
] as const

const ACCOUNTS: readonly DemoPermission[] = [
  {
    id: 'accounts:read',
    kind: 'api',
    title: 'Accounts API · Read',
    description:
      'Call the Accounts API to list and look up accounts; which rows come back is a data permission of its own.',
    service: 'accounts',
    access: 'read',
    risk: 'low',
    enforcedAt: 'gateway',
    keywords: 'account customer client company renewal renew book crm list lookup api',
  },
  {
    id: 'accounts:write',
    kind: 'api',
    title: 'Accounts API · Write',
    description: 'Change accounts: owner, segment and renewal date.',
    service: 'accounts',
    access: 'write',
    risk: 'medium',
    enforcedAt: 'gateway',
    keywords: 'account customer client edit update change owner segment crm api',
  },
  {
    id: 'accounts.rows:my_region',
    kind: 'data',
    title: 'Accounts in my region',
    description:
      'See the accounts of the person’s own region, with owner, segment, renewal date and yearly revenue.',
    service: 'accounts',
    access: 'read',
    risk: 'medium',
    enforcedAt: 'data',
    keywords:
      'account customer client rows records renewal renew due quarter arr revenue territory region',
    data: { entity: 'account', rows: { region: { $user: 'region' } }, fields: ACCOUNT_FIELDS },
  },
  {
    id: 'accounts.rows:all',
    kind: 'data',
    title: 'Accounts in all regions',
    description: 'See every account of the organisation, in all regions.',
    service: 'accounts',
    access: 'read',
    risk: 'high',
    enforcedAt: 'data',
    keywords: 'account customer client rows records whole book everything global worldwide',
    data: { entity: 'account', rows: { id: { $ne: '' } }, fields: ACCOUNT_FIELDS },
  },
]

const DASHBOARDS: readonly DemoPermission[] = [
  {
    id: 'dashboard:view',
    kind: 'asset',
    title: 'Dashboard · View',
    description: 'Open one dashboard and read its figures.',
    service: 'dashboards',
    access: 'read',
    risk: 'low',
    enforcedAt: 'asset',
    keywords: 'dashboard report chart pipeline forecast figures quarter renewal open look',
    asset: { type: 'dashboard' },
  },
  {
    id: 'dashboard:edit',
    kind: 'asset',
    title: 'Dashboard · Edit',
    description: 'Change what one dashboard shows.',
    service: 'dashboards',
    access: 'write',
    risk: 'medium',
    enforcedAt: 'asset',
    keywords: 'dashboard report chart change layout',
    asset: { type: 'dashboard' },
  },
]

const CONTRACTS: readonly DemoPermission[] = [
  {
    id: 'contracts:read',
    kind: 'api',
    title: 'Contracts API · Read',
    description: 'Call the Contracts API to see which contracts exist and when they end.',
    service: 'contracts',
    access: 'read',
    risk: 'low',
    enforcedAt: 'gateway',
    keywords: 'contract agreement term end date renewal customer client api',
  },
  {
    id: 'contracts.fields:pricing',
    kind: 'data',
    title: 'Contract pricing',
    description: 'See list price, discount and net price of a contract.',
    service: 'contracts',
    access: 'read',
    risk: 'high',
    sensitive: true,
    enforcedAt: 'data',
    keywords: 'contract price pricing pay paid quote cost discount rate money commercial terms',
    data: {
      entity: 'contract',
      rows: { id: { $ne: '' } },
      fields: ['id', 'account_id', 'list_price', 'discount', 'net_price'],
    },
  },
]

const MAIL: readonly DemoPermission[] = [
  {
    id: 'email:send',
    kind: 'tool',
    title: 'Send email to customers',
    description: 'Send an email to addresses of one domain outside the organisation.',
    service: 'mail',
    access: 'write',
    risk: 'high',
    enforcedAt: 'tool_gateway',
    keywords: 'email mail message send write out outbound contact customer client quote',
    tool: { tools: ['mail/send_email'], destination: '/to' },
  },
  {
    id: 'email-templates:read',
    kind: 'api',
    title: 'Email templates · Read',
    description: 'Read the saved email templates.',
    service: 'mail',
    access: 'read',
    risk: 'low',
    enforcedAt: 'gateway',
    keywords: 'email mail template draft wording boilerplate',
  },
  {
    id: 'email-templates:write',
    kind: 'api',
    title: 'Email templates · Write',
    description: 'Save and change email templates and drafts; nothing is sent by it.',
    service: 'mail',
    access: 'write',
    risk: 'medium',
    enforcedAt: 'gateway',
    keywords: 'email mail template draft save wording compose',
  },
]

const never = (id: string, title: string, description: string, keywords: string) =>
  ({
    id,
    kind: 'api',
    title,
    description,
    service: 'platform',
    access: 'admin',
    risk: 'high',
    delegable: false,
    enforcedAt: 'gateway',
    keywords,
  }) as const satisfies DemoPermission

const PLATFORM: readonly DemoPermission[] = [
  never(
    'billing:admin',
    'Billing · Admin',
    'Change plans, payment methods and invoices. No agent can ever hold it.',
    'billing invoice payment plan subscription',
  ),
  never(
    'iam:admin',
    'Access administration',
    'Give and take people’s access. No agent can ever hold it.',
    'iam roles groups permissions users administer',
  ),
  never(
    'emergency:access',
    'Emergency access',
    'Break the glass in an incident. No agent can ever hold it.',
    'emergency incident break glass override',
  ),
  never(
    'consent:manage',
    'Agents and consent · Manage',
    'Manage agents and answer for people what agents ask. No agent can ever hold it.',
    'consent approval approve agents rules prompts',
  ),
]

/** In the order of their bits, which never change: new permissions are appended. */
export const DEMO_PERMISSIONS: readonly DemoPermission[] = [
  ...ACCOUNTS,
  ...DASHBOARDS,
  ...CONTRACTS,
  ...MAIL,
  ...PLATFORM,
]

export type DemoEndpoint = {
  readonly service: DemoService
  readonly method: 'GET' | 'POST'
  readonly pattern: string
  readonly access: 'OPEN' | 'AUTHENTICATED' | 'ACCESS_CONTROLLED'
  readonly permissions?: readonly string[]
}

const READ = { access: 'ACCESS_CONTROLLED', permissions: ['accounts:read'] } as const
const WRITE = { access: 'ACCESS_CONTROLLED', permissions: ['email-templates:write'] } as const

/** What a gateway asks for before the services are reached. What objects and rows need, they ask for themselves. */
export const DEMO_ENDPOINTS: readonly DemoEndpoint[] = [
  { service: 'accounts', method: 'GET', pattern: '/health', access: 'OPEN' },
  { service: 'accounts', method: 'GET', pattern: '/accounts', ...READ },
  { service: 'accounts', method: 'GET', pattern: '/accounts/{id}', ...READ },
  { service: 'accounts', method: 'GET', pattern: '/accounts/mine', access: 'AUTHENTICATED' },
  { service: 'dashboards', method: 'GET', pattern: '/dashboards/{id}', access: 'AUTHENTICATED' },
  {
    service: 'contracts',
    method: 'GET',
    pattern: '/contracts/{id}/pricing',
    access: 'AUTHENTICATED',
  },
  { service: 'mail', method: 'POST', pattern: '/templates', ...WRITE },
  { service: 'mail', method: 'POST', pattern: '/send', access: 'AUTHENTICATED' },
]

/** What a demo service's `permissions.json` says: published by the seed, and what its CI would publish again. */
export const demoSlice = (service: string): Slice => ({
  permissions: DEMO_PERMISSIONS.filter((p) => p.service === service).map((p) => ({
    ...{ id: p.id, kind: p.kind, title: p.title, description: p.description, keywords: p.keywords },
    ...{ access: p.access, risk: p.risk },
    sensitive: p.sensitive ?? false,
    delegable: p.delegable ?? true,
    enforced_at: ENFORCED_WHERE[p.kind],
    ...(p.data === undefined ? {} : { data: p.data }),
    ...(p.asset === undefined ? {} : { asset: p.asset }),
    ...(p.tool === undefined ? {} : { tool: p.tool }),
  })),
  endpoints: DEMO_ENDPOINTS.filter((e) => e.service === service).map(
    ({ method, pattern, access, permissions = [] }) => ({ method, pattern, access, permissions }),
  ),
})
