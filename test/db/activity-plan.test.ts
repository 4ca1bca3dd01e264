import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TenantId } from '../../src/core/vocabulary.ts'
import { type ActivityFilter, activityPage } from '../../src/db/activity-read.ts'
import { type Db, withTx } from '../../src/db/tx.ts'
import { openPostgres, seedDatabase } from '../support/databases.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'

/**
 * The explorer over a million records on a Postgres server. What a page of each filter reads is asserted by plan and by
 * blocks, never by time. Half of the records are Maya's; a permission, a template and an agent are rare.
 */
const RECORDS = 1_000_000
const START = Date.parse('2026-01-01T00:00:00Z') / 1000
const STEP_SECONDS = 10
/** The parts that these records are in. */
const MONTHS = ['2026-01-01', '2026-02-01', '2026-03-01', '2026-04-01']
const PAGE = 51
/** A page of 51 rows spread over as many blocks, index levels included. Walking the table would read over 30,000. */
const BLOCKS_MAX = 1_500

const FILL = `
  insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id, template,
    data, prev_hash, hash)
  select 'act_' || i, 'ten_acme', 'ses_' || i / 20, i % 20 + 1, to_timestamp(${START} + i * ${STEP_SECONDS}),
    (array['call.allowed', 'access.requested', 'grant.created', 'token.issued'])[i % 4 + 1],
    case when i / 20 % 5000 = 7 then 'agt_rare' else 'agt_briefs' end,
    case when i / 20 % 2 = 0 then 'usr_maya' else 'usr_' || i / 20 % 1000 end, 'ses_' || i / 20, 'ses_' || i / 20,
    case when i / 20 % 5000 = 9 then 'board-notes@1' else 'renewal-briefs@3' end,
    case i % 4
      when 1 then jsonb_build_object('items', jsonb_build_array(jsonb_build_object('permission', 'accounts:read')))
      when 3 then '{}'::jsonb
      else jsonb_build_object('permission', case when i % 100000 = 0 then 'rare:read' else 'accounts:read' end) end,
    '', ''
  from generate_series(0, ${RECORDS} - 1) as i`

type Plan = {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows': number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Plan[]
}
const nodesOf = (plan: Plan): readonly Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

const at = (record: number) => START + record * STEP_SECONDS
const JANUARY = { from: at(1000), to: at(9000) }

/**
 * Filter, where the page begins, rows it must find, and an index that its plan must go by; for what half of the records are,
 * walking them from the newest is as good as any.
 */
const PAGES: readonly [string, ActivityFilter, string | null, number, string][] = [
  ['the newest of all', {}, null, PAGE, 'activity_'],
  ['the newest of all, deep', {}, '500000', PAGE, 'activity_'],
  ['a person’s', { user: 'usr_maya' }, null, PAGE, 'activity_'],
  ['a person’s, deep', { user: 'usr_maya' }, '400000', PAGE, 'activity_'],
  ['a person’s last January', { user: 'usr_maya', ...JANUARY }, null, PAGE, 'activity_'],
  ['last January’s', JANUARY, null, PAGE, 'activity_'],
  ['one session’s', { session: 'ses_777' }, null, 20, 'chain_does_not_fork'],
  ['one tree’s', { root: 'ses_777' }, null, 20, '_root_session_id_n_'],
  ['a rare agent’s', { agent: 'agt_rare' }, null, PAGE, '_agent_id_n_'],
  ['a rare template’s', { template: 'board-notes' }, null, PAGE, '_split_part_n_'],
  ['a rare template’s one version', { template: 'board-notes@2' }, null, 0, '_split_part_n_'],
  ['a common template’s', { template: 'renewal-briefs' }, null, PAGE, 'activity_'],
  ['a rare permission’s', { permission: 'rare:read' }, null, 10, 'activity_permission_2026_'],
  [
    'a common permission’s',
    { permission: 'accounts:read' },
    null,
    PAGE,
    'activity_permission_2026_',
  ],
  ['of one type', { type: ['grant.created'] }, null, PAGE, 'activity_'],
  ['of two types', { type: ['grant.created', 'call.allowed'] }, null, PAGE, 'activity_'],
]

describe.skipIf(postgresIsLeftOut)('a page out of a million records', () => {
  let scratch: Scratch
  let db: Db
  let raw: postgres.Sql
  beforeAll(async () => {
    scratch = await scratchDatabase()
    db = openPostgres(scratch.url, 2)
    await seedDatabase(db)
    raw = postgres(scratch.url, { max: 1, onnotice: () => {} })
    for (const month of MONTHS) await raw`select make_activity_month(${month}::text::date)`
    await raw.unsafe(FILL)
    await raw.unsafe('analyze activity, activity_permission')
  }, 300_000)
  afterAll(async () => {
    await raw?.end()
    await db?.close()
    await scratch?.drop()
  })

  test.each(PAGES)('%s goes by an index', async (_, filter, before, rows, index) => {
    const page = { tenantId: 'ten_acme' as TenantId, onlyUser: null, filter, before, limit: PAGE }
    const { sql, params } = await withTx(db, 'plan', async (tx) => activityPage(tx, page).toSQL())
    const [answer] = await raw.unsafe(
      `explain (analyze, buffers, format json) ${sql}`,
      params as string[],
    )
    const [plan] = (answer?.['QUERY PLAN'] ?? []) as { Plan: Plan }[]
    if (plan === undefined) throw new Error('no plan')
    const nodes = nodesOf(plan.Plan)
    // Months without a record are read as they are: nothing.
    const walked = nodes.filter(
      (node) =>
        node['Node Type'] === 'Seq Scan' &&
        node['Shared Hit Blocks'] + node['Shared Read Blocks'] > 0,
    )
    expect(walked).toEqual([])
    expect(nodes.map((node) => node['Index Name'] ?? '').join(' ')).toContain(index)
    expect(plan.Plan['Actual Rows']).toBe(rows)
    expect(plan.Plan['Shared Hit Blocks'] + plan.Plan['Shared Read Blocks']).toBeLessThan(
      BLOCKS_MAX,
    )
  })
})
