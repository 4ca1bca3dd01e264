import { randomBytes } from 'node:crypto'
import { DEMO_SERVICES } from './catalog.ts'
import { type DemoIdpSecrets, newDemoIdpSecrets } from './idp/secrets.ts'
import { DEMO_OPERATOR, DEMO_TENANTS } from './world.ts'

/** Client secrets by tenant slug, then by the client's name. */
type ByClient = Readonly<Record<string, Readonly<Record<string, string>>>>

/**
 * Every secret of the demo, random for each installation. Plain JSON; it must outlive a restart.
 */
export type DemoSecrets = {
  readonly idp: DemoIdpSecrets
  readonly agents: ByClient
  readonly enforcementPoints: ByClient
  readonly proxies: ByClient
  /** Of the services' own clients, in the operator's tenant. Absent in an installation that is older than they are. */
  readonly services?: ByClient
}

export type ClientKind = 'agents' | 'enforcementPoints' | 'proxies' | 'services'

const secret = (): string => randomBytes(32).toString('base64url')

const forEach = (of: Exclude<ClientKind, 'services'>): ByClient =>
  Object.fromEntries(
    DEMO_TENANTS.map((tenant) => [
      tenant.slug,
      Object.fromEntries(tenant[of].map(({ name }) => [name, secret()])),
    ]),
  )

/** New secrets for a new installation of the demo. */
export async function newDemoSecrets(): Promise<DemoSecrets> {
  return {
    idp: await newDemoIdpSecrets(DEMO_TENANTS.map((tenant) => tenant.slug)),
    agents: forEach('agents'),
    enforcementPoints: forEach('enforcementPoints'),
    proxies: forEach('proxies'),
    services: {
      [DEMO_OPERATOR]: Object.fromEntries(
        Object.keys(DEMO_SERVICES).map((service) => [service, secret()]),
      ),
    },
  }
}

/**
 * One client's secret. Throws if the installation's secrets lack it, which only a mixed-up data
 * directory does.
 */
export function secretOf(
  secrets: DemoSecrets,
  of: { readonly kind: ClientKind; readonly tenant: string; name: string },
): string {
  const found = secrets[of.kind]?.[of.tenant]?.[of.name]
  if (found === undefined)
    throw new Error(`the demo has no secret for ${of.name} of ${of.tenant}: remove LEND_DATA`)
  return found
}
