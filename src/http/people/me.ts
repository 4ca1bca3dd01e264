import { me } from '../../../schema/people.ts'
import { assert } from '../../core/assert.ts'
import { ok } from '../../fault.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { read } from './write.ts'

type Row = { name: string; email: string | null; attributes: { [key: string]: unknown } }

export const mountMe: Mount = (api) =>
  endpoint(
    api,
    { method: 'get', path: '/me', summary: 'Who you are here', tag: 'me', answers: { 200: me } },
    (c) =>
      read(c, 'me', async (tx) => {
        const { caller, tenant } = c.var
        const [user] = await tx.sql<Row & { tenantName: string }>`
          select u.name, u.email, u.attributes, t.name as "tenantName"
          from app_user u join tenant t on t.id = u.tenant_id
          where u.tenant_id = ${tenant.id} and u.id = ${caller.userId}`
        assert(user, 'a verified caller is a user of the tenant')
        return ok({
          id: caller.userId,
          login: caller.login,
          name: user.name,
          ...(user.email === null ? {} : { email: user.email }),
          staff_roles: caller.staffRoles,
          attributes: user.attributes,
          tenant: { id: tenant.id, slug: tenant.slug, name: user.tenantName },
        })
      }),
  )
