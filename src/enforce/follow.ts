import { basic, type Credentials, type Read } from './connection.ts'
import { isRecord, type TokenFacts } from './token.ts'

/**
 * Follows what Lend takes back, so that tokens can be checked without asking about each. What it holds only ever refuses: an
 * entry is forgotten once every token that it could refuse is past its end.
 */
export type FollowOptions = {
  /** Without news for so long nothing is allowed (I19). 30 seconds by default; less than 15 would close by itself. */
  readonly closedAfterMillis?: number
}

export type Follower = {
  /** True once the whole state has been read; false if it could not be within a few seconds. */
  readonly warm: () => Promise<boolean>
  /** Whether the token still stands, from memory. Waits only before the first state is there. Never throws. */
  readonly standing: (facts: TokenFacts) => Promise<Read>
  readonly close: () => void
  /** Entries in memory. */
  readonly size: () => number
}

const CLOSED_AFTER_MILLIS = 30_000
const CLOSED_AFTER_MILLIS_MIN = 15_000
const WAIT_SECONDS = 10
/** For the answer to come back after that. */
const ANSWER_MILLIS_MAX = 3000
const WARM_MILLIS_MAX = 3000
const RETRY_MILLIS = 250
const RETRY_MILLIS_MAX = 2000
/** A token's life and what clocks differ. */
const KEPT_MILLIS = 960_000
const SKEW_SECONDS = 60
const ENTRIES_MAX = 100_000

type Heard = {
  readonly cursor: string
  readonly more: boolean
  readonly sessions: readonly (readonly [session: string, lowest: number])[]
  readonly frozen: readonly string[]
  /** Tokens issued until this second are dead. */
  readonly goodAfter: number
}

const frozenKey = (scope: string, target: string): string => `${scope} ${target}`

/** Null: what is not understood may be something that was taken back, so it is no news. */
function heardIn(said: unknown): Heard | null {
  if (!isRecord(said) || typeof said.cursor !== 'string' || typeof said.more !== 'boolean')
    return null
  if (!Array.isArray(said.sessions) || !Array.isArray(said.frozen)) return null
  const goodAfter = said.good_after ?? Number.NEGATIVE_INFINITY
  if (typeof goodAfter !== 'number') return null
  const sessions: (readonly [string, number])[] = []
  for (const one of said.sessions) {
    if (!isRecord(one) || typeof one.session_id !== 'string') return null
    if (!Number.isSafeInteger(one.version) || typeof one.active !== 'boolean') return null
    const lowest = one.active ? Number(one.version) : Number.POSITIVE_INFINITY
    sessions.push([one.session_id, lowest])
  }
  const frozen: string[] = []
  for (const one of said.frozen) {
    if (!isRecord(one) || typeof one.scope !== 'string' || typeof one.target !== 'string')
      return null
    frozen.push(frozenKey(one.scope, one.target))
  }
  return { cursor: said.cursor, more: said.more, sessions, frozen, goodAfter }
}

/** The lowest version of each session that is still good; bounded, and no narrowing is lost by that. */
function createLowest(now: () => number, max: number) {
  type Entry = { readonly version: number; readonly at: number }
  // In the order in which they were heard, since what is heard again moves to the back.
  const entries = new Map<string, Entry>()
  let floor = Number.NEGATIVE_INFINITY
  return {
    heard: (session: string, version: number): void => {
      const lowest = Math.max(version, entries.get(session)?.version ?? 0)
      entries.delete(session)
      entries.set(session, { version: lowest, at: now() })
      for (const [oldest, { at }] of entries) {
        if (at + KEPT_MILLIS > now() && entries.size <= max) break
        // One that had to make room may have refused any token from before it.
        if (at + KEPT_MILLIS > now()) floor = Math.max(floor, at / 1000 + SKEW_SECONDS)
        entries.delete(oldest)
      }
    },
    goodAfter: (second: number): void => {
      floor = Math.max(floor, second)
    },
    isOver: ({ session, version, issuedAt }: TokenFacts): boolean =>
      issuedAt <= floor || version < (entries.get(session)?.version ?? 0),
    size: () => entries.size,
  }
}

/** Makes a follower; it begins with the first question and goes on until it is closed. */
export function createFollower(
  of: FollowOptions & {
    readonly issuer: string
    readonly credentials: Credentials
    readonly fetch: typeof globalThis.fetch
    readonly now: () => number
    readonly entriesMax?: number
  },
): Follower {
  const { now, issuer } = of
  const bound = Math.max(of.closedAfterMillis ?? CLOSED_AFTER_MILLIS, CLOSED_AFTER_MILLIS_MIN)
  const lowest = createLowest(now, of.entriesMax ?? ENTRIES_MAX)
  let closed = false
  /** Ends what is waited for now. */
  let cancel = (): void => {}
  let frozen: ReadonlySet<string> = new Set()
  let freshAt: number | null = null
  let running = false
  let isWarm = (): void => {}
  const first = new Promise<void>((resolve) => {
    isWarm = resolve
  })

  async function ask(after: string | null): Promise<Heard | null> {
    const query = after === null ? '' : `?after=${after}&wait=${WAIT_SECONDS}`
    const millis = ANSWER_MILLIS_MAX + (after === null ? 0 : WAIT_SECONDS * 1000)
    const over = new AbortController()
    const timer = setTimeout(() => over.abort(), millis)
    cancel = () => over.abort()
    try {
      const answer = await of.fetch(`${issuer}/enforce/revocations${query}`, {
        headers: { authorization: basic(of.credentials), accept: 'application/json' },
        redirect: 'error',
        signal: over.signal,
      })
      return answer.ok ? heardIn(await answer.json()) : null
    } catch {
      return null
    } finally {
      clearTimeout(timer)
    }
  }

  const pause = (millis: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, millis)
      cancel = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  async function follow(): Promise<void> {
    let cursor: string | null = null
    let failures = 0
    while (!closed) {
      // What an answer says was so at its question's time at least.
      const asked = now()
      const heard = await ask(cursor)
      if (heard === null) {
        await pause(Math.min(RETRY_MILLIS * 2 ** failures++, RETRY_MILLIS_MAX))
        continue
      }
      failures = 0
      lowest.goodAfter(heard.goodAfter)
      for (const [session, version] of heard.sessions) lowest.heard(session, version)
      frozen = new Set(heard.frozen)
      // Of a page that is not the last, what is missing may be what matters.
      if (!heard.more) {
        freshAt = asked
        isWarm()
      }
      // The same rows again: something that is not settled holds the place, and would be told at once for ever.
      if (heard.cursor === cursor && heard.sessions.length > 0) await pause(RETRY_MILLIS)
      cursor = heard.cursor
    }
  }

  async function warm(): Promise<boolean> {
    if (!running && !closed) {
      running = true
      void follow()
    }
    if (freshAt === null) {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, WARM_MILLIS_MAX)
      })
      await Promise.race([first, late])
      clearTimeout(timer)
    }
    return freshAt !== null
  }

  /** A clock that was set back says nothing of how old the news is. */
  const isFresh = (): boolean => {
    const age = freshAt === null ? -1 : now() - freshAt
    return age >= 0 && age < bound && !closed
  }

  const isFrozen = ({ user, lineage }: TokenFacts): boolean =>
    frozen.size > 0 &&
    // Only this tenant's are told: whichever it names, it is this one.
    ([...frozen].some((key) => key.startsWith('tenant ')) ||
      frozen.has(frozenKey('user', user)) ||
      lineage.some(
        ({ agent, template }) =>
          frozen.has(frozenKey('agent', agent)) || frozen.has(frozenKey('template', template)),
      ))

  return {
    warm,
    standing: async (facts) => {
      if (freshAt === null) await warm()
      if (!isFresh()) return { denied: 'unavailable' }
      return lowest.isOver(facts) || isFrozen(facts) ? { denied: 'session_over' } : { facts }
    },
    close: () => {
      closed = true
      cancel()
    },
    size: lowest.size,
  }
}
