import type { AppCaller, EnforcementCaller, TenantRef } from '../callers.ts'
import {
  type AuthorizationDetail,
  authorizationDetail,
  type SessionClaims,
} from '../core/claims.ts'
import type { SessionId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { shareReads } from '../db/batches.ts'
import { type Ended, endSubtree } from '../db/endings.ts'
import { nodeIn } from '../db/tree.ts'
import { checkedTree, lockTree } from '../db/tree-read.ts'
import { hotRead, json, withTx } from '../db/tx.ts'
import { fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { holdingsIn } from './holdings.ts'
import { secondsNow } from './live.ts'
import { hashed } from './refuse-token.ts'

/** RFC 7662: what a live session token stands for now. */
export type Introspected = { readonly active: false } | (SessionClaims & { readonly active: true })

/**
 * Introspection (SPEC section 6): live. The session, all its ancestors, user, agent, freezes and version are looked at now
 * (USER-ASKS 12), and the grants are those held now that the asking enforcement point enforces, whatever the token carries:
 * so a client that cannot swap tokens still works.
 */
export async function introspect(
  ctx: Ctx,
  caller: EnforcementCaller,
  claims: SessionClaims,
): Promise<Introspected> {
  const now = secondsNow(ctx.clock)
  const found = await checkedTree(ctx.db, {
    tenantId: caller.tenant.id,
    sessionId: claims.sid,
    now,
  })
  const held = holdingsIn(found, { claims, services: caller.services, now })
  if (held === 'session_over' || held === 'frozen') return { active: false }
  const grants = held.grants.map((g) => ({
    id: g.id,
    kind: g.row.kind,
    readOnly: g.readOnly,
    ...g.item,
  }))
  const details: AuthorizationDetail[] = grants.map(authorizationDetail)
  const scope = grants.filter((g) => g.kind === 'api').map((g) => g.permission)
  const { scope: _, ...rest } = claims
  return {
    ...rest,
    active: true,
    authorization_details: details,
    ...(scope.length === 0 ? {} : { scope: [...new Set(scope)].join(' ') }),
  }
}

/** Whether a control token's session is live now: what MCP asks before anything else. */
export const sessionStands = (
  ctx: Ctx,
  tenant: TenantRef,
  claims: SessionClaims,
): Promise<boolean> =>
  standing(ctx.db, tenant, {
    id: claims.sid,
    version: claims.session_version,
    now: secondsNow(ctx.clock),
  })

type StandingOf = { readonly id: SessionId; readonly version: number; readonly now: number }

const standing = shareReads((db, tenant: TenantRef, all: readonly StandingOf[]) =>
  hotRead(db, 'session_stands', async (tx) => {
    const asked = all.map((one, n) => ({ n, ...one }))
    // Ancestors need no look: a parent's end ends its children in the same commit (I11).
    const rows = await tx.sql<{ n: number }>`
        select c.n from jsonb_to_recordset(${json(asked)}::text::jsonb) as c (n integer, id text, version integer, now float8)
        join session s on s.id = c.id join app_user u on u.id = s.user_id join agent a on a.id = s.agent_id
        where s.tenant_id = ${tenant.id} and s.status = 'active' and s.version <= c.version and u.status = 'active'
          and a.status = 'active' and s.expires_at > to_timestamp(c.now)`
    const stand = new Set(rows.map(({ n }) => n))
    return all.map((_, n) => stand.has(n))
  }),
)

/**
 * RFC 7009: revoking any session token ends that session's subtree (SPEC section 6). Only the owning client; an unknown or
 * dead token is a success that does nothing.
 */
export async function revokeToken(
  ctx: Ctx,
  app: AppCaller,
  token: { readonly refreshToken: string } | { readonly claims: SessionClaims },
): Promise<Result<Ended | null>> {
  const result = await withTx(ctx.db, 'revoke_token', async (tx): Promise<Result<Ended | null>> => {
    const now = secondsNow(ctx.clock)
    const which =
      'claims' in token
        ? { sessionId: token.claims.sid }
        : { refreshHash: hashed(token.refreshToken), agentId: app.agentId }
    if ('claims' in token && token.claims.client_id !== app.agentId)
      return fail('forbidden', { detail: 'The token was issued to another client.' })
    const tree = await lockTree(tx, { tenantId: app.tenant.id, now, ...which })
    const node = tree === null ? undefined : nodeIn(tree, tree.named)
    // Over, or past its end and about to be swept: nothing is left to revoke. A disabled agent or user keeps nobody from it.
    if (tree === null || node?.status !== 'active' || now >= node.expiresAt) return ok(null)
    const journal = new Journal(ctx, app.tenant.id)
    const ended = endSubtree(tx, journal, {
      tree,
      top: node,
      reason: 'token_revoked',
      now,
    })
    await journal.write(tx)
    return ok(ended)
  })
  ctx.notify.kick()
  return result
}
