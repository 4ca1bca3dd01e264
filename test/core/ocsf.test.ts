import { describe, expect, test } from 'vitest'
import { ACTIVITY_TYPES, type ActivityRecord, type ActivityType } from '../../src/core/activity.ts'
import { ocsfEvent } from '../../src/core/ocsf.ts'

/** What OCSF 1.2.0 asks of each class that is used: required members, and constraints over several. */
const CLASSES: {
  readonly [uid: number]: { readonly category: number; readonly required: string[] }
} = {
  3002: { category: 3, required: ['user', 'service'] },
  3003: { category: 3, required: ['user', 'privileges'] },
  3004: { category: 3, required: ['entity'] },
  6003: { category: 6, required: ['actor', 'api', 'src_endpoint'] },
}
const BASE = [
  'activity_id',
  'category_uid',
  'class_uid',
  'type_uid',
  'time',
  'severity_id',
  'metadata',
]

const record = (type: ActivityType, data: ActivityRecord['data'] = {}): ActivityRecord => ({
  id: 'act_1',
  tenant_id: 'ten_acme',
  seq: 7,
  at: '2026-11-30T09:00:00.123Z',
  type,
  agent_id: 'agt_1',
  user_id: 'usr_maya',
  session_id: 'ses_2',
  root_session_id: 'ses_1',
  template: 'renewal-briefs@3',
  data,
  prev_hash: 'aa',
  hash: 'bb',
})

describe('a record as an OCSF event', () => {
  test.each(ACTIVITY_TYPES)('%s has what its class requires, and all of the record', (type) => {
    const event = ocsfEvent(record(type, { permission: 'accounts:read' }))
    const of = CLASSES[event.class_uid as number]
    expect(of).toBeDefined()
    for (const member of [...BASE, ...(of?.required ?? [])]) expect(event).toHaveProperty(member)
    expect(event.category_uid).toBe(of?.category)
    expect(event.type_uid).toBe((event.class_uid as number) * 100 + (event.activity_id as number))
    expect(event.time).toBe(Date.UTC(2026, 10, 30, 9, 0, 0, 123))
    expect(event.metadata).toMatchObject({
      version: '1.2.0',
      uid: 'act_1',
      sequence: 7,
      tenant_uid: 'ten_acme',
      correlation_uid: 'ses_1',
      product: { vendor_name: 'Lend' },
    })
    expect(event.unmapped).toEqual({ record: record(type, { permission: 'accounts:read' }) })
  })

  const ROWS: [string, ActivityRecord, object][] = [
    [
      'a call names who called for whom, what allowed it, and how often',
      record('call.allowed', { permission: 'accounts:read', service: 'accounts', calls: 7 }),
      {
        class_uid: 6003,
        status_id: 1,
        count: 7,
        api: { operation: 'accounts:read', service: { name: 'accounts' } },
        src_endpoint: { uid: 'agt_1' },
        actor: {
          user: { uid: 'usr_maya' },
          session: { uid: 'ses_2', uid_alt: 'ses_1' },
          app_uid: 'agt_1',
        },
      },
    ],
    [
      'a refused call is a failure with its reason',
      record('call.denied', {
        tool: 'mail/send_email',
        reason: 'not_held',
        resource: 'domain/x.example',
      }),
      {
        status_id: 2,
        status_code: 'not_held',
        api: { operation: 'mail/send_email' },
        resources: [{ name: 'domain/x.example' }],
        actor: { authorizations: [{ decision: 'Denied', policy: { uid: 'not_held' } }] },
      },
    ],
    [
      'a request names every item',
      record('access.requested', { items: [{ permission: 'a:read' }, { permission: 'b:read' }] }),
      { class_uid: 3003, privileges: ['a:read', 'b:read'], activity_id: 99 },
    ],
    [
      'a decision by a rule names the rule; a refusal is a failure',
      record('access.decided', {
        permission: 'a:read',
        outcome: 'refused',
        reason: 'deny_rule',
        rule_id: 'rul_1',
      }),
      {
        status_id: 2,
        status_code: 'deny_rule',
        actor: { authorizations: [{ decision: 'Denied', policy: { uid: 'rul_1' } }] },
      },
    ],
    ['a session’s end is a logoff', record('session.ended'), { class_uid: 3002, activity_id: 2 }],
    [
      'a token that was refused is a failure',
      record('token.refused'),
      { class_uid: 3002, status_id: 2 },
    ],
    [
      'a rule that goes is an entity deleted',
      record('rule.deleted', { rule_id: 'rul_1' }),
      { class_uid: 3004, activity_id: 4, entity: { type: 'rule', uid: 'rul_1' } },
    ],
  ]
  test.each(ROWS)('%s', (_, of, expected) => {
    expect(ocsfEvent(of)).toMatchObject(expected)
  })
})
