import type { TenantId } from '../core/vocabulary.ts'
import type { Page } from './directory.ts'
import { takesBack } from './taken-back.ts'
import type { FreezeScope } from './tree.ts'
import type { Tx } from './tx.ts'

/** What is frozen in a tenant (SPEC section 5). */
export type FreezeRow = {
  readonly id: string
  readonly scope: FreezeScope
  readonly targetId: string
  readonly createdBy: string
  readonly createdAt: number
}

export const selectFreezes = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly FreezeRow[]> => tx.sql<FreezeRow>`
  select id, scope, target_id as "targetId", created_by as "createdBy",
    extract(epoch from created_at)::float8 as "createdAt"
  from frozen
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

/** False: it is frozen already. */
export async function insertFreeze(tx: Tx, tenantId: TenantId, f: FreezeRow): Promise<boolean> {
  takesBack(tx)
  const made = await tx.sql`
    insert into frozen (id, tenant_id, scope, target_id, created_by, created_at)
    values (${f.id}, ${tenantId}, ${f.scope}, ${f.targetId}, ${f.createdBy},
      to_timestamp(${f.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

export async function deleteFreeze(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<void> {
  await tx.sql`delete from frozen where tenant_id = ${of.tenantId} and id = ${of.id}`
}
