import { z } from 'zod'
import {
  explanation,
  itemExplanation,
  templateTried,
  templateTry,
} from '../../../schema/explanation.ts'
import { id, templateName } from '../../../schema/people.ts'
import { assert } from '../../core/assert.ts'
import { effectiveMode, factsOf } from '../../core/facts.ts'
import { explainLayers } from '../../core/layers.ts'
import { rowOf } from '../../core/reason.ts'
import { MODES } from '../../core/vocabulary.ts'
import { catalogEntries } from '../../db/catalog.ts'
import { ratedView } from '../../db/diff-view.ts'
import { personAccess, personRules, selectPerson, selectRecordedItem } from '../../db/explain.ts'
import { maskedFields } from '../../db/restrictions.ts'
import { nodeIn, worldOf } from '../../db/tree.ts'
import { readTree } from '../../db/tree-read.ts'
import { iso } from '../../db/view-sessions.ts'
import { fail, ok } from '../../fault.ts'
import { badField } from '../../flows/admin/change.ts'
import { type ExplainedItem, explainAsk, explainItems } from '../../flows/explain-decision.ts'
import { secondsNow } from '../../flows/live.ts'
import { READERS } from './admin-common.ts'
import { endpoint, type Mount, needs } from './endpoint.ts'
import { byVersion, ownVersion, placeView, STUDIO } from './studio-views.ts'
import { read } from './write.ts'

/** Why: the same decision with every layer's answer, for a person, their admins and auditors, and for builders' trials. */
const ruleView = (ruleId: string | undefined) => (ruleId === undefined ? {} : { rule_id: ruleId })

const explainedView = ({ item, entry, verdict, layers }: ExplainedItem) => ({
  ...placeView(item),
  ...ratedView(item.permission, new Map(entry === null ? [] : [[entry.id, entry]])),
  outcome: verdict.outcome,
  reason: verdict.reason,
  says: rowOf(verdict.reason).tells,
  ...ruleView(verdict.ruleId),
  layers: layers.map((one) => ({
    layer: one.layer,
    decides: one.decides,
    ...(one.verdict === null
      ? {}
      : {
          outcome: one.verdict.outcome,
          reason: one.verdict.reason,
          ...ruleView(one.verdict.ruleId),
        }),
    says: one.says,
  })),
})

const query = z.strictObject({
  user: id.optional().meta({ description: 'By id or login; oneself when left out' }),
  template: templateName.meta({ example: 'renewal-briefs' }),
  permission: z.string().min(1).max(128),
  resource: z.string().min(1).max(256).optional(),
  mode: z.enum(MODES).default('ask'),
})

const mountAsk: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/explain',
      summary:
        'What a session would get if it asked for this now, and why. For oneself; for others with the staff role org_admin or auditor',
      tag: 'explain',
      query,
      answers: { 200: explanation },
      faults: ['forbidden', 'item_invalid'],
    },
    (c, { query: asked }) =>
      read(c, 'explain_decision', async (tx) => {
        const { caller, tenant } = c.var
        const ref = asked.user ?? caller.userId
        const self = ref === caller.userId || ref === caller.login
        const refused = self ? null : needs(caller, ...READERS)
        if (refused !== null) return { ok: false, fault: refused }
        const who = { tenantId: tenant.id, ref: self ? caller.userId : ref }
        const person = await selectPerson(tx, who)
        if (person === null) return fail('not_found')
        const { template, permission, resource, mode } = asked
        const item = { permission, resource }
        const found = await explainAsk(c.var.ctx, tx, {
          tenantId: tenant.id,
          person,
          template,
          item,
          mode,
        })
        if (!found.ok) return found
        const done = found.value
        return ok({
          user_id: person.id,
          template,
          ...(done.version === null ? {} : { template_version: done.version }),
          mode: done.mode,
          ...(done.blocked === null ? {} : { blocked: done.blocked }),
          ...explainedView(done),
        })
      }),
  )

const mountRecorded: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/access-requests/{id}/items/{item}/explain',
      summary: 'Why an item was decided as it was, and what each layer says of it now',
      tag: 'explain',
      params: z.strictObject({ id, item: id }),
      answers: { 200: itemExplanation },
    },
    (c, { params }) =>
      read(c, 'explain_item', async (tx) => {
        const tenantId = c.var.tenant.id
        const of = { tenantId, requestId: params.id, itemId: params.item }
        const recorded = await selectRecordedItem(tx, of)
        const { caller } = c.var
        // Somebody else's is not there for people without the role.
        if (
          recorded === null ||
          (recorded.userId !== caller.userId && needs(caller, ...READERS) !== null)
        )
          return fail('not_found')
        const { sessionId, item } = recorded
        const now = secondsNow(c.var.ctx.clock)
        const asked = [item.permission]
        const tree = await readTree(tx, { tenantId, sessionId, now, asked })
        const node = tree === null ? undefined : nodeIn(tree, sessionId)
        assert(tree !== null && node !== undefined, 'a recorded item has its session')
        const entry = (await catalogEntries(tx, asked)).get(item.permission) ?? null
        const explained = { item, entry, ...explainLayers(factsOf(worldOf(tree, node), item)) }
        return ok({
          request_id: params.id,
          item_id: params.item,
          session_id: sessionId,
          recorded: {
            outcome: recorded.outcome,
            reason: recorded.reason,
            says: rowOf(recorded.reason).tells,
            ...(recorded.askedReason === null ? {} : { asked_reason: recorded.askedReason }),
            ...ruleView(recorded.ruleId ?? undefined),
            ...(recorded.decidedAt === null ? {} : { decided_at: iso(recorded.decidedAt) }),
          },
          now: explainedView(explained),
          session_over: node.status !== 'active',
        })
      }),
  )

const mountTry: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'post',
      path: '/templates/{id}/versions/{n}/try',
      summary:
        'What would happen if a session of this version asked for these items. Nothing is written',
      tag: 'templates',
      roles: STUDIO,
      params: byVersion,
      body: templateTry,
      answers: { 200: templateTried },
      faults: ['item_invalid', 'unprocessable'],
    },
    (c, { params, body }) =>
      read(c, 'try_template', async (tx) => {
        const found = await ownVersion(c, tx, params)
        if (!found.ok) return found
        const { template, version } = found.value
        const tenantId = c.var.tenant.id
        const now = secondsNow(c.var.ctx.clock)
        const mode = effectiveMode({
          mode: body.mode,
          modeExpiresAt: null,
          allowed: version.modes,
          now,
        })
        const { user } = body
        const person =
          'login' in user ? await selectPerson(tx, { tenantId, ref: user.login }) : null
        if ('login' in user && person === null)
          return badField('user.login', 'is nobody of this organisation')
        const of = person === null ? null : { tenantId, userId: person.id }
        const made = 'permissions' in user ? user.permissions : []
        const explained = await explainItems(tx, body.items, {
          ...(person === null ? {} : { masked: await maskedFields(tx, person.id) }),
          world: {
            ceilings: [version.ceiling],
            sensitiveMarks: version.sensitive,
            userAccess: of === null ? made.map(itemOf) : await personAccess(tx, of),
            rules:
              of === null ? [] : await personRules(tx, { ...of, templateId: template.id, now }),
            held: [],
            denied: [],
            mode,
          },
        })
        if (!explained.ok) return explained
        return ok({
          template: template.name,
          version: version.version,
          mode,
          items: explained.value.map(explainedView),
        })
      }),
  )

const itemOf = ({ permission, resource }: z.output<typeof templateTry>['items'][number]) => ({
  permission,
  ...(resource === undefined ? {} : { resource }),
})

export const mountExplain: Mount = (api) => {
  mountAsk(api)
  mountRecorded(api)
  mountTry(api)
}
