import type { AgentCaller } from '../callers.ts'
import { CHAIN_START } from '../core/activity.ts'
import { childMode, type World } from '../core/facts.ts'
import { inherits } from '../core/held.ts'
import type { GrantId, Mode, SessionId } from '../core/vocabulary.ts'
import { Journal, type Subject } from '../db/activity.ts'
import { itemData, narrowTree } from '../db/endings.ts'
import { insertGrants, type NewGrant } from '../db/grants.ts'
import { insertSessions, type NewSession } from '../db/sessions.ts'
import { type Running, runningTemplate, templateRefOf } from '../db/templates.ts'
import { type Node, nodeIn, subjectOf, type Tree } from '../db/tree.ts'
import { lockTree } from '../db/tree-read.ts'
import { type Tx, withTx } from '../db/tx.ts'
import { type Fault, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { freezeFault, limitFault, liveNode, secondsNow } from './live.ts'

export type SubagentInput = {
  readonly template: string
  readonly readOnly: boolean
  readonly task?: string | undefined
}

export type Subagent = {
  readonly id: SessionId
  readonly template: string
  readonly mode: Mode
  readonly readOnly: boolean
  readonly expiresAt: number
  readonly inherited: readonly NewGrant[]
}

function childFault(
  tree: Tree,
  parent: Node,
  running: Running,
  version: number | null,
): Fault | null {
  // Listed by the session's version and by the adopted one: a child that a newer version dropped is not started.
  const listed = parent.children.every((list) => list.some((c) => c.template === running.name))
  if (!listed) return { code: 'child_not_allowed' }
  if (!running.enabled) return { code: 'template_not_enabled' }
  if (version !== null && version !== running.adoptedVersion)
    return { code: 'template_version_not_adopted' }
  if (tree.frozen.some((f) => f.scope === 'template' && f.targetId === running.id))
    return { code: 'frozen', limit: 'template', retryAfterSeconds: 60 }
  const depth = Math.min(parent.limits.subagentDepth, tree.root.limits.subagentDepth)
  if (parent.depth + 1 > depth)
    return limitFault('subagentDepth', 0, `Subagents may be at most ${depth} deep.`)
  const live = tree.nodes.filter((n) => n.parentId === parent.id && n.status === 'active').length
  return live < parent.limits.liveChildren
    ? null
    : limitFault(
        'liveChildren',
        30,
        `At most ${parent.limits.liveChildren} live subagents. End one first.`,
      )
}

const childWorld = (
  tree: Tree,
  running: Running,
): Pick<World, 'catalog' | 'ceilings' | 'sensitiveMarks' | 'userAccess' | 'rules'> => ({
  catalog: tree.catalog,
  ceilings: running.ceilings,
  sensitiveMarks: running.sensitiveMarks,
  userAccess: tree.userAccess,
  rules: tree.rules.get(running.id) ?? [],
})

async function refuse(
  tx: Tx,
  journal: Journal,
  parent: Node,
  input: SubagentInput,
  fault: Fault,
): Promise<Result<never>> {
  journal.session(subjectOf(parent), 'subagent.started', {
    template: input.template,
    refused: fault.code,
    ...(fault.limit === undefined ? {} : { limit: fault.limit }),
  })
  await journal.write(tx)
  return { ok: false, fault }
}

/** On the parent's chain that it started a child, on the child's own how it began and what it was lent (I12). */
function record(journal: Journal, parent: Node, input: SubagentInput, child: Subagent): void {
  const { id, template, mode, readOnly, expiresAt, inherited } = child
  const { rootId, agentId, userId } = parent
  const subject: Subject = { id, rootId, agentId, userId, template, head: CHAIN_START }
  journal.session(subjectOf(parent), 'subagent.started', {
    child: id,
    child_template: template,
    read_only: readOnly,
    inherited: inherited.length,
  })
  journal.session(subject, 'session.started', {
    mode,
    by: 'agent',
    parent: parent.id,
    read_only: readOnly,
    expires_at: new Date(expiresAt * 1000).toISOString(),
    ...(input.task === undefined ? {} : { task: input.task }),
  })
  for (const g of inherited)
    journal.session(subject, 'grant.created', {
      grant_id: g.id,
      ...itemData(g.item),
      source: 'inherited',
      inherited_from: g.inheritedFrom,
      read_only: g.readOnly,
    })
}

/**
 * `iam.start_subagent` (SPEC section 5, I9): a child session of the same agent and user, in the loosest allowed mode that
 * is no looser than the parent's, ending no later, holding at most what the parent holds. Nothing flows up.
 * Faults: `child_not_allowed`, `template_not_enabled`, `frozen`, `limit_reached` and the like.
 */
export async function startSubagent(
  ctx: Ctx,
  caller: AgentCaller,
  input: SubagentInput,
): Promise<Result<Subagent>> {
  const result = await withTx(ctx.db, 'start_subagent', async (tx): Promise<Result<Subagent>> => {
    const now = secondsNow(ctx.clock)
    const { sessionId, userId, tenant } = caller
    const ref = templateRefOf(input.template)
    const found = await lockTree(tx, { tenantId: tenant.id, sessionId, now })
    const live = liveNode(found, sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const running =
      ref === null ? null : await runningTemplate(tx, { tenantId: tenant.id, name: ref.name })
    const journal = new Journal(ctx, tenant.id)
    // What the parent has lost since its last issue is not handed down.
    const { tree } = narrowTree(tx, journal, live.value.tree)
    const parent = nodeIn(tree, sessionId) ?? live.value.node
    if (running === null) return refuse(tx, journal, parent, input, { code: 'template_unknown' })
    const fault =
      freezeFault(tree, parent) ?? childFault(tree, parent, running, ref?.version ?? null)
    if (fault !== null || running.adoptedVersion === null)
      return refuse(tx, journal, parent, input, fault ?? { code: 'template_not_enabled' })

    const readOnly = input.readOnly || parent.readOnly
    const mode = childMode(parent.mode, running.modes)
    const id = ctx.ids.id<SessionId>('session')
    const expiresAt = Math.min(parent.expiresAt, now + running.limits.sessionLifeSeconds)
    const session: NewSession = {
      id,
      tenantId: tenant.id,
      rootId: parent.rootId,
      parentId: parent.id,
      depth: parent.depth + 1,
      userId,
      agentId: parent.agentId,
      templateId: running.id,
      templateVersion: running.adoptedVersion,
      mode,
      modeExpiresAt: mode === 'ask' ? null : parent.modeExpiresAt,
      readOnly,
      task: input.task ?? null,
      refreshHash: null,
      now,
      expiresAt,
    }
    insertSessions(tx, [{ session }])
    const inherited = inherits({
      parent: parent.grants,
      parentMarks: parent.sensitiveMarks,
      child: childWorld(tree, running),
      readOnly,
    }).map(
      (grant): NewGrant => ({
        id: ctx.ids.id<GrantId>('grant'),
        sessionId: id,
        item: grant.item,
        readOnly: readOnly || grant.readOnly,
        sensitive: false,
        source: 'inherited',
        inheritedFrom: grant.id,
        parentSessionId: parent.id,
      }),
    )
    insertGrants(tx, { tenantId: tenant.id, now }, inherited)
    const template = `${running.name}@${running.adoptedVersion}`
    const child: Subagent = { id, template, mode, readOnly, expiresAt, inherited }
    record(journal, parent, input, child)
    await journal.write(tx)
    return ok(child)
  })
  ctx.notify.kick()
  return result
}
