import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { migrate } from 'drizzle-orm/pglite/migrator'
import type { AgentCaller, TenantRef, UserCaller } from '../../src/callers.ts'
import type {
  AgentId,
  GrantId,
  Mode,
  SessionId,
  TenantId,
  UserId,
} from '../../src/core/vocabulary.ts'
import { Journal } from '../../src/db/activity.ts'
import { embeddedDb, withTx } from '../../src/db/tx.ts'
import type { RawItem } from '../../src/flows/items.ts'
import { requestAccess } from '../../src/flows/request-access.ts'
import { startRoot } from '../../src/flows/start-session.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import { type Ctx, ID_PREFIXES } from '../../src/ports.ts'
import { openVault } from '../../src/vault.ts'
import {
  AGENTS,
  EPOCH,
  type Login,
  PEOPLE,
  seed,
  TENANT_IDS,
  type TenantSlug,
} from './world-seed.ts'

/**
 * A small world on an embedded Postgres of its own: the demo's people, catalog and templates, with a clock that only tests
 * move and ids that count. Everything runs through the real flows and the real schema.
 */
export type World = {
  readonly ctx: Ctx
  readonly pg: PGlite
  readonly clock: {
    readonly now: () => number
    readonly advance: (seconds: number) => void
  }
  /** How often a flow has woken those who wait. */
  readonly kicks: () => number
  readonly tenant: (slug: TenantSlug) => TenantRef
  readonly asUser: (login: Login) => UserCaller
  /** A caller with a live control token of this session, as it stands now. */
  readonly asAgent: (session: SessionId) => Promise<AgentCaller>
  /** Starts a root session of one of the tenant's people, as the token endpoint or the People API would. */
  readonly start: (login: Login, how?: Partial<StartHow>) => Promise<SessionId>
  /** What `iam.request_access` answers; throws on a fault. */
  readonly ask: (
    session: SessionId,
    items: readonly RawItem[],
    reason?: string,
  ) => Promise<Awaited<ReturnType<typeof requestAccess>> & { ok: true }>
  /** Starts a child, by default an `email-drafter`; throws on a fault. */
  readonly subagent: (
    parent: SessionId,
    how?: { readonly readOnly?: boolean },
  ) => Promise<SessionId>
  readonly rows: <T>(sql: string, params?: readonly unknown[]) => Promise<T[]>
  /** Gives the database back, for the next world of this file. */
  readonly close: () => Promise<void>
}

type StartHow = {
  readonly template: string
  readonly mode: Mode
  readonly modeExpiresAt: number
  readonly by: 'user' | 'exchange'
}

const tenantRef = (slug: TenantSlug): TenantRef => ({ id: TENANT_IDS[slug] as TenantId, slug })

function countingIds(): Ctx['ids'] {
  let count = 0
  return {
    id: <Brand extends string>(of: keyof typeof ID_PREFIXES) =>
      `${ID_PREFIXES[of]}_${(++count).toString(16).padStart(32, '0')}` as Brand,
    secret: () => `secret-${++count}`,
  }
}

function notifying() {
  const waiting = new Set<() => void>()
  let kicks = 0
  return {
    kicks: () => kicks,
    notify: {
      kick: () => {
        kicks++
        for (const woken of [...waiting]) woken()
      },
      subscribe: (woken: () => void) => {
        waiting.add(woken)
        return () => void waiting.delete(woken)
      },
    },
  }
}

const idle: PGlite[] = []

/** A migrated database with the seed and nothing else: an idle one emptied, since starting one takes a second. */
async function freshDatabase(): Promise<PGlite> {
  const used = idle.pop()
  const pg = used ?? (await PGlite.create())
  if (used === undefined) await migrate(drizzle(pg), { migrationsFolder: 'drizzle' })
  else {
    const { rows } = await pg.query<{ name: string }>(
      `select quote_ident(tablename) as name from pg_tables
       where schemaname = 'public' and tablename <> 'session_transition'`,
    )
    // The record refuses to be emptied; as a replica its triggers do not fire.
    await pg.exec(`set session_replication_role = replica;
      truncate ${rows.map((row) => row.name).join(', ')};
      set session_replication_role = origin`)
  }
  await seed(pg)
  return pg
}

function userCaller(login: Login): UserCaller {
  const person: { tenant: TenantSlug; name: string; staff?: readonly string[] } = PEOPLE[login]
  return {
    as: 'user',
    tenant: tenantRef(person.tenant),
    userId: `usr_${login}` as UserId,
    login,
    name: person.name,
    staffRoles: person.staff ?? [],
    clientId: 'people',
  }
}

async function agentCaller(pg: PGlite, session: SessionId): Promise<AgentCaller> {
  const { rows } = await pg.query<{
    slug: TenantSlug
    agent: AgentId
    user: UserId
    root: SessionId
    version: number
    carries: GrantId[]
  }>(
    `select t.slug, s.agent_id as agent, s.user_id as "user", s.root_id as root, s.version,
       (select coalesce(jsonb_agg(g.id), '[]') from access_grant g where g.session_id = s.id) as carries
     from session s join tenant t on t.id = s.tenant_id where s.id = $1`,
    [session],
  )
  const [row] = rows
  if (row === undefined) throw new Error(`no session ${session}`)
  return {
    as: 'agent',
    tenant: tenantRef(row.slug),
    agentId: row.agent,
    userId: row.user,
    sessionId: session,
    rootId: row.root,
    sessionVersion: row.version,
    carries: row.carries,
    omits: 0,
  }
}

async function startFor(ctx: Ctx, caller: UserCaller, how: Partial<StartHow>): Promise<SessionId> {
  const { slug } = caller.tenant
  const agentId = (slug === 'globex' ? AGENTS.globex.id : AGENTS.briefs.id) as AgentId
  return withTx(ctx.db, 'test_start', async (tx) => {
    const journal = new Journal(ctx, caller.tenant.id)
    const of = {
      who: { userId: caller.userId },
      agentId,
      template: how.template ?? 'renewal-briefs',
      mode: how.mode ?? 'ask',
      modeExpiresAt: how.modeExpiresAt,
      by: how.by ?? 'user',
    } as const
    const started = await startRoot(ctx, tx, caller.tenant, of, journal)
    if (!started.ok) throw new Error(`start: ${JSON.stringify(started.fault)}`)
    await journal.write(tx)
    return started.value.id
  })
}

/** A new world; close it when done. */
export async function createWorld(): Promise<World> {
  const pg = await freshDatabase()
  let now = Date.parse(EPOCH)
  const clock = {
    now: () => now,
    advance: (seconds: number) => {
      now += seconds * 1000
    },
  }
  const { kicks, notify } = notifying()
  const ctx: Ctx = {
    db: embeddedDb(pg),
    clock,
    ids: countingIds(),
    notify,
    publicUrl: 'http://localhost:4000',
    vault: openVault({ secretKeys: null, dataDir: null, databaseUrl: null }),
  }
  return {
    ctx,
    pg,
    clock,
    kicks,
    tenant: tenantRef,
    asUser: userCaller,
    asAgent: (session) => agentCaller(pg, session),
    start: (login, how = {}) => startFor(ctx, userCaller(login), how),
    ask: async (session, items, reason = 'to write the brief') => {
      const result = await requestAccess(ctx, await agentCaller(pg, session), { items, reason })
      if (!result.ok) throw new Error(`ask: ${JSON.stringify(result.fault)}`)
      return result
    },
    subagent: async (parent, how = {}) => {
      const input = { template: 'email-drafter', readOnly: how.readOnly ?? false }
      const started = await startSubagent(ctx, await agentCaller(pg, parent), input)
      if (!started.ok) throw new Error(`subagent: ${JSON.stringify(started.fault)}`)
      return started.value.id
    },
    rows: async <T>(sql: string, params: readonly unknown[] = []) =>
      (await pg.query<T>(sql, [...params])).rows,
    close: async () => void idle.push(pg),
  }
}
