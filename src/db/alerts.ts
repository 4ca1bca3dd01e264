import { json, type Tx } from './tx.ts'

/** What one instance says of itself. */
export type InstanceSays = {
  readonly feed: boolean
  /** When it last lost a call record, in seconds; null: never. */
  readonly lostAt: number | null
  /** Issuers of identity providers that did not answer it when they were last asked. */
  readonly unreachable: readonly string[]
}
export type Report = InstanceSays & { readonly instance: string }

/** Says what this instance has to say, and hears what the others said within `freshSeconds`, by name. */
export async function exchangeReports(
  tx: Tx,
  of: {
    readonly instance: string
    readonly says: InstanceSays
    readonly now: number
    readonly freshSeconds: number
  },
): Promise<readonly Report[]> {
  await tx.sql`
    insert into instance_report (instance, at, said)
    values (${of.instance}, to_timestamp(${of.now}::float8), ${json(of.says)}::text::jsonb)
    on conflict (instance) do update set at = excluded.at, said = excluded.said`
  await tx.sql`
    delete from instance_report where at < to_timestamp(${of.now - 86_400}::float8)`
  const rows = await tx.sql<{ instance: string; said: InstanceSays }>`
    select instance, said from instance_report
    where at > to_timestamp(${of.now - of.freshSeconds}::float8) order by instance`
  return rows.map(({ instance, said }) => ({ instance, ...said }))
}

/** Which tenants trust one of these issuers. */
export async function tenantsTrusting(
  tx: Tx,
  issuers: readonly string[],
): Promise<readonly string[]> {
  if (issuers.length === 0) return []
  const rows = await tx.sql<{ slug: string }>`
    select distinct t.slug from identity_provider p join tenant t on t.id = p.tenant_id
    where p.issuer = any(${issuers}::text[]) order by t.slug`
  return rows.map(({ slug }) => slug)
}

/** Whether records wait for a checkpoint whose last is older than `seconds`. */
export async function checkpointIsLate(
  tx: Tx,
  of: { readonly now: number; readonly seconds: number },
): Promise<boolean> {
  const [row] = await tx.sql<{ late: boolean }>`
    with last as (select max(at) as at from activity_checkpoint),
      newest as (select at from activity order by n desc limit 1)
    select newest.at > coalesce(last.at, '-infinity'::timestamptz)
      and coalesce(last.at, newest.at) < to_timestamp(${of.now - of.seconds}::float8) as late
    from last, newest`
  return row?.late ?? false
}

export type Change = { readonly name: string; readonly failing: boolean; readonly changes: number }

/** A state has changed since it was last told of: true for one of those who say so at once, and for none where it has not. */
export async function changeState(
  tx: Tx,
  of: { readonly name: string; readonly failing: boolean; readonly now: number },
): Promise<boolean> {
  // What has never failed has nothing to tell.
  const rows = of.failing
    ? await tx.sql`
        insert into alert_state (name, failing, changes, changed_at)
        values (${of.name}, true, 1, to_timestamp(${of.now}::float8))
        on conflict (name) do update set failing = true, changes = alert_state.changes + 1,
          changed_at = excluded.changed_at, told = false, tries = 0, tried_at = null
        where not alert_state.failing returning 1`
    : await tx.sql`
        update alert_state set failing = false, changes = changes + 1,
          changed_at = to_timestamp(${of.now}::float8), told = false, tries = 0, tried_at = null
        where name = ${of.name} and failing returning 1`
  return rows.length > 0
}

/** What fails now, as it was last told. */
export const failingStates = async (tx: Tx): Promise<readonly string[]> =>
  (await tx.sql<{ name: string }>`select name from alert_state where failing`).map(
    ({ name }) => name,
  )

/** Changes that have to be told, each taken for one try by one instance. Tries are further and further apart, and end. */
export const takeUntold = (
  tx: Tx,
  of: { readonly now: number; readonly triesMax: number; readonly againSeconds: number },
): Promise<readonly (Change & { readonly changedAt: number })[]> => tx.sql`
  update alert_state set tries = tries + 1, tried_at = to_timestamp(${of.now}::float8)
  where name in (
    select name from alert_state
    where not told and tries < ${of.triesMax}
      and (tried_at is null
        or tried_at <= to_timestamp(${of.now}::float8 - ${of.againSeconds}::float8 * power(2, tries - 1)))
    for update skip locked)
  returning name, failing, changes, extract(epoch from changed_at)::float8 as "changedAt"`

export const markTold = async (tx: Tx, of: Pick<Change, 'name' | 'changes'>): Promise<void> => {
  await tx.sql`update alert_state set told = true where name = ${of.name} and changes = ${of.changes}`
}
