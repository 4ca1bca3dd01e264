import { z } from 'zod'
import { id } from '../../../schema/people.ts'
import { VERSION_MAX } from '../../../schema/studio.ts'
import { itemKey } from '../../core/item.ts'
import { REASONS } from '../../core/reason.ts'
import type { Item } from '../../core/vocabulary.ts'
import { selectTemplate, type TemplateRow, type VersionRow, versionsOf } from '../../db/studio.ts'
import type { Tx } from '../../db/tx.ts'
import { iso } from '../../db/view-sessions.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Versioned } from '../../flows/admin/draft-template.ts'
import type { Replay } from '../../flows/replay-requests.ts'
import type { PeopleContext, StaffRole } from './endpoint.ts'

/** What the routes of the studio share. Every staff role reads; a template is found by id or name. */
export const STAFF: readonly StaffRole[] = ['builder', 'reviewer', 'auditor', 'org_admin']
export const BUILDERS: readonly StaffRole[] = ['builder']
export const REVIEWERS: readonly StaffRole[] = ['reviewer']
export const STUDIO: readonly StaffRole[] = ['builder', 'reviewer']

export const byRef = z.strictObject({ id })
export const number = z
  .string()
  .regex(/^[1-9][0-9]{0,5}$/, { error: `must be a version from 1 to ${VERSION_MAX}` })
  .transform(Number)
  .meta({ type: 'integer', minimum: 1, maximum: VERSION_MAX })
export const byVersion = z.strictObject({ id, n: number })

const isOpen = (v: VersionRow): boolean => v.status === 'draft' || v.status === 'in_review'
const owns = (c: PeopleContext, template: TemplateRow): boolean =>
  template.tenantId === c.var.tenant.id

export function templateView(
  c: PeopleContext,
  template: TemplateRow,
  versions: readonly VersionRow[],
) {
  const latest = versions.find((v) => v.status === 'published')
  const open = versions.find(isOpen)
  const left = versions.some((v) => v.status === 'published' && v.sponsor?.status !== 'active')
  return {
    id: template.id,
    name: template.name,
    title: template.title,
    visibility: template.visibility,
    owned: owns(c, template),
    created_at: iso(template.createdAt),
    ...(latest === undefined ? {} : { latest_version: latest.version }),
    ...(open === undefined ? {} : { open_version: open.version }),
    ...(owns(c, template) ? { sponsor_needed: left } : {}),
    versions: versions.map((v) => ({
      version: v.version,
      status: v.status,
      purpose: v.purpose,
      ...(v.publishedAt === null ? {} : { published_at: iso(v.publishedAt) }),
    })),
  }
}

/** Who wrote, reviewed and answers for a version is its tenant's own business (I17). */
const peopleOf = (v: VersionRow) => ({
  ...(v.sponsor === null
    ? {}
    : {
        sponsor: {
          id: v.sponsor.id,
          status: v.sponsor.status,
          ...(v.sponsor.login === null ? {} : { login: v.sponsor.login }),
          ...(v.sponsor.name === null ? {} : { name: v.sponsor.name }),
        },
      }),
  authors: v.authors.length > 0 ? v.authors : [v.author],
  ...(v.reviewer === null ? {} : { reviewer: v.reviewer }),
  ...(v.updatedAt === null ? {} : { updated_at: iso(v.updatedAt) }),
  ...(v.submittedAt === null ? {} : { submitted_at: iso(v.submittedAt) }),
})

function justified(item: Item, v: VersionRow) {
  const found = v.justifications.find((one) => itemKey(one.item) === itemKey(item))
  return found === undefined ? item : { ...item, justification: found.why }
}

export const versionView = (c: PeopleContext, { template, version: v, problems }: Versioned) => ({
  template: template.name,
  template_id: template.id,
  title: template.title,
  version: v.version,
  status: v.status,
  revision: v.revision,
  ...(v.baseVersion === null ? {} : { base_version: v.baseVersion }),
  purpose: v.purpose,
  ceiling: v.ceiling.map((item) => justified(item, v)),
  context: v.context,
  modes: v.modes,
  limits: v.limits,
  children: v.children,
  sensitive: v.sensitive,
  ...(owns(c, template) ? peopleOf(v) : {}),
  ...(v.publishedAt === null ? {} : { published_at: iso(v.publishedAt) }),
  ...(v.retiredAt === null ? {} : { retired_at: iso(v.retiredAt) }),
  ...(isOpen(v) ? { problems } : {}),
})

/** A template that the tenant may know of, with the versions that it may see. */
export async function seen(
  c: PeopleContext,
  tx: Tx,
  ref: string,
): Promise<Result<{ readonly template: TemplateRow; readonly versions: readonly VersionRow[] }>> {
  const template = await selectTemplate(tx, { tenantId: c.var.tenant.id, ref })
  if (template === null) return fail('not_found')
  return ok({ template, versions: await versionsOf(tx, template, { open: owns(c, template) }) })
}

export async function seenVersion(c: PeopleContext, tx: Tx, of: { id: string; n: number }) {
  const found = await seen(c, tx, of.id)
  if (!found.ok) return found
  const version = found.value.versions.find((v) => v.version === of.n)
  return version === undefined ? fail('not_found') : ok({ ...found.value, version })
}

/** The same for what is the owner's alone, comments and trials among it. */
export async function ownVersion(c: PeopleContext, tx: Tx, of: { id: string; n: number }) {
  const found = await seenVersion(c, tx, of)
  return found.ok && !owns(c, found.value.template) ? fail('not_found') : found
}

/** The revision that was edited: the body's, or `If-Match: "3"`. */
export function revisionOf(c: PeopleContext, given: number | undefined): number | undefined {
  const [, matched] = /^"([1-9][0-9]{0,8})"$/.exec(c.req.header('If-Match') ?? '') ?? []
  return given ?? (matched === undefined ? undefined : Number(matched))
}

/** Names the revision of a version that is answered, for the next If-Match. */
export async function tagged(response: Response): Promise<Response> {
  if (!response.ok) return response
  const text = await response.text()
  const read = z.looseObject({ revision: z.int().optional() }).parse(JSON.parse(text))
  const headers = new Headers(response.headers)
  if (read.revision !== undefined) headers.set('ETag', `"${read.revision}"`)
  return new Response(text, { status: response.status, headers })
}

export const placeView = ({ permission, resource, narrow }: Item) => ({
  permission,
  ...(resource === undefined ? {} : { resource }),
  ...(narrow === undefined ? {} : { narrow }),
})

/** How far back recorded requests are looked at. */
export const days = z
  .string()
  .regex(/^[1-9][0-9]?$/, { error: 'must be a number of days from 1 to 90' })
  .transform(Number)
  .refine((n) => n <= 90, { error: 'must be at most 90' })
  .default(30)
  .meta({ type: 'integer', minimum: 1, maximum: 90, description: 'By default 30' })

export const replayView = (done: Replay, of: { readonly days: number }) => ({
  days: of.days,
  items: done.items,
  truncated: done.truncated,
  changed: done.changed,
  own: done.own.map(({ row, now }) => ({
    ...placeView(row.item),
    request_id: row.requestId,
    item_id: row.itemId,
    session_id: row.sessionId,
    user_id: row.userId,
    at: iso(row.at),
    was: { outcome: REASONS[row.reason].outcome, reason: row.reason },
    now: { outcome: now.outcome, reason: now.reason, says: REASONS[now.reason].tells },
  })),
})
