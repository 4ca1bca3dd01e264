import type { Hono } from 'hono'
import type { TenantRef } from '../../callers.ts'
import { callback, login, logout, type SignInDeps } from './sign-in.ts'
import { createStatic } from './static.ts'

type Env = { Variables: { tenant: TenantRef; requestId: string } }

/** What the page is told before anybody has signed in: in the demo, which organisations and people there are. */
export type WebConfig = {
  readonly demo: boolean
  readonly tenants?: readonly {
    readonly slug: string
    readonly name: string
    readonly people: readonly { readonly login: string; readonly name: string }[]
  }[]
}

/** Sign-in and the web page. Mounted last: every other address under `/t/{tenant}` is the page's own. */
export function browserRoutes(
  app: Hono<Env>,
  deps: SignInDeps & { readonly web: WebConfig },
): void {
  const { asset, page } = createStatic()
  app.get('/t/:tenant/auth/login', (c) => login(deps, c.var.tenant, c.req.raw, c.var.requestId))
  app.get('/t/:tenant/auth/callback', (c) =>
    callback(deps, c.var.tenant, c.req.raw, c.var.requestId),
  )
  app.post('/t/:tenant/auth/logout', (c) => logout(deps, c.var.tenant, c.req.raw, c.var.requestId))
  app.get('/web/config', (c) => c.json(deps.web, 200, { 'cache-control': 'no-store' }))
  app.get('/', () => page())
  // A page of the app; whether its tenant exists was asked before.
  for (const path of PAGES) app.get(`/t/:tenant${path}`, () => page())
  app.get('*', (c, next) => {
    const file = asset(c.req.path)
    return file === null ? next() : Promise.resolve(file)
  })
}

const PAGES = [
  '',
  '/',
  '/sessions',
  '/sessions/:id',
  '/approvals',
  '/approvals/:id',
  '/rules',
  '/agents',
  '/activity',
  '/reviews',
  '/templates',
  '/freezes',
  '/studio',
  '/studio/:template/:version',
  '/studio/:template/:version/try',
]
