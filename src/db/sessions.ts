import type { AgentId, Mode, SessionId, TemplateId, TenantId, UserId } from '../core/vocabulary.ts'
import type { Tx } from './tx.ts'

export type NewSession = {
  readonly id: SessionId
  readonly tenantId: TenantId
  readonly rootId: SessionId
  readonly parentId: SessionId | null
  readonly depth: number
  readonly userId: UserId
  readonly agentId: AgentId
  readonly templateId: TemplateId
  readonly templateVersion: number
  readonly mode: Mode
  readonly modeExpiresAt: number | null
  readonly readOnly: boolean
  readonly task: string | null
  /** Null: nobody has claimed it yet, so no credential names it. */
  readonly refreshHash: string | null
  readonly now: number
  readonly expiresAt: number
}

export async function insertSession(tx: Tx, s: NewSession): Promise<void> {
  await tx.sql`
    insert into session (id, tenant_id, root_id, parent_id, depth, user_id, agent_id, template_id,
      template_version, mode, mode_expires_at, read_only, task, refresh_hash, claimed_at, created_at,
      expires_at)
    values (${s.id}, ${s.tenantId}, ${s.rootId}, ${s.parentId}, ${s.depth}, ${s.userId}, ${s.agentId},
      ${s.templateId}, ${s.templateVersion}, ${s.mode}, to_timestamp(${s.modeExpiresAt}::float8),
      ${s.readOnly}, ${s.task}, ${s.refreshHash},
      case when ${s.refreshHash}::text is null then null else to_timestamp(${s.now}::float8) end,
      to_timestamp(${s.now}::float8), to_timestamp(${s.expiresAt}::float8))`
}

/** Gives a session its one refresh token. False when it has been claimed before. */
export async function claimSession(
  tx: Tx,
  of: { readonly id: SessionId; readonly refreshHash: string; readonly now: number },
): Promise<boolean> {
  const claimed = await tx.sql<{ id: string }>`
    update session set claimed_at = to_timestamp(${of.now}::float8), refresh_hash = ${of.refreshHash}
    where id = ${of.id} and claimed_at is null and status = 'active' returning id`
  return claimed.length === 1
}

/** Which session a refresh token names, whatever its state: the caller says why a dead one is refused. */
export async function sessionOfRefreshToken(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly agentId: AgentId; readonly refreshHash: string },
): Promise<{ readonly id: SessionId; readonly userId: UserId } | null> {
  const [row] = await tx.sql<{ id: SessionId; userId: UserId }>`
    select id, user_id as "userId" from session
    where refresh_hash = ${of.refreshHash} and tenant_id = ${of.tenantId} and agent_id = ${of.agentId}`
  return row ?? null
}
