import type { UserCaller } from '../../callers.ts'
import type { UserId } from '../../core/vocabulary.ts'
import { Journal, type Loose } from '../../db/activity.ts'
import type { Access } from '../../db/admin-groups.ts'
import { catalogEntries } from '../../db/catalog.ts'
import { tellAccessChanged } from '../../db/feed.ts'
import type { Tx } from '../../db/tx.ts'
import { type FieldError, fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { canonicalItem, type RawItem } from '../items.ts'
import { secondsNow } from '../live.ts'

/**
 * What all changes of an admin share. A change that can take access away takes its guard before it reads, so that nothing
 * decided on the old state can commit after it; it is recorded and put in the feed in its own transaction.
 */
export type Change = {
  /** As in `user.disabled`. */
  readonly what: string
  readonly id: string
  /** What was asked, by its wire names. Never a secret, a hash or a key. */
  readonly changes: { readonly [name: string]: unknown }
  readonly names?: Loose
  /** Whose sessions to re-evaluate: these people's, or null for everyone's. Absent: nobody can have lost anything. */
  readonly affects?: readonly UserId[] | null
}

/** More people than this, and one row for the whole tenant is less work than a row each. */
const AFFECTED_MAX = 500

/** Records a change and tells the re-evaluation of it. `journal` may hold more; all of it is written here. */
export async function recordChange(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  change: Change,
  journal: Journal = new Journal(ctx, caller.tenant.id),
): Promise<void> {
  const { what, id, changes, names, affects } = change
  if (affects !== undefined) {
    await tellAccessChanged(tx, {
      tenantId: caller.tenant.id,
      users: affects !== null && affects.length > AFFECTED_MAX ? null : affects,
      what,
      now: secondsNow(ctx.clock),
    })
  }
  journal.tenant('admin.changed', { what, id, by: caller.userId, changes }, names)
  await journal.write(tx)
}

/** 422 that names one field. */
export const badField = (path: string, message: string): Result<never> =>
  fail('unprocessable', { errors: [{ path, message }] })

/** 409 that names the field whose value is taken. */
export const taken = (path: string): Result<never> =>
  fail('already_exists', { errors: [{ path, message: 'is taken' }] })

/** Members that were given, for a record; undefined ones are left out. */
export const given = (members: { readonly [name: string]: unknown }) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

/**
 * Permissions as they may be given to people: known to the catalog, with a canonical resource where one is needed and
 * none where not. Never-delegable ones are people's own to have. `pathOf` names the member an item came from.
 */
export async function accessOf(
  tx: Tx,
  raw: readonly RawItem[],
  pathOf: (index: number) => string,
): Promise<Result<readonly Access[]>> {
  const catalog = await catalogEntries(tx, [...new Set(raw.map((item) => item.permission))])
  const errors: FieldError[] = []
  const access: Access[] = []
  const seen = new Set<string>()
  for (const [i, item] of raw.entries()) {
    const path = pathOf(i)
    if (!catalog.has(item.permission)) {
      errors.push({ path: `${path}permission`, message: 'is not in the catalog' })
      continue
    }
    const read = canonicalItem(item, { catalog }, path.replace(/\.$/, ''))
    if ('error' in read) {
      errors.push({ ...read.error, path: read.error.path.replace(/^\./, '') })
      continue
    }
    const one = { permission: item.permission, resource: read.item.resource ?? null }
    const key = `${one.permission} ${one.resource ?? ''}`
    if (!seen.has(key)) access.push(one)
    seen.add(key)
  }
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok(access)
}
