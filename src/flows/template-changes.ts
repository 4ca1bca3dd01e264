import { createHash } from 'node:crypto'
import type { UserCaller } from '../callers.ts'
import { assert } from '../core/assert.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import { diffTerms, type Terms, type TermsDiff } from '../core/terms.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import {
  type EnablementRow,
  selectEnablement,
  termsWithin,
  versionTerms,
} from '../db/enablements.ts'
import { itemData } from '../db/endings.ts'
import { guardUserAlone } from '../db/guard.ts'
import { type ChangeRow, confirmRules, selectChanges } from '../db/template-changes.ts'
import type { Tx } from '../db/tx.ts'
import { fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'

/** A template that allows more now than one person has agreed to, and what is different. */
export type TemplateChange = {
  readonly row: ChangeRow
  readonly enablement: EnablementRow
  readonly diff: TermsDiff
  /** Names all that is shown, so that a confirmation is of nothing else. */
  readonly digest: string
}

/** The terms that count now for the tenant's people. */
export async function termsNow(tx: Tx, enablement: EnablementRow): Promise<Terms> {
  const { templateId, adoptedVersion: version } = enablement
  const terms = await versionTerms(tx, { templateId, version, retired: true })
  assert(terms, `${enablement.template}@${version} was published`)
  return termsWithin(terms, enablement)
}

/** What was never kept: then everything is new. */
const nothingKnown = (now: Terms): Terms => ({
  ceiling: [],
  modes: ['ask'],
  limits: now.limits,
  children: [],
  sensitive: now.sensitive,
  context: now.context,
})

async function changeOf(tx: Tx, tenantId: TenantId, row: ChangeRow): Promise<TemplateChange> {
  const enablement = await selectEnablement(tx, { tenantId, template: row.template })
  assert(enablement, `rules wait for ${row.template}, which is turned on`)
  const to = await termsNow(tx, enablement)
  const from = row.fromTerms ?? nothingKnown(to)
  const shown = { from, to, version: enablement.adoptedVersion }
  const digest = createHash('sha256').update(canonicalJson(shown)).digest('base64url')
  return { row, enablement, diff: diffTerms(from, to), digest }
}

const CHANGES_MAX = 200

/** `GET /template-changes`: what one person’s rules wait for. */
export async function templateChanges(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  of: { readonly template?: string } = {},
): Promise<readonly TemplateChange[]> {
  const tenantId = caller.tenant.id
  const now = secondsNow(ctx.clock)
  const whose = { tenantId, userId: caller.userId }
  const rows = await selectChanges(tx, { ...whose, ...of, now, limit: CHANGES_MAX })
  const changes: TemplateChange[] = []
  for (const row of rows) changes.push(await changeOf(tx, tenantId, row))
  return changes
}

export type Confirmed = {
  readonly template: string
  readonly version: number
  readonly rulesConfirmed: number
}

/**
 * `POST /template-changes/{template}/confirm`: this person has seen what changed, once, and their rules for the template
 * are in force again (SPEC section 3). Nobody else's are. 409 `change_superseded` when another version, or with `digest`
 * anything else than was shown, counts by now. Confirming what waits no more changes nothing and is no error.
 */
export async function confirmChange(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  seen: {
    readonly template: string
    readonly version: number
    readonly digest?: string | undefined
  },
): Promise<Result<Confirmed>> {
  const of = { tenantId: caller.tenant.id, userId: caller.userId }
  // An adoption takes the tenant's guard alone: what counts now stays so until this has committed.
  await guardUserAlone(tx, of)
  const { template, version } = seen
  const enablement = await selectEnablement(tx, { tenantId: of.tenantId, template })
  if (enablement === null || enablement.status === 'off')
    return fail('not_found', { detail: 'Your organisation has no such template turned on.' })
  if (enablement.adoptedVersion !== version) return fail('change_superseded')
  const [change] = await templateChanges(ctx, tx, caller, { template })
  if (change === undefined) return ok({ template, version, rulesConfirmed: 0 })
  if (seen.digest !== undefined && seen.digest !== change.digest) return fail('change_superseded')

  const { templateId } = enablement
  const rules = await confirmRules(tx, { ...of, templateId, now: secondsNow(ctx.clock) })
  const journal = new Journal(ctx, of.tenantId)
  for (const rule of rules)
    journal.tenant(
      'rule.confirmed',
      {
        rule_id: rule.id,
        rule_template: template,
        version,
        ...itemData(rule.item),
        via: caller.clientId,
      },
      { userId: of.userId, template: `${template}@${version}` },
    )
  await journal.write(tx)
  return ok({ template, version, rulesConfirmed: rules.length })
}
