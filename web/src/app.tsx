import { lazy, Suspense } from 'react'
import { isStatus } from './api/http.ts'
import { TenantProvider, useMe } from './api/queries.ts'
import { Landing } from './pages/landing.tsx'
import { Nowhere } from './pages/nowhere.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { type Route, useRoute } from './router.tsx'
import { SessionsScreen } from './sessions/screen.tsx'
import { Shell } from './shell/shell.tsx'
import { ErrorState, Skeleton } from './ui/states.tsx'
import { words } from './words.ts'

// What the first screen does not need comes when it is gone to.
const Approvals = lazy(() => import('./pages/approvals.tsx'))
const Approval = lazy(() => import('./pages/approval.tsx'))
const Rules = lazy(() => import('./pages/rules.tsx'))
const Agents = lazy(() => import('./pages/agents.tsx'))

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
    case 'landing':
    case 'nowhere':
      return <Nowhere tenant={route.at === 'nowhere' ? route.tenant : undefined} />
  }
}

/** Nothing of a tenant is shown before it is known who looks. */
function Signed({ route }: { readonly route: Route }) {
  const me = useMe()
  if (isStatus(me.error, 401)) return <SignIn />
  // No such organisation: the address is wrong, whoever looks.
  if (isStatus(me.error, 404)) return <Nowhere tenant={undefined} />
  if (me.data)
    return (
      <Shell me={me.data} route={route}>
        <Suspense fallback={<Skeleton label={words.state.loading} rows={4} />}>
          <Screen route={route} />
        </Suspense>
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
