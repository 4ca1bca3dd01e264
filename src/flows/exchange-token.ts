import { createHash } from 'node:crypto'
import type { AppCaller } from '../callers.ts'
import type { SessionClaims } from '../core/claims.ts'
import type { SessionId, UserId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { narrowTree } from '../db/endings.ts'
import { claimSession, sessionOfRefreshToken } from '../db/sessions.ts'
import { lockTree, type Node, nodeIn, subjectOf, type Tree } from '../db/tree.ts'
import { type Tx, withTx } from '../db/tx.ts'
import { findOrCreateUser, type Person } from '../db/users.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { type Issued, issueToken, targetOf } from './issue-token.ts'
import { freezeFault, liveNode, secondsNow, templateRef } from './live.ts'
import { startRoot } from './start-session.ts'

const hashed = (secret: string): string => createHash('sha256').update(secret).digest('hex')

/** A refusal to a client that authenticated is on record, naming what is known (I12). Nothing else is written. */
async function refuse(
  tx: Tx,
  journal: Journal,
  app: AppCaller,
  fault: Fault,
  of: { node?: Node | undefined; userId?: UserId | undefined; how: string },
): Promise<Result<never>> {
  const data = {
    how: of.how,
    reason: fault.code,
    ...(fault.limit === undefined ? {} : { limit: fault.limit }),
  }
  if (of.node !== undefined) journal.session(subjectOf(of.node), 'token.refused', data)
  else
    journal.tenant('token.refused', data, {
      agentId: app.agentId,
      ...(of.userId === undefined ? {} : { userId: of.userId }),
    })
  await journal.write(tx)
  return { ok: false, fault }
}

export type StartByExchange = {
  readonly person: Person
  readonly template: string | undefined
  readonly task: string | undefined
  readonly resource: string | undefined
  /** A session that its user created first. */
  readonly sessionId: string | undefined
}

/**
 * RFC 8693, start (SPEC section 6.1): the user's token has been verified and bound to this agent's app. The answer's token
 * carries no permission (I1); the mode is `ask`, since an app could claim anything, unless the user created the session
 * (I7).
 */
export async function startByExchange(
  ctx: Ctx,
  app: AppCaller,
  input: StartByExchange,
): Promise<Result<Issued>> {
  return withTx(ctx.db, 'start_session', async (tx): Promise<Result<Issued>> => {
    const journal = new Journal(ctx, app.tenant.id)
    const user = await findOrCreateUser(ctx, tx, app.tenant, input.person, journal)
    if (user === null) return refuse(tx, journal, app, { code: 'user_unknown' }, { how: 'start' })
    const target = await targetOf(ctx, tx, { tenant: app.tenant, resource: input.resource })
    if (!target.ok) return refuse(tx, journal, app, target.fault, { how: 'start', userId: user.id })
    if (input.sessionId !== undefined)
      return claim(ctx, tx, journal, app, {
        userId: user.id,
        sessionId: input.sessionId,
        resource: input.resource,
        template: input.template,
      })
    if (input.template === undefined)
      return fail('request_malformed', { errors: [{ path: 'template', message: 'is required' }] })

    const refreshToken = ctx.ids.secret()
    const started = await startRoot(
      ctx,
      tx,
      {
        tenant: app.tenant,
        userId: user.id,
        agentId: app.agentId,
        template: input.template,
        mode: 'ask',
        task: input.task,
        by: 'exchange',
        refreshHash: hashed(refreshToken),
      },
      journal,
    )
    if (!started.ok)
      return refuse(tx, journal, app, started.fault, { how: 'start', userId: user.id })
    const { subject, template, expiresAt } = started.value
    const node = firstNode({
      id: started.value.id,
      app,
      userId: user.id,
      template,
      expiresAt,
      head: subject.head,
    })
    const claims = issueToken(ctx, journal, {
      tenant: app.tenant,
      tree: lonely(node),
      node,
      target: target.value,
      how: 'start',
    })
    await journal.write(tx)
    return ok({ claims, sessionId: started.value.id, refreshToken })
  })
}

/** A session that has just been inserted, without reading it back: it holds nothing and has no parent. */
function firstNode(of: {
  id: SessionId
  app: AppCaller
  userId: UserId
  template: string
  expiresAt: number
  head: Node['head']
}): Node {
  const [templateName = '', version = '1'] = of.template.split('@')
  return {
    id: of.id,
    rootId: of.id,
    parentId: null,
    userId: of.userId,
    agentId: of.app.agentId,
    templateName,
    templateVersion: Number(version),
    version: 1,
    expiresAt: of.expiresAt,
    grants: [],
    head: of.head,
  } as unknown as Node
}

const lonely = (node: Node): Tree =>
  ({ root: node, nodes: [node], catalog: new Map() }) as unknown as Tree

async function claim(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  app: AppCaller,
  of: {
    userId: UserId
    sessionId: string
    resource: string | undefined
    template?: string | undefined
    parentId?: SessionId
  },
): Promise<Result<Issued>> {
  const how = of.parentId === undefined ? 'start' : 'subagent'
  const now = secondsNow(ctx.clock)
  const sessionId = of.sessionId as SessionId
  const found = await lockTree(tx, {
    tenantId: app.tenant.id,
    userId: of.userId,
    sessionId,
    now,
  })
  const named = found === null ? undefined : nodeIn(found, sessionId)
  // Another user's, another agent's or another parent's session is as unknown as one that never was, over or not.
  if (
    named === undefined ||
    named.userId !== of.userId ||
    named.agentId !== app.agentId ||
    named.parentId !== (of.parentId ?? null)
  )
    return refuse(tx, journal, app, { code: 'session_not_found' }, { how, userId: of.userId })
  const live = liveNode(found, sessionId, now)
  if (!live.ok) return refuse(tx, journal, app, live.fault, { node: named, how })
  const { tree, node } = live.value
  if (
    of.template !== undefined &&
    of.template !== node.templateName &&
    of.template !== templateRef(node)
  )
    return refuse(
      tx,
      journal,
      app,
      {
        code: 'request_malformed',
        errors: [{ path: 'template', message: `the session runs ${templateRef(node)}` }],
      },
      { node, how },
    )
  const frozen = freezeFault(tree, node)
  if (frozen) return refuse(tx, journal, app, frozen, { node, how })
  if (!node.enabled)
    return refuse(tx, journal, app, { code: 'template_not_enabled' }, { node, how })
  const target = await targetOf(ctx, tx, { tenant: app.tenant, resource: of.resource })
  if (!target.ok) return refuse(tx, journal, app, target.fault, { node, how })
  const refreshToken = ctx.ids.secret()
  if (!(await claimSession(tx, { id: node.id, refreshHash: hashed(refreshToken), now })))
    return refuse(tx, journal, app, { code: 'session_claimed' }, { node, how })
  const narrowed = await narrowTree(tx, journal, tree)
  const claims = issueToken(ctx, journal, {
    tenant: app.tenant,
    tree: narrowed.tree,
    node: nodeIn(narrowed.tree, node.id) ?? node,
    target: target.value,
    how,
  })
  await journal.write(tx)
  return ok({ claims, sessionId: node.id, refreshToken })
}

/** A live control token of one of the client's own sessions, verified offline. */
export type Presented = Pick<SessionClaims, 'sid' | 'on_behalf_of' | 'session_version'>

/**
 * RFC 8693, subagent (SPEC section 6.3): the direct parent's live control token claims the child, once. `act` is built
 * from the server's own tree (USER-ASKS 10).
 */
export async function claimSubagent(
  ctx: Ctx,
  app: AppCaller,
  parent: Presented,
  of: { sessionId: string; resource: string | undefined },
): Promise<Result<Issued>> {
  return withTx(ctx.db, 'claim_subagent', async (tx): Promise<Result<Issued>> => {
    const journal = new Journal(ctx, app.tenant.id)
    const now = secondsNow(ctx.clock)
    const userId = parent.on_behalf_of
    const tree = await lockTree(tx, { tenantId: app.tenant.id, userId, sessionId: parent.sid, now })
    const live = liveNode(tree, parent.sid, now, parent.session_version)
    if (!live.ok)
      return refuse(tx, journal, app, live.fault, {
        node: tree === null ? undefined : nodeIn(tree, parent.sid),
        userId,
        how: 'subagent',
      })
    return claim(ctx, tx, journal, app, {
      userId,
      sessionId: of.sessionId,
      resource: of.resource,
      parentId: parent.sid,
    })
  })
}

/** The one path of every issue to a running session: a fresh decision each time (SPEC section 6.2, USER-ASKS 16). */
async function issueAgain(
  ctx: Ctx,
  tx: Tx,
  app: AppCaller,
  of: {
    userId: UserId
    sessionId: SessionId
    resource: string | undefined
    how: 'reissue' | 'exchange'
    presentedVersion?: number
  },
): Promise<Result<Issued>> {
  const { how } = of
  const now = secondsNow(ctx.clock)
  const journal = new Journal(ctx, app.tenant.id)
  const found = await lockTree(tx, {
    tenantId: app.tenant.id,
    userId: of.userId,
    sessionId: of.sessionId,
    now,
  })
  const live = liveNode(found, of.sessionId, now, of.presentedVersion)
  if (!live.ok)
    return refuse(tx, journal, app, live.fault, {
      node: found ? nodeIn(found, of.sessionId) : undefined,
      userId: of.userId,
      how,
    })
  const { tree, node } = live.value
  if (node.agentId !== app.agentId)
    return refuse(tx, journal, app, { code: 'session_not_found' }, { how, userId: of.userId })
  const frozen = freezeFault(tree, node)
  if (frozen) return refuse(tx, journal, app, frozen, { node, how })
  if (!node.enabled)
    return refuse(tx, journal, app, { code: 'template_not_enabled' }, { node, how })
  const target = await targetOf(ctx, tx, { tenant: app.tenant, resource: of.resource })
  if (!target.ok) return refuse(tx, journal, app, target.fault, { node, how })
  const narrowed = await narrowTree(tx, journal, tree)
  const current = nodeIn(narrowed.tree, node.id) ?? node
  const claims = issueToken(ctx, journal, {
    tenant: app.tenant,
    tree: narrowed.tree,
    node: current,
    target: target.value,
    how,
  })
  await journal.write(tx)
  return ok({ claims, sessionId: node.id })
}

/** RFC 8693, other audience (SPEC section 6.4): only a live control token can be exchanged. */
export const exchangeForAudience = (
  ctx: Ctx,
  app: AppCaller,
  presented: Presented,
  resource: string | undefined,
): Promise<Result<Issued>> =>
  withTx(ctx.db, 'exchange_audience', (tx) =>
    issueAgain(ctx, tx, app, {
      userId: presented.on_behalf_of,
      sessionId: presented.sid,
      resource,
      how: 'exchange',
      presentedVersion: presented.session_version,
    }),
  )

/**
 * Re-issue (RFC 6749 section 6; SPEC section 6.2). The refresh token names the session and carries no authority of its own;
 * it is not rotated, so concurrent re-issues are idempotent (USER-ASKS 16, 17).
 */
export const refreshToken = (
  ctx: Ctx,
  app: AppCaller,
  of: { refreshToken: string; resource: string | undefined },
): Promise<Result<Issued>> =>
  withTx(ctx.db, 'reissue_token', async (tx): Promise<Result<Issued>> => {
    const named = await sessionOfRefreshToken(tx, {
      tenantId: app.tenant.id,
      agentId: app.agentId,
      refreshHash: hashed(of.refreshToken),
    })
    if (named === null) return fail('refresh_token_invalid')
    const issued = await issueAgain(ctx, tx, app, {
      userId: named.userId,
      sessionId: named.id,
      resource: of.resource,
      how: 'reissue',
    })
    return issued.ok ? ok({ ...issued.value, refreshToken: of.refreshToken }) : issued
  })

export { hashed }
