import { Hono } from 'hono'
import { shownBy } from '../../enforce/index.ts'
import { accountsAt, contractOf } from './accounts-data.ts'
import type { Guard } from './guard.ts'

/**
 * Contracts: their prices are sensitive, so a session holds them only by its user's own answer
 * (I8).
 */
export function contractsService(guard: Guard, now: () => number): Hono {
  const app = new Hono()
  app.get('/contracts/:id/pricing', async (c) => {
    const called = await guard.check(c, { permission: 'contracts.fields:pricing', narrows: true })
    if ('refused' in called) return called.refused
    const { tenant, verdict } = called
    const region = tenant.employees.get(verdict.user ?? '')?.region
    const contract = accountsAt(now())
      .filter((account) => account.region === region)
      .map(contractOf)
      .find((one) => one.id === c.req.param('id') && shownBy(verdict.grants, one))
    return contract === undefined
      ? c.json({ error: 'not_found', message: 'No such contract.' }, 404)
      : c.json(contract)
  })
  return app
}
