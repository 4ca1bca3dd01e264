import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolName } from '../../schema/tools.ts'
import { type AnyClient, bodyOf, connect, REVISIONS, type Served, served } from './support/serve.ts'

const NUL = 'a\u0000b'
const HALF = 'a\ud800b'
const long = (n: number): string => 'x'.repeat(n)
const item = { permission: 'accounts:read' }
const ask = (more: object) => ({ items: [item], reason: 'Because', ...more })
const asking = (one: unknown) => ({ items: [one], reason: 'Because' })
const narrowed = (narrow: unknown) => asking({ permission: 'accounts.rows:my_region', narrow })

/** [tool, arguments, the one field at fault, why]: each row is wrong in nothing else. */
const BAD: readonly (readonly [ToolName, unknown, string, RegExp])[] = [
  ['iam.describe_permissions', {}, 'task', /required/],
  ['iam.describe_permissions', { task: 7 }, 'task', /must be text/],
  ['iam.describe_permissions', { task: '' }, 'task', /empty/],
  ['iam.describe_permissions', { task: ' \n ' }, 'task', /empty/],
  ['iam.describe_permissions', { task: long(501) }, 'task', /longer than 500/],
  ['iam.describe_permissions', { task: NUL }, 'task', /control character/],
  ['iam.describe_permissions', { task: HALF }, 'task', /surrogate/],
  [
    'iam.describe_permissions',
    { task: 'a', kind: 'thing' },
    'kind',
    /one of api, data, asset, tool/,
  ],
  ['iam.describe_permissions', { task: 'a', limit: 0 }, 'limit', /at least 1/],
  ['iam.describe_permissions', { task: 'a', limit: 51 }, 'limit', /at most 50/],
  ['iam.describe_permissions', { task: 'a', limit: 1.5 }, 'limit', /whole number/],
  ['iam.describe_permissions', { task: 'a', query: 'b' }, 'query', /not known/],

  ['iam.explain', {}, 'permission', /required/],
  ['iam.explain', { permission: ['a:b'] }, 'permission', /must be text/],
  ['iam.explain', { permission: long(129) }, 'permission', /longer than 128/],
  ['iam.explain', { permission: NUL }, 'permission', /control character/],
  ['iam.explain', { permission: 'a\nb' }, 'permission', /control character/],
  ['iam.explain', { permission: HALF }, 'permission', /surrogate/],
  ['iam.explain', { permission: 'a:b', resource: 'c/d' }, 'resource', /not known/],

  ['iam.request_access', { reason: 'Because' }, 'items', /required/],
  ['iam.request_access', { items: [item] }, 'reason', /required/],
  ['iam.request_access', { items: item, reason: 'Because' }, 'items', /a list/],
  ['iam.request_access', { items: [], reason: 'Because' }, 'items', /at least 1/],
  ['iam.request_access', { items: Array(101).fill(item), reason: 'B' }, 'items', /more than 100/],
  ['iam.request_access', asking('accounts:read'), 'items.0', /an object/],
  ['iam.request_access', asking({}), 'items.0.permission', /required/],
  ['iam.request_access', asking({ permission: null }), 'items.0.permission', /must be text/],
  ['iam.request_access', asking({ permission: '' }), 'items.0.permission', /empty/],
  ['iam.request_access', asking({ ...item, resource: 5 }), 'items.0.resource', /must be text/],
  ['iam.request_access', asking({ ...item, resource: null }), 'items.0.resource', /must be text/],
  ['iam.request_access', asking({ ...item, resource: long(257) }), 'items.0.resource', /longer/],
  ['iam.request_access', asking({ ...item, resource: NUL }), 'items.0.resource', /control/],
  ['iam.request_access', asking({ ...item, resource: HALF }), 'items.0.resource', /surrogate/],
  ['iam.request_access', asking({ ...item, mode: 'bypass' }), 'items.0.mode', /not known/],
  ['iam.request_access', { items: [item, {}], reason: 'B' }, 'items.1.permission', /required/],
  ['iam.request_access', narrowed([]), 'items.0.narrow', /filter object/],
  ['iam.request_access', narrowed({}), 'items.0.narrow', /empty clause/],
  [
    'iam.request_access',
    narrowed({ a: { $near: 1 } }),
    'items.0.narrow.a.$near',
    /unknown operator/,
  ],
  ['iam.request_access', narrowed({ a: { $user: 'region' } }), 'items.0.narrow.a', /\$user/],
  ['iam.request_access', narrowed({ a: NUL }), 'items.0.narrow', /control character/],
  ['iam.request_access', narrowed({ a: { $in: ['b', HALF] } }), 'items.0.narrow', /surrogate/],
  ['iam.request_access', narrowed({ a: long(16_001) }), 'items.0.narrow', /longer than/],
  ['iam.request_access', ask({ reason: true }), 'reason', /must be text/],
  ['iam.request_access', ask({ reason: '\t' }), 'reason', /empty/],
  // Characters, but none that its reader could see.
  ['iam.request_access', ask({ reason: '\u202e \u2066\u200b\u3164' }), 'reason', /empty/],
  ['iam.request_access', ask({ reason: long(501) }), 'reason', /longer than 500/],
  ['iam.request_access', ask({ reason: NUL }), 'reason', /control character/],
  ['iam.request_access', ask({ reason: 'a\u001b[2Jb' }), 'reason', /control character/],
  ['iam.request_access', ask({ reason: HALF }), 'reason', /surrogate/],
  // Wrong in two ways: one of them is enough to act on.
  ['iam.request_access', ask({ reason: `${long(501)}${NUL}` }), 'reason', /control character/],
  ['iam.request_access', ask({ wait_seconds: 51 }), 'wait_seconds', /at most 50/],
  ['iam.request_access', ask({ wait_seconds: -1 }), 'wait_seconds', /at least 0/],
  ['iam.request_access', ask({ wait_seconds: '5' }), 'wait_seconds', /a (whole )?number/],
  ['iam.request_access', ask({ mode: 'bypass' }), 'mode', /not known/],

  ['iam.my_access', { all: true }, 'all', /not known/],

  ['iam.start_subagent', {}, 'template', /required/],
  ['iam.start_subagent', { template: {} }, 'template', /must be text/],
  ['iam.start_subagent', { template: 'Email Drafter' }, 'template', /template name/],
  ['iam.start_subagent', { template: 'email-drafter@0' }, 'template', /template name/],
  ['iam.start_subagent', { template: 'email-drafter\n' }, 'template', /template name/],
  ['iam.start_subagent', { template: 'a', read_only: 'yes' }, 'read_only', /true or false/],
  ['iam.start_subagent', { template: 'a', task: long(501) }, 'task', /longer than 500/],
  ['iam.start_subagent', { template: 'a', task: NUL }, 'task', /control character/],
  ['iam.start_subagent', { template: 'a', task: HALF }, 'task', /surrogate/],
  ['iam.start_subagent', { template: 'a', mode: 'bypass' }, 'mode', /not known/],

  ['iam.release_access', {}, 'items', /required/],
  ['iam.release_access', { items: [] }, 'items', /at least 1/],
  ['iam.release_access', { items: 'all' }, 'items', /a list/],
  ['iam.release_access', { items: [{}] }, 'items.0.permission', /required/],
  ['iam.release_access', { items: [7] }, 'items.0', /an object/],
  ['iam.release_access', { items: [{ grant_id: 7 }] }, 'items.0.grant_id', /must be text/],
  ['iam.release_access', { items: [{ grant_id: NUL }] }, 'items.0.grant_id', /control/],
  ['iam.release_access', { items: [{ permission: HALF }] }, 'items.0.permission', /surrogate/],
  ['iam.release_access', { items: [{ ...item, grant_id: 'g' }] }, 'items.0.grant_id', /not known/],
  ['iam.release_access', { items: [{ ...item, narrow: {} }] }, 'items.0.narrow', /not known/],
  ['iam.release_access', { items: [item], all: true }, 'all', /not known/],

  ['iam.end_session', { summary: 5 }, 'summary', /must be text/],
  ['iam.end_session', { summary: long(1001) }, 'summary', /longer than 1000/],
  ['iam.end_session', { summary: NUL }, 'summary', /control character/],
  ['iam.end_session', { summary: HALF }, 'summary', /surrogate/],
  ['iam.end_session', { session_id: 'ses_2' }, 'session_id', /not known/],
]

/** Close to a bound or odd, and yet to be taken. */
const FINE: readonly (readonly [ToolName, object])[] = [
  ['iam.describe_permissions', { task: '😀'.repeat(500) }],
  ['iam.request_access', ask({ reason: long(500) })],
  ['iam.request_access', ask({ reason: 'a\tb\nc' })],
  // Invisible and bidirectional characters arrive; the screens escape them.
  ['iam.request_access', ask({ reason: 'send \u202egnp.exe\u200b' })],
  ['iam.request_access', ask({ wait_seconds: 0 })],
  ['iam.request_access', { items: Array(100).fill(item), reason: 'Because' }],
  ['iam.request_access', narrowed({ renewal_in_days: { $lte: 90 }, $or: [{ a: 1 }, { b: 'c' }] })],
  ['iam.start_subagent', { template: 'email-drafter@12' }],
  ['iam.end_session', { summary: long(1000) }],
]

describe.each(REVISIONS)('bad arguments on %s', (revision) => {
  let here: Served
  let client: AnyClient
  beforeAll(async () => {
    here = await served()
    client = await connect(here, revision)
  })
  afterAll(async () => {
    await client.close()
    await here.close()
  })

  it.each(BAD.map((row, i) => [i, ...row] as const))(
    '%i: %s names the field',
    async (_, name, args, path, why) => {
      const calls = here.backend.seen.length
      const answer = await client.call(name, args as object)
      expect(answer.isError).toBe(true)
      expect(answer.structuredContent).toBeUndefined()
      const body = bodyOf(answer)
      expect(body).toMatchObject({ error: 'request_malformed', code: 'request_malformed' })
      expect(body.errors).toEqual([{ path, message: expect.stringMatching(why) }])
      expect(body.message).toContain(path)
      expect(body.message).toMatch(why)
      expect(here.backend.seen).toHaveLength(calls)
    },
  )

  it.each(FINE.map((row, i) => [i, ...row] as const))('%i: %s takes it', async (_, name, args) => {
    const answer = await client.call(name, args)
    expect(answer.isError ?? false, answer.content[0]?.text).toBe(false)
    expect(here.backend.seen.at(-1)).toMatchObject({ tool: name, args })
  })

  it('names every field at fault at once', async () => {
    const answer = await client.call('iam.request_access', { items: [{}], reasons: 'B' })
    const errors = bodyOf(answer).errors as { path: string }[]
    expect(errors.map((one) => one.path).sort()).toEqual([
      'items.0.permission',
      'reason',
      'reasons',
    ])
  })
})
