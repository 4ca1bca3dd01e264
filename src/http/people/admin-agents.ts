import { z } from 'zod'
import { agent, agentChange, agentMade, agentNew } from '../../../schema/admin.ts'
import { listOf } from '../../../schema/people.ts'
import { type AgentRow, selectAgents } from '../../db/admin-clients.ts'
import { FIRST } from '../../db/directory.ts'
import { iso } from '../../db/view-sessions.ts'
import { ok } from '../../fault.ts'
import { changeAgent, createAgent } from '../../flows/admin/agents.ts'
import { byId, list, one, paged, READERS, WRITERS, writeWithSecret } from './admin-common.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'

const tag = 'admin: agents'
const PATH = '/admin/agents'

const view = (c: PeopleContext) => (a: AgentRow) => ({
  id: a.id,
  name: a.name,
  status: a.status,
  templates: a.templates,
  app_clients: a.appClients,
  ...(a.jwks === null ? {} : { jwks: a.jwks }),
  has_secret: a.hasSecret,
  ...(a.previousUntil === null || a.previousUntil <= c.var.ctx.clock.now() / 1000
    ? {}
    : { previous_secret_until: iso(a.previousUntil) }),
  created_at: iso(a.createdAt),
})

export const mountAdminAgents: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: PATH,
      summary: 'Agents, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(agent) },
    },
    (c, { query }) => list(c, 'list_agents', query, { select: selectAgents, view: view(c) }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: `${PATH}/{id}`,
      summary: 'One agent',
      tag,
      roles: READERS,
      params: byId,
      answers: { 200: agent },
    },
    (c, { params }) =>
      one(c, 'read_agent', {
        select: async (tx) => {
          const of = { tenantId: c.var.tenant.id, id: params.id, after: FIRST, limit: 1 }
          return (await selectAgents(tx, of))[0]
        },
        view: view(c),
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: PATH,
      summary: 'Register an agent. Without keys its client secret is answered, once',
      tag,
      roles: WRITERS,
      body: agentNew,
      idempotent: true,
      answers: { 201: agentMade },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      writeWithSecret(c, 'create_agent', async (tx) => {
        const made = await createAgent(c.var.ctx, c.var.caller, body, tx)
        if (!made.ok) return made
        const { agent: row, secret } = made.value
        return ok({ written: { status: 201, body: view(c)(row) }, secret })
      }),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${PATH}/{id}`,
      summary: 'Change an agent. Disabling ends its live sessions; a new secret is answered, once',
      tag,
      roles: WRITERS,
      params: byId,
      body: agentChange,
      idempotent: true,
      answers: { 200: agentMade },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      writeWithSecret(c, 'change_agent', async (tx) => {
        const made = await changeAgent(c.var.ctx, c.var.caller, params.id, body, tx)
        if (!made.ok) return made
        const { agent: row, secret } = made.value
        return ok({ written: { status: 200, body: view(c)(row) }, secret })
      }),
  )
}
