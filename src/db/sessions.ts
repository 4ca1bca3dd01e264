import { CHAIN_START, type ChainHead } from '../core/activity.ts'
import type { AgentId, Mode, SessionId, TemplateId, TenantId, UserId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

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

/** One statement for any number. `head`: where its chain stands once its first records, written with it, are there. */
export function insertSessions(
  tx: Tx,
  sessions: readonly { readonly session: NewSession; readonly head?: ChainHead | undefined }[],
): void {
  if (sessions.length === 0) return
  const rows = sessions.map(({ session, head = CHAIN_START }) => ({ ...session, ...head }))
  tx.later`
    insert into session (id, tenant_id, root_id, parent_id, depth, user_id, agent_id, template_id,
      template_version, mode, mode_expires_at, read_only, task, refresh_hash, claimed_at, created_at,
      expires_at, chain_seq, chain_hash)
    select id, "tenantId", "rootId", "parentId", depth, "userId", "agentId", "templateId",
      "templateVersion", mode, to_timestamp("modeExpiresAt"), "readOnly", task, "refreshHash",
      case when "refreshHash" is null then null else to_timestamp(now) end, to_timestamp(now),
      to_timestamp("expiresAt"), seq, hash
    from jsonb_to_recordset(${json(rows)}::text::jsonb) as r (id text, "tenantId" text, "rootId" text,
      "parentId" text, depth integer, "userId" text, "agentId" text, "templateId" text,
      "templateVersion" integer, mode text, "modeExpiresAt" float8, "readOnly" boolean, task text,
      "refreshHash" text, now float8, "expiresAt" float8, seq integer, hash text)`
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
