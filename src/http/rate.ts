import type { Failed, Fault } from '../fault.ts'
import { tooOften } from '../mcp/door.ts'
import type { Ctx, RateLimit } from '../ports.ts'
import type { Door } from './doors.ts'
import { oauthFault } from './oauth-form.ts'
import { problemResponse } from './problem.ts'

/** Whose requests are too many, in a sentence. */
const WHOSE: Readonly<Record<RateLimit, string>> = {
  client: 'Too many requests of this client',
  tenant: 'Too many token requests of this organisation',
  session: 'Too many requests of this session',
  tools: 'Too many tool requests of this session',
  person: 'Too many requests of this person',
  point: 'Too many requests of this enforcement point',
  publisher: 'Too many requests of this service’s client',
  address: 'Too many refused requests from this address',
}

export const rateFault = (limit: RateLimit, seconds: number): Fault => ({
  code: 'rate_limited',
  limit,
  retryAfterSeconds: seconds,
  detail: `${WHOSE[limit]} in a minute. Try again in ${seconds} s.`,
})

/** Counts one request. Null: it may go on. To be asked once the caller is known, before any work is done for them. */
export async function overRate(
  ctx: Pick<Ctx, 'rates'>,
  limit: RateLimit,
  key: string,
): Promise<Failed | null> {
  const seconds = (await ctx.rates?.take(limit, key)) ?? null
  return seconds === null ? null : { ok: false, fault: rateFault(limit, seconds) }
}

/** A refusal in the words of the door that was knocked at. */
export function tooOftenAt(door: Door, fault: Fault, requestId: string): Response {
  switch (door) {
    case 'people':
    case 'access':
    case 'enforce':
      return problemResponse(fault, requestId)
    case 'mcp':
    case 'tools':
      return tooOften(fault)
    default:
      return oauthFault(fault)
  }
}
