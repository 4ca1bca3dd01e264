import type { UserCaller } from '../../callers.ts'
import { filterProblem } from '../../core/filter.ts'
import type { Filter } from '../../core/vocabulary.ts'
import { usersOfTarget } from '../../db/admin-groups.ts'
import {
  deleteRestriction,
  fieldsOfEntity,
  insertRestriction,
  type RestrictionRow,
  selectRestrictions,
  updateRestriction,
} from '../../db/admin-restrictions.ts'
import { FIRST } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import type { Tx } from '../../db/tx.ts'
import { type FieldError, fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'
import { badField, given, recordChange } from './change.ts'
import { type TargetInput, targetData, targetNames, targetOf } from './roles.ts'

/** Masks every field of the entity. */
const ALL_FIELDS = '*'

const noRestriction = () =>
  fail('not_found', { detail: 'No such restriction in this organisation.' })

/** A restriction that names nothing real would restrict nothing and look as if it did, so it is refused. */
async function check(
  tx: Tx,
  of: {
    readonly entity: string
    readonly blocks: Filter | null
    readonly masks: readonly string[]
  },
): Promise<Result<true>> {
  const fields = await fieldsOfEntity(tx, of.entity)
  if (fields === null) return badField('entity', 'is not an entity of the catalog')
  const errors: FieldError[] = of.masks.flatMap((mask, i) =>
    mask === ALL_FIELDS || fields.includes(mask)
      ? []
      : [{ path: `masks.${i}`, message: `is not a field of ${of.entity}` }],
  )
  const problem =
    of.blocks === null ? null : filterProblem(of.blocks, { userVariables: true }, 'blocks')
  if (problem !== null) errors.push(problem)
  if (errors.length > 0) return fail('unprocessable', { errors })
  if (of.blocks === null && of.masks.length === 0)
    return badField('blocks', 'a restriction needs blocks or masks')
  return ok(true)
}

async function restriction(tx: Tx, caller: UserCaller, id: string) {
  const tenantId = caller.tenant.id
  const [row] = await selectRestrictions(tx, { tenantId, id, after: FIRST, limit: 1 })
  return row
}

const record = async (
  ctx: Ctx,
  caller: UserCaller,
  what: string,
  row: RestrictionRow,
  tx: Tx,
  changes: { readonly [name: string]: unknown },
): Promise<void> =>
  recordChange(ctx, tx, caller, {
    what,
    id: row.id,
    changes: { ...targetData(row), entity: row.entity, ...changes },
    names: targetNames(row),
    affects: await usersOfTarget(tx, row),
  })

/** Blocks rows or masks fields of a person's or a group's data, for every agent and from now on (I14). */
export async function createRestriction(
  ctx: Ctx,
  caller: UserCaller,
  input: TargetInput & {
    readonly entity: string
    readonly blocks?: Filter | undefined
    readonly masks?: readonly string[] | undefined
  },
  tx: Tx,
): Promise<Result<RestrictionRow>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const target = await targetOf(tx, caller, input)
  if (!target.ok) return target
  const { entity, blocks = null, masks = [] } = input
  const good = await check(tx, { entity, blocks, masks })
  if (!good.ok) return good
  const row: RestrictionRow = {
    id: ctx.ids.id('restriction'),
    ...target.value,
    entity,
    blocks,
    masks: [...new Set(masks)],
    createdAt: secondsNow(ctx.clock),
  }
  await insertRestriction(tx, caller.tenant.id, row)
  await record(ctx, caller, 'restriction.created', row, tx, { blocks, masks: row.masks })
  return ok(row)
}

export async function changeRestriction(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: {
    /** Null takes the row block away. */
    readonly blocks?: Filter | null | undefined
    readonly masks?: readonly string[] | undefined
  },
  tx: Tx,
): Promise<Result<RestrictionRow>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const before = await restriction(tx, caller, id)
  if (before === undefined) return noRestriction()
  const after: RestrictionRow = {
    ...before,
    blocks: patch.blocks === undefined ? before.blocks : patch.blocks,
    masks: patch.masks === undefined ? before.masks : [...new Set(patch.masks)],
  }
  const good = await check(tx, after)
  if (!good.ok) return good
  await updateRestriction(tx, caller.tenant.id, after)
  const { blocks, masks } = patch
  await record(ctx, caller, 'restriction.changed', after, tx, given({ blocks, masks }))
  return ok(after)
}

export async function removeRestriction(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  tx: Tx,
): Promise<Result<true>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const row = await restriction(tx, caller, id)
  if (row === undefined) return noRestriction()
  await deleteRestriction(tx, { tenantId: caller.tenant.id, id })
  await record(ctx, caller, 'restriction.removed', row, tx, {})
  return ok(true)
}
