import { lastCheckpoint, lockCheckpoints, merkleRoot } from '../db/checkpoints.ts'
import { dropPart, headsOfPart, holdsLater, makeMonths, partToCut } from '../db/months.ts'
import { type Tx, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { type CheckpointKey, makeCheckpoint, writeCheckpoint } from './checkpoint.ts'
import { secondsNow } from './live.ts'
import { type Job, startPeriodic } from './periodic.ts'

/** The month that is, and so many more that an instance which is down for weeks finds its own ready. */
const MONTHS_AHEAD = 3
const EVERY_MILLIS = 3_600_000

/** The record has a part for each month (UTC) before its first record comes (SPEC section 11). */
export const prepareMonths = (ctx: Ctx): Promise<void> =>
  withTx(ctx.db, 'prepare_months', (tx) =>
    makeMonths(tx, { now: secondsNow(ctx.clock), count: MONTHS_AHEAD }),
  )

/**
 * Takes the oldest part out of the record if it is over since `keptMonths` whole months. A checkpoint of the same
 * transaction signs what the rest hangs on: until when records went, and the last of each chain that goes on. So what stays
 * verifies without what went, and nothing else can go unseen. Returns until when (ISO 8601); null: nothing was due.
 */
export async function cutOldestPart(
  ctx: Ctx,
  of: { readonly key: CheckpointKey; readonly keptMonths: number },
): Promise<string | null> {
  const { key, keptMonths } = of
  const due = (tx: Tx) => partToCut(tx, { now: secondsNow(ctx.clock), keptMonths })
  if ((await withTx(ctx.db, 'retention_due', due)) === null) return null
  // What nothing anchored yet is anchored first, so that the cut knows of it: in a month that is over, nothing is added now.
  await makeCheckpoint(ctx, key, 0)
  // The long reads come before the first write: a transaction that has written holds up everybody who reads in commit order.
  const work = async (tx: Tx): Promise<string | null> => {
    await lockCheckpoints(tx)
    const part = await due(tx)
    if (part === null) return null
    // The list of parts is not signed: it cannot make a month go before its time.
    if (await holdsLater(tx, part))
      throw new Error(`${part.part}: a month holds what is later than its end`)
    const heads = await headsOfPart(tx, part)
    const before = new Date(part.ends * 1000).toISOString()
    const cut = { before, heads, root: merkleRoot(heads) }
    await writeCheckpoint(ctx, tx, { key, last: await lastCheckpoint(tx), cut })
    await dropPart(tx, part)
    return before
  }
  return withTx(ctx.db, 'retention', work, 'by_value_and_long')
}

/**
 * Prepares months, and takes those out that are past their retention; `keptMonths` null: the record is kept for ever. Safe on
 * every instance at once. Errors go to `onBug`.
 */
export const startRetentionJob = (
  ctx: Ctx,
  of: { readonly key: CheckpointKey; readonly keptMonths: number | null },
  onBug: (error: unknown) => void,
  everyMillis = EVERY_MILLIS,
): Job =>
  startPeriodic({
    run: async () => {
      await prepareMonths(ctx)
      const { key, keptMonths } = of
      if (keptMonths === null) return
      let cut: string | null
      do cut = await cutOldestPart(ctx, { key, keptMonths })
      while (cut !== null)
    },
    everyMillis,
    onBug,
  })
