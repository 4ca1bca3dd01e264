import type { UserCaller } from '../../callers.ts'
import { itemKey } from '../../core/item.ts'
import { diffTerms, type Terms } from '../../core/terms.ts'
import type { TenantId } from '../../core/vocabulary.ts'
import { Journal } from '../../db/activity.ts'
import { selectEnablement } from '../../db/enablements.ts'
import { guardCatalogShared, guardTenantAlone } from '../../db/guard.ts'
import {
  guardPublishing,
  moveVersion,
  selectSponsor,
  setCurrentSponsor,
  type TemplateRow,
  tenantsThatAdopted,
  type VersionRow,
} from '../../db/studio.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import type { RawItem } from '../items.ts'
import { secondsNow } from '../live.ts'
import { adoptIn, adoptionOf } from './adopt-version.ts'
import { badField } from './change.ts'
import {
  addComment,
  asItem,
  type CurrentView,
  ownTemplate,
  ownVersion,
  record,
  type Versioned,
  versioned,
} from './draft-template.ts'

export type Reviewed = Versioned & {
  /** Of what was published: whether anything is possible that the last published version did not allow. */
  readonly widens?: boolean
}

export const NO_TERMS: Omit<Terms, 'limits'> = {
  ceiling: [],
  modes: ['ask'],
  children: [],
  sensitive: [],
  context: '',
}

/** What a diff is against by default: the newest published version before this one, or, where none is left, a retired one. */
export const lastPublished = (
  versions: readonly VersionRow[],
  but: number,
): VersionRow | undefined =>
  versions.find((one) => one.status === 'published' && one.version < but) ??
  versions.find((one) => one.status === 'retired' && one.version < but)

/**
 * Adopts a version in every tenant for which it only narrows, in the order of their guards (SPEC section 3); where the
 * template is off too, or turning it on again would bring the wider version back. Others wait for their admin. Whether it
 * narrows is asked of what each has adopted: one that never took a wider version in between is not widened by a narrowing
 * of it. Under the template's lock, which adoptions hold shared.
 */
async function adoptWhereNarrower(
  ctx: Ctx,
  tx: Tx,
  of: {
    readonly template: TemplateRow
    readonly version: VersionRow
    readonly all: readonly VersionRow[]
  },
): Promise<void> {
  const { template, version, all } = of
  const narrows = (from: Terms | undefined): boolean => {
    if (from === undefined) return false
    const diff = diffTerms(from, version)
    return !diff.widens && diff.context === null
  }
  const now = secondsNow(ctx.clock)
  for (const { id: tenantId } of await tenantsThatAdopted(tx, template.id)) {
    const name = template.name
    const seen = await selectEnablement(tx, { tenantId, template: name })
    const adopted = (at: number) => all.find((one) => one.version === at)
    if (seen === null || !narrows(adopted(seen.adoptedVersion))) continue
    // Nothing that was decided on the wider version can commit after this.
    await guardTenantAlone(tx, tenantId)
    const before = await selectEnablement(tx, { tenantId, template: name })
    if (before === null) continue
    const adoption = await adoptionOf(tx, before, version.version, now)
    if (adoption === null || diffTerms(adoption.from, adoption.to).widens) continue
    await adoptIn(ctx, tx, { tenantId, by: null, adoption })
  }
}

type Review = {
  readonly ref: string
  readonly version: number
  readonly verdict: 'approve' | 'send_back'
  readonly comment?: string | undefined
  readonly revision?: number | undefined
  readonly view: CurrentView
}

/**
 * `POST …/review`. Approving publishes, in this one transaction: checked again under the lock against the catalog as it is
 * now, immutable from the commit on, and adopted at once where it only narrows. The reviewer is none of those who edited the
 * draft (`reviewer_is_author`). Sending back needs a comment and makes it a draft again. Faults: `not_found`, `wrong_state`,
 * `revision_stale`, `unprocessable` with a pointer a problem.
 */
export async function reviewVersion(
  ctx: Ctx,
  caller: UserCaller,
  input: Review,
  tx: Tx,
): Promise<Result<Reviewed>> {
  const { version, verdict, comment } = input
  if (verdict === 'approve') {
    // What is approved is checked against the catalog that is in force at the commit.
    await guardCatalogShared(tx)
    await guardPublishing(tx)
  }
  const own = await ownTemplate(tx, caller, input.ref)
  if (!own.ok) return own
  const { template, versions } = own.value
  const standing = await versioned(tx, template, version)
  if (!standing.ok) return standing
  const { version: found } = standing.value
  const current = input.view(standing.value)
  if (found.status !== 'in_review')
    return fail('wrong_state', { detail: `Version ${version} is ${found.status}.`, current })
  if (input.revision !== undefined && input.revision !== found.revision)
    return fail('revision_stale', { current })
  if (found.author === caller.userId || found.authors.includes(caller.userId))
    return fail('reviewer_is_author')
  const { revision } = found
  const journal = new Journal(ctx, caller.tenant.id)
  const now = secondsNow(ctx.clock)
  if (verdict === 'send_back') {
    if (comment === undefined) return badField('comment', 'say what has to change')
    await moveVersion(tx, { template, version, to: 'draft', now })
    const id = await addComment(ctx, tx, {
      caller,
      template,
      version,
      kind: 'sent_back',
      body: comment,
    })
    record(journal, caller, template, version, 'template.sent_back', { revision, comment_id: id })
    await journal.write(tx)
    return versioned(tx, template, version)
  }
  const { problems } = standing.value
  if (problems.length > 0)
    return fail('unprocessable', {
      detail: 'What was submitted can no longer be published. Send it back.',
      errors: problems.map(({ pointer, message }) => ({ path: pointer, message })),
    })
  await moveVersion(tx, { template, version, to: 'published', reviewer: caller.userId, now })
  await addComment(ctx, tx, { caller, template, version, kind: 'approved', body: comment ?? '' })
  const last = lastPublished(versions, version)
  const { widens } = diffTerms(last ?? { ...NO_TERMS, limits: found.limits }, found)
  record(journal, caller, template, version, 'template.published', {
    revision,
    authors: found.authors,
    reviewer: caller.userId,
    sponsor: found.sponsor?.id,
    against: last?.version ?? null,
    widens,
  })
  // Before the record: it locks this tenant's chain, and nobody waits for a guard with that in hand.
  await adoptWhereNarrower(ctx, tx, { template, version: found, all: versions })
  await journal.write(tx)
  const done = await versioned(tx, template, version)
  return done.ok ? ok({ ...done.value, widens }) : done
}

/**
 * `POST …/retire`: nobody turns this version on or adopts it any more. Who has adopted it keeps it until their admin adopts
 * another or turns the template off.
 */
export async function retireVersion(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly ref: string; readonly version: number; readonly comment?: string | undefined },
  tx: Tx,
): Promise<Result<Versioned>> {
  await guardPublishing(tx)
  const own = await ownVersion(tx, caller, { ...input, states: ['published'] })
  if (!own.ok) return own
  const { template } = own.value
  const { version } = input
  await moveVersion(tx, { template, version, to: 'retired', now: secondsNow(ctx.clock) })
  const journal = new Journal(ctx, caller.tenant.id)
  const why = input.comment === undefined ? {} : { reason: input.comment }
  record(journal, caller, template, version, 'template.retired', why)
  await journal.write(tx)
  return versioned(tx, template, version)
}

/** `PUT …/sponsor` of a published version: who answers for it from now on. Its terms are not touched. */
export async function changeSponsor(
  ctx: Ctx,
  caller: UserCaller,
  input: { readonly ref: string; readonly version: number; readonly sponsor: string },
  tx: Tx,
): Promise<Result<Versioned>> {
  // A draft's sponsor is in the draft.
  const own = await ownVersion(tx, caller, { ...input, states: ['published', 'retired'] })
  if (!own.ok) return own
  const { template, found } = own.value
  const { version } = input
  const tenantId: TenantId = caller.tenant.id
  const sponsor = await selectSponsor(tx, { tenantId, ref: input.sponsor })
  if (sponsor?.status !== 'active')
    return badField('sponsor', 'is no active person of this organisation')
  if (found.sponsor?.id === sponsor.id) return versioned(tx, template, version)
  await setCurrentSponsor(tx, { template, version, sponsor: sponsor.id })
  const journal = new Journal(ctx, tenantId)
  record(journal, caller, template, version, 'template.sponsor_changed', {
    from: found.sponsor?.id ?? null,
    sponsor: sponsor.id,
  })
  await journal.write(tx)
  return versioned(tx, template, version)
}

/** `POST …/comments`: recorded by its id; the words are in the thread. 422 when `on` is no item of the version's ceiling. */
export async function commentOn(
  ctx: Ctx,
  caller: UserCaller,
  input: {
    readonly ref: string
    readonly version: number
    readonly body: string
    readonly on?: RawItem | undefined
  },
  tx: Tx,
): Promise<Result<{ readonly id: string }>> {
  const own = await ownTemplate(tx, caller, input.ref)
  if (!own.ok) return own
  const { template, versions } = own.value
  const { version, body, on } = input
  const found = versions.find((one) => one.version === version)
  if (found === undefined) return fail('not_found')
  const named = on === undefined ? undefined : itemKey(asItem(on))
  const item = found.ceiling.find((one) => itemKey(one) === named)
  if (on !== undefined && item === undefined)
    return badField('on', `is no item of the ceiling of version ${version}`)
  const kind = 'comment' as const
  const id = await addComment(ctx, tx, { caller, template, version, kind, body, item })
  const journal = new Journal(ctx, caller.tenant.id)
  record(journal, caller, template, version, 'template.commented', { comment_id: id })
  await journal.write(tx)
  return ok({ id })
}
