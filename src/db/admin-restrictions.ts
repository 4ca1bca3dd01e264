import type { Filter, TenantId } from '../core/vocabulary.ts'
import type { Target } from './admin-groups.ts'
import type { Page } from './directory.ts'
import { json, type Tx } from './tx.ts'

/** Row blocks and field masks of people's data (I14). */
export type RestrictionRow = Target & {
  readonly id: string
  readonly entity: string
  readonly blocks: Filter | null
  readonly masks: readonly string[]
  readonly createdAt: number
}

export const selectRestrictions = (
  tx: Tx,
  of: Page & {
    readonly id?: string
    readonly userId?: string | undefined
    readonly groupId?: string | undefined
  },
): Promise<readonly RestrictionRow[]> => tx.sql<RestrictionRow>`
  select id, user_id as "userId", group_id as "groupId", entity, blocks, masks,
    extract(epoch from created_at)::float8 as "createdAt"
  from restriction
  where tenant_id = ${of.tenantId}
    and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and (${of.userId ?? null}::text is null or user_id = ${of.userId ?? null})
    and (${of.groupId ?? null}::text is null or group_id = ${of.groupId ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

export async function insertRestriction(
  tx: Tx,
  tenantId: TenantId,
  r: RestrictionRow,
): Promise<void> {
  const blocks = r.blocks === null ? null : json(r.blocks)
  await tx.sql`
    insert into restriction (id, tenant_id, user_id, group_id, entity, blocks, masks, created_at)
    values (${r.id}, ${tenantId}, ${r.userId}, ${r.groupId}, ${r.entity}, ${blocks}::text::jsonb,
      ${r.masks}::text[], to_timestamp(${r.createdAt}::float8))`
}

export async function updateRestriction(
  tx: Tx,
  tenantId: TenantId,
  r: RestrictionRow,
): Promise<void> {
  const blocks = r.blocks === null ? null : json(r.blocks)
  await tx.sql`
    update restriction set blocks = ${blocks}::text::jsonb, masks = ${r.masks}::text[]
    where tenant_id = ${tenantId} and id = ${r.id}`
}

export async function deleteRestriction(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<void> {
  await tx.sql`delete from restriction where tenant_id = ${of.tenantId} and id = ${of.id}`
}

/** The fields of an entity that the catalog knows; null when it knows no such entity. */
export async function fieldsOfEntity(tx: Tx, entity: string): Promise<readonly string[] | null> {
  const rows = await tx.sql<{ fields: string[] }>`
    select data -> 'fields' as fields from permission
    where kind = 'data' and not retired and data ->> 'entity' = ${entity}`
  return rows.length === 0 ? null : [...new Set(rows.flatMap((row) => row.fields))]
}
