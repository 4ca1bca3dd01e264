import { afterAll, beforeAll, describe } from 'vitest'
import type { AgentCaller, AppCaller, TenantRef, UserCaller } from '../../../src/callers.ts'
import type {
  AgentId,
  GrantId,
  Mode,
  RequestId,
  SessionId,
  TenantId,
  UserId,
} from '../../../src/core/vocabulary.ts'
import { type Db, withTx } from '../../../src/db/tx.ts'
import type { Result } from '../../../src/fault.ts'
import { answerPromptTx } from '../../../src/flows/answer-prompt.ts'
import type { RawItem } from '../../../src/flows/items.ts'
import { createSession } from '../../../src/flows/people-sessions.ts'
import { requestAccess } from '../../../src/flows/request-access.ts'
import { startByExchange } from '../../../src/flows/start-by-exchange.ts'
import { systemIds } from '../../../src/ids.ts'
import type { Ctx } from '../../../src/ports.ts'
import { openPostgres, type Run, runOn, seedDatabase } from '../../support/databases.ts'
import { postgresIsLeftOut, scratchDatabase } from '../../support/postgres.ts'
import { EPOCH, type Login, PEOPLE, TENANT_IDS, type TenantSlug } from '../../support/world-seed.ts'

/**
 * Two instances of the server on one Postgres: each with connections of its own and nothing in common but the database
 * and the time. Races between them are races between processes.
 */
export type Pair = {
  readonly a: Ctx
  readonly b: Ctx
  /** A third connection, for looking on and for holding others up. */
  readonly run: Run
  /** Keeps what a statement locks while `body` runs. */
  readonly held: (sql: string, body: () => Promise<void>) => Promise<void>
  /** Resolves when this many statements of others wait for a lock. */
  readonly waiting: (count: number) => Promise<void>
  readonly advance: (seconds: number) => void
}

type Opened = Pair & { close: () => Promise<void> }

async function openPair(): Promise<Opened> {
  const { url, drop } = await scratchDatabase()
  const dbs = [openPostgres(url), openPostgres(url), openPostgres(url, 3)] as const
  const [first, second, onlooker] = dbs
  await seedDatabase(onlooker)
  let now = Date.parse(EPOCH)
  const instance = (db: Db): Ctx => ({
    db,
    clock: { now: () => now },
    ids: systemIds,
    notify: { kick: () => {}, subscribe: () => () => {} },
    publicUrl: 'http://localhost:4000',
  })
  const run = runOn(onlooker)
  return {
    a: instance(first),
    b: instance(second),
    run,
    held: (sql, body) =>
      onlooker.begin('hold', async (tx) => {
        await tx.sql(Object.assign([sql], { raw: [sql] }))
        await body()
      }),
    waiting: async (count) => {
      for (let tries = 0; tries < 500; tries++) {
        const [row] = await run<{ waiting: number }>(
          `select count(*)::integer as waiting from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock'`,
        )
        if ((row?.waiting ?? 0) >= count) return
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      throw new Error(`never were ${count} statements waiting`)
    },
    advance: (seconds) => {
      now += seconds * 1000
    },
    close: async () => {
      for (const db of dbs) await db.close()
      await drop()
    },
  }
}

/** A suite on two instances. `body` is given a function, to be called inside a test, that answers them. */
export function twoInstances(name: string, body: (pair: () => Pair) => void): void {
  const title = `${name}, from two instances`
  describe.skipIf(postgresIsLeftOut)(
    postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
    () => {
      let opened: Opened | undefined
      beforeAll(async () => {
        opened = await openPair()
      })
      afterAll(() => opened?.close())
      body(() => {
        if (opened === undefined) throw new Error('the instances are up only inside tests')
        return opened
      })
    },
  )
}

export const ACME: TenantRef = { id: TENANT_IDS.acme as TenantId, slug: 'acme' }
export const BRIEFS: AppCaller = { as: 'app', tenant: ACME, agentId: 'agt_briefs' as AgentId }

/** One of the world's people, in the tenant that is theirs. */
export const person = (login: Login): UserCaller => {
  const one: { tenant: TenantSlug; staff?: readonly string[] } = PEOPLE[login]
  return {
    as: 'user',
    tenant: { id: TENANT_IDS[one.tenant] as TenantId, slug: one.tenant },
    userId: `usr_${login}` as UserId,
    login,
    name: login,
    staffRoles: one.staff ?? [],
    clientId: 'people',
  }
}

/** A session that its user created; nobody has claimed it. */
export async function start(
  ctx: Ctx,
  how: { login?: 'maya' | 'omar'; mode?: Mode; template?: string } = {},
): Promise<SessionId> {
  const { login = 'maya', mode = 'ask', template = 'renewal-briefs' } = how
  const input = { agentId: BRIEFS.agentId, template, mode }
  return must(await inTx(ctx, (tx) => createSession(ctx, tx, person(login), input))).id
}

/** A session that the agent's app started, with its refresh token. */
export async function exchange(ctx: Ctx, more: { sessionId?: string } = {}) {
  const who = { issuer: 'https://idp.acme.example', subject: 'maya', createsUsers: false }
  return startByExchange(ctx, BRIEFS, {
    person: who,
    template: 'renewal-briefs',
    task: undefined,
    resource: undefined,
    sessionId: more.sessionId,
  })
}

type Body<T> = Parameters<typeof withTx<T>>[2]
export const inTx = <T>(ctx: Ctx, body: Body<T>): Promise<T> => withTx(ctx.db, 'test', body)

export function must<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(`a fault: ${JSON.stringify(result.fault)}`)
  return result.value
}

/** `ok`, or the code of the fault. */
export const codeOf = (result: Result<unknown>): string => (result.ok ? 'ok' : result.fault.code)

/** A caller with a live control token of this session, as it stands now. */
export async function asAgent(run: Run, session: SessionId): Promise<AgentCaller> {
  const [row] = await run<{ user: UserId; root: SessionId; version: number; carries: GrantId[] }>(
    `select s.user_id as "user", s.root_id as root, s.version,
       (select coalesce(jsonb_agg(g.id), '[]') from access_grant g where g.session_id = s.id) as carries
     from session s where s.id = $1`,
    [session],
  )
  if (row === undefined) throw new Error(`no session ${session}`)
  return {
    as: 'agent',
    tenant: ACME,
    agentId: BRIEFS.agentId,
    userId: row.user,
    sessionId: session,
    rootId: row.root,
    sessionVersion: row.version,
    carries: row.carries,
    omits: 0,
  }
}

export const ask = (ctx: Ctx, caller: AgentCaller, items: readonly RawItem[]) =>
  requestAccess(ctx, caller, { items, reason: 'to write the brief' })

/** Asks, and says what was asked and how to answer it. */
export async function asked(ctx: Ctx, run: Run, session: SessionId, items: readonly RawItem[]) {
  const { requestId } = must(await ask(ctx, await asAgent(run, session), items))
  if (requestId === undefined) throw new Error('nothing was asked')
  const [row] = await run<{ digest: string; items: string[] }>(
    `select q.digest, (select jsonb_agg(i.id order by i.position) from request_item i
       where i.request_id = q.id and i.outcome = 'pending') as items
     from access_request q where q.id = $1`,
    [requestId],
  )
  return { requestId, digest: row?.digest ?? '', items: row?.items ?? [] }
}

export type Asked = Awaited<ReturnType<typeof asked>>
type Answer = 'allow_once' | 'allow_always' | 'deny' | 'deny_always'

export const answer = (ctx: Ctx, of: Asked, decision: Answer, login: 'maya' | 'omar' = 'maya') =>
  answerPromptTx(ctx, person(login), {
    requestId: of.requestId as RequestId,
    digest: of.digest,
    items: of.items.map((id) => ({ id, decision })),
  })

/** As many different items as needed: rows of accounts, each narrower than the last. */
export const narrowed = (n: number): RawItem => ({
  permission: 'accounts.rows:my_region',
  narrow: { renewal_in_days: { $lt: n } },
})

/** Lets these reach one lock in this order: each is queued behind the one before when the lock is let go. */
export async function inOrder<T>(
  { held, waiting }: Pair,
  lock: string,
  calls: readonly (() => Promise<T>)[],
): Promise<readonly T[]> {
  const results: Promise<T>[] = []
  await held(lock, async () => {
    for (const call of calls) {
      results.push(call())
      await waiting(results.length)
    }
  })
  return Promise.all(results)
}

export const lockOf = (session: SessionId): string =>
  `select id from session where id = '${session}' for update`

export const both = <T>(first: Promise<T>, second: Promise<T>) => Promise.all([first, second])

export const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))
