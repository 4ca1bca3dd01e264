import { Hono } from 'hono'
import { type Ctx, issuerOf } from '../../ports.ts'
import { demoFacts } from '../facts.ts'
import { type DemoSecrets, secretOf } from '../secrets.ts'
import { MAIL_CUSTOMERS, mailCredential } from '../tool-servers.ts'
import { DEMO_SERVICES_POINT, DEMO_TENANTS } from '../world.ts'
import { accountsService, type Query } from './accounts.ts'
import { contractsService } from './contracts.ts'
import { dashboardsService } from './dashboards.ts'
import { createGuard, type Guard, type ServiceTenant } from './guard.ts'
import { mailService } from './mail.ts'

/** What the services are told at their start, as a deployment would configure them. */
async function customersOf(ctx: Ctx, secrets: DemoSecrets): Promise<readonly ServiceTenant[]> {
  const customers: ServiceTenant[] = []
  for (const { slug, users } of DEMO_TENANTS) {
    const facts = await demoFacts(ctx, slug)
    const point = facts?.enforcementPoints.find(({ name }) => name === DEMO_SERVICES_POINT)
    if (facts === null || point === undefined) continue
    const employees = users.flatMap(({ login, region }) => {
      const id = facts.users[login]
      return id === undefined || region === undefined ? [] : [[id, { region }] as const]
    })
    customers.push({
      issuer: issuerOf(ctx, slug),
      clientId: point.id,
      clientSecret: secretOf(secrets, {
        kind: 'enforcementPoints',
        tenant: slug,
        name: DEMO_SERVICES_POINT,
      }),
      employees: new Map(employees),
    })
  }
  return customers
}

/**
 * The demo's services, for mounting at the root: small programs that know nothing of Lend but its
 * public addresses, their credentials and their own employees. They reach Lend over HTTP, as any
 * other resource server does. All ask Lend about each call but contracts, which verifies by itself and follows what is taken
 * back; `stop` ends that.
 */
export async function createDemoServices(of: {
  readonly ctx: Ctx
  readonly secrets: DemoSecrets
  /** The Accounts service's own database. */
  readonly accounts: Query
}): Promise<{ readonly routes: Hono; readonly stop: () => void }> {
  const { ctx, secrets, accounts } = of
  const tenants = await customersOf(ctx, secrets)
  const { now } = ctx.clock
  const guards: Guard[] = []
  const guardOf = (path: string, how: { readonly follows?: boolean } = {}): Guard => {
    const guard = createGuard({ audience: `${ctx.publicUrl}${path}`, tenants, ...how })
    guards.push(guard)
    return guard
  }
  const mailCustomers = new Map(
    MAIL_CUSTOMERS.map((slug) => [mailCredential(secrets, slug), issuerOf(ctx, slug)]),
  )
  const app = new Hono()
  app.route('/demo/accounts', accountsService(guardOf('/demo/accounts'), accounts))
  app.route('/demo/dashboards', dashboardsService(guardOf('/demo/dashboards')))
  app.route('/demo/contracts', contractsService(guardOf('/demo/contracts', { follows: true }), now))
  app.route('/demo/mail', mailService(guardOf('/demo/mail'), mailCustomers))
  return {
    routes: app,
    stop: () => {
      for (const guard of guards) guard.close()
    },
  }
}
