import type { JWK } from 'jose'
import { withTx } from './db/tx.ts'
import { startCheckpointJob } from './flows/checkpoint.ts'
import { startPeriodic } from './flows/periodic.ts'
import { startFeedJob } from './flows/re-evaluate.ts'
import { prepareMonths, startRetentionJob } from './flows/retention.ts'
import { startSweepJob } from './flows/sweep.ts'
import type { Ctx } from './ports.ts'
import { advanceKeys } from './tokens/keys.ts'

const KEYS_EVERY_MILLIS = 60_000

/** Background work. Every job may run on every instance at once and may be stopped half-way. */
export async function startJobs(
  ctx: Ctx,
  of: { readonly checkpointKey: JWK; readonly keptMonths: number | null },
  onBug: (error: unknown) => void,
): Promise<{ readonly stop: () => Promise<void> }> {
  // Before the first record of this life is written.
  await prepareMonths(ctx)
  const { checkpointKey: key, keptMonths } = of
  const jobs = [
    startSweepJob(ctx, onBug),
    startFeedJob(ctx, onBug),
    startCheckpointJob(ctx, key, onBug),
    startRetentionJob(ctx, { key, keptMonths }, onBug),
    startPeriodic({
      run: () => withTx(ctx.db, 'advance_keys', (tx) => advanceKeys(tx, ctx.clock.now() / 1000)),
      everyMillis: KEYS_EVERY_MILLIS,
      onBug,
    }),
  ]
  return {
    stop: async () => {
      await Promise.all(jobs.map((job) => job.stop()))
    },
  }
}
