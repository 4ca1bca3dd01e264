import type { UserCaller } from '../../callers.ts'
import { LIMITS } from '../../core/limits.ts'
import { type Item, type Limits, MODES, type Mode, type TemplateId } from '../../core/vocabulary.ts'
import { Journal } from '../../db/activity.ts'
import { catalogEntries } from '../../db/catalog.ts'
import {
  type CommentKind,
  type DraftTerms,
  insertComment,
  insertTemplate,
  lockTemplate,
  moveVersion,
  saveDraft,
  selectSponsor,
  type TemplateRow,
  type VersionRow,
  versionsOf,
} from '../../db/studio.ts'
import type { Child } from '../../db/tree.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { canonicalItem, type RawItem } from '../items.ts'
import { secondsNow } from '../live.ts'
import { badField, taken } from './change.ts'
import { checkTemplate, type TemplateProblem } from './check-template.ts'

/** An item of the ceiling, with why the job needs it. */
type JustifiedItem = RawItem & { readonly justification?: string | undefined }

/** A draft as it came in; what is absent is empty, or the default. */
export type DraftInput = {
  readonly purpose?: string | undefined
  readonly ceiling?: readonly JustifiedItem[] | undefined
  readonly context?: string | undefined
  readonly modes?: readonly Mode[] | undefined
  readonly limits?: Partial<Limits> | undefined
  readonly children?: readonly Child[] | undefined
  readonly sensitive?: readonly RawItem[] | undefined
  /** By id or login. */
  readonly sponsor?: string | undefined
}

/** A version in its template, with what keeps it from being published. */
export type Versioned = {
  readonly template: TemplateRow
  readonly version: VersionRow
  readonly problems: readonly TemplateProblem[]
}

export const draftOf = (v: VersionRow): DraftTerms => ({
  purpose: v.purpose,
  ceiling: v.ceiling,
  justifications: v.justifications,
  context: v.context,
  modes: v.modes,
  limits: v.limits,
  children: v.children,
  sensitive: v.sensitive,
  sponsor: v.sponsor?.id ?? null,
})

const NO_TERMS: DraftTerms = {
  purpose: '',
  ceiling: [],
  justifications: [],
  context: '',
  modes: ['ask'],
  limits: LIMITS,
  children: [],
  sensitive: [],
  sponsor: null,
}

/** As it is kept and compared: what is absent is not there. */
export const asItem = ({ permission, resource, narrow }: RawItem): Item => ({
  permission,
  ...(resource === undefined ? {} : { resource }),
  ...(narrow === undefined ? {} : { narrow }),
})

/** What has a canonical form is brought into it; the rest stays as written, for the check to name. */
async function itemsOf(tx: Tx, raw: readonly RawItem[]): Promise<readonly Item[]> {
  const catalog = await catalogEntries(tx, [...new Set(raw.map((item) => item.permission))])
  return raw.map((item) => {
    const read = canonicalItem(item, { catalog }, '')
    return 'error' in read ? asItem(item) : read.item
  })
}

/** A draft in full. `over`: where what is absent comes from. */
export async function termsOf(
  tx: Tx,
  caller: UserCaller,
  input: DraftInput,
  over: DraftTerms = NO_TERMS,
): Promise<DraftTerms> {
  const tenantId = caller.tenant.id
  const { sponsor } = input
  const person = sponsor === undefined ? null : await selectSponsor(tx, { tenantId, ref: sponsor })
  const ceiling = input.ceiling === undefined ? over.ceiling : await itemsOf(tx, input.ceiling)
  return {
    purpose: input.purpose ?? over.purpose,
    ceiling,
    justifications:
      input.ceiling === undefined
        ? over.justifications
        : input.ceiling.flatMap(({ justification: why }, i) => {
            const item = ceiling[i]
            return why === undefined || item === undefined ? [] : [{ item, why }]
          }),
    context: input.context ?? over.context,
    modes: MODES.filter((mode) => mode === 'ask' || (input.modes ?? over.modes).includes(mode)),
    limits: { ...over.limits, ...input.limits },
    children: input.children ?? over.children,
    sensitive: input.sensitive === undefined ? over.sensitive : await itemsOf(tx, input.sensitive),
    sponsor: sponsor === undefined ? over.sponsor : (person?.id ?? sponsor),
  }
}

export async function versioned(
  tx: Tx,
  template: TemplateRow,
  number: number,
): Promise<Result<Versioned>> {
  const [version] = await versionsOf(tx, template, { open: true, version: number })
  if (version === undefined) return fail('not_found')
  const open = version.status === 'draft' || version.status === 'in_review'
  const terms = draftOf(version)
  const { tenantId, name } = template
  const problems = open ? await checkTemplate(tx, { tenantId, template: name, terms }) : []
  return ok({ template, version, problems })
}

/**
 * `POST /templates`: a template that the caller's tenant owns, with version 1 as a draft. 409 `already_exists` when the name
 * is taken anywhere on the deployment.
 */
export async function createTemplate(
  ctx: Ctx,
  caller: UserCaller,
  input: {
    readonly name: string
    readonly title: string
    readonly visibility: 'private' | 'public'
    readonly draft?: DraftInput | undefined
  },
  tx: Tx,
): Promise<Result<Versioned>> {
  const now = secondsNow(ctx.clock)
  const { draft, ...rest } = input
  const id = ctx.ids.id<TemplateId>('template')
  const template: TemplateRow = { id, ...rest, tenantId: caller.tenant.id, createdAt: now }
  const terms = await termsOf(tx, caller, draft ?? {})
  if (!(await insertTemplate(tx, template))) return taken('name')
  await saveDraft(tx, {
    template,
    version: 1,
    revision: 1,
    baseVersion: null,
    terms,
    by: caller.userId,
    now,
  })
  const journal = new Journal(ctx, caller.tenant.id)
  const { name, title, visibility } = template
  record(journal, caller, template, 1, 'template.created', {
    template_id: id,
    name,
    title,
    visibility,
  })
  await journal.write(tx)
  return versioned(tx, template, 1)
}

type StudioRecord =
  | 'template.created'
  | 'template.drafted'
  | 'template.submitted'
  | 'template.withdrawn'
  | 'template.sent_back'
  | 'template.commented'
  | 'template.published'
  | 'template.retired'
  | 'template.sponsor_changed'

/** A record of the studio, on the chain of the tenant that owns the template. */
export function record(
  journal: Journal,
  caller: UserCaller,
  template: TemplateRow,
  version: number,
  type: StudioRecord,
  data: { readonly [name: string]: unknown },
): void {
  journal.tenant(
    type,
    { version, ...data, by: caller.userId, via: caller.clientId },
    { userId: caller.userId, template: `${template.name}@${version}` },
  )
}

/** The template under its lock, with all its versions; 404 in every tenant but its own. */
export async function ownTemplate(
  tx: Tx,
  caller: UserCaller,
  ref: string,
): Promise<Result<{ readonly template: TemplateRow; readonly versions: readonly VersionRow[] }>> {
  const template = await lockTemplate(tx, { tenantId: caller.tenant.id, ref })
  if (template === null) return fail('not_found')
  return ok({ template, versions: await versionsOf(tx, template, { open: true }) })
}

/** The template under its lock, with one of its versions; 409 `wrong_state` unless that is in one of the states. */
export async function ownVersion(
  tx: Tx,
  caller: UserCaller,
  of: {
    readonly ref: string
    readonly version: number
    readonly states: readonly VersionRow['status'][]
  },
): Promise<Result<{ readonly template: TemplateRow; readonly found: VersionRow }>> {
  const own = await ownTemplate(tx, caller, of.ref)
  if (!own.ok) return own
  const { template, versions } = own.value
  const found = versions.find((one) => one.version === of.version)
  if (found === undefined) return fail('not_found')
  if (!of.states.includes(found.status))
    return fail('wrong_state', { detail: `Version ${of.version} is ${found.status}.` })
  return ok({ template, found })
}

/** How a version is shown that stands otherwise than the caller thought. */
export type CurrentView = (of: Versioned) => { readonly [name: string]: unknown }

/**
 * `PUT …/versions/{n}`: writes the open draft, or opens the next one. Of two builders who edit the same revision the second
 * is told (`revision_stale`, with the draft as it stands), so nothing is lost. Whoever writes is an author from then on.
 * An incomplete draft is kept, with its problems. What is in review, published or retired is not a draft: `wrong_state`.
 */
export async function putDraft(
  ctx: Ctx,
  caller: UserCaller,
  input: {
    readonly ref: string
    readonly version: number
    readonly revision?: number | undefined
    readonly base?: 'published' | 'nothing' | undefined
    readonly draft: DraftInput
    readonly view: CurrentView
  },
  tx: Tx,
): Promise<Result<Versioned>> {
  const own = await ownTemplate(tx, caller, input.ref)
  if (!own.ok) return own
  const { template, versions } = own.value
  const { version } = input
  const now = secondsNow(ctx.clock)
  const journal = new Journal(ctx, caller.tenant.id)
  const existing = versions.find((one) => one.version === version)
  const by = caller.userId
  if (existing === undefined) {
    const open = versions.find((one) => one.status === 'draft' || one.status === 'in_review')
    const next = (versions[0]?.version ?? 0) + 1
    if (open !== undefined || version !== next)
      return fail('not_found', {
        detail: `The ${open === undefined ? 'next version' : 'open one'} is ${open?.version ?? next}.`,
      })
    if (input.revision !== undefined) return badField('revision', 'a new draft has none yet')
    const base = versions.find((one) => one.status === 'published')
    if (input.base === 'published' && base === undefined)
      return badField('base', 'nothing is published yet')
    const over = input.base === 'published' && base !== undefined ? draftOf(base) : NO_TERMS
    const terms = await termsOf(tx, caller, input.draft, over)
    const baseVersion = input.base === 'published' ? (base?.version ?? null) : null
    await saveDraft(tx, { template, version, revision: 1, baseVersion, terms, by, now })
    record(journal, caller, template, version, 'template.drafted', { revision: 1 })
    await journal.write(tx)
    return versioned(tx, template, version)
  }
  const standing = await versioned(tx, template, version)
  if (!standing.ok) return standing
  const current = input.view(standing.value)
  if (existing.status !== 'draft')
    return fail('wrong_state', { detail: `Version ${version} is ${existing.status}.`, current })
  if (input.base !== undefined) return badField('base', 'is of a new draft')
  if (input.revision === undefined)
    return badField('revision', `is needed: the draft is at revision ${existing.revision}`)
  if (input.revision !== existing.revision) return fail('revision_stale', { current })
  const terms = await termsOf(tx, caller, input.draft)
  const revision = existing.revision + 1
  await saveDraft(tx, { template, version, revision, baseVersion: null, terms, by, now })
  record(journal, caller, template, version, 'template.drafted', { revision })
  await journal.write(tx)
  return versioned(tx, template, version)
}

type Move = {
  readonly ref: string
  readonly version: number
  readonly comment?: string | undefined
}

/** A comment in the thread of a version. */
export async function addComment(
  ctx: Ctx,
  tx: Tx,
  of: {
    readonly caller: UserCaller
    readonly template: TemplateRow
    readonly version: number
    readonly kind: CommentKind
    readonly body: string
    readonly item?: Item | undefined
  },
): Promise<string> {
  const { caller, ...rest } = of
  const id = ctx.ids.id<string>('templateComment')
  await insertComment(tx, { ...rest, id, userId: caller.userId, now: secondsNow(ctx.clock) })
  return id
}

/** `POST …/submit`: from here on the version stands still until its review. 422 with every problem when it is incomplete. */
export async function submitDraft(
  ctx: Ctx,
  caller: UserCaller,
  input: Move & { readonly revision?: number | undefined; readonly view: CurrentView },
  tx: Tx,
): Promise<Result<Versioned>> {
  const own = await ownTemplate(tx, caller, input.ref)
  if (!own.ok) return own
  const { template } = own.value
  const { version } = input
  const standing = await versioned(tx, template, version)
  if (!standing.ok) return standing
  const { version: draft, problems } = standing.value
  const current = input.view(standing.value)
  if (draft.status !== 'draft')
    return fail('wrong_state', { detail: `Version ${version} is ${draft.status}.`, current })
  if (input.revision !== undefined && input.revision !== draft.revision)
    return fail('revision_stale', { current })
  if (problems.length > 0)
    return fail('unprocessable', {
      detail: 'The draft is not complete.',
      errors: problems.map(({ pointer, message }) => ({ path: pointer, message })),
    })
  await moveVersion(tx, { template, version, to: 'in_review', now: secondsNow(ctx.clock) })
  const body = input.comment ?? ''
  await addComment(ctx, tx, { caller, template, version, kind: 'submitted', body })
  const journal = new Journal(ctx, caller.tenant.id)
  const { revision } = draft
  record(journal, caller, template, version, 'template.submitted', { revision })
  await journal.write(tx)
  return versioned(tx, template, version)
}

/** `POST …/withdraw`: takes a version out of review, back to a draft. */
export async function withdrawDraft(
  ctx: Ctx,
  caller: UserCaller,
  input: Move,
  tx: Tx,
): Promise<Result<Versioned>> {
  const own = await ownVersion(tx, caller, { ...input, states: ['in_review'] })
  if (!own.ok) return own
  const { template, found } = own.value
  const { version } = input
  await moveVersion(tx, { template, version, to: 'draft', now: secondsNow(ctx.clock) })
  const body = input.comment ?? ''
  await addComment(ctx, tx, { caller, template, version, kind: 'withdrawn', body })
  const journal = new Journal(ctx, caller.tenant.id)
  record(journal, caller, template, version, 'template.withdrawn', { revision: found.revision })
  await journal.write(tx)
  return versioned(tx, template, version)
}
