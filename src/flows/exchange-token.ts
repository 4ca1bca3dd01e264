import { createHash } from 'node:crypto'
import type { AppCaller, TenantRef } from '../callers.ts'
import { assert } from '../core/assert.ts'
import type { SessionClaims } from '../core/claims.ts'
import type { SessionId, UserId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { narrowTree } from '../db/endings.ts'
import { claimSession } from '../db/sessions.ts'
import { lockTree, type Node, nodeIn, subjectOf, type Tree } from '../db/tree.ts'
import { type Tx, withTx } from '../db/tx.ts'
import { findOrCreateUser, findUser, type Person } from '../db/users.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { type Batches, createBatches } from './batches.ts'
import { type Issued, issueToken, type Target, targetOf } from './issue-token.ts'
import { freezeFault, liveNode, secondsNow, templateRef } from './live.ts'
import { type Started, type StartInput, startRoot, startRoots } from './start-session.ts'

const hashed = (secret: string): string => createHash('sha256').update(secret).digest('hex')

type Refused = { node?: Node | undefined; userId?: UserId | undefined; how: string }

/** A refusal to a client that authenticated is on record, naming what is known (I12). */
function noteRefusal(journal: Journal, app: AppCaller, fault: Fault, of: Refused): void {
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
}

/** The record of a refusal is all that is written. */
async function refuse(
  tx: Tx,
  journal: Journal,
  app: AppCaller,
  fault: Fault,
  of: Refused,
): Promise<Result<never>> {
  noteRefusal(journal, app, fault, of)
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
 * (I7). Starts of one tenant that come at once share a transaction.
 */
export async function startByExchange(
  ctx: Ctx,
  app: AppCaller,
  input: StartByExchange,
): Promise<Result<Issued>> {
  const { sessionId, template } = input
  if (sessionId !== undefined) return claimByExchange(ctx, app, { ...input, sessionId })
  if (template === undefined)
    return fail('request_malformed', { errors: [{ path: 'template', message: 'is required' }] })
  return startsOf(ctx)(app.tenant, { app, input: { ...input, template } })
}

type Start = {
  readonly app: AppCaller
  readonly input: StartByExchange & { readonly template: string }
}

const STARTS_MOST = 32
const BATCHES_AT_ONCE = 3
const batches = new WeakMap<Ctx, Batches<TenantRef, Start, Result<Issued>>>()

function startsOf(ctx: Ctx): Batches<TenantRef, Start, Result<Issued>> {
  const known = batches.get(ctx)
  if (known !== undefined) return known
  const made = createBatches<TenantRef, Start, Result<Issued>>(
    (tenant, starts) => withTx(ctx.db, 'start_sessions', (tx) => startAll(ctx, tx, tenant, starts)),
    { most: STARTS_MOST, atOnce: BATCHES_AT_ONCE },
  )
  batches.set(ctx, made)
  return made
}

/** Starts of one tenant. Only those that can be answered are started: no refusal leaves a session behind. */
async function startAll(
  ctx: Ctx,
  tx: Tx,
  tenant: TenantRef,
  starts: readonly Start[],
): Promise<readonly Result<Issued>[]> {
  const journal = new Journal(ctx, tenant.id)
  const targets = await Promise.all(
    starts.map(({ input }) => targetOf(ctx, tx, { tenant, resource: input.resource })),
  )
  const refreshTokens = starts.map(() => ctx.ids.secret())
  const inputs = starts.map(
    ({ app, input }, i): StartInput => ({
      who: input.person,
      agentId: app.agentId,
      template: input.template,
      mode: 'ask',
      task: input.task,
      by: 'exchange',
      refreshHash: hashed(refreshTokens[i] ?? ''),
    }),
  )
  const possible = inputs.filter((_, i) => targets[i]?.ok)
  const started = await startRoots(ctx, tx, tenant, possible, journal)
  const answers: Result<Issued>[] = []
  for (const [i, { app, input }] of starts.entries()) {
    const [target, start, refreshToken] = [targets[i], inputs[i], refreshTokens[i]]
    assert(target && start && refreshToken, 'there is one of each')
    const answer = async (): Promise<Result<Issued>> => {
      if (!target.ok) return target
      const first = started[possible.indexOf(start)]
      assert(first, 'every start has its answer')
      const session = await orCreated(ctx, tx, tenant, {
        first,
        person: input.person,
        start,
        journal,
      })
      if (!session.ok) return session
      const claims = issueFirst(ctx, journal, app, session.value, target.value)
      return ok({ claims, sessionId: session.value.id, refreshToken })
    }
    const answered = await answer()
    answers.push(
      answered.ok ? answered : await refuseStart(tx, journal, app, input.person, answered.fault),
    )
  }
  await journal.write(tx)
  return answers
}

/** Somebody whom the tenant does not know yet may be brought in by their provider, and is started then. */
async function orCreated(
  ctx: Ctx,
  tx: Tx,
  tenant: TenantRef,
  of: { first: Result<Started>; person: Person; start: StartInput; journal: Journal },
): Promise<Result<Started>> {
  const { first, person, start, journal } = of
  if (first.ok || first.fault.code !== 'user_unknown') return first
  const user = await findOrCreateUser(ctx, tx, tenant, person, journal)
  if (user === null) return first
  // What this batch has opened so far is written, so that the limit on live roots counts it.
  await journal.write(tx)
  return startRoot(ctx, tx, tenant, { ...start, who: { userId: user.id } }, journal)
}

function issueFirst(
  ctx: Ctx,
  journal: Journal,
  app: AppCaller,
  started: Started,
  target: Target,
): SessionClaims {
  const { id, subject, template, expiresAt } = started
  const { userId, head } = subject
  const node = firstNode({ id, app, userId, template, expiresAt, head })
  return issueToken(ctx, journal, {
    tenant: app.tenant,
    tree: lonely(node),
    node,
    target,
    how: 'start',
  })
}

/** Looks the person up for the record, if the tenant knows them. */
async function refuseStart(
  tx: Tx,
  journal: Journal,
  app: AppCaller,
  person: Person,
  fault: Fault,
): Promise<Result<never>> {
  const user = await findUser(tx, app.tenant, person)
  noteRefusal(journal, app, fault, { how: 'start', ...(user ? { userId: user.id } : {}) })
  return { ok: false, fault }
}

const claimByExchange = (
  ctx: Ctx,
  app: AppCaller,
  input: StartByExchange & { readonly sessionId: string },
): Promise<Result<Issued>> =>
  withTx(ctx.db, 'claim_session', async (tx): Promise<Result<Issued>> => {
    const journal = new Journal(ctx, app.tenant.id)
    const user = await findOrCreateUser(ctx, tx, app.tenant, input.person, journal)
    if (user === null) return refuse(tx, journal, app, { code: 'user_unknown' }, { how: 'start' })
    const { sessionId, resource, template } = input
    return claim(ctx, tx, journal, app, { userId: user.id, sessionId, resource, template })
  })

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
  return withTx(ctx.db, 'claim_subagent', async (tx): Promise<Result<Issued>> => {
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
  readonly resource: string | undefined
  readonly how: 'reissue' | 'exchange'
} & (
  | { readonly presented: Presented }
  /** SHA-256, as it is kept. */
  | { readonly refreshHash: string }
)

/** The one path of every issue to a running session: a fresh decision each time (SPEC section 6.2, USER-ASKS 16). */
async function issueAgain(ctx: Ctx, tx: Tx, app: AppCaller, of: Again): Promise<Result<Issued>> {
  const { how } = of
  const now = secondsNow(ctx.clock)
  const journal = new Journal(ctx, app.tenant.id)
  const presented = 'presented' in of ? of.presented : null
  const which =
    'presented' in of
      ? { sessionId: of.presented.sid }
      : { refreshHash: of.refreshHash, agentId: app.agentId }
  const [found, target] = await Promise.all([
    lockTree(tx, { tenantId: app.tenant.id, now, ...which }),
    targetOf(ctx, tx, { tenant: app.tenant, resource: of.resource }),
  ])
  if (found === null && presented === null) return fail('refresh_token_invalid')
  const id = found?.named ?? presented?.sid
  const userId = presented?.on_behalf_of
  const live =
    id === undefined
      ? fail('session_not_found')
      : liveNode(found, id, now, presented?.session_version)
  if (!live.ok)
    return refuse(tx, journal, app, live.fault, {
      node: found && id !== undefined ? nodeIn(found, id) : undefined,
      userId,
      how,
    })
  const { tree, node } = live.value
  if (node.agentId !== app.agentId)
    return refuse(tx, journal, app, { code: 'session_not_found' }, { how, userId: node.userId })
  const frozen = freezeFault(tree, node)
  if (frozen) return refuse(tx, journal, app, frozen, { node, how })
  if (!node.enabled)
    return refuse(tx, journal, app, { code: 'template_not_enabled' }, { node, how })
  if (!target.ok) return refuse(tx, journal, app, target.fault, { node, how })
  const narrowed = narrowTree(tx, journal, tree)
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
    issueAgain(ctx, tx, app, { presented, resource, how: 'exchange' }),
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
    const refreshHash = hashed(of.refreshToken)
    const issued = await issueAgain(ctx, tx, app, {
      refreshHash,
      resource: of.resource,
      how: 'reissue',
    })
    return issued.ok ? ok({ ...issued.value, refreshToken: of.refreshToken }) : issued
  })

export { hashed }
