import type { UserCaller } from '../../callers.ts'
import { diffTerms, keptAtAdoption, type Terms } from '../../core/terms.ts'
import { MODES, type Mode } from '../../core/vocabulary.ts'
import { Journal } from '../../db/activity.ts'
import {
  type EnablementRow,
  saveEnablement,
  selectEnablement,
  termsWithin,
  versionTerms,
} from '../../db/enablements.ts'
import { itemData } from '../../db/endings.ts'
import { tellAccessChanged } from '../../db/feed.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import { suspendRules } from '../../db/template-changes.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'
import { badField } from './change.ts'

export type Adopted = {
  readonly enablement: EnablementRow
  /** Whether anything is possible in this tenant that was not before. */
  readonly widens: boolean
  readonly rulesSuspended: number
}

/** Modes that the tenant had turned off stay off; those that come with the version come with it. `ask` always is. */
const modesAtAdoption = (before: Terms, kept: readonly Mode[], after: Terms): readonly Mode[] =>
  MODES.filter(
    (mode) =>
      mode === 'ask' ||
      (after.modes.includes(mode) && (kept.includes(mode) || !before.modes.includes(mode))),
  )

/**
 * Suspends the allow rules of a template's users when its terms in this tenant have become wider, and records each
 * (SPEC section 3); whatever made them wider: another version, or a narrowing that was taken back. Terms that only
 * narrow ask nobody. The caller holds the tenant's guard alone. Returns how many rules wait now.
 */
export async function suspendIfWider(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  of: {
    readonly caller: UserCaller
    readonly from: { readonly version: number; readonly terms: Terms }
    readonly to: { readonly enablement: EnablementRow; readonly terms: Terms }
  },
): Promise<{ readonly widens: boolean; readonly rulesSuspended: number }> {
  const { from, to } = of
  if (!diffTerms(from.terms, to.terms).widens) return { widens: false, rulesSuspended: 0 }
  const { templateId, template, adoptedVersion: version } = to.enablement
  const tenantId = of.caller.tenant.id
  const rules = await suspendRules(tx, { tenantId, templateId, from, now: secondsNow(ctx.clock) })
  for (const rule of rules)
    journal.tenant(
      'rule.suspended',
      { rule_id: rule.id, rule_template: template, version, ...itemData(rule.item) },
      { userId: rule.userId, template: `${template}@${version}` },
    )
  return { widens: true, rulesSuspended: rules.length }
}

/**
 * `POST /enablements/{template}/adopt`: from its commit on only this version starts sessions here, and no live session may
 * hold what it does not allow. What the tenant had removed stays removed. Adopting what is adopted changes nothing.
 */
export async function adoptVersion(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly template: string; readonly version: number },
  tx: Tx,
): Promise<Result<Adopted>> {
  const tenantId = caller.tenant.id
  // Nothing that was decided by rules in force before can commit after them.
  await guardTenantAlone(tx, tenantId)
  const { template, version } = input
  const before = await selectEnablement(tx, { tenantId, template })
  if (before === null)
    return fail('not_found', { detail: 'This organisation has not turned on such a template.' })
  if (before.adoptedVersion === version)
    return ok({ enablement: before, widens: false, rulesSuspended: 0 })
  const { templateId } = before
  const old = await versionTerms(tx, {
    templateId,
    version: before.adoptedVersion,
    retired: true,
  })
  const next = await versionTerms(tx, { templateId, version, retired: false })
  if (old === null || next === null)
    return badField('version', 'is not a published version of this template')

  const enablement: EnablementRow = {
    ...before,
    adoptedVersion: version,
    kept: keptAtAdoption({ before: old.ceiling, kept: before.kept, after: next.ceiling }),
    modes: modesAtAdoption(old, before.modes, next),
    updatedAt: secondsNow(ctx.clock),
  }
  await saveEnablement(tx, tenantId, enablement)
  const journal = new Journal(ctx, tenantId)
  const suspended = await suspendIfWider(ctx, tx, journal, {
    caller,
    from: { version: before.adoptedVersion, terms: termsWithin(old, before) },
    to: { enablement, terms: termsWithin(next, enablement) },
  })
  journal.tenant(
    'enablement.adopted',
    {
      version,
      from_version: before.adoptedVersion,
      widens: suspended.widens,
      rules_suspended: suspended.rulesSuspended,
      by: caller.userId,
      via: caller.clientId,
    },
    { userId: caller.userId, template: `${template}@${version}` },
  )
  await tellAccessChanged(tx, {
    tenantId,
    users: null,
    what: 'enablement.adopted',
    now: enablement.updatedAt,
  })
  await journal.write(tx)
  return ok({ enablement, ...suspended })
}
