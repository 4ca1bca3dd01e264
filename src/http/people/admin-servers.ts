import { z } from 'zod'
import {
  enforcementPoint,
  enforcementPointChange,
  enforcementPointMade,
  enforcementPointNew,
  identityProvider,
  identityProviderChange,
  identityProviderNew,
  resourceServer,
  resourceServerChange,
  resourceServerNew,
} from '../../../schema/admin.ts'
import { listOf } from '../../../schema/people.ts'
import {
  type EnforcementPointRow,
  type IdentityProviderRow,
  type ResourceServerRow,
  selectEnforcementPoints,
  selectIdentityProviders,
  selectResourceServers,
} from '../../db/admin-clients.ts'
import { iso } from '../../db/view-sessions.ts'
import { ok } from '../../fault.ts'
import {
  changeIdentityProvider,
  createIdentityProvider,
} from '../../flows/admin/identity-providers.ts'
import {
  changeEnforcementPoint,
  changeResourceServer,
  createEnforcementPoint,
  createResourceServer,
  removeEnforcementPoint,
  removeResourceServer,
} from '../../flows/admin/servers.ts'
import {
  answered,
  byId,
  gone,
  list,
  paged,
  READERS,
  WRITERS,
  writeWithSecret,
} from './admin-common.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { write } from './write.ts'

const tag = 'admin: servers and sign-in'
const SERVERS = '/admin/resource-servers'
const POINTS = '/admin/enforcement-points'
const PROVIDERS = '/admin/identity-providers'

const serverView = (s: ResourceServerRow) => ({
  id: s.id,
  resource: s.resource,
  name: s.name,
  subject: s.subject,
  services: s.services,
  created_at: iso(s.createdAt),
})

const pointView = (c: PeopleContext) => (p: EnforcementPointRow) => ({
  id: p.id,
  client_id: p.id,
  name: p.name,
  services: p.services,
  asks_about_users: p.asksAboutUsers,
  status: p.status,
  ...(p.previousUntil === null || p.previousUntil <= c.var.ctx.clock.now() / 1000
    ? {}
    : { previous_secret_until: iso(p.previousUntil) }),
  created_at: iso(p.createdAt),
})

const providerView = (p: IdentityProviderRow) => ({
  id: p.id,
  issuer: p.issuer,
  audience: p.audience,
  first_party_clients: p.firstPartyClients,
  creates_users: p.createsUsers,
  private_network: p.privateNetwork,
  ...(p.webClientId === null ? {} : { web_client_id: p.webClientId }),
  has_web_client_secret: p.hasWebClientSecret,
  status: p.status,
  created_at: iso(p.createdAt),
})

const mountServers: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: SERVERS,
      summary: 'Registered resource servers, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(resourceServer) },
    },
    (c, { query }) =>
      list(c, 'list_resource_servers', query, { select: selectResourceServers, view: serverView }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: SERVERS,
      summary: 'Register an audience that tokens can be issued for',
      tag,
      roles: WRITERS,
      body: resourceServerNew,
      idempotent: true,
      answers: { 201: resourceServer },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_resource_server', async (tx) =>
        answered(await createResourceServer(c.var.ctx, c.var.caller, body, tx), 201, serverView),
      ),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${SERVERS}/{id}`,
      summary: 'Change a resource server; its resource stays',
      tag,
      roles: WRITERS,
      params: byId,
      body: resourceServerChange,
      idempotent: true,
      answers: { 200: resourceServer },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'change_resource_server', async (tx) => {
        const changed = await changeResourceServer(c.var.ctx, c.var.caller, params.id, body, tx)
        return answered(changed, 200, serverView)
      }),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: `${SERVERS}/{id}`,
      summary: 'Remove a resource server: no token is issued for it any more',
      tag,
      roles: WRITERS,
      params: byId,
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'remove_resource_server', async (tx) =>
        gone(await removeResourceServer(c.var.ctx, c.var.caller, params.id, tx)),
      ),
  )
}

const mountPoints: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: POINTS,
      summary: 'Enforcement points, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(enforcementPoint) },
    },
    (c, { query }) =>
      list(c, 'list_enforcement_points', query, {
        select: selectEnforcementPoints,
        view: pointView(c),
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: POINTS,
      summary: 'Make an enforcement point. Its client secret is answered, once',
      tag,
      roles: WRITERS,
      body: enforcementPointNew,
      idempotent: true,
      answers: { 201: enforcementPointMade },
      faults: ['unprocessable'],
    },
    (c, { body }) =>
      writeWithSecret(c, 'create_enforcement_point', async (tx) => {
        const { asks_about_users: asksAboutUsers = false, ...rest } = body
        const input = { ...rest, asksAboutUsers }
        const made = await createEnforcementPoint(c.var.ctx, c.var.caller, input, tx)
        if (!made.ok) return made
        const { point, secret } = made.value
        return ok({ written: { status: 201, body: pointView(c)(point) }, secret })
      }),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${POINTS}/{id}`,
      summary: 'Change an enforcement point, turn it off or on, or replace its secret',
      tag,
      roles: WRITERS,
      params: byId,
      body: enforcementPointChange,
      idempotent: true,
      answers: { 200: enforcementPointMade },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      writeWithSecret(c, 'change_enforcement_point', async (tx) => {
        const changed = await changeEnforcementPoint(c.var.ctx, c.var.caller, params.id, body, tx)
        if (!changed.ok) return changed
        const { point, secret } = changed.value
        return ok({ written: { status: 200, body: pointView(c)(point) }, secret })
      }),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: `${POINTS}/{id}`,
      summary: 'Remove an enforcement point: its secret opens nothing any more',
      tag,
      roles: WRITERS,
      params: byId,
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'remove_enforcement_point', async (tx) =>
        gone(await removeEnforcementPoint(c.var.ctx, c.var.caller, params.id, tx)),
      ),
  )
}

const mountProviders: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: PROVIDERS,
      summary: 'Identity providers that say who people are, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(identityProvider) },
    },
    (c, { query }) =>
      list(c, 'list_identity_providers', query, {
        select: selectIdentityProviders,
        view: providerView,
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: PROVIDERS,
      summary: 'Trust an identity provider',
      tag,
      roles: WRITERS,
      body: identityProviderNew,
      idempotent: true,
      answers: { 201: identityProvider },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      write(c, 'create_identity_provider', async (tx) => {
        const made = await createIdentityProvider(c.var.ctx, c.var.caller, body, tx)
        return answered(made, 201, providerView)
      }),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${PROVIDERS}/{id}`,
      summary: 'Change how a provider is trusted; its issuer stays, since people are keyed by it',
      tag,
      roles: WRITERS,
      params: byId,
      body: identityProviderChange,
      idempotent: true,
      answers: { 200: identityProvider },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'change_identity_provider', async (tx) => {
        const changed = await changeIdentityProvider(c.var.ctx, c.var.caller, params.id, body, tx)
        return answered(changed, 200, providerView)
      }),
  )
}

export const mountAdminServers: Mount = (api) => {
  mountServers(api)
  mountPoints(api)
  mountProviders(api)
}
