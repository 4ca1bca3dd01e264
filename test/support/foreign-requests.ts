import type { LiveServer } from './live-server.ts'
import type { Victim } from './victim.ts'

/** Requests to each route by which only the tenant is wrong, for the isolation tests. */

/** Filters that say nothing of whose it is. */
export const PLAIN = new Set(
  'limit cursor q kind status effect type from to format permission last_event_id against version days resource mode'.split(
    ' ',
  ),
)

const unlike = () => `x-${crypto.randomUUID().slice(0, 8)}`

/** A body that the route takes, by which only the tenant is wrong. `own`: with ids of the caller's in the path. */
export type Sent = { readonly body: unknown; readonly path?: Readonly<Record<string, string>> }

type Own = Readonly<Record<'group' | 'role' | 'agent' | 'user', string>>

/** Acme's own, for requests of which only a part is foreign. */
export async function ownIds(lend: LiveServer): Promise<Own> {
  const [row] = await lend.rows<Own>(
    `select (select id from user_group where tenant_id = $1 limit 1) as "group",
       (select id from role where tenant_id = $1 limit 1) as role,
       (select id from agent where tenant_id = $1 limit 1) as agent,
       (select id from app_user where tenant_id = $1 limit 1) as "user"`,
    [await lend.tenantId()],
  )
  if (row === undefined) throw new Error('acme has one of each')
  return row
}

export type ForeignRequests = {
  readonly bodies: Readonly<Record<string, () => readonly Sent[]>>
  /** Bodies that can name nothing of a tenant's: what they make is the caller's own. */
  readonly namingNothing: Readonly<Record<string, () => unknown>>
  readonly filters: Readonly<Record<string, string>>
}

export const foreignRequests = (victim: Victim, own: Own): ForeignRequests => ({
  bodies: bodiesOf(victim, own),
  namingNothing: NAMING_NOTHING,
  filters: filtersOf(victim),
})

const bodiesOf = (victim: Victim, own: Own): ForeignRequests['bodies'] => ({
  ...enforcementBodies(victim),
  'POST /t/:tenant/api/sessions': () => [
    { body: { agent_id: victim.agentId, template: 'renewal-briefs' } },
    { body: { agent_id: own.agent, template: victim.template } },
  ],
  'POST /t/:tenant/api/sessions/:id/end': () => [{ body: {} }],
  'PATCH /t/:tenant/api/sessions/:id': () => [{ body: { mode: 'ask' } }],
  'POST /t/:tenant/api/access-requests/:id/decision': () => [
    {
      body: {
        digest: victim.request.digest,
        items: victim.request.items.map((id) => ({ id, decision: 'allow_once' })),
      },
    },
  ],
  'POST /t/:tenant/api/rules': () => [
    { body: { template: victim.template, permission: 'accounts:read', effect: 'ask' } },
  ],
  'POST /t/:tenant/api/template-changes/:template/confirm': () => [{ body: { version: 1 } }],
  'POST /t/:tenant/api/enablements/:template/adopt': () => [{ body: { version: 1 } }],
  'PUT /t/:tenant/api/templates/:id/versions/:n': () => [
    { body: { purpose: 'X', revision: 1 } },
    { body: { purpose: 'X', base: 'published' }, path: { versions: '2' } },
  ],
  'POST /t/:tenant/api/templates/:id/versions/:n/submit': () => [{ body: {} }],
  'POST /t/:tenant/api/templates/:id/versions/:n/withdraw': () => [{ body: {} }],
  'POST /t/:tenant/api/templates/:id/versions/:n/retire': () => [{ body: {} }],
  'POST /t/:tenant/api/templates/:id/versions/:n/review': () => [
    { body: { verdict: 'approve' } },
    { body: { verdict: 'send_back', comment: 'X' } },
  ],
  'PUT /t/:tenant/api/templates/:id/versions/:n/sponsor': () => [{ body: { sponsor: own.user } }],
  'POST /t/:tenant/api/templates/:id/versions/:n/comments': () => [{ body: { body: 'X' } }],
  'POST /t/:tenant/api/templates/:id/versions/:n/try': () => [
    { body: { user: { permissions: [] }, items: [{ permission: 'accounts:read' }] } },
    { body: { user: { login: 'gus' }, items: [{ permission: 'accounts:read' }] } },
  ],
  'PUT /t/:tenant/api/enablements/:template': () => [
    { body: { status: 'on' } },
    { body: { status: 'off' } },
  ],
  'POST /t/:tenant/api/enablements/:template/narrow': () => [
    { body: { remove: [{ permission: 'accounts:read' }] } },
  ],
  'POST /t/:tenant/api/admin/users/:id/permissions': () => [
    { body: { permission: 'accounts:read' } },
  ],
  'PATCH /t/:tenant/api/admin/users/:id': () => [
    { body: { status: 'disabled' } },
    { body: { staff_roles: ['org_admin'] } },
  ],
  'POST /t/:tenant/api/admin/groups': () => [
    { body: { name: unlike(), members: [victim.userId] } },
  ],
  'PATCH /t/:tenant/api/admin/groups/:id': () => [
    { body: { name: unlike() } },
    { body: { members: { remove: [victim.userId] } } },
    { body: { members: { add: [victim.userId] } }, path: { groups: own.group } },
    { body: { members: [victim.userId] }, path: { groups: own.group } },
  ],
  'PATCH /t/:tenant/api/admin/roles/:id': () => [
    { body: { permissions: [{ permission: 'accounts:write' }] } },
  ],
  'POST /t/:tenant/api/admin/assignments': () => [
    { body: { role_id: victim.pathIds.roles, user_id: own.user } },
    { body: { role_id: own.role, user_id: victim.userId } },
    { body: { role_id: own.role, group_id: victim.pathIds.groups } },
    { body: { role_id: victim.pathIds.roles, user_id: victim.userId } },
  ],
  'POST /t/:tenant/api/admin/restrictions': () => [
    { body: { user_id: victim.userId, entity: 'account', masks: ['arr'] } },
    { body: { group_id: victim.pathIds.groups, entity: 'account', masks: ['arr'] } },
  ],
  'PATCH /t/:tenant/api/admin/restrictions/:id': () => [{ body: { masks: [] } }],
  'POST /t/:tenant/api/admin/agents': () => [
    { body: { name: unlike(), templates: [victim.template], app_clients: ['renewal-app'] } },
  ],
  'PATCH /t/:tenant/api/admin/agents/:id': () => [
    { body: { status: 'disabled' } },
    { body: { rotate_secret: true } },
    { body: { templates: [victim.template] }, path: { agents: own.agent } },
  ],
  'PATCH /t/:tenant/api/admin/resource-servers/:id': () => [{ body: { subject: 'user' } }],
  'PATCH /t/:tenant/api/admin/tool-servers/:id': () => [{ body: { status: 'disabled' } }],
  'PATCH /t/:tenant/api/admin/identity-providers/:id': () => [
    { body: { first_party_clients: ['renewal-app'] } },
    { body: { status: 'disabled' } },
  ],
  'PATCH /t/:tenant/api/admin/enforcement-points/:id': () => [
    { body: { status: 'disabled' } },
    { body: { rotate_secret: { overlap_seconds: 0 } } },
  ],
  'PATCH /t/:tenant/api/admin/proxies/:id': () => [
    { body: { status: 'disabled' } },
    { body: { rotate_secret: { overlap_seconds: 60 } } },
  ],
  'POST /t/:tenant/api/admin/proxies/:id/mounts': () => [
    { body: { prefix: '/theirs', service: 'mail' } },
  ],
  'PATCH /t/:tenant/api/admin/service-accounts/:id': () => [
    { body: { status: 'disabled' } },
    { body: { rotate_secret: { overlap_seconds: 0 } } },
  ],
  'POST /t/:tenant/api/admin/service-accounts/:id/permissions': () => [
    { body: { permission: 'accounts:write' } },
  ],
  'POST /t/:tenant/api/freezes': () => [
    { body: { scope: 'user', id: victim.userId } },
    { body: { scope: 'agent', id: victim.agentId } },
    { body: { scope: 'template', id: victim.template } },
    { body: { scope: 'tenant', id: 'globex' } },
  ],
  'PUT /t/:tenant/api/catalog/services/:service': () => [{ body: { permissions: [] } }],
  'POST /t/:tenant/api/catalog/services/:service/diff': () => [{ body: { permissions: [] } }],
  'POST /t/:tenant/api/catalog/services/:service/rollback': () => [{ body: { version: 1 } }],
  'POST /t/:tenant/api/catalog/proposals/:id/review': () => [{ body: { verdict: 'approve' } }],
  'PATCH /t/:tenant/api/admin/services/:id': () => [
    { body: { rotate_secret: true } },
    { body: { status: 'disabled' } },
  ],
})

/** What an enforcement point sends, about a session that is not its tenant's. */
function enforcementBodies(victim: Victim): ForeignRequests['bodies'] {
  const { access_token: token, session_id } = victim.session
  const subject = { type: 'agent_session', id: session_id, properties: { token } }
  const evaluation = {
    subject,
    action: { name: 'dashboard:view' },
    resource: { type: 'dashboard', id: 'globex' },
  }
  const person = { ...evaluation, subject: { type: 'user', id: victim.userId } }
  const call = {
    at: '2026-01-01T00:00:00Z',
    session_id,
    permission: 'accounts:read',
    grant_id: victim.pathIds.grants,
    outcome: 'allowed',
  }
  return {
    'POST /t/:tenant/enforce/calls': () => [{ body: { calls: [call] } }],
    'POST /t/:tenant/enforce/data': () => [{ body: { token, entity: 'account', action: 'read' } }],
    'POST /t/:tenant/access/v1/evaluation': () => [{ body: evaluation }, { body: person }],
    'POST /t/:tenant/access/v1/evaluations': () => [
      { body: { evaluations: [evaluation, person] } },
    ],
    'POST /t/:tenant/access/v1/search/subject': () => [
      { body: { ...evaluation, subject: { type: 'agent_session' } } },
      { body: { ...evaluation, subject: { type: 'user' } } },
    ],
    'POST /t/:tenant/access/v1/search/resource': () => [{ body: evaluation }, { body: person }],
    'POST /t/:tenant/access/v1/search/action': () => [{ body: evaluation }, { body: person }],
  }
}

const NAMING_NOTHING: ForeignRequests['namingNothing'] = {
  'POST /t/:tenant/api/templates': () => ({ name: unlike(), title: 'X' }),
  'POST /t/:tenant/api/templates/validate': () => ({ draft: {} }),
  'POST /t/:tenant/api/admin/users': () => ({
    login: unlike(),
    name: 'X',
    subject: unlike(),
  }),
  'POST /t/:tenant/api/admin/roles': () => ({ name: unlike(), permissions: [] }),
  'POST /t/:tenant/api/admin/resource-servers': () => ({
    resource: `https://${unlike()}.example`,
    name: 'X',
    services: ['accounts'],
  }),
  'POST /t/:tenant/api/admin/enforcement-points': () => ({ name: unlike(), services: ['mail'] }),
  'POST /t/:tenant/api/admin/services': () => ({ id: unlike(), title: 'X' }),
  'POST /t/:tenant/api/admin/tool-servers': () => ({
    name: 'accounts',
    title: 'X',
    url: `https://${unlike()}.example/mcp`,
  }),
  'POST /t/:tenant/api/admin/proxies': () => ({ name: unlike(), family: 'nginx' }),
  'POST /t/:tenant/api/admin/service-accounts': () => ({ name: unlike() }),
  'POST /t/:tenant/api/admin/identity-providers': () => ({
    issuer: `https://${unlike()}.example`,
    audience: 'https://lend.example',
    first_party_clients: ['web'],
  }),
}

const filtersOf = (victim: Victim): ForeignRequests['filters'] => ({
  session: victim.session.session_id,
  session_id: victim.session.session_id,
  root: victim.session.session_id,
  root_id: victim.session.session_id,
  user: victim.userId,
  user_id: victim.userId,
  agent: victim.agentId,
  agent_id: victim.agentId,
  group_id: victim.pathIds.groups ?? '',
  role_id: victim.pathIds.roles ?? '',
  template: victim.template,
  login: 'gus',
  service: 'accounts',
})
