import type { UserCaller } from '../../callers.ts'
import { diffTerms, keptAtAdoption, type Terms } from '../../core/terms.ts'
import { MODES, type Mode, type TenantId } from '../../core/vocabulary.ts'
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
import { holdTemplate } from '../../db/studio.ts'
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
    readonly tenantId: TenantId
    readonly from: { readonly version: number; readonly terms: Terms }
    readonly to: { readonly enablement: EnablementRow; readonly terms: Terms }
  },
): Promise<{ readonly widens: boolean; readonly rulesSuspended: number }> {
  const { from, to } = of
  if (!diffTerms(from.terms, to.terms).widens) return { widens: false, rulesSuspended: 0 }
  const { templateId, template, adoptedVersion: version } = to.enablement
  const { tenantId } = of
  const rules = await suspendRules(tx, { tenantId, templateId, from, now: secondsNow(ctx.clock) })
  for (const rule of rules)
    journal.tenant(
      'rule.suspended',
      { rule_id: rule.id, rule_template: template, version, ...itemData(rule.item) },
      { userId: rule.userId, template: `${template}@${version}` },
    )
  return { widens: true, rulesSuspended: rules.length }
}

/** Another version in place of the adopted one: what the tenant keeps of it, and the terms before and after. */
export type Adoption = {
  readonly before: EnablementRow
  readonly enablement: EnablementRow
  readonly from: Terms
  readonly to: Terms
}

/**
 * What adopting a version would make of an enablement; writes nothing. What the tenant had removed stays removed. Null: the
 * version is not published.
 */
export async function adoptionOf(
  tx: Tx,
  before: EnablementRow,
  version: number,
  now: number,
): Promise<Adoption | null> {
  const { templateId, adoptedVersion } = before
  const old = await versionTerms(tx, { templateId, version: adoptedVersion, retired: true })
  const next = await versionTerms(tx, { templateId, version, retired: false })
  if (old === null || next === null) return null
  const enablement: EnablementRow = {
    ...before,
    adoptedVersion: version,
    kept: keptAtAdoption({ before: old.ceiling, kept: before.kept, after: next.ceiling }),
    modes: modesAtAdoption(old, before.modes, next),
    updatedAt: now,
  }
  return { before, enablement, from: termsWithin(old, before), to: termsWithin(next, enablement) }
}

/**
 * Writes an adoption, its record and its news to the feed. The caller holds the tenant's guard alone. `by` null: the
 * publication of a version that only narrows.
 */
export async function adoptIn(
  ctx: Ctx,
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly by: Pick<UserCaller, 'userId' | 'clientId'> | null
    readonly adoption: Adoption
  },
): Promise<Adopted> {
  const { tenantId, by, adoption } = of
  const { before, enablement } = adoption
  const { template, adoptedVersion: version } = enablement
  await saveEnablement(tx, tenantId, enablement)
  const journal = new Journal(ctx, tenantId)
  const suspended = await suspendIfWider(ctx, tx, journal, {
    tenantId,
    from: { version: before.adoptedVersion, terms: adoption.from },
    to: { enablement, terms: adoption.to },
  })
  journal.tenant(
    'enablement.adopted',
    {
      version,
      from_version: before.adoptedVersion,
      widens: suspended.widens,
      rules_suspended: suspended.rulesSuspended,
      ...(by === null ? { by: 'publication' } : { by: by.userId, via: by.clientId }),
    },
    { template: `${template}@${version}`, ...(by === null ? {} : { userId: by.userId }) },
  )
  await tellAccessChanged(tx, {
    tenantId,
    users: null,
    what: 'enablement.adopted',
    now: enablement.updatedAt,
  })
  await journal.write(tx)
  return { enablement, ...suspended }
}

/**
 * `POST /enablements/{template}/adopt`: from its commit on only this version starts sessions here, and no live session may
 * hold what it does not allow. Adopting what is adopted changes nothing.
 */
export async function adoptVersion(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly template: string; readonly version: number },
  tx: Tx,
): Promise<Result<Adopted>> {
  const tenantId = caller.tenant.id
  const { template, version } = input
  await holdTemplate(tx, template)
  // Nothing that was decided by rules in force before can commit after them.
  await guardTenantAlone(tx, tenantId)
  const before = await selectEnablement(tx, { tenantId, template })
  if (before === null)
    return fail('not_found', { detail: 'This organisation has not turned on such a template.' })
  if (before.adoptedVersion === version)
    return ok({ enablement: before, widens: false, rulesSuspended: 0 })
  const adoption = await adoptionOf(tx, before, version, secondsNow(ctx.clock))
  if (adoption === null) return badField('version', 'is not a published version of this template')
  return ok(await adoptIn(ctx, tx, { tenantId, by: caller, adoption }))
}
