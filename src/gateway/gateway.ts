import { AUTH_REASONS, type AuthReason } from '../../schema/auth-decision.ts'
import { readGateway } from '../db/gateway.ts'
import { onTakenBack } from '../db/taken-back.ts'
import { withTx } from '../db/tx.ts'
import { startPeriodic } from '../flows/periodic.ts'
import type { UserTokenVerifier } from '../identity/login.ts'
import type { Ctx } from '../ports.ts'
import type { KeyStore } from '../tokens/keys.ts'
import type { Answered, Asked } from './answers.ts'
import { createCalls } from './calls.ts'
import { type CheckOn, type Counted, createCheck } from './check.ts'
import { createFollower } from './follow.ts'
import { createFrequent } from './frequent.ts'
import { createTokens } from './identity.ts'
import { createLines, type Write } from './lines.ts'
import { createPeople } from './people.ts'
import { createRevocations } from './revocations.ts'
import { type Snapshot, snapshotOf } from './snapshot.ts'

export type { Answered, Asked } from './answers.ts'

const REASONS = Object.keys(AUTH_REASONS) as AuthReason[]
const ROUTES_MAX = 10_000
/** A look at the feed without a kick: kicks can be lost. */
const FOLLOW_EVERY_MILLIS = 500
/** Kicks that come together are one look. */
const KICK_GAP_MILLIS = 5
/** Metadata is read anew this long after the first change that was heard of, however many follow. */
const REFRESH_DEBOUNCE_MILLIS = 200
/** The safety net; also how long a key that was dropped may still verify. */
const REFRESH_EVERY_MILLIS = 15_000
/**
 * Without news for so long, this instance no longer knows what was taken back, nor which proxies, secrets and endpoints still
 * are what they were: it allows nothing, what is open included (I19).
 */
export const STALE_MILLIS_MAX = 60_000

export type Gateway = {
  readonly check: (asked: Asked) => Answered | Promise<Answered>
  /** Warm: endpoints and what was taken back have been read. Once true it stays so. */
  readonly ready: () => boolean
  /** Whether what was taken back is known up to a minute ago; else nothing is allowed. */
  readonly isFresh: () => boolean
  /** Resolves once everything committed before the call is known here. */
  readonly caughtUp: () => Promise<void>
  readonly counts: () => {
    readonly decisions: number
    readonly byReason: Readonly<Record<AuthReason, number>>
    readonly caches: Readonly<
      Record<'token' | 'route' | 'person', { readonly hit: number; readonly miss: number }>
    >
    /** Seconds since what was taken back was last known to be complete; infinite before the first time. */
    readonly feedAge: number
    /** Decided by name, since the token had been read under an older registry. */
    readonly byNames: number
    readonly callsLost: number
    readonly callsLostEver: number
    readonly resyncs: number
    readonly revoked: number
  }
  /** Writes the lines and records that wait. */
  readonly flush: () => Promise<void>
  /** Writes the last of them. */
  readonly stop: () => Promise<void>
}

export type GatewayOn = {
  readonly ctx: Ctx
  readonly keys: KeyStore
  readonly verifier: UserTokenVerifier
  /** Where AUTH_DECISION lines go. */
  readonly write: Write
  /** What an operator should hear once: that a refresh fails, that it works again, that records were lost. */
  readonly note: (what: string, more: object) => void
  readonly onBug: (error: unknown, requestId?: string) => void
  /** How long each decision took, in seconds. */
  readonly took?: (seconds: number) => void
}

/** Says a thing when it begins and when it is over, not each time in between. */
function outage(on: GatewayOn, what: string) {
  let failing = false
  return {
    failed: (error: unknown): void => {
      if (failing) return
      failing = true
      on.note(`${what} fails; what was read before stays in use`, {})
      on.onBug(error)
    },
    worked: (): void => {
      if (failing) on.note(`${what} works again`, {})
      failing = false
    },
    isOn: (): boolean => failing,
  }
}

/** What endpoints ask for, held in memory. A failed refresh keeps the old. */
function createMetadata(on: GatewayOn, onNew: () => void) {
  const state = outage(on, 'reading the gateway’s metadata')
  let snapshot: Snapshot | null = null
  let readAt: number | null = null
  let debounce: NodeJS.Timeout | undefined
  let begun = 0
  let kept = 0
  const refresh = async (): Promise<void> => {
    const turn = ++begun
    const began = on.ctx.clock.now()
    try {
      const rows = await withTx(on.ctx.db, 'read_gateway', readGateway)
      // Of two at once, the one that began later has seen more, whichever is answered first.
      if (turn > kept) {
        kept = turn
        snapshot = snapshotOf(rows)
        readAt = began
        onNew()
      }
      state.worked()
    } catch (error) {
      state.failed(error)
    }
  }
  return {
    current: () => snapshot,
    /** When what is in use was read, in milliseconds; null before the first time. */
    readAt: () => readAt,
    isFailing: state.isOn,
    refresh,
    soon: (): void => {
      debounce ??= setTimeout(() => {
        debounce = undefined
        void refresh()
      }, REFRESH_DEBOUNCE_MILLIS)
      debounce.unref()
    },
    stop: () => clearTimeout(debounce),
  }
}

/** Starts a process's gateway: it warms up by itself, and again and again until it can. */
export function startGateway(on: GatewayOn): Gateway {
  const { ctx } = on
  const routes: CheckOn['routes'] = createFrequent(ROUTES_MAX)
  const people = createPeople(ctx)
  const revocations = createRevocations()
  const metadata = createMetadata(on, () => {
    routes.clear()
    people.clear()
  })
  const follower = createFollower({
    ctx,
    revocations,
    onPerson: people.forget,
    onMetadata: metadata.soon,
    onResync: people.clear,
  })
  const following = outage(on, 'following what was taken back')
  const calls = createCalls(ctx, on.onBug)
  const lines = createLines(on.write)
  const counted: Counted = {
    names: 0,
    reasons: Object.fromEntries(REASONS.map((reason) => [reason, 0])) as Counted['reasons'],
    caches: {
      token: { hit: 0, miss: 0 },
      route: { hit: 0, miss: 0 },
      person: { hit: 0, miss: 0 },
    },
  }
  const isRecent = (at: number | null): boolean =>
    at !== null && ctx.clock.now() - at < STALE_MILLIS_MAX
  const isFresh = (): boolean => isRecent(follower.freshAt()) && isRecent(metadata.readAt())
  const follow = async (): Promise<void> => {
    try {
      await follower.catchUp()
      following.worked()
      // The database answers again: what it could not say before need not wait for the safety net.
      if (metadata.isFailing() || !isRecent(metadata.readAt())) metadata.soon()
    } catch (error) {
      following.failed(error)
    }
  }
  const jobs = [
    startPeriodic({
      run: follow,
      everyMillis: FOLLOW_EVERY_MILLIS,
      gapMillis: KICK_GAP_MILLIS,
      onBug: on.onBug,
      subscribe: ctx.notify.subscribe,
    }),
    startPeriodic({
      run: metadata.refresh,
      everyMillis: REFRESH_EVERY_MILLIS,
      onBug: on.onBug,
    }),
  ]
  const deaf = onTakenBack(ctx.db, follow)
  const check = createCheck({
    ctx,
    snapshot: () => (follower.freshAt() === null ? null : metadata.current()),
    isFresh,
    routes,
    tokens: createTokens(on),
    ...{ people, revocations, calls, lines, counted, took: on.took },
    onBug: on.onBug,
  })
  return {
    check,
    isFresh,
    ready: () => follower.freshAt() !== null && metadata.current() !== null,
    caughtUp: async () => {
      await follower.catchUp()
      await metadata.refresh()
    },
    counts: () => ({
      decisions: Object.values(counted.reasons).reduce((sum, n) => sum + n, 0),
      byReason: counted.reasons,
      caches: counted.caches,
      feedAge: (ctx.clock.now() - (follower.freshAt() ?? Number.NEGATIVE_INFINITY)) / 1000,
      byNames: counted.names,
      callsLost: calls.lost(),
      callsLostEver: calls.lostEver(),
      resyncs: follower.resyncs(),
      revoked: revocations.size(),
    }),
    flush: async () => {
      lines.flush()
      await calls.flush()
    },
    stop: async () => {
      deaf()
      await Promise.all(jobs.map((job) => job.stop()))
      metadata.stop()
      const lost = await calls.stop()
      if (lost > 0) on.note('call records could not be written', { lost })
      lines.flush()
    },
  }
}
