import { z } from 'zod'
import { freezeNew, freeze as freezeSchema } from '../../../schema/freezes.ts'
import { listOf } from '../../../schema/people.ts'
import { assert } from '../../core/assert.ts'
import { FIRST } from '../../db/directory.ts'
import { type NamedFreeze, selectNamedFreezes } from '../../db/freezes.ts'
import { iso } from '../../db/view-sessions.ts'
import { ok } from '../../fault.ts'
import { freeze, unfreeze } from '../../flows/freeze.ts'
import { answered, byId, gone, list, paged, READERS, WRITERS } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { write } from './write.ts'

const tag = 'freezes'

const view = (f: NamedFreeze) => ({
  id: f.id,
  scope: f.scope,
  target_id: f.targetId,
  ...(f.targetName === null ? {} : { target_name: f.targetName }),
  created_by: f.createdBy,
  ...(f.createdByLogin === null ? {} : { created_by_login: f.createdByLogin }),
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
    (c, { query }) => list(c, 'list_freezes', query, { select: selectNamedFreezes, view }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/freezes',
      summary: 'Freeze: nothing is issued, granted or allowed any more, and nothing ends',
      takesAway: true,
      tag,
      roles: WRITERS,
      body: freezeNew,
      idempotent: true,
      answers: { 201: freezeSchema },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'freeze', async (tx) => {
        const made = await freeze(c.var.ctx, c.var.caller, body, tx)
        if (!made.ok) return made
        const of = { tenantId: c.var.tenant.id, id: made.value.id, after: FIRST, limit: 1 }
        const [named] = await selectNamedFreezes(tx, of)
        assert(named, 'what was just frozen is listed')
        return answered(ok(named), 201, view)
      }),
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
