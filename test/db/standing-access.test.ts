import { expect, test } from 'vitest'
import { eachDatabase, type Run } from '../support/databases.ts'
import { insert, renewals } from './support/renewals.ts'

/**
 * I13: what a person may do for good stands in these tables, and no agent, session or grant can be in them: not as a
 * column, not through a chain of foreign keys.
 */
const STANDING = [
  'role_assignment',
  'role_permission',
  'group_member',
  'user_permission',
  'user_group',
  'role',
  'restriction',
  'service_account',
  'service_account_permission',
]
const BORROWERS = ['agent', 'session', 'access_grant', 'access_request', 'request_item']

type Reference = { from: string; to: string }

const references = (run: Run) =>
  run<Reference>(
    `select conrelid::regclass::text as "from", confrelid::regclass::text as "to"
     from pg_constraint where contype = 'f'`,
  )

/** Every table that a row of this one can point at, directly or through others. */
function reachable(from: string, all: readonly Reference[]): ReadonlySet<string> {
  const found = new Set<string>()
  const next = [from]
  for (let table = next.pop(); table !== undefined; table = next.pop())
    for (const reference of all)
      if (reference.from === table && !found.has(reference.to)) {
        found.add(reference.to)
        next.push(reference.to)
      }
  return found
}

eachDatabase('I13 standing access', (database) => {
  test('cannot reach a borrower through foreign keys', async () => {
    const all = await references(database().run)
    for (const table of STANDING)
      expect({ table, reaches: BORROWERS.filter((b) => reachable(table, all).has(b)) }).toEqual({
        table,
        reaches: [],
      })
  })

  test('the search finds what it looks for', async () => {
    const all = await references(database().run)
    expect([...reachable('access_grant', all)]).toEqual(
      expect.arrayContaining(['session', 'agent']),
    )
    expect([...reachable('role_assignment', all)]).toEqual(
      expect.arrayContaining(['app_user', 'role', 'tenant']),
    )
  })

  test('has no column that could name a borrower', async () => {
    const columns = await database().run<{ table: string; column: string }>(
      `select table_name as "table", column_name as "column" from information_schema.columns
       where table_schema = 'public' and table_name = any($1::text[])
         and column_name ~ '(agent|session|grant|request|principal|subject)'`,
      [STANDING],
    )
    expect(columns).toEqual([])
  })

  test('is keyed to people and service accounts: every row belongs to one, or to a role or a group', async () => {
    const all = await references(database().run)
    const direct = (table: string) =>
      all.flatMap((r) => (r.from === table ? [r.to] : [])).toSorted()
    expect(Object.fromEntries(STANDING.map((table) => [table, direct(table)]))).toEqual({
      role_assignment: ['app_user', 'role', 'user_group'],
      role_permission: ['permission', 'role'],
      group_member: ['app_user', 'user_group'],
      user_permission: ['app_user', 'permission'],
      user_group: ['tenant'],
      role: ['tenant'],
      restriction: ['app_user', 'user_group'],
      service_account: ['tenant'],
      service_account_permission: ['permission', 'service_account'],
    })
  })

  test('as the view adds it up reads nothing but standing access', async () => {
    const used = await database().run<{ table: string }>(
      `select distinct table_name as "table" from information_schema.view_table_usage
       where view_schema = 'public' and view_name = 'user_access' order by 1`,
    )
    expect(used.map((row) => row.table)).toEqual([
      'group_member',
      'role_assignment',
      'role_permission',
      'user_permission',
    ])
  })

  test('no other view can lend it', async () => {
    const views = await database().run<{ name: string }>(
      `select table_name as name from information_schema.views where table_schema = 'public'`,
    )
    expect(views.map((view) => view.name)).toEqual(['user_access'])
  })

  test('an agent’s or a session’s id is refused wherever a person’s goes', () =>
    database().rolledBack(async (run) => {
      await renewals(run)
      for (const borrower of ['agt_briefs', 'ses_maya']) {
        await run('savepoint before')
        const row = {
          id: 'prm_borrower',
          tenant_id: 'ten_acme',
          user_id: borrower,
          permission_id: 'accounts:read',
          created_at: '2026-11-30T09:00:00.000Z',
        }
        await expect(insert(run, 'user_permission', row)).rejects.toThrow(
          /permission_goes_to_a_user/,
        )
        await run('rollback to savepoint before')
      }
    }))

  test('an agent, a session or a person is no service account, and none is lent anything', () =>
    database().rolledBack(async (run) => {
      await renewals(run)
      for (const other of ['agt_briefs', 'ses_maya', 'usr_maya']) {
        await run('savepoint before')
        const account = {
          id: other,
          tenant_id: 'ten_acme',
          name: 'X',
          secret_hash: 'a'.repeat(64),
          created_at: '2026-11-30T09:00:00.000Z',
        }
        await expect(insert(run, 'service_account', account)).rejects.toThrow(
          /service_account_is_no_other_kind/,
        )
        await run('rollback to savepoint before')
        const row = {
          id: 'svp_borrower',
          tenant_id: 'ten_acme',
          service_account_id: other,
          permission_id: 'accounts:read',
          created_at: '2026-11-30T09:00:00.000Z',
        }
        await expect(insert(run, 'service_account_permission', row)).rejects.toThrow(
          /permission_goes_to_a_service_account/,
        )
        await run('rollback to savepoint before')
      }
      const all = await references(run)
      const pointing = all.filter((r) => r.to === 'service_account').map((r) => r.from)
      expect(pointing).toEqual(['service_account_permission'])
    }))

  // I14: restrictions are a person's; nothing that is requested or granted can point at one.
  test('I14 nothing that is asked, granted or remembered refers to a restriction', async () => {
    const all = await references(database().run)
    expect(all.filter((r) => r.to === 'restriction')).toEqual([])
  })
})
