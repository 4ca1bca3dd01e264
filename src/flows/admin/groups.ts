import type { UserCaller } from '../../callers.ts'
import type { UserId } from '../../core/vocabulary.ts'
import {
  addMembers,
  type GroupRow,
  insertGroup,
  type Member,
  removeMembers,
  renameGroup,
  selectGroup,
  selectMembers,
} from '../../db/admin-groups.ts'
import { strangers } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'
import { given, recordChange, taken } from './change.ts'

export type Group = { readonly group: GroupRow; readonly members: readonly Member[] }

export type MemberChange =
  | readonly string[]
  | {
      readonly add?: readonly string[] | undefined
      readonly remove?: readonly string[] | undefined
    }

const isList = (members: MemberChange | undefined): members is readonly string[] =>
  Array.isArray(members)

const noGroup = () => fail('not_found', { detail: 'No such group in this organisation.' })

async function memberFault(
  tx: Tx,
  caller: UserCaller,
  ids: readonly string[],
  path: string,
): Promise<Result<true>> {
  const unknown = new Set(await strangers(tx, { tenantId: caller.tenant.id, ids }))
  const errors = ids.flatMap((id, i) =>
    unknown.has(id)
      ? [{ path: `${path}.${i}`, message: 'is not a person of this organisation' }]
      : [],
  )
  return errors.length === 0 ? ok(true) : fail('unprocessable', { errors })
}

/** A group with all its members; null when the tenant has no such group. */
export async function readGroup(tx: Tx, caller: UserCaller, id: string): Promise<Group | null> {
  const group = await selectGroup(tx, { tenantId: caller.tenant.id, id })
  return group === null ? null : { group, members: await selectMembers(tx, id) }
}

/** Makes a group. Its members may come under the restrictions of roles and groups only later. */
export async function createGroup(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly name: string; readonly members?: readonly string[] | undefined },
  tx: Tx,
): Promise<Result<Group>> {
  const tenantId = caller.tenant.id
  const users = input.members ?? []
  const known = await memberFault(tx, caller, users, 'members')
  if (!known.ok) return known
  const id = ctx.ids.id('group')
  if (!(await insertGroup(tx, { id, tenantId, name: input.name, now: secondsNow(ctx.clock) })))
    return taken('name')
  await addMembers(tx, { tenantId, groupId: id, users })
  await recordChange(ctx, tx, caller, {
    what: 'group.created',
    id,
    changes: given({ name: input.name, members: input.members }),
  })
  const made = await readGroup(tx, caller, id)
  return made === null ? noGroup() : ok(made)
}

/**
 * Renames a group, or changes who is in it: the full list, or who joins and who leaves. Who leaves loses its roles' access;
 * who joins comes under its restrictions: so both are re-evaluated.
 */
export async function changeGroup(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: { readonly name?: string | undefined; readonly members?: MemberChange | undefined },
  tx: Tx,
): Promise<Result<Group>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const before = await readGroup(tx, caller, id)
  if (before === null) return noGroup()
  const had = before.members.map((member) => member.id as string)
  const { members } = patch
  const full = isList(members) ? members : null
  const change = isList(members) ? undefined : members
  const add = full ?? change?.add ?? []
  const remove = full === null ? (change?.remove ?? []) : had.filter((one) => !full.includes(one))
  const known = await memberFault(tx, caller, add, full === null ? 'members.add' : 'members')
  if (!known.ok) return known
  const both = add.findIndex((one) => remove.includes(one))
  if (both !== -1)
    return fail('unprocessable', {
      errors: [{ path: `members.add.${both}`, message: 'is to be removed too' }],
    })
  if (patch.name !== undefined && !(await renameGroup(tx, { tenantId, id, name: patch.name })))
    return taken('name')
  const joined = await addMembers(tx, { tenantId, groupId: id, users: add })
  const left: readonly UserId[] = await removeMembers(tx, { groupId: id, users: remove })
  await recordChange(ctx, tx, caller, {
    what: 'group.changed',
    id,
    changes: given({
      name: patch.name,
      ...(members === undefined ? {} : { added: joined, removed: left }),
    }),
    affects: [...joined, ...left],
  })
  const after = await readGroup(tx, caller, id)
  return after === null ? noGroup() : ok(after)
}
