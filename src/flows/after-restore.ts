import { assert } from '../core/assert.ts'
import type { SessionId, TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { endSubtree, itemData } from '../db/endings.ts'
import {
  allTenants,
  deleteSignIns,
  forgetPlaces,
  liveRoots,
  outdateServiceTokens,
  saveRestored,
  suspendAllAllowRules,
} from '../db/restored.ts'
import { lockTree } from '../db/tree-read.ts'
import { withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'

export type AfterRestore = {
  readonly sessions: number
  readonly rules: number
  readonly browsers: number
}

const TREES_A_BATCH = 100

/**
 * Closes what an older state would open again (I19): what its people ended, released, denied or took away since the backup is
 * back as it was. Every session that was live is ended with the reason `admin`, on its own chain; allow rules wait until
 * their user has looked; browsers sign in anew; tokens of service accounts are dead; places in the feed are forgotten, so that
 * whoever follows it reads everything anew. Each tenant's chain says that it was restored and from when.
 *
 * What cannot be known is not guessed: freezes, disabled people, lost roles and replaced secrets are the operator's to look at.
 * Runs before anything is served, and may be run again. `backupAt` in milliseconds.
 */
export async function afterRestore(
  ctx: Ctx,
  of: { readonly backupAt: number },
): Promise<AfterRestore> {
  const first = await withTx(ctx.db, 'after_restore', async (tx) => {
    await forgetPlaces(tx)
    await saveRestored(tx, { at: ctx.clock.now(), backupAt: of.backupAt })
    await outdateServiceTokens(tx)
    const browsers = await deleteSignIns(tx)
    const rules = await suspendAllAllowRules(tx)
    for (const { id: tenantId } of await allTenants(tx)) {
      const journal = new Journal(ctx, tenantId)
      const own = rules.filter((rule) => rule.tenantId === tenantId)
      journal.tenant('admin.changed', {
        what: 'database.restored',
        by: 'lend',
        backup_at: new Date(of.backupAt).toISOString(),
        rules_suspended: own.length,
      })
      for (const rule of own)
        journal.tenant(
          'rule.suspended',
          {
            ...{ rule_id: rule.id, rule_template: rule.template },
            ...itemData(rule.item),
            because: 'database.restored',
          },
          { userId: rule.userId, template: rule.template },
        )
      await journal.write(tx)
    }
    return { browsers, rules: rules.length }
  })
  let sessions = 0
  for (;;) {
    const roots = await withTx(ctx.db, 'live_roots', (tx) => liveRoots(tx, TREES_A_BATCH))
    for (const root of roots) sessions += await endTree(ctx, root)
    if (roots.length < TREES_A_BATCH) return { ...first, sessions }
  }
}

const endTree = (
  ctx: Ctx,
  of: { readonly id: SessionId; readonly tenantId: TenantId },
): Promise<number> =>
  withTx(ctx.db, 'end_restored', async (tx) => {
    const now = secondsNow(ctx.clock)
    const tree = await lockTree(tx, { tenantId: of.tenantId, sessionId: of.id, now })
    assert(tree, `session ${of.id} is there`)
    const journal = new Journal(ctx, of.tenantId)
    const ended = endSubtree(tx, journal, { tree, top: tree.root, reason: 'admin', now })
    await journal.write(tx)
    return ended.sessions
  })
