import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/admin.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import type { Json } from '../support/people.ts'
import { type Admin, createAdmin, expectProblem, items } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const READ = { permission: 'accounts:read' }
const BOARD = { permission: 'dashboard:view', resource: 'dashboard/board' }
const grantsOf = async (session: string) =>
  (
    await admin.world.rows<{ permission_id: string }>(
      'select permission_id from access_grant where session_id = $1 order by 1',
      [session],
    )
  ).map((row) => row.permission_id)
const feed = () => admin.world.rows('select user_id from feed order by id')

/** Maya sees the board only through a group; her session has borrowed that and something else. */
async function boardByGroup() {
  const group = await admin.post('/admin/groups', { name: 'Board', members: ['usr_maya'] })
  const role = await admin.post('/admin/roles', { name: 'Board reader', permissions: [BOARD] })
  const assigned = await admin.post('/admin/assignments', {
    role_id: role.body.id,
    group_id: group.body.id,
  })
  expect([group.status, role.status, assigned.status]).toEqual([201, 201, 201])
  const session = await admin.world.start('maya', { mode: 'bypass' })
  await admin.world.ask(session, [BOARD, READ])
  expect(await grantsOf(session)).toEqual(['accounts:read', 'dashboard:view'])
  return { group: group.body, role: role.body, assignment: assigned.body, session }
}

describe('groups', () => {
  test('are made, listed with their size, read with their members', async () => {
    const made = await admin.post('/admin/groups', {
      name: 'Sales',
      members: ['usr_omar', 'usr_maya'],
    })
    expect(contract.group.safeParse(made.body).error).toBeUndefined()
    expect(made.body.members).toEqual([
      { id: 'usr_maya', login: 'maya', name: 'Maya' },
      { id: 'usr_omar', login: 'omar', name: 'Omar' },
    ])
    expect(items(await admin.get('/admin/groups'))).toMatchObject([
      { id: made.body.id, name: 'Sales', member_count: 2 },
    ])
    expect((await admin.get(`/admin/groups/${made.body.id}`)).body).toEqual(made.body)
  })

  test('change by full list, or by who joins and who leaves', async () => {
    const { body } = await admin.post('/admin/groups', { name: 'Sales', members: ['usr_maya'] })
    const path = `/admin/groups/${body.id}`
    const logins = (group: Json) => (group.members as Json[]).map((member) => member.login)
    const full = await admin.patch(path, { members: ['usr_omar', 'usr_adam'], name: 'Sellers' })
    expect(full.body.name).toBe('Sellers')
    expect(logins(full.body)).toEqual(['adam', 'omar'])
    const delta = await admin.patch(path, { members: { add: ['usr_maya'], remove: ['usr_omar'] } })
    expect(logins(delta.body)).toEqual(['adam', 'maya'])
    const renamed = await admin.patch(path, { name: 'Same people' })
    expect(logins(renamed.body)).toEqual(['adam', 'maya'])
  })

  test('empty means nobody: an empty full list takes everyone out', async () => {
    const { body } = await admin.post('/admin/groups', { name: 'Sales', members: ['usr_maya'] })
    const changed = await admin.patch(`/admin/groups/${body.id}`, { members: [] })
    expect(changed.body.members).toEqual([])
  })

  test('who leaves a group loses in their sessions what it lent, and only that', async () => {
    const { group, session } = await boardByGroup()
    await admin.patch(`/admin/groups/${group.id}`, { members: { remove: ['usr_maya'] } })
    expect(await feed()).toEqual([{ user_id: 'usr_maya' }])
    expect(await followFeed(admin.world.ctx)).toMatchObject({ lost: 1 })
    expect(await grantsOf(session)).toEqual(['accounts:read'])
  })

  const bad: [string, unknown, number, string, string][] = [
    ['no name', { members: [] }, 400, 'request_malformed', 'name'],
    ['a blank name', { name: '  ' }, 400, 'request_malformed', 'name'],
    ['a name too long', { name: 'x'.repeat(121) }, 400, 'request_malformed', 'name'],
    ['a NUL', { name: 'a\u0000' }, 400, 'request_malformed', 'name'],
    ['an unknown field', { name: 'a', roles: [] }, 400, 'request_malformed', 'roles'],
    [
      'members of the wrong type',
      { name: 'a', members: 'usr_maya' },
      400,
      'request_malformed',
      'members',
    ],
    [
      'a member twice',
      { name: 'a', members: ['usr_maya', 'usr_maya'] },
      400,
      'request_malformed',
      'members',
    ],
    [
      'a member nobody knows',
      { name: 'a', members: ['usr_maya', 'usr_x'] },
      422,
      'unprocessable',
      'members.1',
    ],
    [
      'I17 another tenant’s member',
      { name: 'a', members: ['usr_gus'] },
      422,
      'unprocessable',
      'members.0',
    ],
  ]
  test.each(bad)(
    'are not made from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/groups', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('a change that names a stranger, a taken name or no group changes nothing', async () => {
    const { body } = await admin.post('/admin/groups', { name: 'Sales', members: ['usr_maya'] })
    await admin.post('/admin/groups', { name: 'Board' })
    const theirs = await admin.post('/admin/groups', { name: 'Theirs' }, 'gina')
    const before = await admin.state()
    const path = `/admin/groups/${body.id}`
    expectProblem(
      await admin.patch(path, { members: ['usr_gus'] }),
      422,
      'unprocessable',
      'members.0',
    )
    expectProblem(
      await admin.patch(path, { members: { add: ['usr_gus'] } }),
      422,
      'unprocessable',
      'members.add.0',
    )
    expectProblem(
      await admin.patch(path, { members: { add: ['usr_maya'], remove: ['usr_maya'] } }),
      422,
      'unprocessable',
      'members.add.0',
    )
    expectProblem(await admin.patch(path, { name: 'Board' }), 409, 'already_exists', 'name')
    expectProblem(await admin.patch('/admin/groups/grp_none', { name: 'x' }), 404, 'not_found')
    expectProblem(
      await admin.patch(`/admin/groups/${theirs.body.id}`, { name: 'x' }),
      404,
      'not_found',
    )
    expectProblem(await admin.get(`/admin/groups/${theirs.body.id}`), 404, 'not_found')
    expect(await admin.state()).toBe(before)
  })
})

describe('roles', () => {
  test('hold canonical permissions, each once; a name is one role’s', async () => {
    const made = await admin.post('/admin/roles', {
      name: 'Mailer',
      permissions: [
        { permission: 'email:send', resource: 'domain/A.example' },
        { permission: 'email:send', resource: 'domain/a.example.' },
        READ,
      ],
    })
    expect(contract.role.safeParse(made.body).error).toBeUndefined()
    expect(made.body.permissions).toEqual([
      READ,
      { permission: 'email:send', resource: 'domain/a.example' },
    ])
    expect((await admin.get(`/admin/roles/${made.body.id}`)).body).toEqual(made.body)
    expectProblem(
      await admin.post('/admin/roles', { name: 'Mailer', permissions: [] }),
      409,
      'already_exists',
      'name',
    )
  })

  test('a smaller list takes it from everyone who has the role, through groups too', async () => {
    const { role, session } = await boardByGroup()
    const omars = await admin.world.start('omar', { mode: 'bypass' })
    await admin.world.ask(omars, [READ])
    await admin.patch(`/admin/roles/${role.id}`, { permissions: [] })
    expect(await feed()).toEqual([{ user_id: 'usr_maya' }])
    await followFeed(admin.world.ctx)
    expect(await grantsOf(session)).toEqual(['accounts:read'])
    await admin.patch('/admin/roles/rol_manager_acme', { permissions: [] })
    await followFeed(admin.world.ctx)
    expect([await grantsOf(session), await grantsOf(omars)]).toEqual([[], []])
  })

  test('a role renamed takes nothing from anybody', async () => {
    const { role } = await boardByGroup()
    const renamed = await admin.patch(`/admin/roles/${role.id}`, { name: 'Board member' })
    expect(renamed.body).toMatchObject({ name: 'Board member', permissions: [BOARD] })
    expect(await feed()).toEqual([])
  })

  const bad: [string, unknown, number, string, string][] = [
    ['no list', { name: 'a' }, 400, 'request_malformed', 'permissions'],
    [
      'a list of strings',
      { name: 'a', permissions: ['accounts:read'] },
      400,
      'request_malformed',
      'permissions.0',
    ],
    [
      'an unknown member',
      { name: 'a', permissions: [{ ...READ, narrow: {} }] },
      400,
      'request_malformed',
      'permissions.0.narrow',
    ],
    [
      'a permission too long',
      { name: 'a', permissions: [{ permission: 'a'.repeat(129) }] },
      400,
      'request_malformed',
      'permissions.0.permission',
    ],
    [
      'an unknown permission',
      { name: 'a', permissions: [READ, { permission: 'no:such' }] },
      422,
      'unprocessable',
      'permissions.1.permission',
    ],
    [
      'an asset without its resource',
      { name: 'a', permissions: [{ permission: 'dashboard:view' }] },
      422,
      'unprocessable',
      'permissions.0.resource',
    ],
  ]
  test.each(bad)(
    'are not made from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/roles', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('I17 another tenant’s role is neither read nor changed', async () => {
    const before = await admin.state()
    expectProblem(await admin.get('/admin/roles/rol_manager_globex'), 404, 'not_found')
    expectProblem(
      await admin.patch('/admin/roles/rol_manager_globex', { permissions: [] }),
      404,
      'not_found',
    )
    expect(await admin.state()).toBe(before)
  })
})

describe('assignments', () => {
  test('are listed by role, person and group', async () => {
    const { assignment, group, role } = await boardByGroup()
    expect(contract.assignment.safeParse(assignment).error).toBeUndefined()
    expect(items(await admin.get('/admin/assignments'))).toHaveLength(3)
    for (const query of [`role_id=${role.id}`, `group_id=${group.id}`])
      expect(items(await admin.get(`/admin/assignments?${query}`))).toEqual([assignment])
    expect(items(await admin.get('/admin/assignments?user_id=usr_maya'))).toMatchObject([
      { id: 'asg_maya', role: 'Account manager', user_id: 'usr_maya' },
    ])
  })

  test('taken away, end what they lent', async () => {
    const { assignment, session } = await boardByGroup()
    expect((await admin.remove(`/admin/assignments/${assignment.id}`)).status).toBe(204)
    expectProblem(await admin.remove(`/admin/assignments/${assignment.id}`), 404, 'not_found')
    await followFeed(admin.world.ctx)
    expect(await grantsOf(session)).toEqual(['accounts:read'])
    const [, , , last] = await admin.records()
    expect(last?.data).toMatchObject({ what: 'role.unassigned', id: assignment.id, by: 'usr_adam' })
  })

  const bad: [string, unknown, number, string, string][] = [
    ['no role', { user_id: 'usr_maya' }, 400, 'request_malformed', 'role_id'],
    ['nobody', { role_id: 'rol_manager_acme' }, 422, 'unprocessable', 'user_id'],
    [
      'a person and a group',
      { role_id: 'rol_manager_acme', user_id: 'usr_maya', group_id: 'g' },
      422,
      'unprocessable',
      'group_id',
    ],
    [
      'an unknown role',
      { role_id: 'rol_none', user_id: 'usr_maya' },
      422,
      'unprocessable',
      'role_id',
    ],
    [
      'an unknown group',
      { role_id: 'rol_manager_acme', group_id: 'grp_none' },
      422,
      'unprocessable',
      'group_id',
    ],
    [
      'I17 another tenant’s role',
      { role_id: 'rol_manager_globex', user_id: 'usr_maya' },
      422,
      'unprocessable',
      'role_id',
    ],
    [
      'I17 another tenant’s person',
      { role_id: 'rol_manager_acme', user_id: 'usr_gus' },
      422,
      'unprocessable',
      'user_id',
    ],
    [
      'I13 an agent',
      { role_id: 'rol_manager_acme', user_id: 'agt_briefs' },
      422,
      'unprocessable',
      'user_id',
    ],
    [
      'I13 a session',
      { role_id: 'rol_manager_acme', agent_id: 'agt_briefs' },
      400,
      'request_malformed',
      'agent_id',
    ],
  ]
  test.each(bad)(
    'are not made from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/assignments', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('the same one twice is a conflict; another tenant’s is not there', async () => {
    const before = await admin.state()
    const body = { role_id: 'rol_manager_acme', user_id: 'usr_maya' }
    expectProblem(await admin.post('/admin/assignments', body), 409, 'already_exists')
    expectProblem(await admin.remove('/admin/assignments/asg_gus'), 404, 'not_found')
    expect(await admin.state()).toBe(before)
  })
})
