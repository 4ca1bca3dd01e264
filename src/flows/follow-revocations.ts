import type { EnforcementCaller } from '../callers.ts'
import { TOKEN_LIFE_SECONDS_MAX } from '../core/limits.ts'
import { FEED_START, type FeedPlace } from '../db/feed.ts'
import { feedState, feedTip, SESSION_NARROWED } from '../db/gateway.ts'
import {
  readTenantFeed,
  readTenantFrozen,
  readTenantNarrowed,
  type TenantFeedRow,
  type TenantNarrowed,
} from '../db/revocation-feed.ts'
import { withRead } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'

const ROWS_A_PAGE = 5000
/** A narrowing matters for as long as a token from before it may live; clocks differ a little. */
const KEPT_SECONDS = TOKEN_LIFE_SECONDS_MAX + 60

/** Where a follower is: a place, of the feed as it was since a restore. */
export type Cursor = FeedPlace & {
  /** Milliseconds; null: before any restore. */
  readonly restoredAt: number | null
}

/** What a follower is told: all of it is what is good no longer, so hearing it twice does no harm. */
export type Heard = {
  /** Where to go on from. */
  readonly cursor: Cursor
  /** The place that was given is none any more (or none was given): this is the whole state, not what came after. */
  readonly reset: boolean
  readonly sessions: readonly TenantNarrowed[]
  /** All that is frozen now. */
  readonly frozen: Awaited<ReturnType<typeof readTenantFrozen>>
  /** Something that was not told before may be in it. */
  readonly news: boolean
  /** There is more already. */
  readonly more: boolean
}

const isBefore = (a: FeedPlace, b: FeedPlace): boolean =>
  BigInt(a.xid) === BigInt(b.xid) ? BigInt(a.id) < BigInt(b.id) : BigInt(a.xid) < BigInt(b.xid)

/** The last row behind which nothing can still come in. */
function settledIn(rows: readonly TenantFeedRow[], after: FeedPlace): FeedPlace {
  const first = rows.findIndex((row) => !row.settled)
  const last = (first === -1 ? rows : rows.slice(0, first)).at(-1)
  return last === undefined ? after : { xid: last.xid, id: last.id }
}

/**
 * What a tenant's enforcement point has not heard yet (SPEC section 9). The tip is taken before anything is read, so what
 * comes in meanwhile is told twice rather than never; a place moves only over rows behind which nothing can still commit. A
 * place that the trim has passed, or from before a restore, is answered like none at all: with the whole state.
 */
export async function followRevocations(
  ctx: Ctx,
  caller: EnforcementCaller,
  after: Cursor | null,
): Promise<Heard> {
  const tenantId = caller.tenant.id
  const read = <T>(body: Parameters<typeof withRead<T>>[2]) =>
    withRead(ctx.db, 'follow_revocations', body)
  const tip = await read(feedTip)
  const { trimmed, restoredAt } = await read((tx) => feedState(tx, after ?? FEED_START))
  if (after === null || trimmed || after.restoredAt !== restoredAt) {
    const [sessions, frozen] = await Promise.all([
      read((tx) => readTenantNarrowed(tx, { tenantId, seconds: KEPT_SECONDS })),
      read((tx) => readTenantFrozen(tx, tenantId)),
    ])
    const cursor = { ...tip, restoredAt }
    return { cursor, reset: true, sessions, frozen, news: true, more: false }
  }
  const rows = await read((tx) => readTenantFeed(tx, { tenantId, after, limit: ROWS_A_PAGE }))
  // After the rows: a freeze that one of them tells of is in it.
  const frozen = await read((tx) => readTenantFrozen(tx, tenantId))
  const more = rows.length === ROWS_A_PAGE
  const settled = settledIn(rows, after)
  // Up to the tip every row has been seen, and most are other tenants'.
  const reached = !more && isBefore(settled, tip) ? tip : settled
  const sessions = rows.flatMap(({ topic, sid, version, active }) =>
    topic === SESSION_NARROWED && sid !== null && version !== null
      ? [{ sid, version, active: active === true }]
      : [],
  )
  return {
    cursor: { ...reached, restoredAt },
    ...{ reset: false, sessions, frozen, news: rows.length > 0, more },
  }
}
