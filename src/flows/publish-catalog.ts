import type { ServiceCaller, UserCaller } from '../callers.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import type { GrantEndReason } from '../core/held.ts'
import { endpointKey, type Slice } from '../core/slice.ts'
import { diffSlices, loosens, type SliceChange, tighterPart } from '../core/slice-diff.ts'
import type { GrantId, SessionId, TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { FIRST } from '../db/directory.ts'
import { endGrantsIn } from '../db/endings.ts'
import { guardCatalogAlone } from '../db/guard.ts'
import {
  clientStands,
  type How,
  insertProposal,
  insertVersion,
  openProposal,
  type ProposalRow,
  rootsHolding,
  selectProposals,
  selectVersions,
  serviceState,
  settleProposal,
  writeSlice,
} from '../db/registry.ts'
import { lockTrees } from '../db/tree-read.ts'
import { type Tx, withTx } from '../db/tx.ts'
import { fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { checkedSlice, fileOf, type ReadFile } from './check-catalog.ts'
import { secondsNow } from './live.ts'

export type Published = {
  readonly service: string
  /** The service's latest version; 0: none. */
  readonly version: number
  /** Whether this call made it. */
  readonly published: boolean
  readonly changes: readonly SliceChange[]
  /** Those of the changes that wait for security, and as what. */
  readonly proposal?: string
  readonly sessionsNarrowed: number
  readonly grantsEnded: number
}

const TREES_A_BATCH = 100
const RECORDED_CHANGES_MAX = 200

/** The order of the file does not count, but it gives new bits their order. */
const contentOf = (slice: Slice): string =>
  canonicalJson({
    permissions: slice.permissions.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    endpoints: slice.endpoints
      .map((e) => ({ ...e, permissions: e.permissions.toSorted() }))
      .toSorted((a, b) => (endpointKey(a) < endpointKey(b) ? -1 : 1)),
  })

/** Ends every grant of what can no longer be lent, in any tenant, so many trees at a time, each with its records. */
async function endGrantsOf(
  ctx: Ctx,
  tx: Tx,
  permissions: readonly string[],
): Promise<{ readonly sessions: number; readonly grants: number }> {
  let sessions = 0
  let grants = 0
  if (permissions.length === 0) return { sessions, grants }
  const now = secondsNow(ctx.clock)
  const gone = new Set(permissions)
  for (const { tenantId, roots } of await rootsHolding(tx, permissions)) {
    for (let i = 0; i < roots.length; i += TREES_A_BATCH) {
      // The column holds sessions' ids.
      const wanted = roots.slice(i, i + TREES_A_BATCH).map((id) => ({ sessionId: id as SessionId }))
      const journal = new Journal(ctx, tenantId)
      const trees = await lockTrees(tx, { tenantId, now }, wanted)
      const endings = trees.flatMap((tree) => {
        if (tree === null) return []
        const lost = new Map<GrantId, GrantEndReason>(
          tree.nodes.flatMap((node) =>
            node.grants
              .filter((grant) => gone.has(grant.item.permission))
              .map((grant) => [grant.id, 'catalog_changed'] as const),
          ),
        )
        return [{ tree, lost }]
      })
      const after = endGrantsIn(tx, journal, endings)
      for (const [n, { tree, lost }] of endings.entries()) {
        const nodes = after[n]?.nodes ?? []
        sessions += tree.nodes.filter(
          (node, i) => node.grants.length !== nodes[i]?.grants.length,
        ).length
        grants += lost.size
      }
      await journal.write(tx)
    }
  }
  return { sessions, grants }
}

type Apply = {
  readonly tenantId: TenantId
  readonly service: string
  readonly by: string
  readonly how: How
  readonly slice: Slice
  readonly changes: readonly SliceChange[]
}

/** A further version, and the end of what it takes back, with its record. The caller has the catalog's guard alone. */
async function apply(ctx: Ctx, tx: Tx, journal: Journal, of: Apply) {
  const now = secondsNow(ctx.clock)
  const { service, slice, by, how } = of
  const stops = of.changes
    .filter(
      (c) =>
        c.of === 'permission' &&
        (c.what === 'removed' || (c.what === 'delegable' && c.effect === 'tightens')),
    )
    .map((c) => c.id)
  const ended = await endGrantsOf(ctx, tx, stops)
  const version = await insertVersion(tx, { service, by, how, slice, now })
  await writeSlice(tx, { service, version, slice })
  journal.tenant('catalog.published', {
    ...{ service, version, by, how },
    ...recorded(of.changes),
    sessions_narrowed: ended.sessions,
    grants_ended: ended.grants,
  })
  return { version, ended }
}

const recorded = (changes: readonly SliceChange[]) => ({
  changes: changes.slice(0, RECORDED_CHANGES_MAX),
  changes_total: changes.length,
})

type Wanted = {
  readonly tenantId: TenantId
  readonly service: string
  readonly by: string
  readonly how: 'published' | 'rolled_back'
  /** The version that the publisher knew; absent: whichever it is. */
  readonly baseVersion?: number | undefined
}

/** What a publish does, once the slice is known to be good. */
async function publishSlice(
  ctx: Ctx,
  tx: Tx,
  of: Wanted,
  slice: Slice,
): Promise<Result<Published>> {
  const { tenantId, service, by, how } = of
  const { before, version: latest } = await serviceState(tx, service)
  const changes = diffSlices(before, slice)
  const waits = loosens(changes)
  const open = await openProposal(tx, service)
  const none = { sessionsNarrowed: 0, grantsEnded: 0 }
  const asked = open === null ? before : open.slice
  // A repeat, of whatever base it was: nothing to do.
  if (latest > 0 && contentOf(pick(asked)) === contentOf(slice)) {
    const proposal = open === null ? {} : { proposal: open.id }
    return ok({ service, version: latest, published: false, changes, ...proposal, ...none })
  }
  if (of.baseVersion !== undefined && of.baseVersion !== latest)
    return fail('catalog_changed', {
      detail: `The latest version of ${service} is ${latest}, not ${of.baseVersion}. Look at the difference again.`,
    })
  const now = secondsNow(ctx.clock)
  const journal = new Journal(ctx, tenantId)
  if (open !== null) {
    await settleProposal(tx, tenantId, { id: open.id, status: 'replaced', now })
    const data = { proposal_id: open.id, service, verdict: 'replaced', by }
    journal.tenant('catalog.reviewed', data)
  }
  const now_ = waits.length === 0 ? slice : tighterPart(before, slice)
  const effective = diffSlices(before, now_)
  let version = latest
  let ended = { sessions: 0, grants: 0 }
  const published = latest === 0 || contentOf(pick(before)) !== contentOf(now_)
  if (published) {
    const applied = await apply(ctx, tx, journal, {
      ...{ tenantId, service, by, how, slice: now_ },
      changes: effective,
    })
    version = applied.version
    ended = applied.ended
  }
  const proposal =
    waits.length === 0 ? {} : { proposal: await propose(ctx, tx, journal, of, { slice, waits }) }
  await journal.write(tx)
  const counts = { sessionsNarrowed: ended.sessions, grantsEnded: ended.grants }
  return ok({ service, version, published, changes, ...proposal, ...counts })
}

const pick = ({ permissions, endpoints }: Slice): Slice => ({ permissions, endpoints })

async function propose(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  of: Wanted,
  what: { readonly slice: Slice; readonly waits: readonly SliceChange[] },
): Promise<string> {
  const id = ctx.ids.id('proposal')
  const { tenantId, service, by, how } = of
  await insertProposal(tx, tenantId, {
    ...{ id, service, slice: what.slice, changes: what.waits },
    proposedBy: by,
    proposedHow: how,
    createdAt: secondsNow(ctx.clock),
  })
  journal.tenant('catalog.proposed', { proposal_id: id, service, by, ...recorded(what.waits) })
  return id
}

const shut = () => fail('client_unauthenticated')

/** Opens the one transaction of a publish: first the guard, then whether the client may still do it. */
async function guarded(
  ctx: Ctx,
  caller: ServiceCaller,
  label: string,
  body: (tx: Tx) => Promise<Result<Published>>,
): Promise<Result<Published>> {
  const { clientId, service } = caller
  const result = await withTx(ctx.db, label, async (tx) => {
    await guardCatalogAlone(tx)
    const stands = await clientStands(tx, { tenantId: caller.tenant.id, clientId, service })
    return stands ? body(tx) : shut()
  })
  if (result.ok && result.value.published) ctx.notify.kick()
  return result
}

const wantedBy = (caller: ServiceCaller, how: Wanted['how'], baseVersion?: number): Wanted => ({
  ...{ tenantId: caller.tenant.id, service: caller.service, by: caller.clientId, how, baseVersion },
})

/**
 * Publishes a service's slice (SPEC section 2), in one transaction that has the catalog's guard alone: what tightens counts for
 * every decision after it, what loosens waits for security, and nothing decided before can commit after. The same content
 * again makes no version. 422 with every error; 409 when `baseVersion` is not the latest.
 */
export const publishCatalog = (
  ctx: Ctx,
  caller: ServiceCaller,
  input: { readonly file: ReadFile; readonly baseVersion?: number | undefined },
): Promise<Result<Published>> =>
  guarded(ctx, caller, 'publish_catalog', async (tx) => {
    const slice = await checkedSlice(tx, caller.service, input.file)
    if (!slice.ok) return slice
    return publishSlice(ctx, tx, wantedBy(caller, 'published', input.baseVersion), slice.value)
  })

/** Publishes what was in force at an earlier version again, under the same rule. 404: no such version, or nothing kept of it. */
export const rollBackCatalog = (
  ctx: Ctx,
  caller: ServiceCaller,
  input: { readonly version: number },
): Promise<Result<Published>> =>
  guarded(ctx, caller, 'roll_back_catalog', async (tx) => {
    const { service } = caller
    const { version } = input
    const [row] = await selectVersions(tx, { service, version, before: version + 1, limit: 1 })
    if (row === undefined || row.slice === null)
      return fail('not_found', { detail: `Nothing is kept of a version ${version} of ${service}.` })
    const slice = await checkedSlice(tx, service, fileOf(row.slice))
    return slice.ok ? publishSlice(ctx, tx, wantedBy(caller, 'rolled_back'), slice.value) : slice
  })

/** What publishing would change and what of it would wait. Writes nothing. */
export const diffCatalog = (
  ctx: Ctx,
  caller: ServiceCaller,
  file: ReadFile,
): Promise<Result<{ version: number; changes: readonly SliceChange[] }>> =>
  withTx(ctx.db, 'diff_catalog', async (tx) => {
    const slice = await checkedSlice(tx, caller.service, file)
    if (!slice.ok) return slice
    const { before, version } = await serviceState(tx, caller.service)
    return ok({ version, changes: diffSlices(before, slice.value) })
  })

/**
 * Security's answer to what loosens. Approved, the whole slice that was asked for takes effect as a further version, checked
 * again under the guard: the catalog around it may have changed. 409 when it is open no more.
 */
export async function reviewProposal(
  ctx: Ctx,
  caller: UserCaller,
  input: {
    readonly id: string
    readonly verdict: 'approve' | 'send_back'
    readonly comment?: string | undefined
  },
  tx: Tx,
): Promise<Result<ProposalRow>> {
  await guardCatalogAlone(tx)
  const tenantId = caller.tenant.id
  const of = { tenantId, id: input.id, after: FIRST, limit: 1 }
  const [proposal] = await selectProposals(tx, of)
  if (proposal === undefined) return fail('not_found', { detail: 'No such proposal.' })
  if (proposal.status !== 'open')
    return fail('already_answered', { detail: `The proposal is ${proposal.status} already.` })
  const { id, service } = proposal
  const { verdict, comment } = input
  const by = caller.userId
  const now = secondsNow(ctx.clock)
  const journal = new Journal(ctx, tenantId)
  const data = { proposal_id: id, service, verdict, by, comment, proposed_by: proposal.proposedBy }
  if (verdict === 'send_back') {
    await settleProposal(tx, tenantId, { id, status: 'sent_back', by, comment, now })
    journal.tenant('catalog.reviewed', data, { userId: by })
  } else {
    const slice = await checkedSlice(tx, service, fileOf(proposal.slice))
    if (!slice.ok) return slice
    const { before } = await serviceState(tx, service)
    const changes = diffSlices(before, slice.value)
    const what = { tenantId, service, by, how: 'approved', slice: slice.value, changes } as const
    const { version } = await apply(ctx, tx, journal, what)
    await settleProposal(tx, tenantId, { id, status: 'approved', version, by, comment, now })
    journal.tenant(
      'catalog.reviewed',
      { ...data, version, ...recorded(loosens(changes)) },
      { userId: by },
    )
  }
  await journal.write(tx)
  const [after] = await selectProposals(tx, of)
  return after === undefined ? fail('not_found') : ok(after)
}
