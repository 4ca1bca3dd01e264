import { RATE_WINDOW_SECONDS } from '../core/limits.ts'
import type { Tree } from '../db/tree.ts'
import type { Fault } from '../fault.ts'
import { limitFault } from './live.ts'

/**
 * The request rate of a whole tree, charged to its root (SPEC section 3): the exact times of the last minute, read and
 * written under the root's lock, so instances share it and children do not multiply it (USER-ASKS 13).
 */
export function rateFault(
  tree: Tree,
  now: number,
): { readonly times: readonly number[]; readonly fault: Fault | null } {
  const times = tree.requestTimes.filter((t) => t > now - RATE_WINDOW_SECONDS)
  const { requestsPerMinute } = tree.root.limits
  if (times.length < requestsPerMinute) return { times: [...times, now], fault: null }
  const wait = Math.max(1, Math.ceil((times[0] ?? now) + RATE_WINDOW_SECONDS - now))
  const detail = `At most ${requestsPerMinute} requests a minute for a session and its subagents. Try again in ${wait} s.`
  return { times, fault: limitFault('requestsPerMinute', wait, detail) }
}
