import { z } from 'zod'
import { accessRequest, decision, id, listOf } from '../../../schema/people.ts'
import { assert } from '../../core/assert.ts'
import { REQUEST_STATUSES } from '../../core/session.ts'
import type { RequestId } from '../../core/vocabulary.ts'
import { hotTx, type Tx } from '../../db/tx.ts'
import { requestViews } from '../../db/views.ts'
import { fail, ok, type Result } from '../../fault.ts'
import { answerPrompt } from '../../flows/answer-prompt.ts'
import { secondsNow } from '../../flows/live.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { byTimeAndId, cursor, limit, page } from './page.ts'
import { read, type Written, write } from './write.ts'

const tag = 'access requests'
const byId = z.strictObject({ id })

/** The caller's own; anyone else's is not there, whatever the caller's staff roles (I6, I17). */
async function requestOf(c: PeopleContext, tx: Tx, requestId: string) {
  const [view] = await requestViews(tx, {
    tenantId: c.var.tenant.id,
    userId: c.var.caller.userId,
    id: requestId,
    limit: 1,
    now: secondsNow(c.var.ctx.clock),
  })
  return view
}

const mountRead: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/access-requests',
      summary: 'What agents asked for on your behalf, subagents too, newest first',
      tag,
      query: z.strictObject({
        status: z.enum(REQUEST_STATUSES).optional(),
        session_id: id.optional(),
        limit,
        cursor: cursor(byTimeAndId),
      }),
      answers: { 200: listOf(accessRequest) },
    },
    (c, { query }) =>
      read(c, 'list_requests', async (tx) => {
        const rows = await requestViews(tx, {
          tenantId: c.var.tenant.id,
          userId: c.var.caller.userId,
          status: query.status,
          sessionId: query.session_id,
          after: query.cursor,
          limit: query.limit + 1,
          now: secondsNow(c.var.ctx.clock),
        })
        return ok(
          page(rows, {
            limit: query.limit,
            item: (row) => row,
            key: (row) => [Date.parse(row.created_at), row.id],
          }),
        )
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/access-requests/{id}',
      summary: 'One access request, item by item',
      tag,
      params: byId,
      answers: { 200: accessRequest },
    },
    (c, { params }) =>
      read(c, 'read_request', async (tx) => {
        const view = await requestOf(c, tx, params.id)
        return view === undefined ? fail('not_found') : ok(view)
      }),
  )
}

async function answeredRequest(c: PeopleContext, tx: Tx, requestId: string) {
  const view = await requestOf(c, tx, requestId)
  assert(view, 'a request that was just answered can be read')
  return view
}

/** Many answer at once, so it is planned once. */
const answer = (c: PeopleContext, body: (tx: Tx) => Promise<Result<Written>>): Promise<Response> =>
  write(c, 'answer_prompt', body, hotTx)

const mountDecide: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'post',
      path: '/access-requests/{id}/decision',
      summary: 'Answer every pending item, once',
      takesAway: true,
      tag,
      params: byId,
      body: decision,
      idempotent: true,
      answers: { 200: accessRequest },
      faults: [
        'digest_mismatch',
        'already_answered',
        'request_expired',
        'request_cancelled',
        'frozen',
        'answer_incomplete',
        'sensitive_not_remembered',
      ],
    },
    (c, { params, body }) =>
      answer(c, async (tx) => {
        const answers = {
          requestId: params.id as RequestId,
          digest: body.digest,
          items: body.items.map((item) => ({
            id: item.id,
            decision: item.decision,
            ruleExpiresAt: item.rule_expires_at,
          })),
          note: body.note,
        }
        const answered = await answerPrompt(c.var.ctx, c.var.caller, answers, tx)
        if (!answered.ok) return answered
        // Read back, so that the screen says what was stored and not what was meant (USER-ASKS 26).
        return ok({ status: 200, view: answeredRequest(c, tx, params.id) })
      }),
  )

export const mountRequests: Mount = (api) => {
  mountRead(api)
  mountDecide(api)
}
