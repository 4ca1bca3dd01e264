import { z } from 'zod'
import {
  mount,
  mountNew,
  proxy,
  proxyChange,
  proxyNew,
  proxyWithSecret,
} from '../../../schema/gateway.ts'
import { id, listOf } from '../../../schema/people.ts'
import { FIRST } from '../../db/directory.ts'
import { type MountRow, type ProxyRow, selectProxies } from '../../db/proxies.ts'
import { iso } from '../../db/view-sessions.ts'
import { ok } from '../../fault.ts'
import {
  changeProxy,
  createMount,
  createProxy,
  mountsOf,
  removeMount,
} from '../../flows/admin/proxies.ts'
import { issuerOf } from '../../ports.ts'
import {
  answered,
  byId,
  gone,
  list,
  paged,
  pageOf,
  READERS,
  WRITERS,
  writeWithSecret,
} from './admin-common.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { read, write } from './write.ts'

const tag = 'admin: servers and sign-in'
const PROXIES = '/admin/proxies'
const MOUNTS = `${PROXIES}/{id}/mounts`

const viewFor = (c: PeopleContext) => (p: ProxyRow) => {
  const at = `${issuerOf(c.var.ctx, c.var.tenant.slug)}/forward-auth`
  const now = c.var.ctx.clock.now() / 1000
  const { previousUntil } = p
  return {
    id: p.id,
    name: p.name,
    ...(p.family === null ? {} : { family: p.family, forward_auth: `${at}/${p.family}` }),
    status: p.status,
    ...(previousUntil === null || previousUntil <= now
      ? {}
      : { previous_secret_until: iso(previousUntil) }),
    created_at: iso(p.createdAt),
  }
}

const mountView = (m: MountRow) => ({
  id: m.id,
  prefix: m.prefix,
  service: m.service,
  created_at: iso(m.createdAt),
})

const mountProxies: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: PROXIES,
      summary: 'Reverse proxies that ask forward-auth, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(proxy) },
    },
    (c, { query }) => list(c, 'list_proxies', query, { select: selectProxies, view: viewFor(c) }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: PROXIES,
      summary: 'Register a reverse proxy. Its secret is answered, once',
      tag,
      roles: WRITERS,
      body: proxyNew,
      idempotent: true,
      answers: { 201: proxyWithSecret },
      faults: ['already_exists'],
    },
    (c, { body }) =>
      writeWithSecret(
        c,
        'create_proxy',
        async (tx) => {
          const made = await createProxy(c.var.ctx, c.var.caller, body, tx)
          if (!made.ok) return made
          const { proxy: row, secret } = made.value
          return ok({ written: { status: 201, body: viewFor(c)(row) }, secret })
        },
        'secret',
      ),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${PROXIES}/{id}`,
      summary: 'Rename a proxy, turn it off or on, or replace its secret; its family stays',
      tag,
      roles: WRITERS,
      params: byId,
      body: proxyChange,
      idempotent: true,
      answers: { 200: proxyWithSecret },
      faults: ['already_exists'],
    },
    (c, { params, body }) =>
      writeWithSecret(
        c,
        'change_proxy',
        async (tx) => {
          const changed = await changeProxy(c.var.ctx, c.var.caller, params.id, body, tx)
          if (!changed.ok) return changed
          const { proxy: row, secret } = changed.value
          return ok({ written: { status: 200, body: viewFor(c)(row) }, secret })
        },
        'secret',
      ),
  )
}

const mountMounts: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: MOUNTS,
      summary: 'Which services a proxy exposes below which paths, newest first',
      tag,
      roles: READERS,
      params: byId,
      query: z.strictObject(paged),
      answers: { 200: listOf(mount) },
    },
    (c, { params, query }) =>
      read(c, 'list_mounts', async (tx) => {
        const found = await mountsOf(tx, {
          tenantId: c.var.tenant.id,
          proxyId: params.id,
          after: query.cursor ?? FIRST,
          limit: query.limit + 1,
        })
        return found.ok ? ok(pageOf(found.value, query.limit, mountView)) : found
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: MOUNTS,
      summary: 'Expose a service below a path of a proxy',
      tag,
      roles: WRITERS,
      params: byId,
      body: mountNew,
      idempotent: true,
      answers: { 201: mount },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'create_mount', async (tx) => {
        const input = { ...body, proxyId: params.id }
        return answered(await createMount(c.var.ctx, c.var.caller, input, tx), 201, mountView)
      }),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: `${MOUNTS}/{mount}`,
      summary: 'Expose a service there no longer',
      tag,
      roles: WRITERS,
      params: z.strictObject({ id, mount: id }),
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'remove_mount', async (tx) => {
        const of = { proxyId: params.id, id: params.mount }
        return gone(await removeMount(c.var.ctx, c.var.caller, of, tx))
      }),
  )
}

export const mountAdminProxies: Mount = (api) => {
  mountProxies(api)
  mountMounts(api)
}
