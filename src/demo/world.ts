import { LIMITS } from '../core/limits.ts'
import type { Item, Limits, Mode } from '../core/vocabulary.ts'
import type { DemoService } from './catalog.ts'

/**
 * The demo world of SPEC section 12 as data: its tenants and people, the templates that studio
 * publishes, and what each customer made of them. Secrets are never here: they are random for each
 * installation.
 */
export type DemoPersonData = {
  readonly login: string
  readonly name: string
  readonly email: string
  /** What the demo identity provider calls the person. */
  readonly subject: string
  readonly staffRoles: readonly ('org_admin' | 'auditor' | 'builder' | 'reviewer')[]
  readonly region?: 'emea' | 'amer' | 'apac'
  readonly accountManager?: true
}

export type DemoAgentData = {
  readonly name: string
  readonly appClients: readonly string[]
  readonly templates: readonly string[]
}

export type DemoEnablementData = {
  readonly template: string
  readonly version: number
  readonly modes: readonly Mode[]
  /** Ceiling items that the tenant removed. */
  readonly removed: readonly string[]
}

export type DemoTenantData = {
  readonly slug: string
  readonly name: string
  readonly users: readonly DemoPersonData[]
  readonly agents: readonly DemoAgentData[]
  readonly enablements: readonly DemoEnablementData[]
  /** Each is a client with a secret of its own that answers for these services. */
  readonly enforcementPoints: readonly {
    readonly name: string
    readonly services: readonly string[]
  }[]
  readonly resourceServers: readonly DemoResourceServerData[]
  /** Reverse proxies that ask forward-auth, and below which path each exposes which service. */
  readonly proxies: readonly {
    readonly name: string
    readonly mounts: Readonly<Record<string, DemoService>>
  }[]
}

export type DemoResourceServerData = {
  /** Below the public URL. */
  readonly path: string
  readonly name: string
  readonly services: readonly string[]
  readonly subject: 'session' | 'user'
}

const person = (
  tenant: string,
  login: string,
  name: string,
  more: Partial<DemoPersonData> = {},
): DemoPersonData => ({
  login,
  name,
  email: `${login}@${tenant}.example`,
  subject: `${tenant}-${login}`,
  staffRoles: [],
  ...more,
})

/** The enforcement point whose credentials the demo's services share. */
export const DEMO_SERVICES_POINT = 'Demo services'
const EVERY_SERVICE = ['accounts', 'dashboards', 'contracts', 'mail', 'platform'] as const

const RESOURCE_SERVERS: readonly DemoResourceServerData[] = [
  { path: '/demo/accounts', name: 'Accounts API', services: ['accounts'], subject: 'session' },
  { path: '/demo/dashboards', name: 'Dashboards', services: ['dashboards'], subject: 'session' },
  { path: '/demo/contracts', name: 'Contracts', services: ['contracts'], subject: 'session' },
  { path: '/demo/mail', name: 'Mail', services: ['mail'], subject: 'session' },
  // An older program that looks people up by `sub` (SPEC section 6): its tokens name the user
  // there.
  { path: '/demo/reports', name: 'Reports', services: ['accounts'], subject: 'user' },
]

const PROXIES: DemoTenantData['proxies'] = [
  {
    name: 'Demo gateway',
    mounts: {
      '/demo/accounts': 'accounts',
      '/demo/dashboards': 'dashboards',
      '/demo/contracts': 'contracts',
      '/demo/mail': 'mail',
    },
  },
]

const RENEWAL_ASSISTANT: DemoAgentData = {
  name: 'Renewal assistant',
  appClients: ['renewal-app'],
  templates: ['renewal-briefs'],
}

const ALL_MODES: readonly Mode[] = ['ask', 'auto', 'bypass']
const PRICING = 'contracts.fields:pricing'

export const DEMO_TENANTS: readonly DemoTenantData[] = [
  {
    slug: 'acme',
    name: 'Acme',
    users: [
      person('acme', 'maya', 'Maya Ortiz', { region: 'emea', accountManager: true }),
      person('acme', 'adam', 'Adam Novak', { staffRoles: ['org_admin'] }),
      person('acme', 'cleo', 'Cleo Brandt', { staffRoles: ['auditor'] }),
      person('acme', 'omar', 'Omar Haddad', { region: 'amer', accountManager: true }),
    ],
    agents: [
      RENEWAL_ASSISTANT,
      // Registered with another app, so that it cannot exchange tokens of the renewal app's users.
      {
        name: 'Drafting assistant',
        appClients: ['drafting-app'],
        templates: ['email-drafter'],
      },
    ],
    enablements: [
      { template: 'renewal-briefs', version: 3, modes: ALL_MODES, removed: [] },
      { template: 'email-drafter', version: 1, modes: ALL_MODES, removed: [] },
    ],
    enforcementPoints: [{ name: DEMO_SERVICES_POINT, services: EVERY_SERVICE }],
    resourceServers: RESOURCE_SERVERS,
    proxies: PROXIES,
  },
  {
    slug: 'globex',
    name: 'Globex',
    users: [
      person('globex', 'gus', 'Gus Lindqvist', {
        staffRoles: ['org_admin'],
        region: 'emea',
        accountManager: true,
      }),
    ],
    agents: [RENEWAL_ASSISTANT],
    enablements: [
      { template: 'renewal-briefs', version: 3, modes: ['ask', 'auto'], removed: [PRICING] },
      { template: 'email-drafter', version: 1, modes: ['ask', 'auto'], removed: [PRICING] },
    ],
    enforcementPoints: [{ name: DEMO_SERVICES_POINT, services: EVERY_SERVICE }],
    resourceServers: RESOURCE_SERVERS,
    proxies: PROXIES,
  },
  {
    slug: 'studio',
    name: 'Studio',
    users: [
      person('studio', 'bo', 'Bo Tanaka', { staffRoles: ['builder'] }),
      person('studio', 'rhea', 'Rhea Okafor', { staffRoles: ['reviewer'] }),
      person('studio', 'ines', 'Ines Duarte', { staffRoles: ['org_admin'] }),
    ],
    agents: [],
    enablements: [],
    // The deployment's operator: each service publishes its slice of the catalog with a client of
    // its own.
    enforcementPoints: EVERY_SERVICE.map((service) => ({
      name: `${service} publisher`,
      services: [service],
    })),
    resourceServers: [],
    proxies: [],
  },
]

/** The tenant whose people publish the demo's templates and catalog. */
export const DEMO_OPERATOR = 'studio'

/** What an account manager may do, by way of a role that a group has. */
export const ACCOUNT_MANAGER_ROLE = 'account-manager'
export const ACCOUNT_MANAGERS_GROUP = 'account-managers'
export const ACCOUNT_MANAGER_ACCESS: readonly Item[] = [
  { permission: 'accounts:read' },
  { permission: 'accounts.rows:my_region' },
  { permission: PRICING },
  { permission: 'email-templates:write' },
  { permission: 'email:send', resource: 'domain/*' },
]
/** Always applies to that group's people and cannot be requested (I14). */
export const ACCOUNT_MANAGER_MASK = { entity: 'account', masks: ['phone'] } as const

/** Given to one person directly, so that an admin can take it away alone. */
export const DIRECT_PERMISSIONS: readonly (Item & { tenant: string; login: string })[] = [
  {
    tenant: 'acme',
    login: 'maya',
    permission: 'dashboard:view',
    resource: 'dashboard/q3-pipeline',
  },
]

export type DemoVersionData = {
  readonly version: number
  readonly status: 'published' | 'retired'
  readonly purpose: string
  readonly ceiling: readonly Item[]
  readonly context: string
  readonly modes: readonly Mode[]
  readonly limits: Limits
  readonly children: readonly { readonly template: string; readonly version: number }[]
  readonly sensitive: readonly Item[]
}

export type DemoTemplateData = {
  readonly name: string
  readonly title: string
  readonly versions: readonly DemoVersionData[]
}

const ACCOUNTS_OF_MY_REGION: readonly Item[] = [
  { permission: 'accounts:read' },
  { permission: 'accounts.rows:my_region' },
]
const DASHBOARDS: Item = { permission: 'dashboard:view', resource: 'dashboard/*' }
const BRIEFS_PURPOSE =
  'Prepares short briefs on the accounts that are up for renewal, for an account manager.'

const BRIEFS_CONTEXT = `Before each step, work out the smallest access that the step needs and ask for that alone.
Narrow account rows to the renewal window you were asked about; the whole region is rarely needed.
Reading is enough for a brief. Write access belongs to the drafting subagent.
Contract pricing is sensitive: ask for it only when the person has asked about price, and say so in your reason.
Ask for one mail domain at a time, and only for an email that the person has told you to send.
Give each thing back as soon as the step that needed it is done, and end the session with the work.
If something is refused, say what you could not do and carry on with the rest. Do not ask again in other words.`

const DRAFTER_CONTEXT = `You write drafts for another agent that has already gathered the facts. Work with what you inherited.
Ask for write access to email templates once, when the first draft is ready to be saved.
Do not ask for contract pricing unless the draft must quote a price that the person wants in it.
You never send anything. End your session when the drafts are saved.`

export const DEMO_TEMPLATES: readonly DemoTemplateData[] = [
  {
    name: 'email-drafter',
    title: 'Email drafter',
    versions: [
      {
        version: 1,
        status: 'published',
        purpose: 'Drafts customer emails from a brief and saves them as email templates.',
        ceiling: [
          { permission: 'email-templates:write' },
          ...ACCOUNTS_OF_MY_REGION,
          DASHBOARDS,
          { permission: PRICING },
        ],
        context: DRAFTER_CONTEXT,
        modes: ALL_MODES,
        limits: LIMITS,
        children: [],
        sensitive: [{ permission: PRICING }],
      },
    ],
  },
  {
    name: 'renewal-briefs',
    title: 'Renewal briefs',
    versions: [
      {
        version: 1,
        status: 'retired',
        purpose: BRIEFS_PURPOSE,
        ceiling: ACCOUNTS_OF_MY_REGION,
        context: 'Ask for the fewest accounts that the brief needs, and give them back after it.',
        modes: ['ask'],
        limits: LIMITS,
        children: [],
        sensitive: [],
      },
      {
        version: 2,
        status: 'published',
        purpose: BRIEFS_PURPOSE,
        ceiling: [...ACCOUNTS_OF_MY_REGION, DASHBOARDS, { permission: PRICING }],
        context:
          'Ask for the fewest accounts that the brief needs, and give them back after it.\nAsk for pricing only when the person asks about price.',
        modes: ['ask', 'auto'],
        limits: LIMITS,
        children: [],
        sensitive: [{ permission: PRICING }],
      },
      {
        version: 3,
        status: 'published',
        purpose: BRIEFS_PURPOSE,
        ceiling: [
          ...ACCOUNTS_OF_MY_REGION,
          DASHBOARDS,
          { permission: PRICING },
          { permission: 'email:send', resource: 'domain/*' },
        ],
        context: BRIEFS_CONTEXT,
        modes: ALL_MODES,
        limits: LIMITS,
        children: [{ template: 'email-drafter', version: 1 }],
        sensitive: [{ permission: PRICING }],
      },
    ],
  },
]

/**
 * What the web page shows before anybody has signed in: whom one can be. No secret: the demo's
 * passwords are the logins.
 */
export const demoWebConfig = () => ({
  demo: true,
  tenants: DEMO_TENANTS.map(({ slug, name, users }) => ({
    slug,
    name,
    people: users.map((user) => ({ login: user.login, name: user.name })),
  })),
})

/** The organisations whose people can use the demo's agent app, and which of their agents it runs. */
export const DEMO_APP_TENANTS: readonly string[] = ['acme', 'globex']
export const DEMO_APP_AGENT = 'Renewal assistant'

/** Where a browser goes once it is signed in to Lend: the agent app signs the person in too, against the same session. */
export const afterDemoSignIn = (tenant: { readonly slug: string }, returnTo: string): string =>
  DEMO_APP_TENANTS.includes(tenant.slug)
    ? `/app/t/${tenant.slug}/auth/login?return_to=${encodeURIComponent(returnTo)}`
    : returnTo
