import type { AppCaller, TenantRef } from '../callers.ts'
import { assert } from '../core/assert.ts'
import type { SessionClaims } from '../core/claims.ts'
import type { SessionId, UserId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { shareWork, WRITES } from '../db/batches.ts'
import type { Node, Tree } from '../db/tree.ts'
import { hotTx, type Tx } from '../db/tx.ts'
import { findOrCreateUser, findUser, type Person } from '../db/users.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { claimByExchange } from './exchange-token.ts'
import { type Issued, issueToken, type Target, targetOf } from './issue-token.ts'
import { hashed, noteRefusal } from './refuse-token.ts'
import { type Started, type StartInput, startRoot, startRoots } from './start-session.ts'

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
  return startTogether(ctx, app.tenant, { app, input: { ...input, template } })
}

type Start = {
  readonly app: AppCaller
  readonly input: StartByExchange & { readonly template: string }
}

const startTogether = shareWork(
  (ctx: Ctx, tenant: TenantRef, starts: readonly Start[]) =>
    hotTx(ctx.db, 'start_sessions', (tx) => startAll(ctx, tx, tenant, starts)),
  WRITES,
)

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
