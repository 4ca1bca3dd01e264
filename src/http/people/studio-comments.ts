import { z } from 'zod'
import { listOf } from '../../../schema/people.ts'
import { templateComment, templateCommentNew } from '../../../schema/studio.ts'
import { type CommentRow, selectComments } from '../../db/studio.ts'
import { iso } from '../../db/view-sessions.ts'
import { ok } from '../../fault.ts'
import { commentOn } from '../../flows/admin/review-template.ts'
import { answered } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { byVersion, ownVersion, placeView, STAFF, STUDIO } from './studio-views.ts'
import { read, write } from './write.ts'

/** The thread of a version: only in the tenant that owns the template. */
const tag = 'templates'

const commentView = (row: CommentRow) => ({
  id: row.id,
  user: { id: row.userId, login: row.login, name: row.name },
  kind: row.kind,
  body: row.body,
  ...(row.item === null ? {} : { on: placeView(row.item) }),
  created_at: iso(row.createdAt),
})
const COMMENTS_MAX = 500

export const mountStudioComments: Mount = (api) => {
  const path = '/templates/{id}/versions/{n}/comments'
  endpoint(
    api,
    {
      method: 'get',
      path,
      summary: 'What was said of a version, oldest first; reviews are among it',
      tag,
      roles: STAFF,
      params: byVersion,
      answers: { 200: listOf(templateComment) },
    },
    (c, { params }) =>
      read(c, 'list_template_comments', async (tx) => {
        const found = await ownVersion(c, tx, params)
        if (!found.ok) return found
        const of = { template: found.value.template, version: params.n, limit: COMMENTS_MAX }
        return ok({ items: (await selectComments(tx, of)).map(commentView) })
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path,
      summary: 'Say something about a version',
      tag,
      roles: STUDIO,
      params: byVersion,
      body: templateCommentNew,
      idempotent: true,
      answers: { 201: z.object({ id: z.string() }) },
    },
    (c, { params, body }) =>
      write(c, 'comment_on_template', async (tx) => {
        const input = { ref: params.id, version: params.n, ...body }
        return answered(await commentOn(c.var.ctx, c.var.caller, input, tx), 201, (done) => done)
      }),
  )
}
