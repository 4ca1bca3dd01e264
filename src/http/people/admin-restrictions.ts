import { z } from 'zod'
import { restriction, restrictionChange, restrictionNew } from '../../../schema/admin.ts'
import { id, listOf } from '../../../schema/people.ts'
import { type RestrictionRow, selectRestrictions } from '../../db/admin-restrictions.ts'
import { iso } from '../../db/view-sessions.ts'
import {
  changeRestriction,
  createRestriction,
  removeRestriction,
} from '../../flows/admin/restrictions.ts'
import { answered, byId, gone, list, paged, READERS, WRITERS } from './admin-common.ts'
import { targetView } from './admin-groups.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { write } from './write.ts'

const tag = 'admin: restrictions'
const PATH = '/admin/restrictions'

const view = (r: RestrictionRow) => ({
  id: r.id,
  ...targetView(r),
  entity: r.entity,
  ...(r.blocks === null ? {} : { blocks: r.blocks }),
  masks: r.masks,
  created_at: iso(r.createdAt),
})

export const mountAdminRestrictions: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: PATH,
      summary: 'Restrictions of people’s data, newest first',
      tag,
      roles: READERS,
      query: z.strictObject({ user_id: id.optional(), group_id: id.optional(), ...paged }),
      answers: { 200: listOf(restriction) },
    },
    (c, { query }) =>
      list(c, 'list_restrictions', query, {
        select: (tx, of) =>
          selectRestrictions(tx, { ...of, userId: query.user_id, groupId: query.group_id }),
        view,
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: PATH,
      summary: 'Block rows or mask fields of a person’s or a group’s data',
      tag,
      roles: WRITERS,
      body: restrictionNew,
      idempotent: true,
      answers: { 201: restriction },
      faults: ['unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_restriction', async (tx) =>
        answered(await createRestriction(c.var.ctx, c.var.caller, body, tx), 201, view),
      ),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${PATH}/{id}`,
      summary: 'Change what a restriction blocks or masks',
      tag,
      roles: WRITERS,
      params: byId,
      body: restrictionChange,
      idempotent: true,
      answers: { 200: restriction },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'change_restriction', async (tx) =>
        answered(await changeRestriction(c.var.ctx, c.var.caller, params.id, body, tx), 200, view),
      ),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: `${PATH}/{id}`,
      summary: 'Remove a restriction',
      tag,
      roles: WRITERS,
      params: byId,
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'remove_restriction', async (tx) =>
        gone(await removeRestriction(c.var.ctx, c.var.caller, params.id, tx)),
      ),
  )
}
