import type { TenantId, UserId } from '../core/vocabulary.ts'
import type { Tx } from './tx.ts'

/**
 * Guards make "from now on no more" exact. Every transaction that issues, grants or allows holds its tenant's and its
 * user's guard shared; a freeze, a disabling, a narrowing or a deny rule takes its guard alone. So once such a change has
 * committed, nothing that was decided on the state before it can still commit. The locks live in memory and end with the
 * transaction.
 *
 * A guard is a statement of its own, sent before the reads it protects: a statement's snapshot is taken before it waits.
 */
const key = (of: string): string => `lend:${of}`

export async function guardShared(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId },
): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${key(of.tenantId)}::text, 0)),
    pg_advisory_xact_lock_shared(hashtextextended(${key(of.userId)}::text, 0))`
}

/** For changes that concern a whole tenant: freezes, roles, enablements, agents. */
export async function guardTenantAlone(tx: Tx, tenantId: TenantId): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock(hashtextextended(${key(tenantId)}::text, 0))`
}

/** For changes that concern one person: rules, direct permissions, disabling. */
export async function guardUserAlone(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId },
): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${key(of.tenantId)}::text, 0))`
  await tx.sql`select pg_advisory_xact_lock(hashtextextended(${key(of.userId)}::text, 0))`
}

/** Serialises the starts of one agent for one user, so that the limit on live roots holds. */
export async function guardStarts(tx: Tx, agentId: string, userId: string): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock(hashtextextended(${`lend:start:${agentId}:${userId}`}::text, 0))`
}
