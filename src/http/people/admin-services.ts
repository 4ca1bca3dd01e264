import { listOf } from '../../../schema/people.ts'
import { service, serviceChange, serviceMade, serviceNew } from '../../../schema/services.ts'
import { ok, type Result } from '../../fault.ts'
import { changeService, createService, type ServiceMade } from '../../flows/admin/services.ts'
import { byId, READERS, WRITERS, writeWithSecret } from './admin-common.ts'
import { listServices, ofOperator, servicesQuery } from './catalog-publish.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { serviceView } from './service-view.ts'
import type { Written } from './write.ts'

const tag = 'admin: services'
const PATH = '/admin/services'

const answered = (c: PeopleContext, made: Result<ServiceMade>, status: Written['status']) =>
  made.ok
    ? ok({
        written: { status, body: serviceView(c.var.ctx.clock.now())(made.value.service) },
        secret: made.value.secret,
      })
    : made

/** Services and their clients, in the operator's tenant; in any other there are none. */
export const mountAdminServices: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: PATH,
      summary: 'Services that publish to the catalog, by id',
      tag,
      roles: READERS,
      query: servicesQuery,
      answers: { 200: listOf(service) },
    },
    (c, { query }) => listServices(c, query),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: PATH,
      summary: 'Make a service and its client. Without keys its client secret is answered, once',
      tag,
      roles: WRITERS,
      body: serviceNew,
      idempotent: true,
      answers: { 201: serviceMade },
      faults: ['already_exists', 'unprocessable'],
    },
    (c, { body }) =>
      writeWithSecret(c, 'create_service', (tx) =>
        ofOperator(c, tx, async () =>
          answered(c, await createService(c.var.ctx, c.var.caller, body, tx), 201),
        ),
      ),
  )
  endpoint(
    api,
    {
      method: 'patch',
      path: `${PATH}/{id}`,
      summary: 'Change a service’s client; a new secret is answered, once',
      tag,
      roles: WRITERS,
      params: byId,
      body: serviceChange,
      idempotent: true,
      answers: { 200: serviceMade },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      writeWithSecret(c, 'change_service', (tx) =>
        ofOperator(c, tx, async () =>
          answered(c, await changeService(c.var.ctx, c.var.caller, params.id, body, tx), 200),
        ),
      ),
  )
}
