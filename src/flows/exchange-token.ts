import type { AppCaller, TenantRef } from '../callers.ts'
import type { SessionClaims } from '../core/claims.ts'
import type { SessionId, UserId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { inTurn, isAgain, LATER, shareWork, WRITES } from '../db/batches.ts'
import { narrowTree } from '../db/endings.ts'
import { claimSession } from '../db/sessions.ts'
import { type Node, nodeIn, type Tree } from '../db/tree.ts'
import { lockTree, lockTrees } from '../db/tree-read.ts'
import { hotTx, type Tx } from '../db/tx.ts'
import { findOrCreateUser, type Person } from '../db/users.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { type Issued, issueToken, type Target, targetOf } from './issue-token.ts'
import { freezeFault, liveNode, secondsNow, templateRef } from './live.ts'
import { hashed, noteRefusal, refuse } from './refuse-token.ts'

/** A session that its user created first is claimed, once, by its agent's app (SPEC section 6.1). */
export const claimByExchange = (
  ctx: Ctx,
  app: AppCaller,
  input: {
    readonly person: Person
    readonly sessionId: string
    readonly resource: string | undefined
    readonly template: string | undefined
  },
): Promise<Result<Issued>> =>
  hotTx(ctx.db, 'claim_session', async (tx): Promise<Result<Issued>> => {
    const journal = new Journal(ctx, app.tenant.id)
    const user = await findOrCreateUser(ctx, tx, app.tenant, input.person, journal)
    if (user === null) return refuse(tx, journal, app, { code: 'user_unknown' }, { how: 'start' })
    const { sessionId, resource, template } = input
    return claim(ctx, tx, journal, app, { userId: user.id, sessionId, resource, template })
  })

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
  const found = await lockTree(tx, { tenantId: app.tenant.id, sessionId, now })
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
  const narrowed = narrowTree(tx, journal, tree)
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
  return hotTx(ctx.db, 'claim_subagent', async (tx): Promise<Result<Issued>> => {
    const journal = new Journal(ctx, app.tenant.id)
    const now = secondsNow(ctx.clock)
    const userId = parent.on_behalf_of
    const tree = await lockTree(tx, { tenantId: app.tenant.id, sessionId: parent.sid, now })
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

type Again = {
  readonly app: AppCaller
  readonly resource: string | undefined
  readonly how: 'reissue' | 'exchange'
} & (
  | { readonly presented: Presented }
  /** SHA-256, as it is kept. */
  | { readonly refreshHash: string }
)

type Answer = Result<Issued> | typeof LATER

const issueTogether = shareWork(
  (ctx: Ctx, tenant: TenantRef, all: readonly Again[]) =>
    hotTx(ctx.db, 'issue_tokens', (tx) => issueAll(ctx, tx, tenant, all)),
  WRITES,
)

/** The one path of every issue to a running session. Those of one tenant that come at once share a transaction. */
const issueAgain = (ctx: Ctx, asked: Again): Promise<Result<Issued>> =>
  inTurn(() => issueTogether(ctx, asked.app.tenant, asked))

async function issueAll(
  ctx: Ctx,
  tx: Tx,
  tenant: TenantRef,
  asked: readonly Again[],
): Promise<readonly Answer[]> {
  const now = secondsNow(ctx.clock)
  const journal = new Journal(ctx, tenant.id)
  const [trees, targets] = await Promise.all([
    lockTrees(
      tx,
      { tenantId: tenant.id, now },
      asked.map((one) =>
        'presented' in one
          ? { sessionId: one.presented.sid }
          : { refreshHash: one.refreshHash, agentId: one.app.agentId },
      ),
    ),
    Promise.all(asked.map(({ resource }) => targetOf(ctx, tx, { tenant, resource }))),
  ])
  const again = isAgain(trees)
  const answers = asked.map((one, i): Answer => {
    if (again[i]) return LATER
    const tree = trees[i] ?? null
    const target = targets[i] ?? fail('target_invalid')
    return issueOne(ctx, tx, journal, one, { tree, target, now })
  })
  await journal.write(tx)
  return answers
}

/** A fresh decision each time (SPEC section 6.2, USER-ASKS 16). The caller writes the journal. */
function issueOne(
  ctx: Ctx,
  tx: Tx,
  journal: Journal,
  asked: Again,
  of: { readonly tree: Tree | null; readonly target: Result<Target>; readonly now: number },
): Result<Issued> {
  const { app, how } = asked
  const { target, now } = of
  const presented = 'presented' in asked ? asked.presented : null
  const refused = (
    fault: Fault,
    whom: { node?: Node | undefined; userId?: UserId | undefined },
  ) => {
    noteRefusal(journal, app, fault, { ...whom, how })
    return { ok: false, fault } as const
  }
  if (of.tree === null && presented === null) return fail('refresh_token_invalid')
  const id = of.tree?.named ?? presented?.sid
  const userId = presented?.on_behalf_of
  const live =
    id === undefined
      ? fail('session_not_found')
      : liveNode(of.tree, id, now, presented?.session_version)
  if (!live.ok)
    return refused(live.fault, {
      node: of.tree !== null && id !== undefined ? nodeIn(of.tree, id) : undefined,
      userId,
    })
  const { tree, node } = live.value
  if (node.agentId !== app.agentId)
    return refused({ code: 'session_not_found' }, { userId: node.userId })
  const frozen = freezeFault(tree, node)
  if (frozen) return refused(frozen, { node })
  if (!node.enabled) return refused({ code: 'template_not_enabled' }, { node })
  if (!target.ok) return refused(target.fault, { node })
  const narrowed = narrowTree(tx, journal, tree)
  const claims = issueToken(ctx, journal, {
    tenant: app.tenant,
    tree: narrowed.tree,
    node: nodeIn(narrowed.tree, node.id) ?? node,
    target: target.value,
    how,
  })
  return ok({ claims, sessionId: node.id })
}

/** RFC 8693, other audience (SPEC section 6.4): only a live control token can be exchanged. */
export const exchangeForAudience = (
  ctx: Ctx,
  app: AppCaller,
  presented: Presented,
  resource: string | undefined,
): Promise<Result<Issued>> => issueAgain(ctx, { app, presented, resource, how: 'exchange' })

/**
 * Re-issue (RFC 6749 section 6; SPEC section 6.2). The refresh token names the session and carries no authority of its own;
 * it is not rotated, so concurrent re-issues are idempotent (USER-ASKS 16, 17).
 */
export async function refreshToken(
  ctx: Ctx,
  app: AppCaller,
  of: { refreshToken: string; resource: string | undefined },
): Promise<Result<Issued>> {
  const { refreshToken, resource } = of
  const refreshHash = hashed(refreshToken)
  const issued = await issueAgain(ctx, { app, refreshHash, resource, how: 'reissue' })
  return issued.ok ? ok({ ...issued.value, refreshToken }) : issued
}
