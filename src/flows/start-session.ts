import type { TenantRef } from '../callers.ts'
import { CHAIN_START } from '../core/activity.ts'
import type { AgentId, Mode, SessionId, TemplateId, UserId } from '../core/vocabulary.ts'
import type { Journal, Subject } from '../db/activity.ts'
import { guardShared, guardStarts } from '../db/guard.ts'
import { insertSession } from '../db/sessions.ts'
import { type Running, runningTemplate, templateRefOf } from '../db/templates.ts'
import type { FreezeScope } from '../db/tree.ts'
import type { Tx } from '../db/tx.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { limitFault, secondsNow } from './live.ts'

export type StartInput = {
  readonly tenant: TenantRef
  readonly userId: UserId
  readonly agentId: AgentId
  /** `renewal-briefs`, or `renewal-briefs@3` if that is the adopted version. */
  readonly template: string
  readonly mode: Mode
  readonly modeExpiresAt?: number | undefined
  readonly task?: string | undefined
  readonly by: 'user' | 'exchange'
  /** Only when the agent's client starts it itself; a session that its user creates is claimed later. */
  readonly refreshHash?: string | undefined
}

export type Started = {
  readonly id: SessionId
  readonly expiresAt: number
  readonly subject: Subject
  /** `renewal-briefs@3` */
  readonly template: string
}

type StandingSql = {
  agentActive: boolean
  userActive: boolean
  templateIds: TemplateId[]
  liveRoots: number
  frozen: { scope: FreezeScope; targetId: string }[]
}

const readStanding = (tx: Tx, of: StartInput) => tx.sql<StandingSql>`
  select a.status = 'active' as "agentActive", u.status = 'active' as "userActive",
    a.template_ids as "templateIds",
    (select count(*)::integer from session s where s.user_id = u.id and s.agent_id = a.id
       and s.status = 'active' and s.parent_id is null) as "liveRoots",
    (select coalesce(jsonb_agg(jsonb_build_object('scope', f.scope, 'targetId', f.target_id)), '[]')
       from frozen f where f.tenant_id = a.tenant_id) as frozen
  from agent a join app_user u on u.tenant_id = a.tenant_id
  where a.tenant_id = ${of.tenant.id} and a.id = ${of.agentId} and u.id = ${of.userId}`

function startFault(
  of: StartInput,
  standing: StandingSql,
  running: Running,
  version: number | null,
): Fault | null {
  if (!standing.agentActive) return { code: 'agent_disabled' }
  if (!standing.userActive) return { code: 'user_disabled' }
  if (!standing.templateIds.includes(running.id)) return { code: 'template_not_listed' }
  if (!running.enabled) return { code: 'template_not_enabled' }
  if (version !== null && version !== running.adoptedVersion)
    return {
      code: 'template_version_not_adopted',
      detail: `This organisation runs version ${running.adoptedVersion}.`,
    }
  if (of.mode !== 'ask' && !running.modes.includes(of.mode)) return { code: 'mode_not_allowed' }
  const targets = [of.tenant.id, running.id, of.agentId, of.userId] as readonly string[]
  const frozen = standing.frozen.find((f) => targets.includes(f.targetId))
  if (frozen) return { code: 'frozen', limit: frozen.scope, retryAfterSeconds: 60 }
  const most = running.limits.liveRootsPerUser
  return standing.liveRoots < most
    ? null
    : limitFault(
        'liveRootsPerUser',
        60,
        `This agent already runs ${most} sessions for this person. End one first.`,
      )
}

/**
 * Starts a root session that holds nothing (I1). The caller writes the journal. A mode other than `ask` comes only from
 * the user, through the People API (I7). Faults: template, mode, freeze and limit faults; nothing is written then.
 */
export async function startRoot(
  ctx: Ctx,
  tx: Tx,
  of: StartInput,
  journal: Journal,
): Promise<Result<Started>> {
  const ref = templateRefOf(of.template)
  if (ref === null) return fail('template_unknown')
  const [, , [standing], running] = await Promise.all([
    guardShared(tx, { tenantId: of.tenant.id, userId: of.userId }),
    guardStarts(tx, of.agentId, of.userId),
    readStanding(tx, of),
    runningTemplate(tx, { tenantId: of.tenant.id, name: ref.name }),
  ])
  if (standing === undefined)
    return fail('not_found', { detail: 'No such agent in this organisation.' })
  if (running === null) return fail('template_unknown')
  const fault = startFault(of, standing, running, ref.version)
  if (fault !== null || running.adoptedVersion === null)
    return { ok: false, fault: fault ?? { code: 'template_not_enabled' } }

  const now = secondsNow(ctx.clock)
  const id = ctx.ids.id<SessionId>('session')
  const expiresAt = now + running.limits.sessionLifeSeconds
  await insertSession(tx, {
    id,
    tenantId: of.tenant.id,
    rootId: id,
    parentId: null,
    depth: 0,
    userId: of.userId,
    agentId: of.agentId,
    templateId: running.id,
    templateVersion: running.adoptedVersion,
    mode: of.mode,
    modeExpiresAt: of.modeExpiresAt ?? null,
    readOnly: false,
    task: of.task ?? null,
    refreshHash: of.refreshHash ?? null,
    now,
    expiresAt,
  })
  const template = `${running.name}@${running.adoptedVersion}`
  const subject: Subject = {
    id,
    rootId: id,
    agentId: of.agentId,
    userId: of.userId,
    template,
    head: CHAIN_START,
  }
  journal.session(subject, 'session.started', {
    mode: of.mode,
    by: of.by,
    expires_at: new Date(expiresAt * 1000).toISOString(),
    ...(of.task === undefined ? {} : { task: of.task }),
  })
  return ok({ id, expiresAt, subject, template })
}
