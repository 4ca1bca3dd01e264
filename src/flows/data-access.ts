import type { EnforcementCaller } from '../callers.ts'
import type { SessionClaims } from '../core/claims.ts'
import { type DataGrant, type DataPart, dataView } from '../core/data.ts'
import type { Access, Filter, Item } from '../core/vocabulary.ts'
import { type DataRow, selectSeen, type Viewer } from '../db/data-access.ts'
import { type Condition, conditionOf } from '../db/filter-sql.ts'
import { checkedTree } from '../db/tree-read.ts'
import { hotRead } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { whyNotHeld } from './evaluate-access.ts'
import { type Holdings, holdingsIn } from './holdings.ts'
import { secondsNow } from './live.ts'

export const DATA_REASONS = {
  granted: 'What the session holds shows these rows and fields.',
  token_invalid: 'The token is not a session’s, or not one that may be asked about here.',
  session_over: 'The session is over, or the token has been superseded. It can be re-issued.',
  frozen: 'Frozen by an administrator: nothing is shown until it is unfrozen.',
  unknown_entity: 'No permission of this enforcement point’s services shows this entity so.',
  not_held: 'The session holds nothing of this entity for this.',
  restricted:
    'What the session holds shows nothing here to its user, as they are and are restricted.',
} as const satisfies Record<string, string>
export type DataReason = keyof typeof DATA_REASONS

export type DataAccess = {
  readonly reason: DataReason
  readonly sessionId: string | null
  /** Alternatives, one a grant: a row is shown by any of them that it matches, with that one's fields. */
  readonly parts: readonly (DataPart & { readonly condition: Condition })[]
  readonly masked: readonly string[]
  readonly blocked: readonly Filter[]
  /** What `iam.request_access` may be asked for, when nothing is held. */
  readonly ask: readonly Item[]
}

const nothing = (reason: DataReason, more: Partial<DataAccess> = {}): DataAccess => ({
  reason,
  sessionId: null,
  parts: [],
  masked: [],
  blocked: [],
  ask: [],
  ...more,
})

/** The session's grants on the entity for this action. One lent for reading only allows nothing else. */
function grantsOn(held: Holdings, permissions: readonly DataRow[], action: Access): DataGrant[] {
  return held.grants.flatMap((grant) => {
    const row = permissions.find((one) => one.id === grant.item.permission)
    if (row === undefined || row.access !== action || (grant.readOnly && action !== 'read'))
      return []
    const { narrow } = grant.item
    return [
      {
        id: grant.id,
        permission: row.id,
        ...(narrow === undefined ? {} : { narrow }),
        ...row.shows,
      },
    ]
  })
}

function accessOf(
  of: { readonly held: Holdings; readonly viewer: Viewer; readonly action: Access },
  permissions: readonly DataRow[],
): DataAccess {
  const { held, viewer, action } = of
  const fitting = permissions.filter((row) => row.access === action)
  const sessionId = held.node.id
  if (fitting.length === 0) return nothing('unknown_entity', { sessionId })
  const grants = grantsOn(held, fitting, action)
  const { parts, masked, blocked } = dataView({ grants, ...viewer })
  if (grants.length === 0) {
    const ask = fitting.flatMap((row) => whyNotHeld(held, row, { permission: row.id }).ask ?? [])
    return nothing('not_held', { sessionId, masked, blocked, ask })
  }
  return {
    reason: parts.length === 0 ? 'restricted' : 'granted',
    sessionId,
    parts: parts.map((part) => ({ ...part, condition: conditionOf(part.rows, blocked) })),
    masked,
    blocked,
    ask: [],
  }
}

/**
 * `POST /t/{tenant}/enforce/data` (SPEC section 9): grants from the session, restrictions from the user, both as they are now.
 * Nothing granted is no parts, and so no rows. `verified` is the token's, and `sessionId` what it names before it is: what is
 * read meanwhile is used only if they agree.
 */
export async function dataAccess(
  ctx: Ctx,
  caller: EnforcementCaller,
  of: {
    readonly verified: Promise<SessionClaims | null>
    readonly sessionId: string
    readonly entity: string
    readonly action: Access
  },
): Promise<DataAccess> {
  const { services } = caller
  const { entity, action } = of
  const tenantId = caller.tenant.id
  const now = secondsNow(ctx.clock)
  const sessionId = of.sessionId as SessionClaims['sid']
  const [claims, tree, seen] = await Promise.all([
    of.verified,
    checkedTree(ctx.db, { tenantId, sessionId, now }),
    hotRead(ctx.db, 'load_data', (tx) => selectSeen(tx, { tenantId, sessionId, services, entity })),
  ])
  if (claims === null || claims.sid !== sessionId || seen === null) return nothing('token_invalid')
  const { permissions, ...viewer } = seen
  const held = holdingsIn(tree, { claims, services, now })
  if (held === 'session_over' || held === 'frozen') return nothing(held, { sessionId })
  return accessOf({ held, viewer, action }, permissions)
}
