import { z } from 'zod'
import { mountNew, proxyNew } from '../../schema/gateway.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { unknownServices } from '../db/admin-clients.ts'
import { guardTenantAlone } from '../db/guard.ts'
import { insertMount, insertProxy } from '../db/proxies.ts'
import type { Tx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { hashSecret } from '../tokens/client-auth.ts'
import type { Given } from './options.ts'
import { CliProblem } from './run-file.ts'

/** The first reverse proxy of a tenant and what it exposes, as `lend setup` takes it. */
export const proxyShape = proxyNew.extend({
  mounts: z.array(mountNew, { error: 'must be given' }).min(1, { error: 'must be given' }),
})

type FirstProxy = z.output<typeof proxyShape>

/** `/accounts=accounts`: below which path, and which service. */
function mountOf(text: string) {
  const at = text.lastIndexOf('=')
  return at === -1 ? { prefix: text } : { prefix: text.slice(0, at), service: text.slice(at + 1) }
}

export function proxyFromFlags(given: Given): object {
  const [name, family] = [given.text('proxy'), given.text('proxy-family')]
  const mounts = given.texts('mount').map(mountOf)
  if (name === undefined && family === undefined && mounts.length === 0) return {}
  return {
    proxy: {
      ...(name === undefined ? {} : { name }),
      ...(family === undefined ? {} : { family }),
      ...(mounts.length === 0 ? {} : { mounts }),
    },
  }
}

/**
 * Makes the proxy with its mounts; one of that name that is there already stays as it is. Answers with what to print, its secret
 * included, which is shown this once. Throws `CliProblem`, so that nothing is written, when a service is not in the catalog.
 */
export async function firstProxy(
  ctx: Pick<Ctx, 'clock' | 'ids'>,
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly tenant: string; readonly proxy: FirstProxy },
): Promise<string> {
  const { tenantId, tenant, proxy } = of
  const { name, family } = proxy
  await guardTenantAlone(tx, tenantId)
  const [unknown] = await unknownServices(
    tx,
    proxy.mounts.map(({ service }) => service),
  )
  if (unknown !== undefined)
    throw new CliProblem(
      `${unknown} is not a service of the catalog, so nothing was changed. Publish it first (lend catalog publish), then run this again.`,
    )
  const [id, secret] = [ctx.ids.id<string>('proxy'), ctx.ids.secret()]
  const createdAt = ctx.clock.now() / 1000
  const row = { id, name, family, status: 'active' as const, previousUntil: null, createdAt }
  if (!(await insertProxy(tx, tenantId, { ...row, secretHash: hashSecret(secret) })))
    return ` Proxy ${name} is there already and stays as it is.`
  const journal = new Journal(ctx, tenantId)
  journal.tenant('admin.changed', { what: 'proxy.created', id, name, family, by: 'setup' })
  for (const { prefix, service } of proxy.mounts) {
    const mount = { id: ctx.ids.id<string>('mount'), prefix, service, createdAt }
    if (!(await insertMount(tx, { tenantId, proxyId: id }, mount)))
      throw new CliProblem(`--mount ${prefix} is given twice; nothing was changed.`)
    journal.tenant('admin.changed', { what: 'proxy.mounted', id, prefix, service, by: 'setup' })
  }
  await journal.write(tx)
  return `\nProxy ${name} asks at /t/${tenant}/forward-auth/${family}. Its X-Lend-Proxy-Secret, shown this once:\n${secret}`
}
