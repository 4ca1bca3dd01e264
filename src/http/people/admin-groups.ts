import { z } from 'zod'
import {
  assignment,
  assignmentNew,
  group,
  groupChange,
  groupListed,
  groupNew,
  role,
  roleChange,
  roleNew,
} from '../../../schema/admin.ts'
import { id, listOf } from '../../../schema/people.ts'
import {
  type AssignmentRow,
  type GroupRow,
  type RoleRow,
  selectAssignments,
  selectGroups,
  selectRole,
  selectRoles,
  type Target,
} from '../../db/admin-groups.ts'
import { iso } from '../../db/view-sessions.ts'
import { changeGroup, createGroup, type Group, readGroup } from '../../flows/admin/groups.ts'
import { assignRole, changeRole, createRole, unassignRole } from '../../flows/admin/roles.ts'
import { answered, byId, gone, list, one, paged, READERS, WRITERS } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { write } from './write.ts'

const tag = 'admin: groups and roles'

const groupListedView = (g: GroupRow) => ({
  id: g.id,
  name: g.name,
  member_count: g.memberCount,
  created_at: iso(g.createdAt),
})
const groupView = (g: Group) => ({ ...groupListedView(g.group), members: g.members })

const roleView = (r: RoleRow) => ({
  id: r.id,
  name: r.name,
  permissions: r.permissions.map((p) => ({
    permission: p.permission,
    ...(p.resource === null ? {} : { resource: p.resource }),
  })),
  created_at: iso(r.createdAt),
})

export const targetView = (target: Target) =>
  target.userId === null ? { group_id: target.groupId } : { user_id: target.userId }

const assignmentView = (a: AssignmentRow) => ({
  id: a.id,
  role_id: a.roleId,
  role: a.role,
  ...targetView(a),
  created_at: iso(a.createdAt),
})

const mountGroups: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/admin/groups',
      summary: 'Groups, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(groupListed) },
    },
    (c, { query }) =>
      list(c, 'list_groups', query, { select: selectGroups, view: groupListedView }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/admin/groups/{id}',
      summary: 'A group and everyone in it',
      tag,
      roles: READERS,
      params: byId,
      answers: { 200: group },
    },
    (c, { params }) =>
      one(c, 'read_group', {
        select: (tx) => readGroup(tx, c.var.caller, params.id),
        view: groupView,
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/admin/groups',
      summary: 'Make a group',
      tag,
      roles: WRITERS,
      body: groupNew,
      idempotent: true,
      answers: { 201: group },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_group', async (tx) =>
        answered(await createGroup(c.var.ctx, c.var.caller, body, tx), 201, groupView),
      ),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: '/admin/groups/{id}',
      summary: 'Rename a group or change who is in it',
      tag,
      roles: WRITERS,
      params: byId,
      body: groupChange,
      idempotent: true,
      answers: { 200: group },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'change_group', async (tx) =>
        answered(await changeGroup(c.var.ctx, c.var.caller, params.id, body, tx), 200, groupView),
      ),
  )
}

const mountRoles: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/admin/roles',
      summary: 'Roles and what they allow, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(role) },
    },
    (c, { query }) => list(c, 'list_roles', query, { select: selectRoles, view: roleView }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/admin/roles/{id}',
      summary: 'A role and what it allows',
      tag,
      roles: READERS,
      params: byId,
      answers: { 200: role },
    },
    (c, { params }) =>
      one(c, 'read_role', {
        select: (tx) => selectRole(tx, { tenantId: c.var.tenant.id, id: params.id }),
        view: roleView,
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/admin/roles',
      summary: 'Make a role',
      tag,
      roles: WRITERS,
      body: roleNew,
      idempotent: true,
      answers: { 201: role },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_role', async (tx) =>
        answered(await createRole(c.var.ctx, c.var.caller, body, tx), 201, roleView),
      ),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: '/admin/roles/{id}',
      summary: 'Rename a role or change what it allows, for everyone who has it',
      tag,
      roles: WRITERS,
      params: byId,
      body: roleChange,
      idempotent: true,
      answers: { 200: role },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'change_role', async (tx) =>
        answered(await changeRole(c.var.ctx, c.var.caller, params.id, body, tx), 200, roleView),
      ),
  )
}

const mountAssignments: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/admin/assignments',
      summary: 'Who has which role, newest first',
      tag,
      roles: READERS,
      query: z.strictObject({
        role_id: id.optional(),
        user_id: id.optional(),
        group_id: id.optional(),
        ...paged,
      }),
      answers: { 200: listOf(assignment) },
    },
    (c, { query }) =>
      list(c, 'list_assignments', query, {
        select: (tx, of) =>
          selectAssignments(tx, {
            ...of,
            roleId: query.role_id,
            userId: query.user_id,
            groupId: query.group_id,
          }),
        view: assignmentView,
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/admin/assignments',
      summary: 'Give a role to a person or a group',
      tag,
      roles: WRITERS,
      body: assignmentNew,
      idempotent: true,
      answers: { 201: assignment },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'assign_role', async (tx) =>
        answered(await assignRole(c.var.ctx, c.var.caller, body, tx), 201, assignmentView),
      ),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: '/admin/assignments/{id}',
      summary: 'Take a role away; what was lent by it ends within seconds',
      tag,
      roles: WRITERS,
      params: byId,
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'unassign_role', async (tx) =>
        gone(await unassignRole(c.var.ctx, c.var.caller, params.id, tx)),
      ),
  )
}

export const mountAdminGroups: Mount = (api) => {
  mountGroups(api)
  mountRoles(api)
  mountAssignments(api)
}
