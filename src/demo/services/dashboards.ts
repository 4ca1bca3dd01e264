import { Hono } from 'hono'
import type { Guard } from './guard.ts'

type Dashboard = { readonly title: string; readonly figures: Readonly<Record<string, number>> }

const DASHBOARDS = new Map<string, Dashboard>([
  [
    'q3-pipeline',
    {
      title: 'Q3 pipeline',
      figures: { open_renewals: 28, at_risk: 5, committed: 412_000, best_case: 618_500 },
    },
  ],
  ['q4-forecast', { title: 'Q4 forecast', figures: { committed: 288_000, best_case: 540_000 } }],
  ['churn', { title: 'Churn', figures: { lost_accounts: 3, lost_revenue: 71_500 } }],
])

const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/

/** Dashboards: each is an object of its own, and holding one says nothing of the next. */
export function dashboardsService(guard: Guard): Hono {
  const app = new Hono()
  app.get('/dashboards/:id', async (c) => {
    const id = c.req.param('id')
    const notFound = () => c.json({ error: 'not_found', message: 'No such dashboard.' }, 404)
    if (!NAME.test(id)) return notFound()
    const called = await guard.asset(c, {
      permission: 'dashboard:view',
      resource: `dashboard/${id}`,
    })
    // Before it is looked up: whether it exists is already something to know.
    if ('refused' in called) return called.refused
    const dashboard = DASHBOARDS.get(id)
    return dashboard === undefined ? notFound() : c.json({ id, ...dashboard })
  })
  return app
}
