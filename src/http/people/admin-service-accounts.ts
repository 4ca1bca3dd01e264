import { z } from 'zod'
import { id, listOf } from '../../../schema/people.ts'
import {
  serviceAccount,
  serviceAccountChange,
  serviceAccountMade,
  serviceAccountNew,
  servicePermission,
  servicePermissionNew,
} from '../../../schema/service-accounts.ts'
import { FIRST } from '../../db/directory.ts'
import {
  type ServiceAccountRow,
  type ServicePermissionRow,
  selectServiceAccounts,
} from '../../db/service-accounts.ts'
import { iso } from '../../db/view-sessions.ts'
import { ok } from '../../fault.ts'
import {
  changeServiceAccount,
  createServiceAccount,
  giveServicePermission,
  servicePermissionsOf,
  takeServicePermission,
} from '../../flows/admin/service-accounts.ts'
import {
  answered,
  byId,
  gone,
  list,
  one,
  paged,
  pageOf,
  READERS,
  WRITERS,
  writeWithSecret,
} from './admin-common.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { read, write } from './write.ts'

const tag = 'admin: service accounts'
const PATH = '/admin/service-accounts'
const PERMISSIONS = `${PATH}/{id}/permissions`

const viewFor = (c: PeopleContext) => (a: ServiceAccountRow) => ({
  id: a.id,
  name: a.name,
  status: a.status,
  version: a.version,
  ...(a.jwks === null ? {} : { jwks: a.jwks }),
  has_secret: a.hasSecret,
  ...(a.previousUntil === null || a.previousUntil <= c.var.ctx.clock.now() / 1000
    ? {}
    : { previous_secret_until: iso(a.previousUntil) }),
  created_at: iso(a.createdAt),
})

const permissionView = (p: ServicePermissionRow) => ({
  id: p.id,
  permission: p.permission,
  title: p.title,
  service: p.service,
  created_at: iso(p.createdAt),
})

const mountRead: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: PATH,
      summary: 'Service accounts, newest first',
      tag,
      roles: READERS,
      query: z.strictObject(paged),
      answers: { 200: listOf(serviceAccount) },
    },
    (c, { query }) =>
      list(c, 'list_service_accounts', query, { select: selectServiceAccounts, view: viewFor(c) }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: `${PATH}/{id}`,
      summary: 'One service account',
      tag,
      roles: READERS,
      params: byId,
      answers: { 200: serviceAccount },
    },
    (c, { params }) =>
      one(c, 'read_service_account', {
        select: async (tx) => {
          const of = { tenantId: c.var.tenant.id, id: params.id, after: FIRST, limit: 1 }
          return (await selectServiceAccounts(tx, of))[0]
        },
        view: viewFor(c),
      }),
  )
}

const mountWrite: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'post',
      path: PATH,
      summary: 'Register a backend program. Without keys its client secret is answered, once',
      tag,
      roles: WRITERS,
      body: serviceAccountNew,
      idempotent: true,
      answers: { 201: serviceAccountMade },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      writeWithSecret(c, 'create_service_account', async (tx) => {
        const made = await createServiceAccount(c.var.ctx, c.var.caller, body, tx)
        if (!made.ok) return made
        const { account, secret } = made.value
        return ok({ written: { status: 201, body: viewFor(c)(account) }, secret })
      }),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${PATH}/{id}`,
      summary: 'Change a service account. What narrows it kills its tokens',
      tag,
      roles: WRITERS,
      params: byId,
      body: serviceAccountChange,
      idempotent: true,
      answers: { 200: serviceAccountMade },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { params, body }) =>
      writeWithSecret(c, 'change_service_account', async (tx) => {
        const made = await changeServiceAccount(c.var.ctx, c.var.caller, params.id, body, tx)
        if (!made.ok) return made
        const { account, secret } = made.value
        return ok({ written: { status: 200, body: viewFor(c)(account) }, secret })
      }),
  )
}

const mountPermissions: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: PERMISSIONS,
      summary: 'What a service account holds, newest first',
      tag,
      roles: READERS,
      params: byId,
      query: z.strictObject(paged),
      answers: { 200: listOf(servicePermission) },
    },
    (c, { params, query }) =>
      read(c, 'list_service_permissions', async (tx) => {
        const found = await servicePermissionsOf(tx, c.var.caller, {
          tenantId: c.var.tenant.id,
          accountId: params.id,
          after: query.cursor ?? FIRST,
          limit: query.limit + 1,
        })
        return found.ok ? ok(pageOf(found.value, query.limit, permissionView)) : found
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: PERMISSIONS,
      summary: 'Give a service account an API permission',
      tag,
      roles: WRITERS,
      params: byId,
      body: servicePermissionNew,
      idempotent: true,
      answers: { 201: servicePermission },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'give_service_permission', async (tx) => {
        const of = { ...body, accountId: params.id }
        const { ctx, caller } = c.var
        return answered(await giveServicePermission(ctx, caller, of, tx), 201, permissionView)
      }),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: `${PERMISSIONS}/{permission}`,
      summary: 'Take a permission from a service account; tokens that carry it are dead',
      tag,
      roles: WRITERS,
      params: z.strictObject({ id, permission: id }),
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'take_service_permission', async (tx) => {
        const of = { accountId: params.id, id: params.permission }
        return gone(await takeServicePermission(c.var.ctx, c.var.caller, of, tx))
      }),
  )
}

export const mountAdminServiceAccounts: Mount = (api) => {
  mountRead(api)
  mountWrite(api)
  mountPermissions(api)
}
