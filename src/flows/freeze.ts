import type { UserCaller } from '../callers.ts'
import { unreachable } from '../core/assert.ts'
import { Journal, type Loose } from '../db/activity.ts'
import { selectAgents, visibleTemplates } from '../db/admin-clients.ts'
import { FIRST, selectUser } from '../db/directory.ts'
import { deleteFreeze, type FreezeRow, insertFreeze, selectFreezes } from '../db/freezes.ts'
import { guardTenantAlone } from '../db/guard.ts'
import type { FreezeScope } from '../db/tree.ts'
import type { Tx } from '../db/tx.ts'
import { fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'

export const FREEZE_SCOPES = ['tenant', 'template', 'agent', 'user'] as const

type Target = { readonly id: string; readonly names: Loose }

/** What a freeze is of, by its id or, for tenants and templates, its name. Null: this tenant has no such thing (I17). */
async function targetOf(
  tx: Tx,
  caller: UserCaller,
  scope: FreezeScope,
  id: string,
): Promise<Target | null> {
  const tenantId = caller.tenant.id
  switch (scope) {
    case 'tenant':
      return id === tenantId || id === caller.tenant.slug ? { id: tenantId, names: {} } : null
    case 'template': {
      const template = (await visibleTemplates(tx, { tenantId, names: [id] })).get(id)
      return template === undefined ? null : { id: template, names: {} }
    }
    case 'agent': {
      const [agent] = await selectAgents(tx, { tenantId, id, after: FIRST, limit: 1 })
      return agent === undefined ? null : { id: agent.id, names: { agentId: agent.id } }
    }
    case 'user': {
      const user = await selectUser(tx, { tenantId, id })
      return user === null ? null : { id: user.id, names: { userId: user.id } }
    }
    default:
      return unreachable(scope)
  }
}

/**
 * Freezes a tenant, template, agent or person (SPEC section 5, USER-ASKS 42). It holds the tenant's guard alone, so once it
 * has answered, nothing that was decided before can still commit. It ends nothing. 409 when it is frozen already.
 */
export async function freeze(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly scope: FreezeScope; readonly id: string },
  tx: Tx,
): Promise<Result<FreezeRow>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const target = await targetOf(tx, caller, input.scope, input.id)
  if (target === null)
    return fail('unprocessable', {
      errors: [{ path: 'id', message: `is not a ${input.scope} of this organisation` }],
    })
  const row: FreezeRow = {
    id: ctx.ids.id('freeze'),
    scope: input.scope,
    targetId: target.id,
    createdBy: caller.userId,
    createdAt: secondsNow(ctx.clock),
  }
  if (!(await insertFreeze(tx, tenantId, row)))
    return fail('already_exists', { detail: `This ${input.scope} is frozen already.` })
  await recordFreeze(ctx, tx, caller, 'freeze.created', row, target.names)
  return ok(row)
}

async function recordFreeze(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  type: 'freeze.created' | 'freeze.ended',
  row: FreezeRow,
  names: Loose,
): Promise<void> {
  const journal = new Journal(ctx, caller.tenant.id)
  const { id, scope, targetId } = row
  journal.tenant(type, { freeze_id: id, scope, target_id: targetId, by: caller.userId }, names)
  await journal.write(tx)
}

/** Unfreezes. Nothing that was suspended has to be asked for again. */
export async function unfreeze(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  tx: Tx,
): Promise<Result<true>> {
  const tenantId = caller.tenant.id
  // Two who unfreeze at once leave one record.
  await guardTenantAlone(tx, tenantId)
  const [row] = await selectFreezes(tx, { tenantId, id, after: FIRST, limit: 1 })
  if (row === undefined) return fail('not_found', { detail: 'No such freeze.' })
  await deleteFreeze(tx, { tenantId, id })
  const target = await targetOf(tx, caller, row.scope, row.targetId)
  await recordFreeze(ctx, tx, caller, 'freeze.ended', row, target?.names ?? {})
  return ok(true)
}
