import type { TenantRef } from '../callers.ts'
import type { TenantId } from '../core/vocabulary.ts'
import type { Provider } from '../identity/login.ts'
import type { Tx } from './tx.ts'

export async function findTenant(tx: Tx, slug: string): Promise<TenantRef | null> {
  const [row] = await tx.sql<TenantRef>`select id, slug from tenant where slug = ${slug}`
  return row ?? null
}

/** The identity providers that a tenant trusts now. */
export async function activeProviders(tx: Tx, tenantId: TenantId): Promise<readonly Provider[]> {
  return tx.sql<Provider>`
    select id, issuer, audience, first_party_clients as "firstPartyClients",
      creates_users as "createsUsers", private_network as "privateNetwork"
    from identity_provider where tenant_id = ${tenantId} and status = 'active'`
}
