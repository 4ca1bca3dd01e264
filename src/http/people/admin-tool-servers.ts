import { z } from 'zod'
import { toolServer, toolServerChange, toolServerNew } from '../../../schema/admin.ts'
import { listOf } from '../../../schema/people.ts'
import { selectToolServers, type ToolServerRow } from '../../db/tool-servers.ts'
import { iso } from '../../db/view-sessions.ts'
import {
  changeToolServer,
  createToolServer,
  removeToolServer,
} from '../../flows/admin/tool-servers.ts'
import { toolGatewayUrlOf } from '../../ports.ts'
import { answered, byId, gone, list, paged, READERS, WRITERS } from './admin-common.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { write } from './write.ts'

const tag = 'admin: servers and sign-in'
const TOOL_SERVERS = '/admin/tool-servers'

/** The credential is never among it. */
const viewFor = (c: PeopleContext) => (s: ToolServerRow) => ({
  id: s.id,
  name: s.name,
  title: s.title,
  url: s.url,
  mcp: toolGatewayUrlOf(c.var.ctx, c.var.tenant.slug, s.name),
  credential_header: s.credentialHeader,
  has_credential: s.hasCredential,
  private_network: s.privateNetwork,
  status: s.status,
  created_at: iso(s.createdAt),
})

const mountReads: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: TOOL_SERVERS,
      summary: 'MCP servers behind the tool gateway, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(toolServer) },
    },
    (c, { query }) =>
      list(c, 'list_tool_servers', query, { select: selectToolServers, view: viewFor(c) }),
  )
}

const mountWrites: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'post',
      path: TOOL_SERVERS,
      summary: 'Register an MCP server, by the name of the service that governs its tools',
      tag,
      roles: WRITERS,
      body: toolServerNew,
      idempotent: true,
      answers: { 201: toolServer },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_tool_server', async (tx) =>
        answered(await createToolServer(c.var.ctx, c.var.caller, body, tx), 201, viewFor(c)),
      ),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${TOOL_SERVERS}/{id}`,
      summary: 'Change an MCP server; its name stays. A credential is written, never read',
      tag,
      roles: WRITERS,
      params: byId,
      body: toolServerChange,
      idempotent: true,
      answers: { 200: toolServer },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'change_tool_server', async (tx) => {
        const changed = await changeToolServer(c.var.ctx, c.var.caller, params.id, body, tx)
        return answered(changed, 200, viewFor(c))
      }),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: `${TOOL_SERVERS}/{id}`,
      summary: 'Remove an MCP server: nothing is called there any more',
      tag,
      roles: WRITERS,
      params: byId,
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'remove_tool_server', async (tx) =>
        gone(await removeToolServer(c.var.ctx, c.var.caller, params.id, tx)),
      ),
  )
}

export const mountAdminToolServers: Mount = (api) => {
  mountReads(api)
  mountWrites(api)
}
