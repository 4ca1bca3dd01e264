import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/admin.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import { type Admin, createAdmin, expectProblem, items, PROVIDER } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const Q3 = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
const NEW = { login: 'nora', name: 'Nora', subject: 'nora-1' }
const versionOf = async (session: string) =>
  (
    await admin.world.rows<{ version: number; status: string; end_reason: string | null }>(
      'select version, status, end_reason from session where id = $1',
      [session],
    )
  )[0]
const grantsOf = (session: string) =>
  admin.world.rows('select permission_id from access_grant where session_id = $1', [session])

describe('people', () => {
  test('are listed newest first, by login and status, in pages that neither skip nor repeat', async () => {
    const all = items(await admin.get('/admin/users'))
    expect(all.map((u) => u.login).sort()).toEqual(['adam', 'cleo', 'maya', 'omar'])
    for (const one of all) expect(contract.user.safeParse(one).error).toBeUndefined()
    expect(items(await admin.get('/admin/users?login=maya'))).toMatchObject([{ id: 'usr_maya' }])
    expect(items(await admin.get('/admin/users?status=disabled'))).toEqual([])
    const first = await admin.get('/admin/users?limit=3')
    const second = await admin.get(`/admin/users?limit=3&cursor=${first.body.next}`)
    expect(second.body.next).toBeUndefined()
    expect([...items(first), ...items(second)]).toEqual(all)
  })

  test('a new person is keyed by the only provider’s issuer, holds nothing, and is recorded', async () => {
    const made = await admin.post('/admin/users', {
      ...NEW,
      email: 'nora@acme.example',
      attributes: { region: 'emea', levels: [1, 2] },
    })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      login: 'nora',
      issuer: PROVIDER,
      subject: 'nora-1',
      email: 'nora@acme.example',
      attributes: { region: 'emea', levels: [1, 2] },
      staff_roles: [],
      status: 'active',
    })
    expect((await admin.get(`/admin/users/${made.body.id}`)).body).toEqual(made.body)
    expect(items(await admin.get(`/admin/users/${made.body.id}/access`))).toEqual([])
    expect(await admin.records()).toMatchObject([
      { user_id: made.body.id, data: { what: 'user.created', id: made.body.id, by: 'usr_adam' } },
    ])
  })

  const bad: [string, unknown, number, string, string?][] = [
    ['no login', { name: 'N', subject: 's' }, 400, 'request_malformed', 'login'],
    ['a login of the wrong type', { ...NEW, login: 7 }, 400, 'request_malformed', 'login'],
    ['an unknown field', { ...NEW, admin: true }, 400, 'request_malformed', 'admin'],
    ['a name too long', { ...NEW, name: 'x'.repeat(121) }, 400, 'request_malformed', 'name'],
    ['a NUL', { ...NEW, name: 'No\u0000ra' }, 400, 'request_malformed', 'name'],
    ['an invisible character', { ...NEW, login: 'no\u202era' }, 400, 'request_malformed', 'login'],
    [
      'a role nobody knows',
      { ...NEW, staff_roles: ['root'] },
      400,
      'request_malformed',
      'staff_roles.0',
    ],
    [
      'an issuer not trusted',
      { ...NEW, issuer: 'https://evil.example' },
      422,
      'unprocessable',
      'issuer',
    ],
    [
      'another tenant’s issuer',
      { ...NEW, issuer: 'https://idp.globex.example' },
      422,
      'unprocessable',
      'issuer',
    ],
    ['a login that is taken', { ...NEW, login: 'maya' }, 409, 'already_exists', 'login'],
    ['a subject that is taken', { ...NEW, subject: 'maya' }, 409, 'already_exists', 'subject'],
  ]
  test.each(bad)(
    'are not made from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/users', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('change name, e-mail and attributes; an e-mail can be taken away', async () => {
    const changed = await admin.patch('/admin/users/usr_omar', {
      name: 'Omar B',
      email: 'omar@acme.example',
      attributes: { region: 'apac' },
    })
    expect(changed.body).toMatchObject({ name: 'Omar B', email: 'omar@acme.example' })
    const again = await admin.patch('/admin/users/usr_omar', { email: null })
    expect(again.body).not.toHaveProperty('email')
    expect(again.body.attributes).toEqual({ region: 'apac' })
  })

  test('a change of nothing, or of what cannot change, is refused', async () => {
    const before = await admin.state()
    expectProblem(await admin.patch('/admin/users/usr_omar', {}), 400, 'request_malformed')
    expectProblem(
      await admin.patch('/admin/users/usr_omar', { login: 'o' }),
      400,
      'request_malformed',
      'login',
    )
    expect(await admin.state()).toBe(before)
  })

  test('I11 disabling ends all their live sessions in the same commit, and no one else’s', async () => {
    const mayas = await admin.world.start('maya', { mode: 'bypass' })
    await admin.world.ask(mayas, [{ permission: 'accounts:read' }])
    const omars = await admin.world.start('omar')
    const changed = await admin.patch('/admin/users/usr_maya', { status: 'disabled' })
    expect(changed.body.status).toBe('disabled')
    expect(await versionOf(mayas)).toMatchObject({ status: 'revoked', end_reason: 'user_disabled' })
    expect(await grantsOf(mayas)).toEqual([])
    expect(await versionOf(omars)).toMatchObject({ status: 'active' })
    expect(await admin.records()).toMatchObject([
      { data: { what: 'user.disabled', changes: { sessions_ended: 1, grants_ended: 1 } } },
    ])
    expect(await admin.world.rows('select user_id, topic from feed')).toEqual([
      { user_id: 'usr_maya', topic: 'access_changed' },
    ])
  })

  test('the last active org admin can neither be disabled nor stripped, and a second one frees the first', async () => {
    const before = await admin.state()
    for (const patch of [
      { status: 'disabled' },
      { staff_roles: [] },
      { staff_roles: ['auditor'] },
    ]) {
      const refused = await admin.patch('/admin/users/usr_adam', patch)
      expectProblem(refused, 409, 'still_in_use')
      expect(refused.body.detail).toContain('last active org admin')
    }
    expect(await admin.state()).toBe(before)
    await admin.patch('/admin/users/usr_cleo', { staff_roles: ['auditor', 'org_admin'] })
    expect((await admin.patch('/admin/users/usr_adam', { status: 'disabled' })).status).toBe(200)
    expectProblem(
      await admin.patch('/admin/users/usr_cleo', { staff_roles: ['auditor'] }, 'cleo'),
      403,
      'forbidden',
    )
  })

  test('I17 another tenant’s people are not there', async () => {
    const before = await admin.state()
    for (const answer of [
      await admin.get('/admin/users/usr_gus'),
      await admin.get('/admin/users/usr_gus/access'),
      await admin.get('/admin/users/usr_gus/permissions'),
      await admin.patch('/admin/users/usr_gus', { status: 'disabled' }),
      await admin.post('/admin/users/usr_gus/permissions', { permission: 'accounts:read' }),
      await admin.remove('/admin/users/usr_gus/permissions/prm_q3'),
      await admin.remove('/admin/users/usr_omar/permissions/prm_q3'),
      await admin.get('/admin/users/usr_nobody'),
    ]) {
      expectProblem(answer, 404, 'not_found')
      expect(JSON.stringify(answer.body)).not.toContain('Gus')
    }
    expect(await admin.state()).toBe(before)
  })
})

describe('what a person may do', () => {
  test('USER-ASKS 48 is shown whole, each with what it comes by', async () => {
    const group = await admin.post('/admin/groups', { name: 'Board', members: ['usr_maya'] })
    const role = await admin.post('/admin/roles', {
      name: 'Board reader',
      permissions: [{ permission: 'dashboard:view', resource: 'dashboard/board' }],
    })
    await admin.post('/admin/assignments', { role_id: role.body.id, group_id: group.body.id })
    const answer = await admin.get('/admin/users/usr_maya/access')
    expect(contract.userAccess.safeParse(answer.body).error).toBeUndefined()
    const of = (permission: string) => items(answer).filter((one) => one.permission === permission)
    expect(of('accounts:read')).toMatchObject([
      {
        title: 'Accounts API · Read',
        via: { by: 'role', id: 'rol_manager_acme', role: 'Account manager' },
      },
    ])
    expect(of('dashboard:view')).toMatchObject([
      {
        resource: 'dashboard/board',
        via: {
          by: 'group',
          id: group.body.id,
          group: 'Board',
          role: 'Board reader',
          role_id: role.body.id,
        },
      },
      { resource: 'dashboard/q3-pipeline', via: { by: 'direct', id: 'prm_q3' } },
    ])
  })

  test('given directly: canonical, once, never-delegable ones too', async () => {
    const given = await admin.post('/admin/users/usr_omar/permissions', {
      permission: 'email:send',
      resource: 'domain/BÜCHER.example',
    })
    expect(given.status).toBe(201)
    expect(given.body).toMatchObject({
      permission: 'email:send',
      resource: 'domain/xn--bcher-kva.example',
    })
    expect(given.body.id).toMatch(/^prm_/)
    expectProblem(
      await admin.post('/admin/users/usr_omar/permissions', {
        permission: 'email:send',
        resource: 'domain/bücher.example.',
      }),
      409,
      'already_exists',
    )
    const billing = await admin.post('/admin/users/usr_omar/permissions', {
      permission: 'billing:admin',
    })
    expect(billing.status).toBe(201)
    expect(items(await admin.get('/admin/users/usr_omar/permissions'))).toEqual([
      billing.body,
      given.body,
    ])
  })

  const bad: [string, unknown, number, string, string][] = [
    [
      'a permission the catalog lacks',
      { permission: 'nothing:here' },
      422,
      'unprocessable',
      'permission',
    ],
    [
      'an asset without its resource',
      { permission: 'dashboard:view' },
      422,
      'unprocessable',
      'resource',
    ],
    [
      'a resource where none belongs',
      { permission: 'accounts:read', resource: 'a/b' },
      422,
      'unprocessable',
      'resource',
    ],
    [
      'a star inside a resource',
      { permission: 'dashboard:view', resource: 'dashboard/q*' },
      422,
      'unprocessable',
      'resource',
    ],
    ['an unknown field', { ...Q3, narrow: {} }, 400, 'request_malformed', 'narrow'],
    [
      'a resource of the wrong type',
      { permission: 'dashboard:view', resource: 1 },
      400,
      'request_malformed',
      'resource',
    ],
    ['no permission', {}, 400, 'request_malformed', 'permission'],
  ]
  test.each(bad)(
    'is not given from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/users/usr_omar/permissions', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('USER-ASKS 18 what is taken while a session holds it ends there, and its tokens die', async () => {
    const session = await admin.world.start('maya', { mode: 'bypass' })
    await admin.world.ask(session, [Q3, { permission: 'accounts:read' }])
    const before = await versionOf(session)
    expect((await admin.remove('/admin/users/usr_maya/permissions/prm_q3')).status).toBe(204)
    expect(await grantsOf(session)).toHaveLength(2)
    expect(await followFeed(admin.world.ctx)).toEqual({ rows: 1, sessions: 1, lost: 1 })
    expect(await grantsOf(session)).toEqual([{ permission_id: 'accounts:read' }])
    expect((await versionOf(session))?.version).toBe((before?.version ?? 0) + 1)
    const [ended] = await admin.records('grant.ended')
    expect(ended?.data).toMatchObject({ ...Q3, reason: 'user_lost_access' })
  })

  test('a re-evaluation that finds nothing writes nothing and raises no version', async () => {
    const session = await admin.world.start('omar', { mode: 'bypass' })
    await admin.world.ask(session, [{ permission: 'accounts:read' }])
    await admin.post('/admin/users/usr_omar/permissions', Q3)
    const { body } = await admin.get('/admin/users/usr_omar/permissions')
    await admin.remove(
      `/admin/users/usr_omar/permissions/${(body.items as { id: string }[])[0]?.id}`,
    )
    const before = await versionOf(session)
    const records = (await admin.world.rows('select id from activity')).length
    expect(await followFeed(admin.world.ctx)).toEqual({ rows: 1, sessions: 1, lost: 0 })
    expect(await versionOf(session)).toEqual(before)
    expect(await admin.world.rows('select id from activity')).toHaveLength(records)
    expect(await followFeed(admin.world.ctx)).toEqual({ rows: 0, sessions: 0, lost: 0 })
  })
})
