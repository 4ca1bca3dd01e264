import type { Limits } from './vocabulary.ts'

/** Every bound of the product in one place. Template versions and tenants may only lower LIMITS (I15). */
export const LIMITS: Limits = {
  sessionLifeSeconds: 8 * 3600,
  subagentDepth: 2,
  liveChildren: 10,
  liveRootsPerUser: 20,
  itemsPerRequest: 20,
  requestsPerMinute: 30,
  openRequests: 10,
}

/** I4: no token lives longer. */
export const TOKEN_LIFE_SECONDS_MAX = 900
/** What the grants in one token may take, as JSON: with the rest it fits in 8 KB proxy buffers, nearly always. */
export const TOKEN_GRANTS_LENGTH_MAX = 6_000
export const REASON_LENGTH_MAX = 500
export const TASK_LENGTH_MAX = 500
export const NOTE_LENGTH_MAX = 500
export const WAIT_SECONDS_MAX = 50
export const RESOURCE_LENGTH_MAX = 256
export const FILTER_DEPTH_MAX = 4
export const LIST_LENGTH_MAX = 200
export const ASSERTION_LIFE_SECONDS_MAX = 300
export const RATE_WINDOW_SECONDS = 60

const lower = (a: number, b: number | undefined): number => (b === undefined ? a : Math.min(a, b))

/** The stricter of two sets of limits, field by field; an absent field of `by` lowers nothing. */
export function lowered(limits: Limits, by: Partial<Limits>): Limits {
  const wait =
    limits.requestWaitSeconds === undefined
      ? by.requestWaitSeconds
      : lower(limits.requestWaitSeconds, by.requestWaitSeconds)
  return {
    sessionLifeSeconds: lower(limits.sessionLifeSeconds, by.sessionLifeSeconds),
    subagentDepth: lower(limits.subagentDepth, by.subagentDepth),
    liveChildren: lower(limits.liveChildren, by.liveChildren),
    liveRootsPerUser: lower(limits.liveRootsPerUser, by.liveRootsPerUser),
    itemsPerRequest: lower(limits.itemsPerRequest, by.itemsPerRequest),
    requestsPerMinute: lower(limits.requestsPerMinute, by.requestsPerMinute),
    openRequests: lower(limits.openRequests, by.openRequests),
    ...(wait === undefined ? {} : { requestWaitSeconds: wait }),
  }
}
