import type { UserCaller } from '../../callers.ts'
import type { RuleEffect, UserId } from '../../core/vocabulary.ts'
import { Journal } from '../../db/activity.ts'
import { itemData } from '../../db/endings.ts'
import { guardUserAlone } from '../../db/guard.ts'
import { type ItemJson, itemOf } from '../../db/tree.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'

type RuleSql = ItemJson & { effect: RuleEffect; template: string; userId: UserId }

/**
 * `DELETE /reviews/rules/{id}`: an org admin takes a person's allow rule away; that person is asked again, and what is held
 * stays held. Only allow rules: to take a deny rule away would widen (I15). Fault: `not_found`.
 */
export async function removeRule(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  id: string,
): Promise<Result<true>> {
  const tenantId = caller.tenant.id
  const [rule] = await tx.sql<RuleSql>`
    select r.user_id as "userId", r.effect, t.name as template, r.permission_id as permission, r.resource, r.narrow
    from consent_rule r join template t on t.id = r.template_id
    where r.id = ${id} and r.tenant_id = ${tenantId} and r.effect = 'allow'`
  if (rule === undefined) return fail('not_found', { detail: 'There is no such allow rule.' })
  // Once it is gone nothing may still be granted by it.
  await guardUserAlone(tx, { tenantId, userId: rule.userId })
  const gone = await tx.sql`
    delete from consent_rule where id = ${id} and tenant_id = ${tenantId} and effect = 'allow' returning id`
  if (gone.length === 0) return fail('not_found', { detail: 'There is no such allow rule.' })
  const journal = new Journal(ctx, tenantId)
  journal.tenant(
    'rule.deleted',
    {
      rule_id: id,
      effect: rule.effect,
      rule_template: rule.template,
      ...itemData(itemOf(rule)),
      by: caller.userId,
      via: caller.clientId,
    },
    { userId: rule.userId, template: rule.template },
  )
  await journal.write(tx)
  return ok(true)
}
