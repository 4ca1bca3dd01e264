import { and, asc, desc, eq, gte, inArray, lte, notInArray, type SQL, sql } from 'drizzle-orm'
import type { ActivityRecord, ActivityType, ChainHead } from '../core/activity.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { activity, activityPermission } from './tables.ts'
import type { Tx } from './tx.ts'

/** What a reader asks for. One filter for the list and the export, so that the two cannot differ. Times in seconds. */
export type ActivityFilter = {
  readonly session?: string | undefined
  readonly root?: string | undefined
  readonly user?: string | undefined
  readonly agent?: string | undefined
  /** A name, for any version, or `name@version`. */
  readonly template?: string | undefined
  readonly permission?: string | undefined
  /** Any one of these. */
  readonly type?: readonly ActivityType[] | undefined
  /** Inclusive. */
  readonly from?: number | undefined
  /** Exclusive. */
  readonly to?: number | undefined
}

/** A record with its place in the table, by which lists are cut. Decimal text. */
export type Placed = { readonly n: string; readonly record: ActivityRecord }

const iso = sql<string>`to_char(${activity.at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const columns = {
  n: sql<string>`${activity.n}::text`,
  id: activity.id,
  tenant_id: activity.tenantId,
  seq: activity.seq,
  at: iso,
  type: activity.type,
  agent_id: activity.agentId,
  user_id: activity.userId,
  session_id: activity.sessionId,
  root_session_id: activity.rootSessionId,
  template: activity.template,
  data: activity.data,
  prev_hash: activity.prevHash,
  hash: activity.hash,
}

type Row = { readonly [Name in Exclude<keyof ActivityRecord, 'data' | 'type'>]?: unknown } & {
  readonly type: string
  readonly data: unknown
}

/** The record as it was hashed: what is null in the table was absent. */
function recordOf(row: Row): ActivityRecord {
  const members = Object.entries(row).filter(([, value]) => value !== null)
  return Object.fromEntries(members) as unknown as ActivityRecord
}

const placed = ({ n, ...row }: Row & { readonly n: string }): Placed => ({
  n,
  record: recordOf(row),
})

/** `onlyUser`: whose records alone the reader may see. */
type Scope = { readonly tenantId: TenantId; readonly onlyUser: string | null }

/** How far two instances' clocks may be apart, a record's transaction included. Seconds. */
const SKEW_MAX = 300

/**
 * Records are placed in the order in which they were written, and times follow that order up to the skew of clocks. So a time
 * is looked up once and becomes a place, and a page of last January costs what a page of today does.
 */
const placeBefore = (seconds: number): SQL => sql`coalesce((select b.n from activity b
  where b.at < to_timestamp(${seconds - SKEW_MAX}::float8) order by b.at desc limit 1), 0)`
const placeAfter = (seconds: number): SQL => sql`coalesce((select b.n from activity b
  where b.at >= to_timestamp(${seconds + SKEW_MAX}::float8) order by b.at limit 1), 9223372036854775807)`

function timeConditions({ from, to }: ActivityFilter): (SQL | undefined)[] {
  return [
    from === undefined
      ? undefined
      : sql`${activity.at} >= to_timestamp(${from}::float8) and ${activity.n} > ${placeBefore(from)}`,
    to === undefined
      ? undefined
      : sql`${activity.at} < to_timestamp(${to}::float8) and ${activity.n} < ${placeAfter(to)}`,
  ]
}

/** Records in one order, cut to those that name a permission when one is asked for. */
function recordsOf(tx: Tx, scope: Scope, { permission }: ActivityFilter) {
  const records = tx.orm.select(columns).from(activity).$dynamic()
  if (permission === undefined) return records
  return records.innerJoin(
    activityPermission,
    and(
      eq(activityPermission.tenantId, scope.tenantId),
      eq(activityPermission.permission, permission),
      eq(activityPermission.n, activity.n),
      // So that each is looked for in its own month alone. Not as an equality: with one more, Postgres guesses that hardly
      // any record has both, and reads all of them instead of a page.
      gte(activity.at, activityPermission.at),
      lte(activity.at, activityPermission.at),
    ),
  )
}

function conditions(scope: Scope, filter: ActivityFilter): (SQL | undefined)[] {
  const { template, type } = filter
  return [
    eq(activity.tenantId, scope.tenantId),
    scope.onlyUser === null ? undefined : eq(activity.userId, scope.onlyUser),
    // A session's records are the chain of its name.
    filter.session === undefined
      ? undefined
      : and(eq(activity.chain, filter.session), eq(activity.sessionId, filter.session)),
    filter.root === undefined ? undefined : eq(activity.rootSessionId, filter.root),
    filter.user === undefined ? undefined : eq(activity.userId, filter.user),
    filter.agent === undefined ? undefined : eq(activity.agentId, filter.agent),
    type === undefined ? undefined : inArray(activity.type, [...type]),
    template === undefined
      ? undefined
      : sql`split_part(${activity.template}, '@', 1) = ${template.split('@')[0]}`,
    template?.includes('@') ? eq(activity.template, template) : undefined,
    ...timeConditions(filter),
  ]
}

type PageOf = Scope & {
  readonly filter: ActivityFilter
  readonly before: string | null
  readonly limit: number
}

/** The statement of one page, newest first, before a place. */
export function activityPage(tx: Tx, of: PageOf) {
  const before = of.before === null ? undefined : sql`${activity.n} < ${of.before}::text::bigint`
  return recordsOf(tx, of, of.filter)
    .where(and(...conditions(of, of.filter), before))
    .orderBy(desc(activity.n))
    .limit(of.limit)
}

export const selectActivity = async (tx: Tx, of: PageOf): Promise<readonly Placed[]> =>
  (await activityPage(tx, of)).map(placed)

/** One record by its id, or null when the scope has none. */
export async function selectRecord(
  tx: Tx,
  of: Scope & { readonly id: string },
): Promise<ActivityRecord | null> {
  const rows = await tx.orm
    .select(columns)
    .from(activity)
    .where(and(...conditions(of, {}), eq(activity.id, of.id)))
  const [row] = rows.map(placed)
  return row?.record ?? null
}

/** The records of one tree but its calls and tokens, oldest first. */
export async function selectTreeRecords(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly root: string; readonly limit: number },
): Promise<readonly ActivityRecord[]> {
  const counted = ['call.allowed', 'call.denied', 'token.issued', 'token.refused']
  const rows = await tx.orm
    .select(columns)
    .from(activity)
    .where(
      and(
        eq(activity.tenantId, of.tenantId),
        eq(activity.rootSessionId, of.root),
        notInArray(activity.type, counted),
      ),
    )
    .orderBy(asc(activity.n))
    .limit(of.limit)
  return rows.map((row) => placed(row).record)
}

/** What is committed now, to read the same set of records again and again while others go on writing. */
export async function activitySnapshot(tx: Tx): Promise<string> {
  const [row] = await tx.sql<{ snapshot: string }>`select pg_current_snapshot()::text as snapshot`
  return row?.snapshot ?? ''
}

/** One page of an export, oldest first: only what a snapshot shows, so no chain has a gap that is not there. */
export async function selectActivityAt(
  tx: Tx,
  of: Scope & {
    readonly filter: ActivityFilter
    readonly snapshot: string
    readonly after: string
    readonly limit: number
  },
): Promise<readonly Placed[]> {
  const rows = await recordsOf(tx, of, of.filter)
    .where(
      and(
        ...conditions(of, of.filter),
        sql`${activity.n} > ${of.after}::text::bigint`,
        sql`pg_visible_in_snapshot(${activity.xid}, ${of.snapshot}::text::pg_snapshot)`,
      ),
    )
    .orderBy(asc(activity.n))
    .limit(of.limit)
  return rows.map(placed)
}

export type ChainRow = {
  readonly chain: string
  /** Since when there is such a chain, in seconds. */
  readonly since: number
  readonly head: ChainHead
  /** Null: the chain has no (further) record. */
  readonly record: ActivityRecord | null
}

/** Where to go on: past a chain, or within it after one of its records. */
export type ChainPlace = { readonly chain: string; readonly seq: number; readonly within: boolean }
type ChainSql = Row & {
  chain: string
  since: number
  headSeq: number
  headHash: string
  id: string | null
}

const chainRow = ({ chain, since, headSeq, headHash, ...row }: ChainSql): ChainRow => ({
  chain,
  since,
  head: { seq: headSeq, hash: headHash },
  record: row.id === null ? null : recordOf(row),
})

/**
 * Records of a tenant's sessions, chain by chain, each with the head of its chain as of the same moment: one statement, so
 * that a chain which grows meanwhile is not mistaken for a broken one. `chains` bounds how many are begun on.
 */
export async function selectSessionChains(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly session: string | null
    readonly after: ChainPlace
    readonly chains: number
    readonly limit: number
  },
): Promise<readonly ChainRow[]> {
  const rows = await tx.sql<ChainSql>`
    with c as (
      select id as chain, chain_seq, chain_hash, created_at from session
      where tenant_id = ${of.tenantId}
        and (id > ${of.after.chain} or (${of.after.within}::boolean and id = ${of.after.chain}))
        and (${of.session}::text is null or id = ${of.session})
      order by id limit ${of.chains})
    select c.chain, extract(epoch from c.created_at)::float8 as since, c.chain_seq as "headSeq", c.chain_hash as "headHash", a.id, a.tenant_id, a.seq,
      to_char(a.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, a.type, a.agent_id,
      a.user_id, a.session_id, a.root_session_id, a.template, a.data, a.prev_hash, a.hash
    from c left join activity a
      on a.chain = c.chain and (c.chain <> ${of.after.chain} or a.seq > ${of.after.seq})
    order by c.chain, a.seq limit ${of.limit}`
  return rows.map(chainRow)
}

/** The same of the tenant's own chain. */
export async function selectTenantChain(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly afterSeq: number; readonly limit: number },
): Promise<readonly ChainRow[]> {
  const rows = await tx.sql<ChainSql>`
    select c.tenant_id as chain, extract(epoch from t.created_at)::float8 as since, c.seq as "headSeq", c.hash as "headHash", a.id, a.tenant_id, a.seq,
      to_char(a.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, a.type, a.agent_id,
      a.user_id, a.session_id, a.root_session_id, a.template, a.data, a.prev_hash, a.hash
    from tenant_chain c join tenant t on t.id = c.tenant_id
    left join activity a on a.chain = c.tenant_id and a.seq > ${of.afterSeq}
    where c.tenant_id = ${of.tenantId}
    order by a.seq limit ${of.limit}`
  return rows.map(chainRow)
}

/** Records whose chain is neither a session nor the tenant: what is left when a session's row was removed. */
export const selectOrphans = (
  tx: Tx,
  tenantId: TenantId,
  limit: number,
): Promise<readonly { readonly chain: string; readonly seq: number; readonly id: string }[]> =>
  tx.sql<{ chain: string; seq: number; id: string }>`
    select a.chain, a.seq, a.id from activity a
    where a.tenant_id = ${tenantId} and a.chain <> a.tenant_id
      and not exists (select from session s where s.id = a.chain and s.tenant_id = a.tenant_id)
    order by a.chain, a.seq limit ${limit}`
