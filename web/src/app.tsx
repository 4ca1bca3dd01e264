import { type ComponentType, lazy, Suspense, useEffect } from 'react'
import { isStatus, Unreachable } from './api/http.ts'
import { TenantProvider, useMe } from './api/queries.ts'
import { Landing } from './pages/landing.tsx'
import { Nowhere } from './pages/nowhere.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { type Route, useRoute } from './router.tsx'
import { SessionsScreen } from './sessions/screen.tsx'
import { Shell } from './shell/shell.tsx'
import { Boundary } from './ui/boundary.tsx'
import { ErrorState, Skeleton } from './ui/states.tsx'
import { words } from './words.ts'

const rest: (() => Promise<unknown>)[] = []

function unfetched(): never {
  throw new Unreachable('This part of the page could not be fetched.')
}

/** What the first screen does not need comes after it. */
function later<P>(load: () => Promise<{ default: ComponentType<P> }>) {
  rest.push(load)
  return lazy(() => load().catch(unfetched))
}
const Approvals = later(() => import('./pages/approvals.tsx'))
const Approval = later<{ readonly id: string }>(() => import('./pages/approval.tsx'))
const Rules = later(() => import('./pages/rules.tsx'))
const Agents = later(() => import('./pages/agents.tsx'))
// Few see these, so nobody fetches them ahead.
const Activity = lazy(() => import('./pages/activity.tsx').catch(unfetched))
const Reviews = lazy(() => import('./pages/reviews.tsx').catch(unfetched))
const Templates = lazy(() => import('./pages/templates.tsx').catch(unfetched))
const Freezes = lazy(() => import('./pages/freezes.tsx').catch(unfetched))

const Studio = later(() => import('./studio/list.tsx'))
const Version = later<{ readonly template: string; readonly n: number }>(
  () => import('./studio/version.tsx'),
)
const Trial = later<{ readonly template: string; readonly n: number }>(
  () => import('./studio/trial.tsx'),
)

const REST_MILLIS = 1_000

/** Fetched ahead, so that going there works, and says what is wrong, while the server is down. */
function useRest(): void {
  useEffect(() => {
    const timer = setTimeout(() => {
      for (const load of rest) load().catch(() => undefined)
    }, REST_MILLIS)
    return () => clearTimeout(timer)
  }, [])
}

function Screen({ route }: { readonly route: Route }) {
  switch (route.at) {
    case 'sessions':
      return <SessionsScreen id={null} />
    case 'session':
      return <SessionsScreen id={route.id} />
    case 'approvals':
      return <Approvals />
    case 'approval':
      return <Approval key={route.id} id={route.id} />
    case 'rules':
      return <Rules />
    case 'agents':
      return <Agents />
    case 'activity':
      return <Activity />
    case 'reviews':
      return <Reviews />
    case 'templates':
      return <Templates />
    case 'freezes':
      return <Freezes />
    case 'studio':
      return <Studio />
    case 'version':
      return <Version key={route.id} template={route.template} n={route.n} />
    case 'trial':
      return <Trial key={route.id} template={route.template} n={route.n} />
    case 'landing':
    case 'nowhere':
      return <Nowhere tenant={route.at === 'nowhere' ? route.tenant : undefined} />
  }
}

const Coming = () => (
  <main id="main" className="page" tabIndex={-1}>
    <div className="page-inner">
      <Skeleton label={words.state.loading} rows={4} />
    </div>
  </main>
)

/** Nothing of a tenant is shown before it is known who looks. */
function Signed({ route }: { readonly route: Route }) {
  const me = useMe()
  useRest()
  if (isStatus(me.error, 401)) return <SignIn />
  // No such organisation: the address is wrong, whoever looks.
  if (isStatus(me.error, 404)) return <Nowhere tenant={undefined} />
  if (me.data)
    return (
      <Shell me={me.data} route={route}>
        <Boundary where={'id' in route ? `${route.at} ${route.id}` : route.at}>
          <Suspense fallback={<Coming />}>
            <Screen route={route} />
          </Suspense>
        </Boundary>
      </Shell>
    )
  return (
    <main id="main" className="alone">
      <h1 className="visually-hidden">{words.product}</h1>
      {me.error ? (
        <ErrorState error={me.error} what={words.state.pageFailed} onRetry={() => me.refetch()} />
      ) : (
        <Skeleton label={words.state.loading} rows={4} />
      )}
    </main>
  )
}

export function App() {
  const route = useRoute()
  if (route.at === 'landing') return <Landing />
  if (route.at === 'nowhere' && route.tenant === undefined) return <Nowhere tenant={undefined} />
  const tenant = route.tenant ?? ''
  return (
    <TenantProvider key={tenant} value={tenant}>
      <Signed route={route} />
    </TenantProvider>
  )
}
