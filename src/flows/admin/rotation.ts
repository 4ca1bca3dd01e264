import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'

/** A secret is replaced: for how many seconds the one before still opens. */
export type Rotation = { readonly overlap_seconds: number }

/** When the replaced secret stops opening, in seconds; null: at once. A secret from before that one is closed in any case. */
export const previousUntil = (ctx: Pick<Ctx, 'clock'>, rotation: Rotation): number | null =>
  rotation.overlap_seconds === 0 ? null : secondsNow(ctx.clock) + rotation.overlap_seconds
