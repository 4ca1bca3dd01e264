import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'

/** A secret is replaced: for how many seconds the one before still opens. */
export type Rotation = { readonly overlap_seconds: number }

/** What the short form `rotate_secret: true` means. */
export const rotationOf = (asked: true | Rotation | undefined): Rotation | undefined =>
  asked === true ? { overlap_seconds: 0 } : asked

/** When the replaced secret stops opening, in seconds; null: at once. A secret from before that one is closed in any case. */
export const previousUntil = (ctx: Pick<Ctx, 'clock'>, rotation: Rotation): number | null =>
  rotation.overlap_seconds === 0 ? null : secondsNow(ctx.clock) + rotation.overlap_seconds
