import { assert } from '../core/assert.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { replaceSealed, selectSealed } from '../db/tool-servers.ts'
import { withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { openedFor, sealedFor } from './tool-credential.ts'

export type Resealed = {
  readonly resealed: number
  /** Sealed with the first key already. */
  readonly current: number
  /** Ids of tool servers whose credential opens with none of the keys: the key they need must stay. */
  readonly unopened: readonly string[]
}

/**
 * Seals every credential anew with the vault's first key, each in a transaction of its own, so that an older key can be taken
 * out of the setting. May be stopped and run again. A credential that changed meanwhile is left as it then is.
 */
export async function resealCredentials(ctx: Ctx): Promise<Resealed> {
  const { vault } = ctx
  assert(vault, 'there is a vault to seal with')
  const all = await withTx(ctx.db, 'read_sealed', (tx) => selectSealed(tx))
  let resealed = 0
  let current = 0
  const unopened: string[] = []
  for (const row of all) {
    if (row.sealed.split('.')[1] === vault.kid) {
      current++
      continue
    }
    const of = { tenantId: row.tenantId as TenantId, id: row.id }
    const credential = openedFor(ctx, of, row.sealed)
    const sealed = credential === null ? null : sealedFor(ctx, of, credential)
    if (sealed === null) {
      unopened.push(row.id)
      continue
    }
    const replaced = await withTx(ctx.db, 'reseal_credential', async (tx) => {
      if (!(await replaceSealed(tx, { ...of, from: row.sealed, to: sealed }))) return false
      const journal = new Journal(ctx, of.tenantId)
      const changes = { sealed_with: vault.kid }
      journal.tenant('admin.changed', {
        what: 'tool_server.resealed',
        id: of.id,
        by: 'lend',
        changes,
      })
      await journal.write(tx)
      return true
    })
    if (replaced) resealed++
  }
  return { resealed, current, unopened }
}
