import { createHash } from 'node:crypto'
import type { AgentCaller, TenantRef } from '../callers.ts'
import { assert } from '../core/assert.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import { type CallVerdict, decideCall, mayCall } from '../core/tool-access.ts'
import { Journal } from '../db/activity.ts'
import { countUses } from '../db/calls.ts'
import { lostNow } from '../db/endings.ts'
import { findToolServer, type ServedToolServer } from '../db/tool-servers.ts'
import { type Node, subjectOf, type Tree } from '../db/tree.ts'
import { lockTree, readTree } from '../db/tree-read.ts'
import { hotRead, hotTx, type Tx } from '../db/tx.ts'
import { type Fault, fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { freezeFault, liveNode, secondsNow } from './live.ts'
import { openedFor } from './tool-credential.ts'

/**
 * The tool gateway's two questions (SPEC section 9). Both look the session's grants up live, take away what its user has lost
 * in the same moment, and ask one decision, so that the list and the call never disagree.
 */
const noServer = () => fail('not_found', { detail: 'No such tool server in this organisation.' })

/** Where an allowed call is sent, with the credential that Lend keeps for it. */
export type Upstream = {
  readonly url: string
  readonly privateNetwork: boolean
  /** Null: none is needed. */
  readonly credential: { readonly header: string; readonly value: string } | null
}

export const toolServerExists = (ctx: Ctx, tenant: TenantRef, name: string): Promise<boolean> =>
  hotRead(ctx.db, 'tool_server_exists', async (tx) => {
    const server = await findToolServer(tx, { tenantId: tenant.id, name })
    return server !== null
  })

/** Grants that the session holds and its user still has. */
function heldNow(tree: Tree, node: Node) {
  const lost = lostNow(tree)
  return node.grants.filter((grant) => !lost.has(grant.id))
}

/** Null: the credential was sealed with a key that this instance does not have. */
function upstreamOf(ctx: Ctx, tenant: TenantRef, server: ServedToolServer): Upstream | null {
  const { url, privateNetwork, sealed, credentialHeader: header } = server
  if (sealed === null) return { url, privateNetwork, credential: null }
  const value = openedFor(ctx, { tenantId: tenant.id, id: server.id }, sealed)
  return value === null ? null : { url, privateNetwork, credential: { header, value } }
}

export type Callable = {
  /** Null: not to be asked, since nothing of it may be called or its credential does not open. */
  readonly upstream: Upstream | null
  readonly mayCall: (tool: string) => boolean
}

/** What a session may call at a server now. While anything is frozen, nothing. */
export const callableTools = (
  ctx: Ctx,
  caller: AgentCaller,
  name: string,
): Promise<Result<Callable>> =>
  hotRead(ctx.db, 'callable_tools', async (tx): Promise<Result<Callable>> => {
    const now = secondsNow(ctx.clock)
    const { tenant, sessionId } = caller
    const [found, server] = await Promise.all([
      readTree(tx, { tenantId: tenant.id, sessionId, now }),
      findToolServer(tx, { tenantId: tenant.id, name }),
    ])
    if (server === null) return noServer()
    const live = liveNode(found, sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const { tree, node } = live.value
    const held = freezeFault(tree, node) === null ? heldNow(tree, node) : []
    const open = (tool: string) => mayCall(server.rules, held, tool)
    const some = server.rules.some((rule) => rule.tools.some(open))
    return ok({ upstream: some ? upstreamOf(ctx, tenant, server) : null, mayCall: open })
  })

export type Admitted =
  | { readonly as: 'allowed'; readonly upstream: Upstream }
  | { readonly as: 'refused'; readonly verdict: Refusal }
  /** No permission of the catalog names the tool. */
  | { readonly as: 'unknown' }
export type Refusal = CallVerdict & { readonly allowed: false }

const UNOPENED: Fault = {
  code: 'unprocessable',
  detail: 'The tool server’s credential does not open here. An administrator has to give it again.',
}

type Asked = { readonly server: string; readonly tool: string; readonly args: object }

const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/

/** What a call was, without what was in it: its arguments are named by their digest alone. */
const callData = ({ server, tool, args }: Asked) => ({
  target: `tools/call ${server}/${TOOL_NAME.test(tool) ? tool : '(no tool name)'}`,
  arguments_digest: createHash('sha256').update(canonicalJson(args)).digest('base64url'),
})

function verdictData(verdict: CallVerdict | null) {
  if (verdict === null) return { reason: 'unknown_tool' }
  const { permission, resources } = verdict
  return {
    permission,
    ...(resources.length === 1 ? { resource: resources[0] } : {}),
    ...(resources.length > 1 ? { resources } : {}),
    ...(verdict.allowed ? { grant_ids: verdict.grants } : { reason: verdict.reason }),
  }
}

async function record(
  ctx: Ctx,
  tx: Tx,
  of: { readonly node: Node; readonly asked: Asked; readonly verdict: CallVerdict | null },
): Promise<void> {
  const { node, asked, verdict } = of
  const journal = new Journal(ctx, node.tenantId)
  const type = verdict?.allowed === true ? 'call.allowed' : 'call.denied'
  journal.session(subjectOf(node), type, { ...callData(asked), ...verdictData(verdict) })
  if (verdict?.allowed === true) {
    const use = { sessionId: node.id, permission: verdict.permission, uses: 1 }
    const lastAt = secondsNow(ctx.clock)
    await countUses(
      tx,
      verdict.grants.map((grantId) => ({ ...use, grantId, lastAt })),
    )
  }
  await journal.write(tx)
}

/** A call that is refused whatever is held is on record too. */
async function refuseCall(
  ctx: Ctx,
  tx: Tx,
  of: { readonly node: Node; readonly asked: Asked; readonly fault: Fault },
): Promise<Result<never>> {
  const journal = new Journal(ctx, of.node.tenantId)
  const data = { ...callData(of.asked), reason: of.fault.code }
  journal.session(subjectOf(of.node), 'call.denied', data)
  await journal.write(tx)
  return { ok: false, fault: of.fault }
}

/**
 * Decides one call under the session's lock and records it in the same commit (I12), before anything is sent: what could not
 * be recorded is not called. Faults: the session is over or frozen, the server is gone or its credential does not open.
 */
export async function admitCall(
  ctx: Ctx,
  caller: AgentCaller,
  asked: Asked,
): Promise<Result<Admitted>> {
  const { tenant, sessionId } = caller
  const admitted = await hotTx(ctx.db, 'admit_call', async (tx): Promise<Result<Admitted>> => {
    const now = secondsNow(ctx.clock)
    const found = await lockTree(tx, { tenantId: tenant.id, sessionId, now })
    const live = liveNode(found, sessionId, now, caller.sessionVersion)
    if (!live.ok) return live
    const { tree, node } = live.value
    const frozen = freezeFault(tree, node)
    if (frozen !== null) return refuseCall(ctx, tx, { node, asked, fault: frozen })
    const server = await findToolServer(tx, { tenantId: tenant.id, name: asked.server })
    if (server === null) return noServer()
    const verdict = decideCall(server.rules, heldNow(tree, node), asked)
    const upstream = upstreamOf(ctx, tenant, server)
    if (verdict?.allowed === true && upstream === null)
      return refuseCall(ctx, tx, { node, asked, fault: UNOPENED })
    await record(ctx, tx, { node, asked, verdict })
    if (verdict === null) return ok({ as: 'unknown' })
    if (!verdict.allowed) return ok({ as: 'refused', verdict })
    assert(upstream, 'an allowed call has somewhere to go')
    return ok({ as: 'allowed', upstream })
  })
  ctx.notify.kick()
  return admitted
}
