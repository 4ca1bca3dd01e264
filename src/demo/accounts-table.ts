import { sqlState } from '../db/sql-error.ts'
import { json, type Tx, withRead, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import type { Query } from './services/accounts.ts'
import { accountsAt } from './services/accounts-data.ts'

/** Postgres: a value or an operator that the column's type does not take. */
const UNFIT = /^(22|42)/
type Row = Readonly<Record<string, unknown>>

/**
 * The Accounts service's own table, in a schema of its own beside Lend's: a service would have a database of its own. Filled at
 * each start, so that renewals stay as near as they were.
 */
export async function accountsTable(ctx: Ctx): Promise<Query> {
  const rows = accountsAt(ctx.clock.now()).map((account, n) => ({ n, ...account }))
  await withTx(ctx.db, 'demo_accounts', async (tx) => {
    await tx.sql`select pg_advisory_xact_lock(hashtextextended('lend:demo_accounts', 0))`
    await tx.sql`create schema if not exists lend_demo`
    await tx.sql`create table if not exists lend_demo.account (n integer primary key, id text not null,
      name text not null, region text not null, owner text not null, segment text not null,
      renewal_date text not null, renewal_in_days integer not null, arr integer not null, phone text not null)`
    await tx.sql`delete from lend_demo.account`
    await tx.sql`
      insert into lend_demo.account
      select * from jsonb_populate_recordset(null::lend_demo.account, ${json(rows)}::text::jsonb)`
  })
  return (text, params) =>
    withRead(ctx.db, 'demo_accounts', (tx: Tx) => {
      // Cut at its holes, as the tagged template of both drivers takes it: a parameter stays one.
      const parts = text.split(/\$\d+/)
      return tx.sql<Row>(Object.assign(parts, { raw: parts }), ...params)
    }).catch((error: unknown) => {
      if (UNFIT.test(sqlState(error) ?? '')) return null
      throw error
    })
}
