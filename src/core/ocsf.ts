import type { ActivityRecord, ActivityType } from './activity.ts'

/**
 * The record as Open Cybersecurity Schema Framework events, version 1.2.0, for whoever collects the events of many products
 * in one place. Nothing is lost: what has no place there goes to `unmapped`, with what the record's own hash is checked by.
 */
export const OCSF_VERSION = '1.2.0'

type Json = { readonly [key: string]: unknown }

const IAM = { category_uid: 3, category_name: 'Identity & Access Management' }
const APPLICATION = { category_uid: 6, category_name: 'Application Activity' }
const CLASSES = {
  authentication: { ...IAM, class_uid: 3002, class_name: 'Authentication' },
  authorize_session: { ...IAM, class_uid: 3003, class_name: 'Authorize Session' },
  entity_management: { ...IAM, class_uid: 3004, class_name: 'Entity Management' },
  api_activity: { ...APPLICATION, class_uid: 6003, class_name: 'API Activity' },
} as const
type Class = keyof typeof CLASSES

/** An activity's number and name; 99 is Other, and then the name is ours. */
type Mapped = readonly [Class, number, string]

const OTHER = 99
const CREATE = 1
const UPDATE = 3
const DELETE = 4

/** The list is closed with ours: a type of record that is not here does not compile. */
const MAPPING: { readonly [Type in ActivityType]: Mapped } = {
  'session.started': ['authentication', 1, 'Logon'],
  'subagent.started': ['authentication', OTHER, 'Start Subagent'],
  'session.ended': ['authentication', 2, 'Logoff'],
  'token.issued': ['authentication', 4, 'Service Ticket Request'],
  'token.refused': ['authentication', 4, 'Service Ticket Request'],
  'login.succeeded': ['authentication', 1, 'Logon'],
  'access.requested': ['authorize_session', OTHER, 'Request Privileges'],
  'access.decided': ['authorize_session', OTHER, 'Decide Request'],
  'grant.created': ['authorize_session', 1, 'Assign Privileges'],
  'grant.ended': ['authorize_session', OTHER, 'Revoke Privileges'],
  'call.allowed': ['api_activity', OTHER, 'Call'],
  'call.denied': ['api_activity', OTHER, 'Call'],
  'rule.created': ['entity_management', CREATE, 'Create'],
  'rule.deleted': ['entity_management', DELETE, 'Delete'],
  'rule.suspended': ['entity_management', UPDATE, 'Update'],
  'rule.confirmed': ['entity_management', UPDATE, 'Update'],
  'mode.changed': ['entity_management', UPDATE, 'Update'],
  'template.created': ['entity_management', CREATE, 'Create'],
  'template.drafted': ['entity_management', UPDATE, 'Update'],
  'template.submitted': ['entity_management', UPDATE, 'Update'],
  'template.withdrawn': ['entity_management', UPDATE, 'Update'],
  'template.sent_back': ['entity_management', UPDATE, 'Update'],
  'template.commented': ['entity_management', UPDATE, 'Update'],
  'template.sponsor_changed': ['entity_management', UPDATE, 'Update'],
  'template.published': ['entity_management', CREATE, 'Create'],
  'template.retired': ['entity_management', UPDATE, 'Update'],
  'enablement.changed': ['entity_management', UPDATE, 'Update'],
  'enablement.adopted': ['entity_management', UPDATE, 'Update'],
  'catalog.published': ['entity_management', UPDATE, 'Update'],
  'catalog.proposed': ['entity_management', OTHER, 'Propose'],
  'catalog.reviewed': ['entity_management', OTHER, 'Review'],
  'freeze.created': ['entity_management', CREATE, 'Create'],
  'freeze.ended': ['entity_management', DELETE, 'Delete'],
  'admin.changed': ['entity_management', UPDATE, 'Update'],
}

const INFORMATIONAL = { severity_id: 1, severity: 'Informational' }
const SUCCESS = { status_id: 1, status: 'Success' }
const FAILURE = { status_id: 2, status: 'Failure' }

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function privilegesOf(data: Json): readonly string[] {
  const items = Array.isArray(data.items) ? (data.items as readonly Json[]) : [data]
  return items.flatMap((item) => text(item.permission) ?? [])
}

const failed = ({ type, data }: ActivityRecord): boolean =>
  type === 'call.denied' || type === 'token.refused' || data.outcome === 'refused'

const userOf = (record: ActivityRecord): Json =>
  record.user_id === undefined
    ? { name: 'unknown', type_id: 0 }
    : { uid: record.user_id, type_id: 1, type: 'User' }

const sessionOf = (record: ActivityRecord): Json =>
  record.session_id === undefined
    ? {}
    : {
        session: {
          uid: record.session_id,
          ...(record.root_session_id === undefined ? {} : { uid_alt: record.root_session_id }),
        },
      }

/** Who acted: the agent for the person, and what allowed or refused it. */
function actorOf(record: ActivityRecord): Json {
  const { agent_id: agent, data } = record
  const reason = text(data.reason)
  const policy = text(data.rule_id) ?? reason
  const decision = failed(record) ? 'Denied' : 'Allowed'
  return {
    user: userOf(record),
    ...sessionOf(record),
    ...(agent === undefined ? {} : { app_uid: agent, app_name: record.template ?? agent }),
    ...(policy === undefined ? {} : { authorizations: [{ decision, policy: { uid: policy } }] }),
  }
}

function callOf(record: ActivityRecord): Json {
  const { data } = record
  const operation = text(data.tool) ?? text(data.target) ?? text(data.permission) ?? 'call'
  const service = text(data.service) ?? text(data.server)
  const resource = text(data.resource)
  return {
    actor: actorOf(record),
    api: { operation, ...(service === undefined ? {} : { service: { name: service } }) },
    src_endpoint: { uid: record.agent_id ?? 'unknown' },
    ...(resource === undefined ? {} : { resources: [{ name: resource }] }),
    ...(typeof data.calls === 'number' ? { count: data.calls } : {}),
  }
}

function entityOf(record: ActivityRecord): Json {
  const { data, type } = record
  const name = text(data.rule_id) ?? text(data.id) ?? record.template ?? record.tenant_id
  return {
    actor: actorOf(record),
    entity: { type: type.split('.')[0], uid: name, data },
  }
}

function membersOf(record: ActivityRecord, of: Class): Json {
  switch (of) {
    case 'authentication':
      return {
        actor: actorOf(record),
        user: userOf(record),
        ...sessionOf(record),
        service: { name: 'Lend' },
      }
    case 'authorize_session':
      return {
        actor: actorOf(record),
        user: userOf(record),
        ...sessionOf(record),
        privileges: privilegesOf(record.data),
      }
    case 'entity_management':
      return entityOf(record)
    case 'api_activity':
      return callOf(record)
  }
}

/** One record as an OCSF event. `unmapped` holds the whole record, by which its hash can be checked again. Pure. */
export function ocsfEvent(record: ActivityRecord): Json {
  const [name, activity, caption] = MAPPING[record.type]
  const { class_uid, ...of } = CLASSES[name]
  const reason = text(record.data.reason)
  return {
    activity_id: activity,
    activity_name: caption,
    ...of,
    class_uid,
    type_uid: class_uid * 100 + activity,
    type_name: `${of.class_name}: ${caption}`,
    time: Date.parse(record.at),
    ...INFORMATIONAL,
    ...(failed(record) ? FAILURE : SUCCESS),
    ...(reason === undefined ? {} : { status_code: reason }),
    message: record.type,
    metadata: {
      version: OCSF_VERSION,
      product: { name: 'Lend', vendor_name: 'Lend' },
      uid: record.id,
      event_code: record.type,
      sequence: record.seq,
      tenant_uid: record.tenant_id,
      original_time: record.at,
      ...(record.root_session_id === undefined ? {} : { correlation_uid: record.root_session_id }),
    },
    ...membersOf(record, name),
    unmapped: { record },
  }
}
