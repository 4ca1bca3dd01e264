import type { UserCaller } from '../../callers.ts'
import { unknownServices } from '../../db/admin-clients.ts'
import { FIRST } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import {
  deleteToolServer,
  insertToolServer,
  selectToolServers,
  type ToolServerRow,
  updateToolServer,
} from '../../db/tool-servers.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'
import { sealedFor } from '../tool-credential.ts'
import { badField, given, recordChange, taken } from './change.ts'
import { upstreamProblem } from './urls.ts'

const noServer = () => fail('not_found', { detail: 'No such tool server in this organisation.' })

/** Headers that say how a message travels, or that the protocol itself sets. */
const OWN_HEADERS =
  /^(accept|connection|content-.*|cookie|host|keep-alive|mcp-.*|proxy-.*|sec-.*|te|trailer|transfer-encoding|upgrade)$/

const headerProblem = (header: string): Result<never> | null =>
  OWN_HEADERS.test(header) ? badField('credential_header', 'is a header of the protocol’s') : null

type Asked = {
  readonly title?: string | undefined
  readonly url?: string | undefined
  readonly credential_header?: string | undefined
  readonly credential?: string | null | undefined
  readonly private_network?: boolean | undefined
  readonly status?: 'active' | 'disabled' | undefined
}

/** What was asked, for the record: that a credential was set or removed, never what it is. */
const changesOf = ({ credential, ...rest }: Asked) =>
  given({
    ...rest,
    credential: credential === undefined ? undefined : credential === null ? 'removed' : 'set',
  })

/** The credential of a row after a change, sealed for that row. Null: none, or the one that is there. */
function sealing(ctx: Ctx, caller: UserCaller, id: string, asked: Asked): Result<string | null> {
  if (typeof asked.credential !== 'string') return ok(null)
  const sealed = sealedFor(ctx, { tenantId: caller.tenant.id, id }, asked.credential)
  return sealed === null
    ? badField('credential', 'cannot be kept: this instance has no key to seal it with')
    : ok(sealed)
}

/** Registers an MCP server, by the name of the service whose permissions govern its tools. */
export async function createToolServer(
  ctx: Ctx,
  caller: UserCaller,
  input: Asked & { readonly name: string; readonly title: string; readonly url: string },
  tx: Tx,
): Promise<Result<ToolServerRow>> {
  const privateNetwork = input.private_network ?? false
  const problem = upstreamProblem(input.url, { privateNetwork, publicUrl: ctx.publicUrl })
  if (problem !== null) return badField('url', problem)
  const header = input.credential_header ?? 'authorization'
  const badHeader = headerProblem(header)
  if (badHeader !== null) return badHeader
  if ((await unknownServices(tx, [input.name])).length > 0)
    return badField('name', 'is not a service of the catalog')
  const id = ctx.ids.id('toolServer')
  const sealed = sealing(ctx, caller, id, input)
  if (!sealed.ok) return sealed
  const row: ToolServerRow = {
    id,
    name: input.name,
    title: input.title,
    url: input.url,
    credentialHeader: header,
    hasCredential: sealed.value !== null,
    privateNetwork,
    status: 'active',
    createdAt: secondsNow(ctx.clock),
  }
  const made = await insertToolServer(tx, caller.tenant.id, { ...row, sealed: sealed.value })
  if (!made) return taken('name')
  const changes = { name: input.name, ...changesOf(input) }
  await recordChange(ctx, tx, caller, { what: 'tool_server.created', id, changes })
  return ok(row)
}

async function server(tx: Tx, caller: UserCaller, id: string) {
  const tenantId = caller.tenant.id
  const [row] = await selectToolServers(tx, { tenantId, id, after: FIRST, limit: 1 })
  return row
}

/** A credential goes only where the one who gave it said: at another address it has to be given again. */
export async function changeToolServer(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: Asked,
  tx: Tx,
): Promise<Result<ToolServerRow>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const before = await server(tx, caller, id)
  if (before === undefined) return noServer()
  const { credential } = patch
  const after: ToolServerRow = {
    ...before,
    title: patch.title ?? before.title,
    url: patch.url ?? before.url,
    credentialHeader: patch.credential_header ?? before.credentialHeader,
    hasCredential: credential === undefined ? before.hasCredential : credential !== null,
    privateNetwork: patch.private_network ?? before.privateNetwork,
    status: patch.status ?? before.status,
  }
  const badHeader = headerProblem(after.credentialHeader)
  if (badHeader !== null) return badHeader
  const { privateNetwork } = after
  const problem = upstreamProblem(after.url, { privateNetwork, publicUrl: ctx.publicUrl })
  if (problem !== null) return badField('url', problem)
  if (after.url !== before.url && before.hasCredential && credential === undefined)
    return badField('credential', 'has to be given again, or removed, when the url changes')
  const sealed = sealing(ctx, caller, id, patch)
  if (!sealed.ok) return sealed
  await updateToolServer(tx, caller.tenant.id, { ...after, sealed: sealed.value })
  const changes = changesOf(patch)
  await recordChange(ctx, tx, caller, { what: 'tool_server.changed', id, changes })
  return ok(after)
}

export async function removeToolServer(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  tx: Tx,
): Promise<Result<true>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const row = await server(tx, caller, id)
  if (row === undefined) return noServer()
  await deleteToolServer(tx, { tenantId: caller.tenant.id, id })
  const changes = { name: row.name }
  await recordChange(ctx, tx, caller, { what: 'tool_server.removed', id, changes })
  return ok(true)
}
