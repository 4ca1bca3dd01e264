import { reseal } from './flows/reseal.ts'
import { type KeyWatch, watchKeys } from './flows/watch-keys.ts'
import type { Ctx } from './ports.ts'

/**
 * Before anything is served. The embedded database has one process, so no older version can be at it that reads only what lies in
 * clear: all is sealed at the start, with the first key. On a server that is for `lend reseal`, since only the operator
 * knows when the last old instance has ended.
 */
export async function openSealedKeys(
  ctx: Ctx,
  on: Parameters<typeof watchKeys>[1],
): Promise<KeyWatch> {
  if (ctx.db.kind === 'embedded') await reseal(ctx)
  return watchKeys(ctx, on)
}
