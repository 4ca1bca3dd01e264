import type { AgentId, TenantId, UserId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

/**
 * Guards make "from now on no more" exact. Every transaction that issues, grants or allows holds its tenant's and its
 * user's guard shared; a freeze, a disabling, a narrowing or a deny rule takes its guard alone. So once such a change has
 * committed, nothing that was decided on the state before it can still commit. The locks live in memory and end with the
 * transaction.
 *
 * A guard is a statement of its own, sent before the reads it protects: a statement's snapshot is taken before it waits.
 */
export const guardKey = (of: string): string => `lend:${of}`

/**
 * The catalog's own guard. Every other guard comes with it, shared and first, so that a publish that has it alone knows of
 * nobody who holds another and waits for it.
 */
export const CATALOG_GUARD = guardKey('catalog')

/** For a new version of the catalog: it waits for every decision under way, and none begins before its commit. */
export async function guardCatalogAlone(tx: Tx): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock(hashtextextended(${CATALOG_GUARD}::text, 0))`
}

/** For what rests on the catalog as it is until the commit, and belongs to no tenant. Before any other lock. */
export async function guardCatalogShared(tx: Tx): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${CATALOG_GUARD}::text, 0))`
}

export async function guardShared(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId },
): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${CATALOG_GUARD}::text, 0)),
    pg_advisory_xact_lock_shared(hashtextextended(${guardKey(of.tenantId)}::text, 0)),
    pg_advisory_xact_lock_shared(hashtextextended(${guardKey(of.userId)}::text, 0))`
}

/** For what is issued to somebody who is no person of the tenant. */
export async function guardTenantShared(tx: Tx, tenantId: TenantId): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${CATALOG_GUARD}::text, 0)),
    pg_advisory_xact_lock_shared(hashtextextended(${guardKey(tenantId)}::text, 0))`
}

/** For changes that concern a whole tenant: freezes, roles, enablements, agents. */
export async function guardTenantAlone(tx: Tx, tenantId: TenantId): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${CATALOG_GUARD}::text, 0)),
    pg_advisory_xact_lock(hashtextextended(${guardKey(tenantId)}::text, 0))`
}

/** For changes that concern one person: rules, direct permissions, disabling. */
export async function guardUserAlone(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly userId: UserId },
): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock_shared(hashtextextended(${CATALOG_GUARD}::text, 0)),
    pg_advisory_xact_lock_shared(hashtextextended(${guardKey(of.tenantId)}::text, 0))`
  await tx.sql`select pg_advisory_xact_lock(hashtextextended(${guardKey(of.userId)}::text, 0))`
}

/** Somebody whom the tenant may know: by id, or as their identity provider names them. */
export type Who =
  | { readonly userId: UserId }
  | { readonly issuer: string; readonly subject: string }

/** One start, as the statements below read it. Whose an issuer and subject are never changes. */
export type StartOf = {
  readonly agentId: AgentId
  readonly userId: UserId | null
  readonly issuer: string | null
  readonly subject: string | null
}

export const startOf = (agentId: AgentId, who: Who): StartOf =>
  'userId' in who
    ? { agentId, userId: who.userId, issuer: null, subject: null }
    : { agentId, userId: null, issuer: who.issuer, subject: who.subject }

/**
 * `guardShared` for all who start something, and one start at a time of one agent for one user, so that the limit on live
 * roots holds. In one order everywhere, so that two batches cannot wait for each other. Nobody of that name: no lock.
 */
export async function guardStarts(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly starts: readonly StartOf[] },
): Promise<void> {
  const starts = json(of.starts)
  await Promise.all([
    tx.sql`
      select pg_advisory_xact_lock_shared(hashtextextended(key, 0)) from (
        select ${CATALOG_GUARD}::text as key, -1 as turn
        union
        select ${guardKey(of.tenantId)}::text, 0
        union
        select ${guardKey('')}::text || coalesce(s."userId", (select id from app_user u
          where u.tenant_id = ${of.tenantId} and u.issuer = s.issuer and u.subject = s.subject)), 1
        from jsonb_to_recordset(${starts}::text::jsonb) as s ("userId" text, issuer text, subject text)
        order by turn, key) guards`,
    tx.sql`
      select pg_advisory_xact_lock(hashtextextended(key, 0)) from (
        select distinct ${guardKey('start:')}::text || s."agentId" || ':' || coalesce(s."userId", (select id from app_user u
          where u.tenant_id = ${of.tenantId} and u.issuer = s.issuer and u.subject = s.subject)) as key
        from jsonb_to_recordset(${starts}::text::jsonb) as s ("agentId" text, "userId" text, issuer text, subject text)
        order by key) guards`,
  ])
}
