import type { AuthReason } from '../../schema/auth-decision.ts'
import { meet } from './bits.ts'
import type { Held } from './identity.ts'
import type { Dead } from './revocations.ts'
import type { Endpoint } from './snapshot.ts'

/** Who asks, once its token was verified, with what stands against it now. */
export type Asker =
  | {
      readonly kind: 'agent_session'
      readonly audience: string
      readonly dead: Dead | null
      readonly expired: boolean
      readonly held: Held
    }
  | {
      readonly kind: 'service'
      readonly audience: string
      /** What stands against it now. */
      readonly dead: 'unknown' | 'disabled' | 'stale' | 'frozen' | null
      readonly expired: boolean
      readonly held: Held
    }
  | {
      readonly kind: 'user'
      readonly audience: string
      readonly active: boolean
      readonly frozen: boolean
      readonly expired: boolean
      readonly held: Held
    }

export type Decided = {
  readonly reason: AuthReason
  readonly permission: string | null
  readonly by: 'bits' | 'names' | 'none'
}

const because = (reason: AuthReason): Decided => ({ reason, permission: null, by: 'none' })

const DEAD: Readonly<Record<Dead, AuthReason>> = {
  over: 'SESSION_ENDED',
  stale: 'SESSION_VERSION_STALE',
  frozen: 'SESSION_FROZEN',
}

const SERVICE_DEAD = {
  unknown: 'SERVICE_UNKNOWN',
  disabled: 'SERVICE_DISABLED',
  stale: 'SERVICE_VERSION_STALE',
  frozen: 'SERVICE_FROZEN',
} as const satisfies Record<string, AuthReason>

function standing(asker: Asker): AuthReason | null {
  if (asker.expired) return 'TOKEN_EXPIRED'
  switch (asker.kind) {
    case 'agent_session':
      return asker.dead === null ? null : DEAD[asker.dead]
    case 'service':
      return asker.dead === null ? null : SERVICE_DEAD[asker.dead]
    case 'user':
      if (!asker.active) return 'USER_DISABLED'
      return asker.frozen ? 'USER_FROZEN' : null
  }
}

/** By bits where both were taken from the same registry version; by name where the token was read under an older one. */
function permitted(endpoint: Endpoint, held: Held, registryVersion: number): Decided {
  const by = held.registryVersion === registryVersion ? 'bits' : 'names'
  const one = (): string | null => endpoint.permissions.find((id) => held.names.has(id)) ?? null
  const has = by === 'bits' ? meet(endpoint.bits, held.bits) : one() !== null
  return has
    ? { reason: 'PERMISSION_HELD', permission: one(), by }
    : { reason: 'PERMISSION_MISSING', permission: endpoint.permissions[0] ?? null, by }
}

/**
 * Whether somebody whose token was verified may call an endpoint that is not open. Pure. In this order: the token is for this
 * service, it still stands, and one of the permissions is held.
 */
export function decide(of: {
  readonly endpoint: Endpoint
  readonly asker: Asker
  /** The registered resources of the endpoint's service. None: no token is for it. */
  readonly resources: readonly string[]
  readonly registryVersion: number
}): Decided {
  if (!of.resources.includes(of.asker.audience)) return because('AUDIENCE_MISMATCH')
  const dead = standing(of.asker)
  if (dead !== null) return because(dead)
  if (of.endpoint.access !== 'ACCESS_CONTROLLED') return because('AUTHENTICATED')
  return permitted(of.endpoint, of.asker.held, of.registryVersion)
}
