import { z } from 'zod'
import {
  access,
  user,
  userAccess,
  userChange,
  userNew,
  userPermission,
} from '../../../schema/admin.ts'
import { id, listOf, name } from '../../../schema/people.ts'
import {
  type AccessRow,
  selectAccessOf,
  selectUser,
  selectUserPermissions,
  selectUsers,
  type UserPermissionRow,
  type UserRow,
} from '../../db/directory.ts'
import { iso } from '../../db/view-sessions.ts'
import { fail, ok } from '../../fault.ts'
import {
  changeUser,
  createUser,
  giveUserPermission,
  takeUserPermission,
} from '../../flows/admin/users.ts'
import { answered, byId, gone, list, one, paged, READERS, WRITERS } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { read, write } from './write.ts'

const tag = 'admin: people'
const USERS = '/admin/users'

const userView = (u: UserRow) => ({
  id: u.id,
  login: u.login,
  name: u.name,
  ...(u.email === null ? {} : { email: u.email }),
  issuer: u.issuer,
  subject: u.subject,
  attributes: u.attributes,
  staff_roles: u.staffRoles,
  status: u.status,
  created_at: iso(u.createdAt),
})

const viaOf = (row: AccessRow) =>
  row.via === 'group'
    ? { by: 'group', id: row.groupId, group: row.group, role: row.role, role_id: row.viaId }
    : row.via === 'role'
      ? { by: 'role', id: row.viaId, role: row.role }
      : { by: 'direct', id: row.viaId }

const accessView = (row: AccessRow) => ({
  permission: row.permission,
  title: row.title,
  ...(row.resource === null ? {} : { resource: row.resource }),
  via: viaOf(row),
})

const permissionView = (row: UserPermissionRow) => ({
  id: row.id,
  permission: row.permission,
  title: row.title,
  ...(row.resource === null ? {} : { resource: row.resource }),
  created_at: iso(row.createdAt),
})

const mountPeople: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: USERS,
      summary: 'People of this organisation, newest first',
      tag,
      roles: READERS,
      query: z.strictObject({
        login: name(120).optional(),
        status: z.enum(['active', 'disabled']).optional(),
        ...paged,
      }),
      answers: { 200: listOf(user) },
    },
    (c, { query }) =>
      list(c, 'list_users', query, {
        select: (tx, of) => selectUsers(tx, { ...of, login: query.login, status: query.status }),
        view: userView,
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: USERS,
      summary: 'Bring in a person, who holds nothing yet',
      tag,
      roles: WRITERS,
      body: userNew,
      idempotent: true,
      answers: { 201: user },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_user', async (tx) =>
        answered(await createUser(c.var.ctx, c.var.caller, body, tx), 201, userView),
      ),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: `${USERS}/{id}`,
      summary: 'One person',
      tag,
      roles: READERS,
      params: byId,
      answers: { 200: user },
    },
    (c, { params }) =>
      one(c, 'read_user', {
        select: (tx) => selectUser(tx, { tenantId: c.var.tenant.id, id: params.id }),
        view: userView,
      }),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${USERS}/{id}`,
      summary: 'Change a person. Disabling ends all their live sessions at once',
      tag,
      roles: WRITERS,
      params: byId,
      body: userChange,
      idempotent: true,
      answers: { 200: user },
      faults: ['still_in_use'],
    },
    (c, { params, body }) =>
      write(c, 'change_user', async (tx) =>
        answered(await changeUser(c.var.ctx, c.var.caller, params.id, body, tx), 200, userView),
      ),
  )
}

const mountAccess: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: `${USERS}/{id}/access`,
      summary: 'Everything a person may do now, and by what',
      tag,
      roles: READERS,
      params: byId,
      answers: { 200: userAccess },
    },
    (c, { params }) =>
      read(c, 'read_user_access', async (tx) => {
        const of = { tenantId: c.var.tenant.id, userId: params.id }
        if ((await selectUser(tx, { ...of, id: params.id })) === null) return fail('not_found')
        return ok({ items: (await selectAccessOf(tx, of)).map(accessView) })
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: `${USERS}/{id}/permissions`,
      summary: 'What a person was given directly',
      tag,
      roles: READERS,
      params: byId,
      answers: { 200: listOf(userPermission) },
    },
    (c, { params }) =>
      read(c, 'read_user_permissions', async (tx) => {
        const of = { tenantId: c.var.tenant.id, userId: params.id }
        if ((await selectUser(tx, { ...of, id: params.id })) === null) return fail('not_found')
        return ok({ items: (await selectUserPermissions(tx, of)).map(permissionView) })
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: `${USERS}/{id}/permissions`,
      summary: 'Give a person a permission directly',
      tag,
      roles: WRITERS,
      params: byId,
      body: access,
      idempotent: true,
      answers: { 201: userPermission },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'give_user_permission', async (tx) =>
        answered(
          await giveUserPermission(c.var.ctx, c.var.caller, params.id, body, tx),
          201,
          permissionView,
        ),
      ),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: `${USERS}/{id}/permissions/{permission_id}`,
      summary: 'Take a direct permission back; what was lent by it ends within seconds',
      tag,
      roles: WRITERS,
      params: z.strictObject({ id, permission_id: id }),
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'take_user_permission', async (tx) => {
        const of = { userId: params.id, id: params.permission_id }
        return gone(await takeUserPermission(c.var.ctx, c.var.caller, of, tx))
      }),
  )
}

export const mountAdminUsers: Mount = (api) => {
  mountPeople(api)
  mountAccess(api)
}
