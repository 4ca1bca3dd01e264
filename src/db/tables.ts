import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  customType,
  date,
  doublePrecision,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
} from 'drizzle-orm/pg-core'

/**
 * The tables as Drizzle sees them. The truth, constraints and triggers included, is the SQL in `drizzle/`; a test
 * compares the two column by column.
 */
const xid8 = customType<{ data: string }>({ dataType: () => 'xid8' })

export const tenant = pgTable('tenant', {
  id: text('id').primaryKey(),
  slug: text('slug').notNull(),
  name: text('name').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const service = pgTable('service', {
  id: text('id').primaryKey(),
  title: text('title').notNull(),
})

export const registry = pgTable('registry', {
  version: integer('version').primaryKey(),
  serviceId: text('service_id').notNull(),
  publishedAt: timestamp('published_at', { withTimezone: true, precision: 3 }).notNull(),
  publishedBy: text('published_by').notNull(),
  slice: jsonb('slice'),
  how: text('how').notNull().default('published'),
})

export const operatorTenant = pgTable('operator_tenant', {
  onlyRow: boolean('only_row').primaryKey().default(true),
  tenantId: text('tenant_id').notNull(),
})

export const serviceClient = pgTable('service_client', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  serviceId: text('service_id').notNull(),
  secretHash: text('secret_hash'),
  previousSecretHash: text('previous_secret_hash'),
  previousSecretUntil: timestamp('previous_secret_until', { withTimezone: true, precision: 3 }),
  jwks: jsonb('jwks'),
  status: text('status').notNull().default('active'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const catalogProposal = pgTable('catalog_proposal', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  serviceId: text('service_id').notNull(),
  slice: jsonb('slice').notNull(),
  changes: jsonb('changes').notNull(),
  status: text('status').notNull().default('open'),
  proposedBy: text('proposed_by').notNull(),
  proposedHow: text('proposed_how').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  version: integer('version'),
  reviewedBy: text('reviewed_by'),
  reviewedAt: timestamp('reviewed_at', { withTimezone: true, precision: 3 }),
  comment: text('comment'),
})

export const permission = pgTable('permission', {
  id: text('id').primaryKey(),
  kind: text('kind').notNull(),
  title: text('title').notNull(),
  description: text('description').notNull(),
  serviceId: text('service_id').notNull(),
  access: text('access').notNull(),
  risk: text('risk').notNull(),
  sensitive: boolean('sensitive').notNull().default(false),
  delegable: boolean('delegable').notNull().default(true),
  enforcedAt: text('enforced_at').notNull(),
  bit: integer('bit').notNull(),
  keywords: text('keywords').notNull().default(''),
  data: jsonb('data'),
  asset: jsonb('asset'),
  tool: jsonb('tool'),
  registryVersion: integer('registry_version').notNull(),
  retired: boolean('retired').notNull().default(false),
})

export const template = pgTable('template', {
  id: text('id').primaryKey(),
  name: text('name').notNull(),
  title: text('title').notNull(),
  tenantId: text('tenant_id').notNull(),
  visibility: text('visibility').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const templateVersion = pgTable(
  'template_version',
  {
    templateId: text('template_id').notNull(),
    version: integer('version').notNull(),
    status: text('status').notNull(),
    purpose: text('purpose').notNull(),
    ceiling: jsonb('ceiling').notNull(),
    context: text('context').notNull(),
    modes: text('modes').array().notNull(),
    limits: jsonb('limits').notNull(),
    children: jsonb('children').notNull(),
    sensitive: jsonb('sensitive').notNull(),
    sponsor: text('sponsor'),
    author: text('author').notNull(),
    reviewer: text('reviewer'),
    publishedAt: timestamp('published_at', { withTimezone: true, precision: 3 }),
    tenantId: text('tenant_id').notNull(),
    revision: integer('revision').notNull().default(1),
    baseVersion: integer('base_version'),
    updatedAt: timestamp('updated_at', { withTimezone: true, precision: 3 }),
    submittedAt: timestamp('submitted_at', { withTimezone: true, precision: 3 }),
    retiredAt: timestamp('retired_at', { withTimezone: true, precision: 3 }),
    currentSponsor: text('current_sponsor'),
    justifications: jsonb('justifications').notNull().default([]),
  },
  (t) => [primaryKey({ columns: [t.templateId, t.version] })],
)

export const templateAuthor = pgTable(
  'template_author',
  {
    tenantId: text('tenant_id').notNull(),
    templateId: text('template_id').notNull(),
    version: integer('version').notNull(),
    userId: text('user_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.templateId, t.version, t.userId] })],
)

export const templateComment = pgTable('template_comment', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  templateId: text('template_id').notNull(),
  version: integer('version').notNull(),
  userId: text('user_id').notNull(),
  kind: text('kind').notNull(),
  item: jsonb('item'),
  body: text('body').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const identityProvider = pgTable('identity_provider', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  issuer: text('issuer').notNull(),
  audience: text('audience').notNull(),
  firstPartyClients: text('first_party_clients').array().notNull(),
  webClientId: text('web_client_id'),
  webClientSecret: text('web_client_secret'),
  sealedWebClientSecret: text('sealed_web_client_secret'),
  createsUsers: boolean('creates_users').notNull().default(false),
  privateNetwork: boolean('private_network').notNull().default(false),
  status: text('status').notNull().default('active'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const appUser = pgTable('app_user', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  issuer: text('issuer').notNull(),
  subject: text('subject').notNull(),
  login: text('login').notNull(),
  name: text('name').notNull(),
  email: text('email'),
  attributes: jsonb('attributes').notNull().default({}),
  staffRoles: text('staff_roles').array().notNull().default([]),
  status: text('status').notNull().default('active'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const userGroup = pgTable('user_group', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const groupMember = pgTable(
  'group_member',
  {
    tenantId: text('tenant_id').notNull(),
    groupId: text('group_id').notNull(),
    userId: text('user_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.groupId, t.userId] })],
)

export const role = pgTable('role', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const rolePermission = pgTable('role_permission', {
  roleId: text('role_id').notNull(),
  permissionId: text('permission_id').notNull(),
  resource: text('resource'),
})

export const roleAssignment = pgTable('role_assignment', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  roleId: text('role_id').notNull(),
  userId: text('user_id'),
  groupId: text('group_id'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const userPermission = pgTable('user_permission', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  userId: text('user_id').notNull(),
  permissionId: text('permission_id').notNull(),
  resource: text('resource'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const restriction = pgTable('restriction', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  userId: text('user_id'),
  groupId: text('group_id'),
  entity: text('entity').notNull(),
  blocks: jsonb('blocks'),
  masks: text('masks').array().notNull().default([]),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const agent = pgTable('agent', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  status: text('status').notNull().default('active'),
  secretHash: text('secret_hash'),
  previousSecretHash: text('previous_secret_hash'),
  previousSecretUntil: timestamp('previous_secret_until', { withTimezone: true, precision: 3 }),
  jwks: jsonb('jwks'),
  appClients: text('app_clients').array().notNull(),
  templateIds: text('template_ids').array().notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const clientAssertion = pgTable(
  'client_assertion',
  {
    tenantId: text('tenant_id').notNull(),
    clientId: text('client_id').notNull(),
    jti: text('jti').notNull(),
    expiresAt: timestamp('expires_at', { withTimezone: true, precision: 3 }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.tenantId, t.clientId, t.jti] })],
)

export const resourceServer = pgTable('resource_server', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  resource: text('resource').notNull(),
  name: text('name').notNull(),
  subject: text('subject').notNull().default('session'),
  services: text('services').array().notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const toolServer = pgTable('tool_server', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  title: text('title').notNull(),
  url: text('url').notNull(),
  credentialHeader: text('credential_header').notNull().default('authorization'),
  sealedCredential: text('sealed_credential'),
  privateNetwork: boolean('private_network').notNull().default(false),
  status: text('status').notNull().default('active'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const enforcementPoint = pgTable('enforcement_point', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  secretHash: text('secret_hash').notNull(),
  services: text('services').array().notNull(),
  asksAboutUsers: boolean('asks_about_users').notNull().default(false),
  status: text('status').notNull().default('active'),
  previousSecretHash: text('previous_secret_hash'),
  previousSecretUntil: timestamp('previous_secret_until', { withTimezone: true, precision: 3 }),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const serviceAccount = pgTable('service_account', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  status: text('status').notNull().default('active'),
  version: integer('version').notNull().default(1),
  secretHash: text('secret_hash'),
  previousSecretHash: text('previous_secret_hash'),
  previousSecretUntil: timestamp('previous_secret_until', { withTimezone: true, precision: 3 }),
  jwks: jsonb('jwks'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const serviceAccountPermission = pgTable('service_account_permission', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  serviceAccountId: text('service_account_id').notNull(),
  permissionId: text('permission_id').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const enablement = pgTable(
  'enablement',
  {
    tenantId: text('tenant_id').notNull(),
    templateId: text('template_id').notNull(),
    status: text('status').notNull(),
    adoptedVersion: integer('adopted_version').notNull(),
    kept: jsonb('kept').notNull(),
    modes: text('modes').array().notNull(),
    limits: jsonb('limits').notNull(),
    updatedAt: timestamp('updated_at', { withTimezone: true, precision: 3 }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.tenantId, t.templateId] })],
)

export const frozen = pgTable('frozen', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  scope: text('scope').notNull(),
  targetId: text('target_id').notNull(),
  createdBy: text('created_by').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const signingKey = pgTable('signing_key', {
  kid: text('kid').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  alg: text('alg').notNull(),
  privateJwk: jsonb('private_jwk'),
  sealedPrivateJwk: text('sealed_private_jwk'),
  publicJwk: jsonb('public_jwk').notNull(),
  status: text('status').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  retiredAt: timestamp('retired_at', { withTimezone: true, precision: 3 }),
})

export const sessionTransition = pgTable(
  'session_transition',
  {
    fromStatus: text('from_status').notNull(),
    toStatus: text('to_status').notNull(),
  },
  (t) => [primaryKey({ columns: [t.fromStatus, t.toStatus] })],
)

export const session = pgTable('session', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  rootId: text('root_id').notNull(),
  parentId: text('parent_id'),
  depth: integer('depth').notNull(),
  userId: text('user_id').notNull(),
  agentId: text('agent_id').notNull(),
  templateId: text('template_id').notNull(),
  templateVersion: integer('template_version').notNull(),
  mode: text('mode').notNull(),
  modeExpiresAt: timestamp('mode_expires_at', { withTimezone: true, precision: 3 }),
  status: text('status').notNull().default('active'),
  endReason: text('end_reason'),
  readOnly: boolean('read_only').notNull().default(false),
  version: integer('version').notNull().default(1),
  task: text('task'),
  refreshHash: text('refresh_hash'),
  claimedAt: timestamp('claimed_at', { withTimezone: true, precision: 3 }),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  expiresAt: timestamp('expires_at', { withTimezone: true, precision: 3 }).notNull(),
  endedAt: timestamp('ended_at', { withTimezone: true, precision: 3 }),
  chainSeq: integer('chain_seq').notNull().default(0),
  chainHash: text('chain_hash').notNull().default(''),
  requestTimes: doublePrecision('request_times').array().notNull().default([]),
})

export const consentRule = pgTable('consent_rule', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  userId: text('user_id').notNull(),
  templateId: text('template_id').notNull(),
  permissionId: text('permission_id').notNull(),
  resource: text('resource'),
  narrow: jsonb('narrow'),
  effect: text('effect').notNull(),
  status: text('status').notNull().default('active'),
  createdFrom: text('created_from'),
  expiresAt: timestamp('expires_at', { withTimezone: true, precision: 3 }),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const templateChange = pgTable(
  'template_change',
  {
    tenantId: text('tenant_id').notNull(),
    userId: text('user_id').notNull(),
    templateId: text('template_id').notNull(),
    fromVersion: integer('from_version').notNull(),
    fromTerms: jsonb('from_terms').notNull(),
    createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.templateId] })],
)

export const accessRequest = pgTable('access_request', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  sessionId: text('session_id').notNull(),
  rootId: text('root_id').notNull(),
  userId: text('user_id').notNull(),
  reason: text('reason').notNull(),
  digest: text('digest').notNull(),
  status: text('status').notNull(),
  note: text('note'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  expiresAt: timestamp('expires_at', { withTimezone: true, precision: 3 }).notNull(),
  settledAt: timestamp('settled_at', { withTimezone: true, precision: 3 }),
})

export const requestItem = pgTable('request_item', {
  id: text('id').primaryKey(),
  requestId: text('request_id').notNull(),
  sessionId: text('session_id').notNull(),
  position: integer('position').notNull(),
  permissionId: text('permission_id').notNull(),
  resource: text('resource'),
  narrow: jsonb('narrow'),
  sensitive: boolean('sensitive').notNull(),
  askedReason: text('asked_reason'),
  outcome: text('outcome').notNull(),
  decisionReason: text('decision_reason').notNull(),
  ruleId: text('rule_id'),
  answeredBy: text('answered_by'),
  decidedAt: timestamp('decided_at', { withTimezone: true, precision: 3 }),
})

export const accessGrant = pgTable('access_grant', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  sessionId: text('session_id').notNull(),
  sessionStatus: text('session_status').notNull().default('active'),
  permissionId: text('permission_id').notNull(),
  permissionDelegable: boolean('permission_delegable').notNull().default(true),
  resource: text('resource'),
  narrow: jsonb('narrow'),
  readOnly: boolean('read_only').notNull().default(false),
  source: text('source').notNull(),
  sensitive: boolean('sensitive').notNull(),
  ruleId: text('rule_id'),
  requestId: text('request_id'),
  inheritedFrom: text('inherited_from'),
  parentSessionId: text('parent_session_id'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  uses: integer('uses').notNull().default(0),
  lastUsedAt: timestamp('last_used_at', { withTimezone: true, precision: 3 }),
})

export const tenantChain = pgTable('tenant_chain', {
  tenantId: text('tenant_id').primaryKey(),
  seq: integer('seq').notNull().default(0),
  hash: text('hash').notNull().default(''),
})

/** By months; `activity_months` says which parts there are. */
export const activity = pgTable('activity', {
  n: bigint('n', { mode: 'number' }).notNull().generatedAlwaysAsIdentity(),
  id: text('id').notNull(),
  tenantId: text('tenant_id').notNull(),
  chain: text('chain').notNull(),
  seq: integer('seq').notNull(),
  at: timestamp('at', { withTimezone: true, precision: 3 }).notNull(),
  type: text('type').notNull(),
  agentId: text('agent_id'),
  userId: text('user_id'),
  sessionId: text('session_id'),
  rootSessionId: text('root_session_id'),
  template: text('template'),
  data: jsonb('data').notNull(),
  prevHash: text('prev_hash').notNull(),
  hash: text('hash').notNull(),
  xid: xid8('xid').notNull().default(sql`pg_current_xact_id()`),
})

export const activityPermission = pgTable(
  'activity_permission',
  {
    tenantId: text('tenant_id').notNull(),
    permission: text('permission').notNull(),
    n: bigint('n', { mode: 'number' }).notNull(),
    at: timestamp('at', { withTimezone: true, precision: 3 }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.tenantId, t.permission, t.n, t.at] })],
)

export const activityMonths = pgTable('activity_months', {
  part: text('part').primaryKey(),
  starts: timestamp('starts', { withTimezone: true }).notNull(),
  ends: timestamp('ends', { withTimezone: true }).notNull(),
})

export const activityCheckpoint = pgTable('activity_checkpoint', {
  n: integer('n').primaryKey(),
  at: timestamp('at', { withTimezone: true, precision: 3 }).notNull(),
  prevHash: text('prev_hash').notNull(),
  heads: jsonb('heads').notNull(),
  root: text('root').notNull(),
  publicJwk: jsonb('public_jwk').notNull(),
  jws: text('jws').notNull(),
  upto: bigint('upto', { mode: 'number' }).notNull(),
  cut: jsonb('cut'),
})

export const feed = pgTable('feed', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  xid: xid8('xid').notNull().default(sql`pg_current_xact_id()`),
  tenantId: text('tenant_id').notNull(),
  userId: text('user_id'),
  topic: text('topic').notNull(),
  data: jsonb('data').notNull(),
  at: timestamp('at', { withTimezone: true, precision: 3 }).notNull(),
})

export const feedCursor = pgTable('feed_cursor', {
  job: text('job').primaryKey(),
  xid: xid8('xid').notNull(),
  id: bigint('id', { mode: 'number' }).notNull(),
})

export const idempotencyKey = pgTable(
  'idempotency_key',
  {
    tenantId: text('tenant_id').notNull(),
    caller: text('caller').notNull(),
    route: text('route').notNull(),
    key: text('key').notNull(),
    bodyHash: text('body_hash').notNull(),
    response: jsonb('response'),
    createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.tenantId, t.caller, t.route, t.key] })],
)

export const counter = pgTable(
  'counter',
  {
    tenantId: text('tenant_id').notNull(),
    name: text('name').notNull(),
    day: date('day').notNull(),
    count: bigint('count', { mode: 'number' }).notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.tenantId, t.name, t.day] })],
)

export const browserSession = pgTable('browser_session', {
  idHash: text('id_hash').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  userId: text('user_id').notNull(),
  clientId: text('client_id').notNull(),
  providerId: text('provider_id').notNull(),
  idToken: text('id_token').notNull(),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  expiresAt: timestamp('expires_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const signIn = pgTable('sign_in', {
  stateHash: text('state_hash').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  browserHash: text('browser_hash').notNull(),
  providerId: text('provider_id').notNull(),
  codeVerifier: text('code_verifier').notNull(),
  nonce: text('nonce').notNull(),
  returnTo: text('return_to').notNull(),
  expiresAt: timestamp('expires_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const installation = pgTable('installation', {
  name: text('name').primaryKey(),
  value: jsonb('value').notNull(),
})

export const endpoint = pgTable(
  'endpoint',
  {
    serviceId: text('service_id').notNull(),
    method: text('method').notNull(),
    pattern: text('pattern').notNull(),
    access: text('access').notNull(),
  },
  (t) => [primaryKey({ columns: [t.serviceId, t.method, t.pattern] })],
)

export const endpointPermission = pgTable(
  'endpoint_permission',
  {
    serviceId: text('service_id').notNull(),
    method: text('method').notNull(),
    pattern: text('pattern').notNull(),
    permissionId: text('permission_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.serviceId, t.method, t.pattern, t.permissionId] })],
)

export const gatewayProxy = pgTable('gateway_proxy', {
  id: text('id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  secretHash: text('secret_hash').notNull(),
  family: text('family'),
  status: text('status').notNull().default('active'),
  previousSecretHash: text('previous_secret_hash'),
  previousSecretUntil: timestamp('previous_secret_until', { withTimezone: true, precision: 3 }),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
})

export const gatewayMount = pgTable(
  'gateway_mount',
  {
    tenantId: text('tenant_id').notNull(),
    proxyId: text('proxy_id').notNull(),
    prefix: text('prefix').notNull(),
    serviceId: text('service_id').notNull(),
    id: text('id')
      .notNull()
      .unique('mount_id_names_one_mount')
      .default(sql`'mnt_' || replace(gen_random_uuid()::text, '-', '')`),
    createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.proxyId, t.prefix] })],
)

export const gatewayFeed = pgTable('gateway_feed', {
  id: bigint('id', { mode: 'number' }).generatedAlwaysAsIdentity().primaryKey(),
  xid: xid8('xid').notNull().default(sql`pg_current_xact_id()`),
  tenantId: text('tenant_id').notNull(),
  userId: text('user_id'),
  topic: text('topic').notNull(),
  data: jsonb('data').notNull(),
  at: timestamp('at', { withTimezone: true, precision: 3 }).notNull(),
})

export const gatewayFeedTrimmed = pgTable('gateway_feed_trimmed', {
  onlyRow: boolean('only_row').primaryKey().default(true),
  xid: xid8('xid').notNull(),
  id: bigint('id', { mode: 'number' }).notNull(),
})

/** Unlogged, and written by the rate limiter's library. */
export const rateCount = pgTable('rate_count', {
  key: text('key').primaryKey(),
  points: integer('points').notNull().default(0),
  expire: bigint('expire', { mode: 'number' }),
})

export const instanceReport = pgTable('instance_report', {
  instance: text('instance').primaryKey(),
  at: timestamp('at', { withTimezone: true }).notNull(),
  said: jsonb('said').notNull(),
})

export const alertState = pgTable('alert_state', {
  name: text('name').primaryKey(),
  failing: boolean('failing').notNull(),
  changes: integer('changes').notNull(),
  changedAt: timestamp('changed_at', { withTimezone: true }).notNull(),
  told: boolean('told').notNull().default(false),
  tries: integer('tries').notNull().default(0),
  triedAt: timestamp('tried_at', { withTimezone: true }),
})
