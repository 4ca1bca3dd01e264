import type { TenantId, UserId } from '../core/vocabulary.ts'
import { readGatewayPerson } from '../db/gateway.ts'
import { hotRead } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { createFrequent } from './frequent.ts'
import { type Held, heldOf } from './identity.ts'
import type { Snapshot } from './snapshot.ts'

export type PersonFacts = {
  readonly id: UserId
  readonly active: boolean
  readonly held: Held
}

export type PersonKey = {
  readonly tenantId: TenantId
  readonly issuer: string
  readonly subject: string
}

const PEOPLE_MAX = 20_000
/** Losing access is heard of at once; gaining it, only by looking again. */
const LOOK_AGAIN_MILLIS = 30_000

type Kept = {
  readonly tenantId: TenantId
  readonly facts: PersonFacts
  readonly readAt: number
  refreshing: boolean
}

/**
 * What people may call by themselves. Bounded; read once, then told of every loss by the feed, and read again behind the
 * answers for what was gained.
 */
export type People = {
  /** Null: this tenant knows nobody of that name. Rejects when that cannot be read (I19). */
  readonly find: (snapshot: Snapshot, key: PersonKey) => PersonFacts | Promise<PersonFacts | null>
  /** Forgets one person, or everyone in a tenant; the next answer is read anew. */
  readonly forget: (tenantId: TenantId, userId: UserId | null) => void
  readonly clear: () => void
}

export function createPeople(ctx: Ctx): People {
  const people = createFrequent<Kept>(PEOPLE_MAX)
  const keysOf = new Map<UserId, string>()
  // Raised by every change that was heard of: what was read before it is not kept.
  let changes = 0

  async function read(
    snapshot: Snapshot,
    key: PersonKey,
    name: string,
  ): Promise<PersonFacts | null> {
    const began = changes
    const row = await hotRead(ctx.db, 'gateway_person', (tx) => readGatewayPerson(tx, key))
    if (row === null) return null
    const facts = { id: row.id, active: row.active, held: heldOf(snapshot, row.permissions) }
    if (began === changes) {
      const { tenantId } = key
      people.set(name, { tenantId, facts, readAt: ctx.clock.now(), refreshing: false })
      keysOf.set(row.id, name)
      if (keysOf.size > 2 * PEOPLE_MAX) everyone()
    }
    return facts
  }
  const everyone = (): void => {
    people.clear()
    keysOf.clear()
  }
  return {
    find: (snapshot, key) => {
      const name = `${key.tenantId} ${key.issuer} ${key.subject}`
      const kept = people.get(name)
      if (kept === undefined) return read(snapshot, key, name)
      if (!kept.refreshing && ctx.clock.now() - kept.readAt > LOOK_AGAIN_MILLIS) {
        kept.refreshing = true
        read(snapshot, key, name).catch(() => {
          kept.refreshing = false
        })
      }
      return kept.facts
    },
    forget: (_tenantId, userId) => {
      changes++
      const name = userId === null ? undefined : keysOf.get(userId)
      // A change of a whole tenant is rare, and to forget too much costs a read.
      if (userId === null) everyone()
      else if (name !== undefined) people.delete(name)
    },
    clear: () => {
      changes++
      everyone()
    },
  }
}
