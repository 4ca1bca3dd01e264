import { QueryCache, QueryClient } from '@tanstack/react-query'
import { isStatus, Refused } from './http.ts'

const RETRIES = 2

/** One cache. Events say what is stale, so nothing is asked again on a timer or on focus. */
export const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      const [tenant, what] = query.queryKey
      // Whoever is told that nobody is signed in has the page ask once more who is, here and at the agent's app.
      if (!isStatus(error, 401) || what === 'me' || what === 'app-me') return
      void client.invalidateQueries({ queryKey: [tenant, 'me'] })
      void client.invalidateQueries({ queryKey: [tenant, 'app-me'] })
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: Number.POSITIVE_INFINITY,
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
      // An answer is an answer; only silence and outages are tried again.
      retry: (count, error) =>
        count < RETRIES && (!(error instanceof Refused) || error.status >= 500),
      retryDelay: (count) => 400 * 2 ** count,
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})
