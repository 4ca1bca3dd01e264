import type { ServiceCaller, TenantRef } from '../callers.ts'
import { fail, ok, type Result } from '../fault.ts'
import { type Ctx, issuerOf } from '../ports.ts'
import { authenticateClient } from '../tokens/client-auth.ts'
import { overRate } from './rate.ts'

const ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const BEARER = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/i

/**
 * The service whose client makes a request: by its secret in HTTP Basic, or by an assertion that it signed (RFC 7523) as bearer,
 * since the body is the file. Anyone else, an agent and an enforcement point too, is told the same.
 */
export async function serviceCallerOf(
  ctx: Ctx,
  tenant: TenantRef,
  request: Request,
  service: string,
): Promise<Result<ServiceCaller>> {
  const authorization = request.headers.get('authorization') ?? undefined
  const assertion = BEARER.exec(authorization ?? '')?.[1]
  const presented =
    assertion === undefined
      ? { authorization, form: new URLSearchParams() }
      : {
          authorization: undefined,
          form: new URLSearchParams({
            client_assertion: assertion,
            client_assertion_type: ASSERTION,
          }),
        }
  const on = { db: ctx.db, clock: ctx.clock, issuer: issuerOf(ctx, tenant.slug), tenant }
  const client = await authenticateClient(on, presented)
  if (!client.ok) return client
  if (client.value.kind !== 'service_client')
    return fail('forbidden', { detail: 'Only a service’s own client may call this.' })
  if (!client.value.services.includes(service))
    return fail('forbidden', { detail: 'This client is another service’s.' })
  const over = await overRate(ctx, 'publisher', client.value.id)
  return over ?? ok({ as: 'service', tenant, clientId: client.value.id, service })
}
