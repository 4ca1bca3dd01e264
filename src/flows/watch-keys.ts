import { opened, sealedBy, selectSealedSigners } from '../db/sealed.ts'
import { withRead } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { type Job, startPeriodic } from './periodic.ts'

const LOOK_MILLIS = 30_000
/** One that does not open may have been changed or moved; when none of so many do, the key is another. */
const TRIED_OF_EACH_KEY = 20

/**
 * Names of the keys that sealed signing keys in use, of which none opens here: this instance has other keys than the rest, and
 * signs for nobody whose key they sealed. A single value that is broken is its tenant's trouble alone, and not named.
 */
export async function shutKeys(ctx: Pick<Ctx, 'db' | 'vault'>): Promise<readonly string[]> {
  const rows = await withRead(ctx.db, 'watch_keys', (tx) =>
    selectSealedSigners(tx, TRIED_OF_EACH_KEY),
  )
  const opens = new Map<string, boolean>()
  for (const row of rows) {
    const name = sealedBy(row.sealed ?? '')
    opens.set(name, opens.get(name) === true || opened(ctx.vault, row, row) !== null)
  }
  return [...opens].filter(([, one]) => !one).map(([name]) => name)
}

export type KeyWatch = Job & {
  /** Whether signing keys are shut here: then this instance is not ready. */
  readonly isShut: () => boolean
}

/** Looks before it resolves, then again and again. Tells the operator once when other keys are found shut. */
export async function watchKeys(
  ctx: Pick<Ctx, 'db' | 'vault'>,
  on: {
    readonly shut: (says: string, more: object) => void
    readonly onBug: (error: unknown) => void
  },
): Promise<KeyWatch> {
  let shut: readonly string[] = []
  const look = async () => {
    const found = await shutKeys(ctx)
    const isNew = found.join() !== shut.join()
    shut = found
    if (isNew && found.length > 0)
      on.shut(
        'signing keys cannot be opened, so this instance issues no token and is not ready: put the keys that sealed them back into LEND_SECRET_KEYS (without that setting: secret-key.json back into LEND_DATA) and start it again',
        { sealed_with: found },
      )
  }
  await look()
  const job = startPeriodic({ run: look, everyMillis: LOOK_MILLIS, onBug: on.onBug })
  return { ...job, isShut: () => shut.length > 0 }
}
