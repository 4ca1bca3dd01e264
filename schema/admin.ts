import { z } from 'zod'
import { RESOURCE_LENGTH_MAX } from '../src/core/limits.ts'
import { id, name, narrowAsked, templateName, time } from './people.ts'

/** Administration of a tenant (SPEC section 8). Requests are strict; answers are open, so that they can grow. */
export const NAME_LENGTH_MAX = 120
const URL_LENGTH_MAX = 512
const CLIENT_LENGTH_MAX = 255
const MEMBERS_MAX = 5000
const PERMISSIONS_MAX = 500
const LIST_MAX = 100
const ATTRIBUTES_MAX = 50
const VALUES_MAX = 100
const VALUE_LENGTH_MAX = 256

export const STAFF_ROLES = ['org_admin', 'auditor', 'builder', 'reviewer'] as const
export const status = z.enum(['active', 'disabled'])

const distinct = <Item extends z.ZodType<string>>(item: Item, max: number) =>
  z
    .array(item)
    .max(max)
    .refine((list) => new Set(list).size === list.length, { error: 'names one twice' })

const scalar = z.union([name(VALUE_LENGTH_MAX), z.number(), z.boolean()])
/** What `{"$user": "region"}` in a filter stands for. Names are those that a filter can write. */
const attributes = z
  .record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, {
      error: 'must be letters, digits and underscores',
    }),
    z.union([scalar, z.array(scalar).max(VALUES_MAX)]),
  )
  .refine((all) => Object.keys(all).length <= ATTRIBUTES_MAX, {
    error: `has more than ${ATTRIBUTES_MAX} attributes`,
  })

const email = z.email({ error: 'must be an e-mail address' }).max(254)

export const user = z
  .object({
    id: z.string(),
    login: z.string(),
    name: z.string(),
    email: z.string().optional(),
    issuer: z.string(),
    subject: z.string(),
    attributes: z.record(z.string(), z.unknown()),
    staff_roles: z.array(z.string()),
    status,
    created_at: time,
  })
  .meta({ id: 'User' })

export const userNew = z.strictObject({
  login: name(NAME_LENGTH_MAX),
  name: name(NAME_LENGTH_MAX),
  email: email.optional(),
  issuer: name(URL_LENGTH_MAX).optional(),
  subject: name(CLIENT_LENGTH_MAX),
  attributes: attributes.optional(),
  staff_roles: distinct(z.enum(STAFF_ROLES), STAFF_ROLES.length).optional(),
})

/** An empty change is an error: it was meant to change something. */
export const change = <Shape extends z.core.$ZodLooseShape>(shape: Shape) =>
  z.strictObject(shape).refine((patch) => Object.values(patch).some((v) => v !== undefined), {
    error: 'changes nothing',
  })

export const userChange = change({
  status: status.optional(),
  name: name(NAME_LENGTH_MAX).optional(),
  email: email.nullable().optional(),
  attributes: attributes.optional(),
  staff_roles: distinct(z.enum(STAFF_ROLES), STAFF_ROLES.length).optional(),
})

/** Something that a person may do: its resource in canonical form is what is stored and answered. */
export const access = z.strictObject({
  permission: name(128),
  resource: name(RESOURCE_LENGTH_MAX).optional(),
})

export const userPermission = z
  .object({
    id: z.string(),
    permission: z.string(),
    title: z.string(),
    resource: z.string().optional(),
    created_at: time,
  })
  .meta({ id: 'UserPermission' })

export const userAccess = z.object({
  items: z.array(
    z.object({
      permission: z.string(),
      title: z.string(),
      resource: z.string().optional(),
      via: z.object({
        by: z.enum(['direct', 'role', 'group']),
        id: z.string().meta({ description: 'Of the direct permission, the role or the group' }),
        role: z.string().optional(),
        role_id: z.string().optional(),
        group: z.string().optional(),
      }),
    }),
  ),
})

const member = z.object({ id: z.string(), login: z.string(), name: z.string() })
export const groupListed = z.object({
  id: z.string(),
  name: z.string(),
  member_count: z.int(),
  created_at: time,
})
export const group = groupListed.extend({ members: z.array(member) }).meta({ id: 'Group' })

const members = distinct(id, MEMBERS_MAX)
export const groupNew = z.strictObject({
  name: name(NAME_LENGTH_MAX),
  members: members.optional(),
})
export const groupChange = change({
  name: name(NAME_LENGTH_MAX).optional(),
  members: z
    .union([members, z.strictObject({ add: members.optional(), remove: members.optional() })])
    .optional()
    .meta({ description: 'The full list, or who joins and who leaves' }),
})

export const role = z
  .object({
    id: z.string(),
    name: z.string(),
    permissions: z.array(z.object({ permission: z.string(), resource: z.string().optional() })),
    created_at: time,
  })
  .meta({ id: 'Role' })

export const roleNew = z.strictObject({
  name: name(NAME_LENGTH_MAX),
  permissions: z.array(access).max(PERMISSIONS_MAX),
})
export const roleChange = change({
  name: name(NAME_LENGTH_MAX).optional(),
  permissions: z.array(access).max(PERMISSIONS_MAX).optional(),
})

export const assignment = z
  .object({
    id: z.string(),
    role_id: z.string(),
    role: z.string(),
    user_id: z.string().optional(),
    group_id: z.string().optional(),
    created_at: time,
  })
  .meta({ id: 'Assignment' })
export const assignmentNew = z.strictObject({
  role_id: id,
  user_id: id.optional(),
  group_id: id.optional(),
})

const masks = distinct(name(64), LIST_MAX)
export const restriction = z
  .object({
    id: z.string(),
    user_id: z.string().optional(),
    group_id: z.string().optional(),
    entity: z.string(),
    blocks: z.record(z.string(), z.unknown()).optional(),
    masks: z.array(z.string()),
    created_at: time,
  })
  .meta({ id: 'Restriction' })
export const restrictionNew = z.strictObject({
  user_id: id.optional(),
  group_id: id.optional(),
  entity: name(64),
  blocks: narrowAsked.optional().meta({ description: 'Rows that match are never seen' }),
  masks: masks.optional().meta({ description: 'Fields that are never seen; * is all of them' }),
})
export const restrictionChange = change({
  blocks: narrowAsked.nullable().optional(),
  masks: masks.optional(),
})

const clientId = name(CLIENT_LENGTH_MAX)
type Jwks = { readonly [name: string]: unknown }
const isJwks = (value: unknown): value is Jwks =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
/** Its keys are checked one by one when it is registered. */
export const jwks = z.custom<Jwks>(isJwks, { error: 'must be a JWK set' }).meta({ type: 'object' })

export const agent = z
  .object({
    id: z.string(),
    name: z.string(),
    status,
    templates: z.array(z.string()),
    app_clients: z.array(z.string()),
    jwks: z.record(z.string(), z.unknown()).optional(),
    has_secret: z.boolean(),
    previous_secret_until: time
      .optional()
      .meta({ description: 'Until when the secret before this one still opens' }),
    created_at: time,
  })
  .meta({ id: 'Agent' })
/** The secret is answered by the call that makes it and never again, not even to a repeat of that call. */
export const agentMade = agent.extend({ client_secret: z.string().optional() })

const OVERLAP_SECONDS_MAX = 7 * 24 * 3600
/** A new secret, answered once; for how long the one that it replaces still opens. */
export const rotation = z
  .strictObject({ overlap_seconds: z.int().min(0).max(OVERLAP_SECONDS_MAX) })
  .meta({ description: 'Replaces the secret; 0 closes the old one at once' })

const templates = distinct(templateName, LIST_MAX)
const apps = distinct(clientId, LIST_MAX).meta({
  description: 'Client ids, at the identity provider, of the apps whose users it may work for',
})
export const agentNew = z.strictObject({
  name: name(NAME_LENGTH_MAX),
  templates,
  app_clients: apps,
  jwks: jwks.optional().meta({ description: 'Without keys a client secret is made' }),
})
export const agentChange = change({
  status: status.optional(),
  templates: templates.optional(),
  app_clients: apps.optional(),
  jwks: jwks.nullable().optional(),
  rotate_secret: z
    .union([z.literal(true), rotation])
    .optional()
    .meta({ description: 'A new secret, answered once; true closes the old one at once' }),
  remove_secret: z.literal(true).optional(),
})

const services = distinct(name(64), LIST_MAX)

const subject = z.enum(['session', 'user'])
export const resourceServer = z
  .object({
    id: z.string(),
    resource: z.string(),
    name: z.string(),
    subject,
    services: z.array(z.string()),
    created_at: time,
  })
  .meta({ id: 'ResourceServer' })
export const resourceServerNew = z.strictObject({
  resource: name(URL_LENGTH_MAX),
  name: name(NAME_LENGTH_MAX),
  subject: subject.default('session'),
  services,
})
export const resourceServerChange = change({
  name: name(NAME_LENGTH_MAX).optional(),
  subject: subject.optional(),
  services: services.optional(),
})

/** A header's value, as it is sent: visible ASCII, and spaces between. */
const credential = z
  .string()
  .min(1)
  .max(4096)
  .regex(/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/, {
    error: 'must be visible ASCII characters, as in Bearer abc',
  })
  .meta({ description: 'The value of the header, as it is sent. Written, never read' })
const headerName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,63}$/, { error: 'must be a header in small letters, as in x-api-key' })
export const toolServer = z
  .object({
    id: z.string(),
    name: z.string(),
    title: z.string(),
    url: z.string(),
    mcp: z
      .string()
      .meta({ description: 'Where sessions reach it, and the audience of its tokens' }),
    credential_header: z.string(),
    has_credential: z.boolean(),
    private_network: z.boolean(),
    status,
    created_at: time,
  })
  .meta({ id: 'ToolServer' })
export const toolServerNew = z.strictObject({
  name: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
    error: 'must be a service in small letters, digits and hyphens',
  }),
  title: name(NAME_LENGTH_MAX),
  url: name(URL_LENGTH_MAX),
  credential_header: headerName.optional(),
  credential: credential.optional(),
  private_network: z.boolean().optional(),
})
export const toolServerChange = change({
  title: name(NAME_LENGTH_MAX).optional(),
  url: name(URL_LENGTH_MAX).optional(),
  credential_header: headerName.optional(),
  credential: credential.nullable().optional(),
  private_network: z.boolean().optional(),
  status: status.optional(),
})

export const enforcementPoint = z
  .object({
    id: z.string(),
    client_id: z.string(),
    name: z.string(),
    services: z.array(z.string()),
    /** May ask through AuthZEN what a person themselves may do, not only what a session holds. */
    asks_about_users: z.boolean(),
    status,
    /** When the secret before this one stops opening; absent when it has. */
    previous_secret_until: time.optional(),
    created_at: time,
  })
  .meta({ id: 'EnforcementPoint' })
export const enforcementPointMade = enforcementPoint.extend({
  client_secret: z.string().optional(),
})
export const enforcementPointNew = z.strictObject({
  name: name(NAME_LENGTH_MAX),
  services,
  asks_about_users: z.boolean().optional(),
})
export const enforcementPointChange = change({
  name: name(NAME_LENGTH_MAX).optional(),
  services: services.optional(),
  asks_about_users: z.boolean().optional(),
  status: status.optional(),
  rotate_secret: rotation.optional(),
})

export const identityProvider = z
  .object({
    id: z.string(),
    issuer: z.string(),
    audience: z.string(),
    first_party_clients: z.array(z.string()),
    creates_users: z.boolean(),
    private_network: z.boolean(),
    web_client_id: z.string().optional(),
    has_web_client_secret: z.boolean(),
    status,
    created_at: time,
  })
  .meta({ id: 'IdentityProvider' })
const clients = distinct(clientId, LIST_MAX)
const webClientId = clientId.meta({
  description:
    'Lend’s own client there, with which people sign in to the web page; one of first_party_clients',
})
/** Of what OAuth allows in a client secret (RFC 6749 appendix A.2). It is never answered. */
const webClientSecret = z
  .string()
  .regex(/^[\x20-\x7e]{1,512}$/, { error: 'must be 1 to 512 printable ASCII characters' })
  .meta({ writeOnly: true, maxLength: 512 })
export const identityProviderNew = z.strictObject({
  issuer: name(URL_LENGTH_MAX),
  audience: name(CLIENT_LENGTH_MAX),
  first_party_clients: clients,
  creates_users: z.boolean().optional(),
  private_network: z.boolean().optional(),
  web_client_id: webClientId.optional(),
  web_client_secret: webClientSecret.optional(),
})
export const identityProviderChange = change({
  audience: name(CLIENT_LENGTH_MAX).optional(),
  first_party_clients: clients.optional(),
  creates_users: z.boolean().optional(),
  private_network: z.boolean().optional(),
  web_client_id: webClientId
    .nullable()
    .optional()
    .meta({ description: 'null: nobody signs in to the web page here any more' }),
  web_client_secret: webClientSecret.optional(),
  status: status.optional(),
})
