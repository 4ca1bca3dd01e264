import { readPermissionsFile } from '../../schema/permissions-file.ts'
import type { ServiceCaller, UserCaller } from '../../src/callers.ts'
import type { TenantId, UserId } from '../../src/core/vocabulary.ts'
import { withTx } from '../../src/db/tx.ts'
import { publishCatalog, reviewProposal } from '../../src/flows/publish-catalog.ts'
import type { Ctx } from '../../src/ports.ts'
import { CATALOG, TENANT_IDS } from './world-seed.ts'

/** The accounts service of the test world, as its CI and the operator's reviewer know it. */
const STUDIO = { id: TENANT_IDS.studio as TenantId, slug: 'studio' }
const ACCOUNTS: ServiceCaller = {
  ...{ as: 'service', tenant: STUDIO, clientId: 'scl_accounts', service: 'accounts' },
}
const RHEA: UserCaller = {
  ...{ as: 'user', tenant: STUDIO, userId: 'usr_rhea' as UserId, login: 'rhea', name: 'Rhea' },
  ...{ staffRoles: ['reviewer'], clientId: 'people' },
}

/** The accounts service's file; `read` changes `accounts:read`, null takes it out. */
function fileWith(read: object | null, title = 'Accounts API · Read') {
  const permissions = Object.entries(CATALOG)
    .filter(([, row]) => row.service === 'accounts')
    .filter(([id]) => read !== null || id !== 'accounts:read')
    .map(([id, row]) => ({
      ...{ id, kind: row.kind, title: row.title, description: row.unlocks },
      ...{ access: row.access ?? 'read', risk: row.risk ?? 'low' },
      delegable: row.delegable ?? true,
      ...(row.kind === 'data' ? { data: row.facts } : {}),
      ...(id === 'accounts:read' ? { title, ...read } : {}),
    }))
  const { errors, slice, mentions } = readPermissionsFile({ permissions })
  return { errors: errors.map((e) => ({ path: e.pointer, message: e.message })), slice, mentions }
}

export const publishAccounts = (
  ctx: Ctx,
  read: object | null,
  more: { title?: string; base?: number } = {},
) => publishCatalog(ctx, ACCOUNTS, { file: fileWith(read, more.title), baseVersion: more.base })

/** The operator’s reviewer lets what waits take effect. */
export const approveProposal = (ctx: Ctx, id: string) =>
  withTx(ctx.db, 'test', (tx) => reviewProposal(ctx, RHEA, { id, verdict: 'approve' }, tx))

/** The file as the world has it again, whatever was published before; throws on a fault. */
export async function restoreAccounts(ctx: Ctx): Promise<void> {
  const published = await publishAccounts(ctx, {})
  if (!published.ok) throw new Error(JSON.stringify(published.fault))
  const { proposal } = published.value
  const approved = proposal === undefined ? published : await approveProposal(ctx, proposal)
  if (!approved.ok) throw new Error(JSON.stringify(approved.fault))
}
