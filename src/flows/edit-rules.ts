import type { UserCaller } from '../callers.ts'
import { isSensitive } from '../core/facts.ts'
import type { Item, RuleEffect, RuleId, SessionId, TemplateId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { itemData, narrowTree } from '../db/endings.ts'
import { guardUserAlone } from '../db/guard.ts'
import { maskedFields } from '../db/restrictions.ts'
import { liveRootsOf, saveRule } from '../db/rules.ts'
import { runningTemplate } from '../db/templates.ts'
import { type CatalogRow, type ItemJson, itemOf } from '../db/tree.ts'
import { lockTree } from '../db/tree-read.ts'
import type { Tx } from '../db/tx.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { canonicalItem, type RawItem } from './items.ts'
import { secondsNow } from './live.ts'

export type NewRuleInput = RawItem & {
  /** Name of the template. */
  readonly template: string
  readonly effect: RuleEffect
  /** Seconds. */
  readonly expiresAt?: number | undefined
}

const at = (code: Fault['code'], path: string, message: string): Result<never> =>
  fail(code, { errors: [{ path, message }] })

/** Everyone's template or the tenant's own; what its sensitive marks are where the tenant has it turned on, or would. */
async function readTemplate(tx: Tx, caller: UserCaller, name: string) {
  const running = await runningTemplate(tx, { tenantId: caller.tenant.id, name })
  if (running === null) return null
  if (running.adoptedVersion !== null) return { id: running.id, marks: running.sensitiveMarks }
  const [latest] = await tx.sql<{ sensitive: Item[] }>`
    select sensitive from template_version where template_id = ${running.id} and status = 'published'
    order by version desc limit 1`
  return { id: running.id, marks: latest?.sensitive ?? [] }
}

async function readPermission(tx: Tx, id: string): Promise<CatalogRow | null> {
  const [row] = await tx.sql<CatalogRow>`
    select p.id, p.kind, p.access, p.risk, p.sensitive, p.delegable, p.title, p.description,
      p.service_id as service, p.enforced_at as "enforcedAt", p.data,
      p.kind = 'asset' or (p.kind = 'tool' and p.tool ? 'destination') as "takesResource"
    from permission p where p.id = ${id} and not p.retired`
  return row ?? null
}

async function readItem(
  tx: Tx,
  caller: UserCaller,
  input: NewRuleInput,
): Promise<Result<{ item: Item; permission: CatalogRow }>> {
  const permission = await readPermission(tx, input.permission)
  if (permission === null) return at('item_invalid', 'permission', 'no permission has this id')
  const masked = input.narrow === undefined ? new Map() : await maskedFields(tx, caller.userId)
  const catalog = new Map([[permission.id, permission]])
  const read = canonicalItem(input, { catalog, masked }, '')
  return 'error' in read
    ? at('item_invalid', read.error.path.replace(/^\./, ''), read.error.message)
    : ok({ item: read.item, permission })
}

/**
 * A new deny rule ends what it overlaps in every live session of this user and template. The caller holds the user's guard
 * alone, so nothing that was decided before the rule can still commit.
 */
export async function endDenied(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  caller: UserCaller,
  templateId: TemplateId,
): Promise<void> {
  const now = secondsNow(ctx.clock)
  const of = { tenantId: caller.tenant.id, userId: caller.userId }
  for (const root of await liveRootsOf(tx, { ...of, templateId })) {
    const tree = await lockTree(tx, { ...of, sessionId: root as SessionId, now })
    if (tree) narrowTree(tx, journal, tree)
  }
}

/**
 * `POST /rules`: an answer for next time, for one template and one item (I10). A sensitive item is never remembered as
 * allow, under the catalog's marks or the template's (I8). Deny ends what it overlaps at once. `created` is false when the
 * very same rule stood already. Faults: `template_unknown`, `item_invalid`, `sensitive_not_remembered`; nothing is written.
 */
export async function createRule(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  input: NewRuleInput,
): Promise<Result<{ readonly id: RuleId; readonly created: boolean }>> {
  const of = { tenantId: caller.tenant.id, userId: caller.userId }
  // From its commit on the rule is obeyed: whatever grants holds this guard shared.
  await guardUserAlone(tx, of)
  const now = secondsNow(ctx.clock)
  const template = await readTemplate(tx, caller, input.template)
  if (template === null) return fail('template_unknown')
  const read = await readItem(tx, caller, input)
  if (!read.ok) return read
  const { item, permission } = read.value
  if (input.expiresAt !== undefined && input.expiresAt <= now)
    return at('unprocessable', 'expires_at', 'must be in the future')
  const world = {
    catalog: new Map([[permission.id, permission]]),
    sensitiveMarks: template.marks,
  }
  if (input.effect === 'allow' && isSensitive(world, item))
    return at('sensitive_not_remembered', 'effect', 'is for a sensitive item: it is always asked')

  const id = ctx.ids.id<RuleId>('rule')
  const saved = await saveRule(tx, {
    ...of,
    id,
    templateId: template.id,
    effect: input.effect,
    item,
    expiresAt: input.expiresAt,
    now,
  })
  const journal = new Journal(ctx, of.tenantId)
  journal.tenant(
    'rule.created',
    {
      rule_id: saved,
      effect: input.effect,
      rule_template: input.template,
      ...itemData(item),
      ...(input.expiresAt === undefined
        ? {}
        : { expires_at: new Date(input.expiresAt * 1000).toISOString() }),
      via: caller.clientId,
    },
    { userId: of.userId, template: input.template },
  )
  if (input.effect === 'deny') await endDenied(ctx, tx, journal, caller, template.id)
  await journal.write(tx)
  return ok({ id: saved, created: saved === id })
}

type DeletedSql = ItemJson & { effect: RuleEffect; template: string }

/** `DELETE /rules/{id}`: the next request is asked again; what is held stays held. Fault: `not_found`. */
export async function deleteRule(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  id: string,
): Promise<Result<null>> {
  const of = { tenantId: caller.tenant.id, userId: caller.userId }
  // Once an allow rule is gone nothing may still be granted by it.
  await guardUserAlone(tx, of)
  const [gone] = await tx.sql<DeletedSql>`
    delete from consent_rule r using template t
    where r.id = ${id} and r.tenant_id = ${of.tenantId} and r.user_id = ${of.userId} and t.id = r.template_id
    returning r.effect, t.name as template, r.permission_id as permission, r.resource, r.narrow`
  if (gone === undefined) return fail('not_found', { detail: 'You have no such rule.' })
  const journal = new Journal(ctx, of.tenantId)
  journal.tenant(
    'rule.deleted',
    {
      rule_id: id,
      effect: gone.effect,
      rule_template: gone.template,
      ...itemData(itemOf(gone)),
      via: caller.clientId,
    },
    { userId: of.userId, template: gone.template },
  )
  await journal.write(tx)
  return ok(null)
}
