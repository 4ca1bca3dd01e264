import { z } from 'zod'
import { id, listOf, rule, ruleNew, templateName } from '../../../schema/people.ts'
import { assert } from '../../core/assert.ts'
import { RULE_EFFECTS } from '../../core/vocabulary.ts'
import { ruleViews } from '../../db/views.ts'
import { ok } from '../../fault.ts'
import { createRule, deleteRule } from '../../flows/edit-rules.ts'
import { secondsNow } from '../../flows/live.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { byTimeAndId, cursor, limit, page } from './page.ts'
import { read, write } from './write.ts'

const tag = 'rules'

const ofCaller = (c: PeopleContext) => ({
  tenantId: c.var.tenant.id,
  userId: c.var.caller.userId,
  now: secondsNow(c.var.ctx.clock),
})

const mountList: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/rules',
      summary: 'Your remembered answers, newest first',
      tag,
      query: z.strictObject({
        template: templateName.optional(),
        effect: z.enum(RULE_EFFECTS).optional(),
        limit,
        cursor: cursor(byTimeAndId),
      }),
      answers: { 200: listOf(rule) },
    },
    (c, { query }) =>
      read(c, 'list_rules', async (tx) => {
        const rows = await ruleViews(tx, {
          ...ofCaller(c),
          template: query.template,
          effect: query.effect,
          after: query.cursor,
          limit: query.limit + 1,
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

const mountEdit: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'post',
      path: '/rules',
      summary:
        'Remember an answer. Deny also ends what it overlaps; 200 when the same rule stood already',
      tag,
      body: ruleNew,
      idempotent: true,
      answers: { 200: rule, 201: rule },
      faults: ['template_unknown', 'item_invalid', 'sensitive_not_remembered', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_rule', async (tx) => {
        const { expires_at, ...input } = body
        const made = await createRule(c.var.ctx, tx, c.var.caller, {
          ...input,
          expiresAt: expires_at,
        })
        if (!made.ok) return made
        const [view] = await ruleViews(tx, { ...ofCaller(c), id: made.value.id, limit: 1 })
        assert(view, 'a rule that was just saved can be read')
        return ok({ status: made.value.created ? 201 : 200, body: view })
      }),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: '/rules/{id}',
      summary: 'Forget an answer. Ends nothing that is held',
      tag,
      params: z.strictObject({ id }),
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'delete_rule', async (tx) => {
        const gone = await deleteRule(c.var.ctx, tx, c.var.caller, params.id)
        return gone.ok ? ok({ status: 204 }) : gone
      }),
  )
}

export const mountRules: Mount = (api) => {
  mountList(api)
  mountEdit(api)
}
