import type { TenantRef } from '../callers.ts'
import { CHAIN_START } from '../core/activity.ts'
import { assert } from '../core/assert.ts'
import type { AgentId, Mode, SessionId, TemplateId, TenantId, UserId } from '../core/vocabulary.ts'
import type { Journal, Subject } from '../db/activity.ts'
import { guardStarts, type StartOf, startOf, type Who } from '../db/guard.ts'
import { type Running, runningTemplates, templateRefOf } from '../db/templates.ts'
import type { FreezeScope } from '../db/tree.ts'
import { json, type Tx } from '../db/tx.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { limitFault, secondsNow } from './live.ts'

export type StartInput = {
  readonly who: Who
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
  /** Null: the tenant knows nobody of that name. */
  userId: UserId | null
  userActive: boolean
  templateIds: TemplateId[]
  liveRoots: number
  frozen: { scope: FreezeScope; targetId: string }[]
}

/** In the order of the starts; none for an agent that the tenant does not have. */
async function readStandings(
  tx: Tx,
  tenantId: TenantId,
  starts: readonly StartOf[],
): Promise<readonly (StandingSql | undefined)[]> {
  const asked = starts.map((start, n) => ({ n, ...start }))
  const rows = await tx.sql<StandingSql & { n: number }>`
    select s.n, a.status = 'active' as "agentActive", u.id as "userId", u.status = 'active' as "userActive",
      a.template_ids as "templateIds",
      (select count(*)::integer from session r where r.user_id = u.id and r.agent_id = a.id
         and r.ended_at is null and r.parent_id is null) as "liveRoots",
      (select coalesce(jsonb_agg(jsonb_build_object('scope', f.scope, 'targetId', f.target_id)), '[]')
         from frozen f where f.tenant_id = ${tenantId}) as frozen
    from jsonb_to_recordset(${json(asked)}::text::jsonb)
      as s (n integer, "agentId" text, "userId" text, issuer text, subject text)
    join agent a on a.tenant_id = ${tenantId} and a.id = s."agentId"
    left join app_user u on u.tenant_id = a.tenant_id and u.id = coalesce(s."userId", (
      select id from app_user p
      where p.tenant_id = ${tenantId} and p.issuer = s.issuer and p.subject = s.subject))`
  const byNumber = new Map(rows.map((row) => [row.n, row]))
  return starts.map((_, n) => byNumber.get(n))
}

function startFault(
  tenant: TenantRef,
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
  const targets = [tenant.id, running.id, of.agentId, standing.userId] as readonly string[]
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
 * Starts root sessions that hold nothing (I1), each for itself: one that is refused changes nothing for the others. The
 * caller writes the journal. A mode other than `ask` comes only from the user, through the People API (I7). Faults:
 * `user_unknown`, template, mode, freeze and limit faults; the journal says nothing of that start then.
 */
export async function startRoots(
  ctx: Ctx,
  tx: Tx,
  tenant: TenantRef,
  starts: readonly StartInput[],
  journal: Journal,
): Promise<readonly Result<Started>[]> {
  const refs = starts.map((start) => templateRefOf(start.template))
  const asked = starts.map((start) => startOf(start.agentId, start.who))
  const [, standings, templates] = await Promise.all([
    guardStarts(tx, { tenantId: tenant.id, starts: asked }),
    readStandings(tx, tenant.id, asked),
    runningTemplates(tx, {
      tenantId: tenant.id,
      names: [...new Set(refs.flatMap((ref) => ref?.name ?? []))],
    }),
  ])
  const now = secondsNow(ctx.clock)
  const live = new Map<string, number>()
  return starts.map((start, i) => {
    const standing = standings[i]
    const ref = refs[i] ?? null
    if (ref === null) return fail('template_unknown')
    if (standing === undefined)
      return fail('not_found', { detail: 'No such agent in this organisation.' })
    const { userId } = standing
    if (userId === null) return fail('user_unknown')
    const running = templates.get(ref.name)
    if (running === undefined) return fail('template_unknown')
    // Those that were started a moment ago, in this very batch, count too.
    const pair = `${start.agentId} ${userId}`
    const liveRoots = live.get(pair) ?? standing.liveRoots
    const fault = startFault(tenant, start, { ...standing, liveRoots }, running, ref.version)
    if (fault !== null || running.adoptedVersion === null)
      return { ok: false, fault: fault ?? { code: 'template_not_enabled' } }
    live.set(pair, liveRoots + 1)
    const version = running.adoptedVersion
    return ok(open(ctx, journal, { tenant, start, userId, running, version, now }))
  })
}

export async function startRoot(
  ctx: Ctx,
  tx: Tx,
  tenant: TenantRef,
  start: StartInput,
  journal: Journal,
): Promise<Result<Started>> {
  const [started] = await startRoots(ctx, tx, tenant, [start], journal)
  assert(started, 'every start has its answer')
  return started
}

function open(
  ctx: Ctx,
  journal: Journal,
  of: {
    readonly tenant: TenantRef
    readonly start: StartInput
    readonly userId: UserId
    readonly running: Running
    readonly version: number
    readonly now: number
  },
): Started {
  const { start, userId, running, now } = of
  const id = ctx.ids.id<SessionId>('session')
  const expiresAt = now + running.limits.sessionLifeSeconds
  journal.opens({
    id,
    tenantId: of.tenant.id,
    rootId: id,
    parentId: null,
    depth: 0,
    userId,
    agentId: start.agentId,
    templateId: running.id,
    templateVersion: of.version,
    mode: start.mode,
    modeExpiresAt: start.modeExpiresAt ?? null,
    readOnly: false,
    task: start.task ?? null,
    refreshHash: start.refreshHash ?? null,
    now,
    expiresAt,
  })
  const template = `${running.name}@${of.version}`
  const subject: Subject = {
    id,
    rootId: id,
    agentId: start.agentId,
    userId,
    template,
    head: CHAIN_START,
  }
  journal.session(subject, 'session.started', {
    mode: start.mode,
    by: start.by,
    expires_at: new Date(expiresAt * 1000).toISOString(),
    ...(start.task === undefined ? {} : { task: start.task }),
  })
  return { id, expiresAt, subject, template }
}
