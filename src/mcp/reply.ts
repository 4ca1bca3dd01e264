import type { CallToolResult } from '@modelcontextprotocol/server'
import { type Fault, type FaultCode, type FieldError, faultSays, isOutage } from '../fault.ts'

/**
 * What a model reads. A refusal is a normal result; a fault is a tool error with a code and, where
 * waiting helps, how long. An error carries no `structuredContent`: older clients check it against
 * the result's schema even then.
 */

/**
 * When a fault names no time of its own. Only what passes by itself is here; absent: do not just
 * try again.
 */
const RETRY_AFTER_SECONDS: Partial<Record<FaultCode, number>> = {
  frozen: 60,
  limit_reached: 60,
  provider_unavailable: 5,
}

type ErrorBody = {
  readonly error: string
  readonly code: string
  readonly message: string
  readonly errors?: readonly FieldError[]
  readonly limit?: string
  readonly retry_after?: number
  readonly request_id?: string
  /** What to ask for, exactly as `iam.request_access` takes it. */
  readonly ask?: { readonly tool: string; readonly items: readonly object[] }
  readonly reason?: string
}

/** An error of a tool as a model reads it: text alone, since older clients check anything else against its schema. */
export const toolError = (body: ErrorBody): CallToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(body) }],
  isError: true,
})

const sentence = (message: string, errors: readonly FieldError[] | undefined): string =>
  errors === undefined || errors.length === 0
    ? message
    : `${message} ${errors.map(({ path, message: why }) => `${path} ${why}`.trim()).join('; ')}.`

/** A tool's own answer: `structuredContent` and, for clients that read only text, the same JSON. */
export function toolResult(value: Record<string, unknown>): CallToolResult {
  return {
    content: [{ type: 'text', text: JSON.stringify(value) }],
    structuredContent: value,
  }
}

/** The only translation of a fault to what a model reads. */
export function faultResult(fault: Fault): CallToolResult {
  const retryAfter = fault.retryAfterSeconds ?? RETRY_AFTER_SECONDS[fault.code]
  return toolError({
    error: fault.code,
    code: fault.code,
    message: sentence(faultSays(fault), fault.errors),
    ...(fault.errors === undefined ? {} : { errors: fault.errors }),
    ...(fault.limit === undefined ? {} : { limit: fault.limit }),
    ...(retryAfter === undefined ? {} : { retry_after: retryAfter }),
  })
}

const OUTAGE_RETRY_SECONDS = 2

/**
 * What was thrown, as a model reads it: that the database is away, or nothing but an id, under which the operator has the
 * evidence of a bug.
 */
export function thrownResult(error: unknown, requestId: string): CallToolResult {
  if (isOutage(error))
    return toolError({
      error: 'unavailable',
      code: 'unavailable',
      message: 'The database cannot be reached just now. Look at what you hold, then try again.',
      retry_after: OUTAGE_RETRY_SECONDS,
      request_id: requestId,
    })
  return toolError({
    error: 'server_error',
    code: 'server_error',
    message: `Something went wrong on the server. Look at what you hold before you try again, and tell the operator ${requestId}.`,
    request_id: requestId,
  })
}
