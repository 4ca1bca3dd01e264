import type { UserId } from '../core/vocabulary.ts'
import type { Tx } from './tx.ts'

/** The fields that a person's own and their groups' restrictions mask, by entity (I14). */
export async function maskedFields(
  tx: Tx,
  userId: UserId,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await tx.sql<{ entity: string; masks: string[] }>`
    select r.entity, r.masks from restriction r
    where r.user_id = ${userId}
       or r.group_id in (select group_id from group_member where user_id = ${userId})`
  const all = new Map<string, string[]>()
  for (const { entity, masks } of rows) all.set(entity, [...(all.get(entity) ?? []), ...masks])
  return all
}
