import type { UserCaller } from '../../callers.ts'
import { coveredBy } from '../../core/item.ts'
import type { Terms } from '../../core/terms.ts'
import { type Item, type Limits, MODES, type Mode, type SessionId } from '../../core/vocabulary.ts'
import { Journal } from '../../db/activity.ts'
import { catalogEntries } from '../../db/catalog.ts'
import {
  type EnablementRow,
  saveEnablement,
  selectOffer,
  templateRoots,
  termsWithin,
  versionTerms,
} from '../../db/enablements.ts'
import { endSubtree } from '../../db/endings.ts'
import { tellAccessChanged } from '../../db/feed.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import { holdTemplate } from '../../db/studio.ts'
import { pathOf, type Tree } from '../../db/tree.ts'
import { lockTree } from '../../db/tree-read.ts'
import type { Tx } from '../../db/tx.ts'
import { type FieldError, fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { canonicalItem, type RawItem } from '../items.ts'
import { secondsNow } from '../live.ts'
import { suspendIfWider } from './adopt-version.ts'
import { badField } from './change.ts'

/** What is absent stays as it is; at the first turning on it is all that the version allows. */
export type EnablementInput = {
  readonly template: string
  readonly status: 'on' | 'off'
  readonly version?: number | undefined
  readonly kept?: readonly RawItem[] | undefined
  /** Taken out of what is kept now; without a resource, whatever is kept of the permission. */
  readonly remove?: readonly Removal[] | undefined
  readonly modes?: readonly Mode[] | undefined
  readonly limits?: Partial<Limits> | undefined
}

export type Removal = { readonly permission: string; readonly resource?: string | undefined }

export type Enabled = {
  readonly enablement: EnablementRow
  readonly widens: boolean
  readonly rulesSuspended: number
  readonly sessionsEnded: number
}

/** What a tenant keeps is part of what the version allows, or it is refused: nobody widens a template here (I15). */
async function keptOf(
  tx: Tx,
  raw: readonly RawItem[],
  terms: Terms,
): Promise<Result<readonly Item[]>> {
  const catalog = await catalogEntries(tx, [...new Set(raw.map((item) => item.permission))])
  const errors: FieldError[] = []
  const kept: Item[] = []
  for (const [i, item] of raw.entries()) {
    const read = canonicalItem(item, { catalog }, `kept.${i}`)
    if ('error' in read) errors.push(read.error)
    else if (coveredBy(terms.ceiling, read.item)) kept.push(read.item)
    else errors.push({ path: `kept.${i}`, message: 'is not in what this version may ask for' })
  }
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok(kept)
}

/** What is left when these are taken out. A part of a wider pattern cannot be: what is kept is a list of what is allowed. */
function keptWithout(kept: readonly Item[], remove: readonly Removal[]): Result<readonly Item[]> {
  const takes = ({ permission, resource }: Removal, item: Item) =>
    item.permission === permission && (resource === undefined || item.resource === resource)
  const errors = remove.flatMap((one, i) =>
    kept.some((item) => takes(one, item))
      ? []
      : [{ path: `remove.${i}`, message: 'is not kept, or only as a part of a wider item' }],
  )
  return errors.length > 0
    ? fail('unprocessable', { errors })
    : ok(kept.filter((item) => !remove.some((one) => takes(one, item))))
}

function modesProblem(modes: readonly Mode[], terms: Terms): FieldError | null {
  const foreign = modes.findIndex((mode) => !terms.modes.includes(mode))
  return foreign === -1
    ? null
    : { path: `modes.${foreign}`, message: 'is not a mode of this version' }
}

function limitsProblem(limits: Partial<Limits>, terms: Terms): FieldError | null {
  for (const [name, value] of Object.entries(limits)) {
    const most = terms.limits[name as keyof Limits]
    if (most !== undefined && value > most)
      return { path: `limits.${name}`, message: `is at most ${most} here: a tenant only lowers` }
  }
  return null
}

/**
 * `PUT /enablements/{template}` (SPEC section 3, I15): turns a published template on, narrows it or takes a narrowing back,
 * or turns it off, which ends its sessions with all below them. Narrowing reaches live sessions by the feed, within
 * seconds; un-narrowing lets its users' allow rules wait. The version changes by adoption only. Faults: `not_found`,
 * `unprocessable` naming the field; nothing is written then.
 */
export async function setEnablement(
  ctx: Ctx,
  caller: UserCaller,
  input: EnablementInput,
  tx: Tx,
): Promise<Result<Enabled>> {
  const tenantId = caller.tenant.id
  await holdTemplate(tx, input.template)
  // Nothing that was decided before this can commit after it.
  await guardTenantAlone(tx, tenantId)
  const offer = await selectOffer(tx, { tenantId, template: input.template })
  if (offer === null) return fail('not_found', { detail: 'There is no such published template.' })
  const before = offer.enablement
  if (before === null && input.status === 'off')
    return badField('status', 'is off: this template was never turned on')
  if (before !== null && (input.version ?? before.adoptedVersion) !== before.adoptedVersion)
    return badField('version', 'changes by POST …/adopt')
  const version = before?.adoptedVersion ?? input.version ?? offer.latestVersion
  const terms = await versionTerms(tx, {
    templateId: offer.templateId,
    version,
    retired: before !== null,
  })
  if (terms === null) return badField('version', 'is not a published version of this template')

  const kept = await keptNow(tx, input, { before, terms })
  if (kept?.ok === false) return kept
  const limits = { ...before?.limits, ...input.limits }
  const problem = modesProblem(input.modes ?? [], terms) ?? limitsProblem(limits, terms)
  if (problem !== null) return fail('unprocessable', { errors: [problem] })
  const modes = input.modes ?? before?.modes ?? terms.modes
  const enablement: EnablementRow = {
    templateId: offer.templateId,
    template: offer.template,
    title: offer.title,
    status: input.status,
    adoptedVersion: version,
    kept: kept?.value ?? before?.kept ?? terms.ceiling,
    modes: MODES.filter((mode) => mode === 'ask' || modes.includes(mode)),
    limits,
    updatedAt: secondsNow(ctx.clock),
  }
  await saveEnablement(tx, tenantId, enablement)
  return ok(await follow(ctx, tx, caller, { before, enablement, terms }))
}

/** Null: as before. */
const keptNow = async (
  tx: Tx,
  { kept, remove }: EnablementInput,
  of: { readonly before: EnablementRow | null; readonly terms: Terms },
): Promise<Result<readonly Item[]> | null> => {
  if (remove !== undefined) return keptWithout(of.before?.kept ?? of.terms.ceiling, remove)
  return kept === undefined ? null : keptOf(tx, kept, of.terms)
}

/** What a change of an enablement brings with it, and its record. */
async function follow(
  ctx: Ctx,
  tx: Tx,
  caller: UserCaller,
  of: {
    readonly before: EnablementRow | null
    readonly enablement: EnablementRow
    readonly terms: Terms
  },
): Promise<Enabled> {
  const { before, enablement, terms } = of
  const tenantId = caller.tenant.id
  const journal = new Journal(ctx, tenantId)
  const version = enablement.adoptedVersion
  const suspended =
    before === null
      ? { widens: false, rulesSuspended: 0 }
      : await suspendIfWider(ctx, tx, journal, {
          tenantId,
          from: { version, terms: termsWithin(terms, before) },
          to: { enablement, terms: termsWithin(terms, enablement) },
        })
  const sessionsEnded =
    enablement.status === 'off' ? await endSessionsOf(ctx, tx, journal, caller, enablement) : 0
  journal.tenant(
    'enablement.changed',
    {
      status: enablement.status,
      version,
      kept: enablement.kept,
      modes: enablement.modes,
      limits: enablement.limits,
      widens: suspended.widens,
      rules_suspended: suspended.rulesSuspended,
      sessions_ended: sessionsEnded,
      by: caller.userId,
      via: caller.clientId,
    },
    { userId: caller.userId, template: `${enablement.template}@${version}` },
  )
  await tellAccessChanged(tx, {
    tenantId,
    users: null,
    what: 'enablement.changed',
    now: enablement.updatedAt,
  })
  await journal.write(tx)
  return { enablement, sessionsEnded, ...suspended }
}

/** The sessions of a template that has been turned off, subagents too, each with all below it (I11). */
async function endSessionsOf(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  caller: UserCaller,
  { templateId }: EnablementRow,
): Promise<number> {
  const now = secondsNow(ctx.clock)
  const tenantId = caller.tenant.id
  const topsIn = (tree: Tree) =>
    tree.nodes.filter(
      (node) =>
        node.status === 'active' &&
        node.templateId === templateId &&
        pathOf(tree, node).every((one) => one === node || one.templateId !== templateId),
    )
  let sessions = 0
  for (const root of await templateRoots(tx, { tenantId, templateId })) {
    const tree = await lockTree(tx, { tenantId, sessionId: root as SessionId, now })
    if (tree === null) continue
    for (const top of topsIn(tree)) {
      const by = caller.userId
      const ended = endSubtree(tx, journal, { tree, top, reason: 'template_off', now, by })
      sessions += ended.sessions
    }
  }
  return sessions
}
