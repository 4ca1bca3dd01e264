import { assert } from '../core/assert.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import {
  type Kept,
  opened,
  replaceKept,
  SEALED_KINDS,
  type SealedKind,
  type SealedRow,
  sealed,
  sealedBy,
  selectKept,
} from '../db/sealed.ts'
import { withTx } from '../db/tx.ts'
import type { Ctx, Vault } from '../ports.ts'

export type Resealed = {
  readonly kind: SealedKind
  /** Lay in clear before. */
  readonly sealed: number
  /** Were sealed with another key. */
  readonly resealed: number
  /** Sealed with the first key already. */
  readonly current: number
  /** Ids of rows whose value opens with none of the keys: the key that they need must stay. */
  readonly unopened: readonly string[]
}

type Done = 'sealed' | 'resealed' | 'current' | 'unopened' | 'changed'

async function resealOne(ctx: Ctx, vault: Vault, row: SealedRow & Kept): Promise<Done> {
  if (row.sealed !== null && sealedBy(row.sealed) === vault.kid) return 'current'
  const text = opened(vault, row, row)
  if (text === null) return 'unopened'
  const replaced = await withTx(ctx.db, 'reseal', async (tx) => {
    const to = sealed(vault, row, text)
    if (!(await replaceKept(tx, { ...row, from: row, to }))) return false
    const journal = new Journal(ctx, row.tenantId as TenantId)
    const { kind, id } = row
    const changes = { sealed_with: vault.kid, ...(row.sealed === null ? { was: 'in clear' } : {}) }
    journal.tenant('admin.changed', { what: `${kind}.resealed`, id, by: 'lend', changes })
    await journal.write(tx)
    return true
  })
  return !replaced ? 'changed' : row.sealed === null ? 'sealed' : 'resealed'
}

/**
 * Seals everything that is kept in the database with the vault's first key: what lies in clear, and what an older key sealed,
 * which can then be taken out of the setting. Each value in a transaction of its own; may be stopped and run again. A value
 * that changed meanwhile is left as it then is. No instance of a version that reads only what is in clear may run any more.
 */
export async function reseal(ctx: Ctx): Promise<readonly Resealed[]> {
  const { vault } = ctx
  assert(vault, 'there is a vault to seal with')
  const rows = await withTx(ctx.db, 'read_sealed', (tx) => selectKept(tx))
  const done: { readonly row: SealedRow; readonly how: Done }[] = []
  for (const row of rows) done.push({ row, how: await resealOne(ctx, vault, row) })
  return SEALED_KINDS.map((kind) => {
    const of = (how: Done) =>
      done.flatMap((one) => (one.how === how && one.row.kind === kind ? [one.row] : []))
    return {
      kind,
      sealed: of('sealed').length,
      resealed: of('resealed').length,
      current: of('current').length,
      unopened: of('unopened').map(({ id }) => id),
    }
  })
}
