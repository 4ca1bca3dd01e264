import { TOKEN_LIFE_SECONDS_MAX } from '../core/limits.ts'
import type { TenantId } from '../core/vocabulary.ts'
import type { FrozenRow, NarrowedRow } from '../db/gateway.ts'

/** Instances' clocks differ a little, and a token may be issued in the moment of the change. */
const SKEW_SECONDS = 60
/** A token issued before a change lives at most this long after it. */
export const NARROWED_KEPT_SECONDS = TOKEN_LIFE_SECONDS_MAX + SKEW_SECONDS

const OVER = Number.POSITIVE_INFINITY

/** What a token says of itself, as far as it can be revoked. */
export type Revocable = {
  readonly tenantId: TenantId
  readonly sid: string
  readonly version: number
  /** Seconds. */
  readonly issuedAt: number
  readonly userId: string
  readonly agentId: string
  /** Names without version, its own and its ancestors'. */
  readonly templates: readonly string[]
}

export type Dead = 'over' | 'stale' | 'frozen'

/**
 * What has been taken back, in memory: for each session that was narrowed or ended, the lowest version that is still good. An
 * entry is forgotten once every token that it could refuse is past its end, so the map is as large as a quarter of an hour's
 * narrowings. All of it is facts; asked anew for each request, never cached with a token.
 */
export type Revocations = {
  readonly narrowed: (row: Omit<NarrowedRow, 'topic'>, now: number) => void
  /** The database was restored at this second: what was taken back before is not known, so older tokens are dead (I19). */
  readonly restored: (at: number) => void
  /** All that is frozen now; what is not listed is not. */
  readonly frozen: (rows: readonly FrozenRow[]) => void
  /** `now` in seconds. */
  readonly forget: (now: number) => void
  readonly whyDead: (of: Revocable) => Dead | null
  /** The lowest version of a session or service account that is still good, as far as was heard; 0: nothing was. */
  readonly lowest: (id: string) => number
  readonly isTenantFrozen: (tenantId: TenantId) => boolean
  /** They themselves, or their whole tenant. */
  readonly isPersonFrozen: (tenantId: TenantId, userId: string) => boolean
  readonly size: () => number
}

const keyOf = (tenantId: string, scope: string, target: string) => `${tenantId} ${scope} ${target}`

export function createRevocations(): Revocations {
  // In the order of their ends, since an entry that is renewed moves to the back.
  const lowest = new Map<string, { readonly version: number; readonly until: number }>()
  let frozen: ReadonlySet<string> = new Set()
  const isTenantFrozen = (tenantId: TenantId): boolean =>
    frozen.has(keyOf(tenantId, 'tenant', tenantId))
  let goodAfter = Number.NEGATIVE_INFINITY
  const isFrozen = (of: Revocable): boolean =>
    isTenantFrozen(of.tenantId) ||
    frozen.has(keyOf(of.tenantId, 'user', of.userId)) ||
    frozen.has(keyOf(of.tenantId, 'agent', of.agentId)) ||
    of.templates.some((name) => frozen.has(keyOf(of.tenantId, 'template', name)))
  return {
    narrowed: ({ sid, version, active }, now) => {
      const least = Math.max(active ? version : OVER, lowest.get(sid)?.version ?? 0)
      lowest.delete(sid)
      lowest.set(sid, { version: least, until: now + NARROWED_KEPT_SECONDS })
    },
    restored: (at) => {
      goodAfter = Math.max(goodAfter, at)
    },
    frozen: (rows) => {
      frozen = new Set(rows.map((row) => keyOf(row.tenantId, row.scope, row.target)))
    },
    forget: (now) => {
      for (const [sid, { until }] of lowest) {
        if (until > now) break
        lowest.delete(sid)
      }
    },
    whyDead: (of) => {
      const least = lowest.get(of.sid)?.version ?? 0
      if (least === OVER || of.issuedAt <= goodAfter) return 'over'
      if (of.version < least) return 'stale'
      return frozen.size > 0 && isFrozen(of) ? 'frozen' : null
    },
    lowest: (id) => lowest.get(id)?.version ?? 0,
    isTenantFrozen,
    isPersonFrozen: (tenantId, userId) =>
      isTenantFrozen(tenantId) || frozen.has(keyOf(tenantId, 'user', userId)),
    size: () => lowest.size,
  }
}
