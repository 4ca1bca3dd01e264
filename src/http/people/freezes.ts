import { z } from 'zod'
import { freezeNew, freeze as freezeSchema } from '../../../schema/admin.ts'
import { listOf } from '../../../schema/people.ts'
import { type FreezeRow, selectFreezes } from '../../db/freezes.ts'
import { iso } from '../../db/view-sessions.ts'
import { freeze, unfreeze } from '../../flows/freeze.ts'
import { answered, byId, gone, list, paged, READERS, WRITERS } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { write } from './write.ts'

const tag = 'freezes'

const view = (f: FreezeRow) => ({
  id: f.id,
  scope: f.scope,
  target_id: f.targetId,
  created_by: f.createdBy,
  created_at: iso(f.createdAt),
})

export const mountFreezes: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/freezes',
      summary: 'What is frozen now, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(freezeSchema) },
    },
    (c, { query }) => list(c, 'list_freezes', query, { select: selectFreezes, view }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/freezes',
      summary: 'Freeze: nothing is issued, granted or allowed any more, and nothing ends',
      tag,
      roles: WRITERS,
      body: freezeNew,
      idempotent: true,
      answers: { 201: freezeSchema },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'freeze', async (tx) =>
        answered(await freeze(c.var.ctx, c.var.caller, body, tx), 201, view),
      ),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: '/freezes/{id}',
      summary: 'Unfreeze: everything goes on as it was',
      tag,
      roles: WRITERS,
      params: byId,
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'unfreeze', async (tx) =>
        gone(await unfreeze(c.var.ctx, c.var.caller, params.id, tx)),
      ),
  )
}
