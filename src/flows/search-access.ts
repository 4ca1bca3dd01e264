import type { EnforcementCaller } from '../callers.ts'
import { actionOf } from '../core/claims.ts'
import type { Item } from '../core/vocabulary.ts'
import { type AssetRow, selectAssets, selectHolders, selectKnownResources } from '../db/assets.ts'
import { withRead } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import {
  decisionOn,
  permissionOf,
  type Question,
  type Standing,
  type Subject,
  standingOf,
  type Verify,
} from './evaluate-access.ts'

/** AuthZEN searches: each is the evaluation, asked of candidates. Nothing is found that an evaluation would deny. */
export type Page = { readonly after: string; readonly limit: number }
export type Found = {
  readonly results: readonly string[]
  /** Where the next page begins; null at the end. */
  readonly next: string | null
  /** Resource search: patterns that are held. Lend knows no list of all objects, so it cannot spell them out. */
  readonly patterns?: readonly string[]
}

/** As Postgres orders them there: by bytes. */
const isBefore = (a: string, b: string): boolean =>
  Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0

const NOTHING: Found = { results: [], next: null }

const assetsOf = (ctx: Ctx, caller: EnforcementCaller, type: string) =>
  withRead(ctx.db, 'load_assets', (tx) =>
    selectAssets(tx, { services: caller.services, types: [type] }),
  )

/**
 * People who may do this now. Sessions are never found: one can only be asked about by whoever was shown its token.
 */
export async function searchSubjects(
  ctx: Ctx,
  caller: EnforcementCaller,
  of: Pick<Question, 'action' | 'resource'> & { readonly type: string },
  page: Page,
): Promise<Found> {
  if (of.type !== 'user') return NOTHING
  const assets = await assetsOf(ctx, caller, of.resource.type)
  const row = permissionOf(assets, { action: of.action, type: of.resource.type })
  if (row === undefined) return NOTHING
  const people = await withRead(ctx.db, 'search_subjects', (tx) =>
    selectHolders(tx, {
      tenantId: caller.tenant.id,
      permission: row.id,
      resource: of.resource.item,
      after: page.after,
      limit: page.limit + 1,
    }),
  )
  const looked = people.slice(0, page.limit)
  const results = looked.flatMap((person) =>
    decisionOn({ as: 'user', person }, assets, of).allowed ? [person.id] : [],
  )
  return { results, next: people.length > page.limit ? (looked.at(-1)?.id ?? null) : null }
}

/** The subject's own items of one permission, if it is a permission of theirs to have. */
function itemsOf(standing: Standing, row: AssetRow): readonly Item[] {
  if (standing.as === 'nobody') return []
  const all =
    standing.as === 'user' ? standing.person.access : standing.held.grants.map((g) => g.item)
  return all.filter((item) => item.permission === row.id)
}

/** Objects on which the subject may do this now: those it names, and those that its patterns cover and the directory names. */
export async function searchResources(
  ctx: Ctx,
  caller: EnforcementCaller,
  verify: Verify,
  of: { readonly subject: Subject; readonly action: string; readonly type: string },
  page: Page,
): Promise<Found> {
  const [assets, standing] = await Promise.all([
    assetsOf(ctx, caller, of.type),
    standingOf(ctx, caller, verify, of.subject),
  ])
  const row = permissionOf(assets, of)
  if (row === undefined || standing.as === 'nobody') return NOTHING
  const named = itemsOf(standing, row).flatMap((item) => item.resource ?? [])
  const isPattern = (resource: string) => resource.endsWith('/*')
  const known = await withRead(ctx.db, 'search_resources', (tx) =>
    selectKnownResources(tx, {
      tenantId: caller.tenant.id,
      permission: row.id,
      after: page.after,
      limit: page.limit + 1,
    }),
  )
  const own = named.filter((resource) => !isPattern(resource) && isBefore(page.after, resource))
  const candidates = [...new Set([...own, ...known])].toSorted((a, b) => (isBefore(a, b) ? -1 : 1))
  const looked = candidates.slice(0, page.limit)
  const may = (item: string) =>
    decisionOn(standing, assets, { action: row.id, resource: { type: of.type, item } }).allowed
  const patterns = [...new Set(named.filter((resource) => isPattern(resource) && may(resource)))]
  return {
    results: looked.filter(may),
    next: candidates.length > page.limit ? (looked.at(-1) ?? null) : null,
    ...(patterns.length === 0 ? {} : { patterns }),
  }
}

/** What the subject may do with one object now, each by the shortest name that an evaluation takes. */
export async function searchActions(
  ctx: Ctx,
  caller: EnforcementCaller,
  verify: Verify,
  of: Pick<Question, 'subject' | 'resource'>,
): Promise<Found> {
  const [assets, standing] = await Promise.all([
    assetsOf(ctx, caller, of.resource.type),
    standingOf(ctx, caller, verify, of.subject),
  ])
  const results = assets
    .filter(({ id }) => decisionOn(standing, assets, { ...of, action: id }).allowed)
    .map(({ id }) => {
      const short = actionOf(id)
      return permissionOf(assets, { action: short, type: of.resource.type })?.id === id ? short : id
    })
  return { results, next: null }
}
