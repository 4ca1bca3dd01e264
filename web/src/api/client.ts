import { QueryClient } from '@tanstack/react-query'
import { Refused } from './http.ts'

const RETRIES = 2

/** One cache. Events say what is stale, so nothing is asked again on a timer or on focus. */
export const client = new QueryClient({
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
