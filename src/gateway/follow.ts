import type { TenantId, UserId } from '../core/vocabulary.ts'
import { FEED_START, type FeedPlace } from '../db/feed.ts'
import {
  type EnforcedRow,
  FROZEN_CHANGED,
  feedState,
  feedTip,
  GATEWAY_CHANGED,
  type NarrowedRow,
  PERSON_CHANGED,
  readEnforced,
  readFrozen,
  readNarrowed,
  SERVICE_NARROWED,
  SESSION_NARROWED,
} from '../db/gateway.ts'
import { hotRead, withRead } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { NARROWED_KEPT_SECONDS, type Revocations } from './revocations.ts'

const ROWS_A_PAGE = 500

export type FollowOf = {
  readonly ctx: Ctx
  readonly revocations: Revocations
  /** A person's access or status may be different; null: everyone's in the tenant. */
  readonly onPerson: (tenantId: TenantId, userId: UserId | null) => void
  /** Endpoints, proxies, resources, keys or the registry are different. */
  readonly onMetadata: () => void
  /** All that was remembered of people may be old. */
  readonly onResync: () => void
}

export type Follower = {
  /** Acts on all that was committed before the call. The first call warms up. Throws when the database cannot be read. */
  readonly catchUp: () => Promise<void>
  /** When it was last known to be up to date, in milliseconds; null before the first time. */
  readonly freshAt: () => number | null
  /** How often it found that it had missed something and read everything anew. */
  readonly resyncs: () => number
}

/**
 * Follows the feed into memory, one for each process. Warm-up takes the tip before it reads the state, so that what comes in
 * between is read twice rather than never. A follower that slept until rows were deleted which it had not read, or below
 * which the database was restored (the gap probe, at every look), warms up again.
 */
export function createFollower(of: FollowOf): Follower {
  const { ctx, revocations } = of
  let place: FeedPlace | null = null
  let restoredAt: number | null = null
  let freshAt: number | null = null
  let resyncs = 0
  // Committed rows beyond the horizon are met at every look until the horizon passes them: acted on once each.
  let ahead = new Set<string>()

  async function warmUp(): Promise<FeedPlace> {
    const tip = await withRead(ctx.db, 'gateway_tip', feedTip)
    const [narrowed, frozen] = await Promise.all([
      withRead(ctx.db, 'gateway_narrowed', (tx) => readNarrowed(tx, NARROWED_KEPT_SECONDS)),
      withRead(ctx.db, 'gateway_frozen', readFrozen),
    ])
    const now = ctx.clock.now() / 1000
    for (const row of narrowed) narrow(row, now)
    revocations.frozen(frozen)
    of.onResync()
    ahead = new Set()
    return tip
  }

  function narrow(row: NarrowedRow, now: number): void {
    // Unlike a session's, a service account's end is not final: that it is disabled is in the metadata.
    const active = row.active || row.topic === SERVICE_NARROWED
    revocations.narrowed({ ...row, active }, now)
  }

  function act(row: EnforcedRow, seen: { frozen: boolean; metadata: boolean }): void {
    const { topic, sid, version } = row
    if (
      (topic === SESSION_NARROWED || topic === SERVICE_NARROWED) &&
      sid !== null &&
      version !== null
    )
      narrow({ topic, sid, version, active: row.active === true }, ctx.clock.now() / 1000)
    if (row.topic === FROZEN_CHANGED) seen.frozen = true
    if (row.topic === GATEWAY_CHANGED) seen.metadata = true
    if (row.topic === PERSON_CHANGED) of.onPerson(row.tenantId, row.userId)
  }

  /** Every page from a place on; answers how far the settled ones reach. */
  async function readFrom(start: FeedPlace): Promise<FeedPlace> {
    let settled = start
    let after = start
    const seen = { frozen: false, metadata: false }
    const unsettled = new Set<string>()
    for (;;) {
      const page = { after, limit: ROWS_A_PAGE }
      const rows = await hotRead(ctx.db, 'gateway_feed', (tx) => readEnforced(tx, page))
      for (const row of rows) {
        if (!ahead.has(row.id)) act(row, seen)
        // Pages are read at different moments: behind an unsettled row, one may still come in unseen.
        if (row.settled && unsettled.size === 0) settled = { xid: row.xid, id: row.id }
        else unsettled.add(row.id)
      }
      const last = rows.at(-1)
      if (last === undefined || rows.length < ROWS_A_PAGE) break
      after = { xid: last.xid, id: last.id }
    }
    if (seen.frozen) revocations.frozen(await withRead(ctx.db, 'gateway_frozen', readFrozen))
    if (seen.metadata) of.onMetadata()
    ahead = unsettled
    return settled
  }

  // One look at a time: two would move the place past each other.
  let looking: Promise<void> = Promise.resolve()
  return {
    catchUp: () => {
      looking = looking.then(look, look)
      return looking
    },
    freshAt: () => freshAt,
    resyncs: () => resyncs,
  }

  async function look(): Promise<void> {
    const began = ctx.clock.now()
    const from = place
    const state = await hotRead(ctx.db, 'gateway_gap', (tx) => feedState(tx, from ?? FEED_START))
    const isAnother = state.restoredAt !== restoredAt
    if (from !== null && (state.trimmed || isAnother)) resyncs++
    if (from === null || state.trimmed || isAnother) place = await warmUp()
    if (isAnother && state.restoredAt !== null) revocations.restored(state.restoredAt / 1000)
    restoredAt = state.restoredAt
    place = await readFrom(place ?? FEED_START)
    revocations.forget(ctx.clock.now() / 1000)
    freshAt = began
  }
}
