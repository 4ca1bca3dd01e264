import { Hono } from 'hono'
import { shownBy } from '../../enforce/index.ts'
import { accountsAt } from './accounts-data.ts'
import type { Guard } from './guard.ts'

const MASKED = ['phone'] as const

/**
 * The Accounts API. Calling it is one permission; which rows it shows is another: without a grant for rows there are none,
 * and with one they are those of the person's own region, cut by the grant's `narrow`.
 */
export function accountsService(guard: Guard, now: () => number): Hono {
  const app = new Hono()
  app.get('/accounts', async (c) => {
    const called = await guard.check(c, { permission: 'accounts:read' })
    if ('refused' in called) return called.refused
    const rows = await guard.check(c, { permission: 'accounts.rows:my_region', narrows: true })
    if ('refused' in rows) {
      // Nothing granted is nothing shown, and no error: the call itself is allowed.
      const says = rows.refused.status === 403 ? await rows.refused.json() : null
      if (says === null) return rows.refused
      return c.json({ items: [], note: 'This session holds no rows.', ask: says.ask })
    }
    const { tenant, verdict } = rows
    // The service's own knowledge of who this is: someone it does not know has no region, and so no rows.
    const region = tenant.employees.get(verdict.user ?? '')?.region
    const items = accountsAt(now())
      .filter((account) => account.region === region && shownBy(verdict.grants, account))
      // A restriction of every account manager (I14): nobody who acts for one sees more.
      .map(({ phone: _, ...account }) => ({ ...account, phone: null }))
    return c.json({ items, masked: MASKED })
  })
  return app
}
