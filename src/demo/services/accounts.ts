import { Hono } from 'hono'
import { shownBy } from '../../enforce/index.ts'
import { accountsAt } from './accounts-data.ts'
import type { Guard } from './guard.ts'

const MASKED = ['phone'] as const

/**
 * The Accounts API. Calling it is one permission; which rows it shows is another: without a grant
 * for rows there are none, and with one they are those of the person's own region, cut by the
 * grant's `narrow`.
 */
export function accountsService(guard: Guard, now: () => number): Hono {
  const app = new Hono()
  app.get('/accounts', async (c) => {
    const called = await guard.check(c, { permission: 'accounts:read' })
    if ('refused' in called) return called.refused
    const rows = await guard.check(c, { permission: 'accounts.rows:my_region', narrows: true })
    if ('refused' in rows)
      // Nothing granted is nothing shown, and no error: the call itself is allowed.
      return rows.verdict.status === 403
        ? c.json({ items: [], note: 'This session holds no rows.', ask: rows.verdict.ask })
        : rows.refused
    const { tenant, verdict } = rows
    // The service's own knowledge of who this is: someone it does not know has no region, and so no
    // rows.
    const region = tenant.employees.get(verdict.user ?? '')?.region
    const items = accountsAt(now())
      // A restriction of every account manager (I14), first of all: nobody finds a number by asking
      // which rows have it.
      .map((account) => ({ ...account, phone: null }))
      .filter((account) => account.region === region && shownBy(verdict.grants, account))
    return c.json({ items, masked: MASKED })
  })
  return app
}
