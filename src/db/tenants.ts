import type { TenantRef } from '../callers.ts'
import type { Tx } from './tx.ts'

export async function findTenant(tx: Tx, slug: string): Promise<TenantRef | null> {
  const [row] = await tx.sql<TenantRef>`select id, slug from tenant where slug = ${slug}`
  return row ?? null
}
