import { BodyBroken } from '../body-bytes.ts'
import { FAULTS, type Fault, type FieldError, faultSays, isOutage } from '../fault.ts'

/**
 * The one place that turns what went wrong into RFC 9457 problem details. Faults come from their own table; the rows here
 * are what only HTTP can go wrong with. A bug says nothing but its request id.
 */
const WIRE = {
  server_error: { status: 500, says: 'Something went wrong here. It has been noted.' },
  unavailable: {
    status: 503,
    says: 'The database cannot be reached, so nothing was decided or changed. Try again.',
  },
  content_type_unsupported: { status: 415, says: 'The body must be application/json.' },
} as const satisfies Record<string, { readonly status: number; readonly says: string }>

export type WireFault = {
  readonly code: keyof typeof WIRE
  readonly detail?: string
  readonly retryAfterSeconds?: number
}

export const PROBLEM_TYPE = 'application/problem+json'
const UNAVAILABLE_RETRY_SECONDS = 2

const isWire = (fault: Fault | WireFault): fault is WireFault => Object.hasOwn(WIRE, fault.code)

export type Problem = {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
  readonly errors?: readonly FieldError[]
  readonly limit?: string
  readonly current?: Fault['current']
  readonly retry_after?: number
  readonly request_id: string
}

/** The problem document of a fault. `retry_after` in whole seconds, at least one. */
export function problemOf(fault: Fault | WireFault, requestId: string): Problem {
  const row = isWire(fault) ? WIRE[fault.code] : FAULTS[fault.code]
  const more: Partial<Fault> = isWire(fault) ? {} : fault
  return {
    type: `urn:problem-type:lend:${fault.code}`,
    title: row.says,
    status: row.status,
    detail: isWire(fault) ? (fault.detail ?? row.says) : faultSays(fault),
    code: fault.code,
    ...(more.errors === undefined ? {} : { errors: more.errors }),
    ...(more.limit === undefined ? {} : { limit: more.limit }),
    ...(more.current === undefined ? {} : { current: more.current }),
    ...(fault.retryAfterSeconds === undefined
      ? {}
      : { retry_after: Math.max(1, Math.ceil(fault.retryAfterSeconds)) }),
    request_id: requestId,
  }
}

/** The whole answer: the document, `Retry-After`, and on 401 the challenge of RFC 6750 section 3. */
export function problemResponse(
  fault: Fault | WireFault,
  requestId: string,
  how: { readonly presented?: boolean } = {},
): Response {
  const problem = problemOf(fault, requestId)
  const headers = new Headers({
    'Content-Type': PROBLEM_TYPE,
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
  })
  if (problem.retry_after !== undefined) headers.set('Retry-After', String(problem.retry_after))
  if (problem.status === 401)
    headers.set('WWW-Authenticate', how.presented ? 'Bearer error="invalid_token"' : 'Bearer')
  return new Response(JSON.stringify(problem), { status: problem.status, headers })
}

/** What a client that breaks off is told, if it still listens. */
export const BROKEN_OFF: Fault = {
  code: 'request_malformed',
  detail: 'The body broke off before its end.',
}

/** What was thrown, as the caller may see it. Tells the operator of bugs and outages through `onBug`. */
export function thrownResponse(
  error: unknown,
  requestId: string,
  onBug: (error: unknown, requestId: string) => void,
): Response {
  if (error instanceof BodyBroken) return problemResponse(BROKEN_OFF, requestId)
  onBug(error, requestId)
  return problemResponse(
    isOutage(error)
      ? { code: 'unavailable', retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS }
      : { code: 'server_error' },
    requestId,
  )
}
