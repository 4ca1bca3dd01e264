import { canonicalResource, patternCovers } from '../core/resource.ts'
import { asking, type DataPart, type DataShown, type Item, rowShown } from './ask.ts'
import { basic, connect, type Denial, type Read } from './connection.ts'
import { matches, shownBy } from './filter.ts'
import { createFollower, type FollowOptions } from './follow.ts'
import {
  bearerOf,
  type HttpContext,
  refusalOf,
  requirePermission,
  verdictOf,
} from './middleware.ts'
import { type Call, createReporter, type Reporter } from './report.ts'
import { type HeldGrant, type TokenFacts, tenantOf } from './token.ts'

export type { Call, DataPart, DataShown, Denial, FollowOptions, HeldGrant, TokenFacts }
export {
  bearerOf,
  type HttpContext,
  matches,
  refusalOf,
  requirePermission,
  rowShown,
  shownBy,
  verdictOf,
}

/**
 * `lend/enforce`: how a resource server checks the tokens of agents by itself. It needs nothing of
 * the server but its public addresses, and fails closed: whatever cannot be verified is not allowed
 * (I19).
 */
export type EnforcerOptions = {
  /** The tenant's issuer, as in `https://lend.example/t/acme`. */
  readonly issuer: string
  /**
   * This resource server, exactly as it is registered. Tokens for anything else are refused,
   * control tokens too.
   */
  readonly audience: string
  /**
   * The enforcement point's own credentials. With them every check also asks Lend live, so that
   * what was taken away is gone at once; without them a token is good for as long as it lives, 15
   * minutes at most, and nothing can be reported.
   */
  readonly introspect?: { readonly clientId: string; readonly clientSecret: string }
  /**
   * Instead of asking Lend at every `check`, verify by itself and follow what is taken back: a session that ends or loses
   * something is refused within about a second. What is newly granted shows with the next token. Needs the credentials
   * above; until the first state is there, and without news for the stated time, nothing is allowed (I19). `close` ends it.
   * `asset` and `data` ask live all the same.
   */
  readonly follow?: FollowOptions
  /**
   * `check` takes the tokens of the tenant's service accounts too: of programs that act for nobody and hold API permissions of
   * their own. Each is asked of Lend live, whatever `follow` says. Needs the credentials above. Without it they are refused.
   */
  readonly serviceAccounts?: boolean
  readonly fetch?: typeof globalThis.fetch
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

export type Wanted = {
  readonly permission: string
  /** The one object or destination that is touched, for permissions that take one. */
  readonly resource?: string
  /** The call changes something. Then a grant that is lent for reading only does not count. */
  readonly writes?: boolean
  /**
   * The caller applies `narrow` of every grant in `grants` to its rows. Otherwise narrowed grants
   * do not count.
   */
  readonly narrows?: boolean
}

export type Verdict = {
  readonly allowed: boolean
  readonly reason: 'granted' | Denial
  /**
   * What to answer with over HTTP: 200, 401 for a bad token, 403 for no access, 503 when nothing
   * can be verified.
   */
  readonly status: 200 | 401 | 403 | 503
  /** Known as soon as the token's signature holds, allowed or not; null before. */
  readonly session: string | null
  readonly agent: string | null
  readonly user: string | null
  /** The service account whose token it is, where those are taken; then there is no session and no grant. */
  readonly service?: string
  /** The grant that allows it, the first of `grants`. */
  readonly grant: HeldGrant | null
  /**
   * Every grant that allows it. Data grants are alternatives: a row is visible if any of them shows
   * it.
   */
  readonly grants: readonly HeldGrant[]
  /** What the agent would ask for with `iam.request_access`. */
  readonly ask: Item
  /** False: asking would be refused outright, as far as Lend says. Absent: nobody said. */
  readonly askable?: boolean
}

/** What a session shows of one entity. Allowed with no parts: it holds something, and its user is kept from all of it. */
export type DataVerdict = DataShown &
  Pick<Verdict, 'allowed' | 'reason' | 'status' | 'session' | 'agent' | 'user'> & {
    /** What could be asked for, when nothing is held. */
    readonly ask: readonly Item[]
  }

export type Enforcer = {
  /** Whether it has credentials to report calls with. */
  readonly reports: boolean
  /** Never throws. `token` is the bare token, without `Bearer`. */
  readonly check: (token: string | null | undefined, wanted: Wanted) => Promise<Verdict>
  /**
   * One object, asked of Lend live: the session holds it and its user has it now. Needs credentials; never throws.
   */
  readonly asset: (
    token: string | null | undefined,
    wanted: { readonly permission: string; readonly resource: string },
  ) => Promise<Verdict>
  /**
   * Which rows and fields of an entity the session shows, asked of Lend live. Without a grant there are no parts, and so no rows.
   * Needs credentials; never throws.
   */
  readonly data: (
    token: string | null | undefined,
    wanted: { readonly entity: string; readonly action: 'read' | 'write' | 'admin' },
  ) => Promise<DataVerdict>
  /**
   * Queues the record of a call; it is sent in the background. Throws if there are no credentials
   * to send it with.
   */
  readonly report: (call: Call) => void
  /** Sends what is queued. */
  readonly flush: () => Promise<void>
  /** Begins to follow, where it is to, and says whether it has caught up within a few seconds. Without `follow`, true. */
  readonly ready: () => Promise<boolean>
  /** Sends what it can and stops. */
  readonly close: () => Promise<void>
  /** Records of calls that were dropped and not yet told of. */
  readonly lost: () => number
}

const TOKEN_CHARACTERS_MAX = 64 * 1024

const STATUS = {
  granted: 200,
  token_missing: 401,
  token_invalid: 401,
  token_expired: 401,
  session_over: 401,
  resource_invalid: 403,
  not_granted: 403,
  read_only: 403,
  narrowed: 403,
  unavailable: 503,
} as const satisfies Record<Verdict['reason'], Verdict['status']>

/** Narrows a list of held grants to those that allow what is wanted, or says what is missing. */
function allowing(
  grants: readonly HeldGrant[],
  wanted: Wanted,
  resource: string | undefined,
): { readonly grants: readonly HeldGrant[] } | { readonly denied: Denial } {
  const held = grants.filter(
    (grant) => grant.permission === wanted.permission && patternCovers(grant.identifier, resource),
  )
  if (held.length === 0) return { denied: 'not_granted' }
  const writable = wanted.writes ? held.filter((grant) => grant.read_only !== true) : held
  if (writable.length === 0) return { denied: 'read_only' }
  const usable = wanted.narrows ? writable : writable.filter((grant) => grant.narrow === undefined)
  return usable.length === 0 ? { denied: 'narrowed' } : { grants: usable }
}

const NO_REPORTER: Reporter = {
  report: () => {
    throw new Error('lend/enforce: report() needs the credentials of an enforcement point')
  },
  flush: async () => {},
  close: async () => {},
  lost: () => 0,
  queued: () => 0,
}

/** What is known of the token decides how much a refusal says. */
const verdictOn =
  (ask: Verdict['ask']) =>
  (
    reason: Verdict['reason'],
    facts: TokenFacts | null,
    grants: readonly HeldGrant[] = [],
  ): Verdict => ({
    allowed: reason === 'granted',
    reason,
    status: STATUS[reason],
    session: facts?.session ?? null,
    agent: facts?.agent ?? null,
    user: facts?.user ?? null,
    grant: grants[0] ?? null,
    grants,
    ask,
  })

function followerOf(
  { issuer, introspect, follow }: EnforcerOptions,
  on: { readonly fetch: typeof globalThis.fetch; readonly now: () => number },
) {
  if (follow === undefined) return null
  if (introspect === undefined)
    throw new Error('lend/enforce: follow needs the credentials of an enforcement point')
  return createFollower({ ...follow, issuer, credentials: introspect, ...on })
}

/**
 * Makes the enforcer of one resource server for one tenant. It holds its keys and its queue: make
 * one and keep it.
 */
export function createEnforcer(options: EnforcerOptions): Enforcer {
  const { issuer, introspect, fetch = globalThis.fetch, now = Date.now } = options
  const lend = connect({ ...options, fetch, now })

  const follower = followerOf(options, { fetch, now })
  const takesServices = options.serviceAccounts === true
  if (takesServices && introspect === undefined)
    throw new Error('lend/enforce: serviceAccounts needs the credentials of an enforcement point')

  const live = asking({ issuer, credentials: introspect, fetch })

  async function factsOf(token: string | null | undefined): Promise<Read> {
    if (token === null || token === undefined || token === '') return { denied: 'token_missing' }
    return token.length > TOKEN_CHARACTERS_MAX ? { denied: 'token_invalid' } : lend.offline(token)
  }

  const asset: Enforcer['asset'] = async (token, { permission, resource: given }) => {
    const canonical = canonicalResource(given)
    const resource = canonical.ok ? canonical.value : given
    const verdict = verdictOn({ permission, resource })
    const read = await factsOf(token)
    if ('denied' in read) return verdict(read.denied, null)
    if (!canonical.ok || resource.endsWith('/*')) return verdict('resource_invalid', read.facts)
    const said = await live.asset(token ?? '', read.facts, { permission, resource })
    return 'denied' in said
      ? { ...verdict(said.denied, read.facts), askable: said.askable }
      : verdict('granted', read.facts, [said.grant])
  }

  const data: Enforcer['data'] = async (token, wanted) => {
    const answer = (
      reason: Verdict['reason'],
      facts: TokenFacts | null,
      more: Partial<DataVerdict> = {},
    ): DataVerdict => ({
      allowed: reason === 'granted',
      reason,
      status: STATUS[reason],
      session: facts?.session ?? null,
      agent: facts?.agent ?? null,
      user: facts?.user ?? null,
      parts: [],
      masked: [],
      blocked: [],
      ask: [],
      ...more,
    })
    const read = await factsOf(token)
    if ('denied' in read) return answer(read.denied, null)
    const said = await live.data(token ?? '', read.facts, wanted)
    return 'denied' in said
      ? answer(said.denied, read.facts, { ask: said.ask })
      : answer('granted', read.facts, said.shown)
  }

  /** What is no session's token may be a service account's. It holds what takes no object, and may write what it holds. */
  async function checkService(
    token: string,
    { permission, resource }: Wanted,
    verdict: ReturnType<typeof verdictOn>,
  ): Promise<Verdict> {
    const read = await lend.service(token)
    if ('denied' in read) return verdict(read.denied, null)
    const { service, permissions } = read.facts
    const holds = resource === undefined && permissions.has(permission)
    return { ...verdict(holds ? 'granted' : 'not_granted', null), askable: false, service }
  }

  async function check(token: string | null | undefined, wanted: Wanted): Promise<Verdict> {
    const { permission } = wanted
    const canonical = wanted.resource === undefined ? undefined : canonicalResource(wanted.resource)
    const resource = canonical?.ok ? canonical.value : wanted.resource
    const verdict = verdictOn({ permission, ...(resource === undefined ? {} : { resource }) })
    const read = await factsOf(token)
    if ('denied' in read) {
      const service = takesServices && read.denied === 'token_invalid'
      return service ? checkService(token ?? '', wanted, verdict) : verdict(read.denied, null)
    }
    if (canonical?.ok === false) return verdict('resource_invalid', read.facts)
    const current =
      follower === null
        ? await lend.live(token ?? '', read.facts)
        : await follower.standing(read.facts)
    if ('denied' in current) return verdict(current.denied, read.facts)
    const found = allowing(current.facts.grants, wanted, resource)
    return 'denied' in found
      ? verdict(found.denied, current.facts)
      : verdict('granted', current.facts, found.grants)
  }

  const reporter =
    introspect === undefined
      ? NO_REPORTER
      : createReporter({
          url: `${issuer}/enforce/calls`,
          authorization: basic(introspect),
          fetch,
          now,
        })
  return {
    reports: introspect !== undefined,
    check,
    asset,
    data,
    report: reporter.report,
    flush: reporter.flush,
    ready: async () => follower === null || (await follower.warm()),
    close: async () => {
      follower?.close()
      await reporter.close()
    },
    lost: reporter.lost,
  }
}

/** A tenant's slug from its issuer, as in `https://lend.example/t/acme`. */
export { tenantOf }
