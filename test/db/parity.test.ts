import { getTableColumns, getTableName, is } from 'drizzle-orm'
import { type PgColumn, PgTable } from 'drizzle-orm/pg-core'
import { expect, test } from 'vitest'
import {
  ITEM_OUTCOMES,
  REQUEST_STATUSES,
  SESSION_STATUSES,
  SESSION_TRANSITIONS,
} from '../../src/core/session.ts'
import {
  ACCESS,
  ENFORCED_AT,
  KINDS,
  MODES,
  RISKS,
  RULE_EFFECTS,
} from '../../src/core/vocabulary.ts'
import * as tables from '../../src/db/tables.ts'
import type { GrantRow } from '../../src/db/tree.ts'
import { FREEZE_SCOPES } from '../../src/flows/freeze.ts'
import type { StaffRole } from '../../src/http/people/endpoint.ts'
import { eachDatabase, type Run } from '../support/databases.ts'

// These two are types only; a word more or less does not compile.
const STAFF_ROLES: Record<StaffRole, true> = {
  org_admin: true,
  auditor: true,
  builder: true,
  reviewer: true,
}
const GRANT_SOURCES: Record<GrantRow['source'], true> = {
  user: true,
  rule: true,
  mode: true,
  inherited: true,
}

/** What is said twice, in SQL and in TypeScript, is the same. */
eachDatabase('SQL and TypeScript agree', (database) => {
  test('on the legal changes of a session', async () => {
    const rows = await database().run<{ from: string; to: string }>(
      'select from_status as "from", to_status as "to" from session_transition',
    )
    const legal = Object.entries(SESSION_TRANSITIONS).flatMap(([from, all]) =>
      all.map((to) => ({ from, to })),
    )
    expect(rows).toHaveLength(legal.length)
    expect(rows).toEqual(expect.arrayContaining(legal))
  })

  for (const [column, words] of [
    ['permission.kind', KINDS],
    ['permission.access', ACCESS],
    ['permission.risk', RISKS],
    ['permission.enforced_at', ENFORCED_AT],
    ['session.mode', MODES],
    ['session.status', SESSION_STATUSES],
    ['consent_rule.effect', RULE_EFFECTS],
    ['access_request.status', REQUEST_STATUSES],
    ['request_item.outcome', ITEM_OUTCOMES],
    ['frozen.scope', FREEZE_SCOPES],
    ['template_version.modes', MODES],
    ['app_user.staff_roles', Object.keys(STAFF_ROLES)],
    ['access_grant.source', Object.keys(GRANT_SOURCES)],
  ] as const)
    test(`on the words of ${column}`, async () => {
      expect(await wordsOf(database().run, column)).toEqual([...words].toSorted())
    })

  test('on looseness: what the triggers think looser is what MODES puts later', async () => {
    const sources = await database().run<{ source: string }>(
      `select prosrc as source from pg_proc
       where proname in ('session_changes_are_legal', 'child_starts_within_its_parent')`,
    )
    expect(sources).toHaveLength(2)
    for (const { source } of sources) {
      const [, list = ''] = /looseness constant text\[\] := array\[([^\]]*)\]/.exec(source) ?? []
      expect(list.match(/\w+/g)).toEqual([...MODES])
    }
  })

  const known = Object.values(tables).filter((table) => is(table, PgTable))

  test('on which tables there are', async () => {
    const rows = await database().run<{ name: string }>(
      `select table_name as name from information_schema.tables
       where table_schema = 'public' and table_type = 'BASE TABLE'
         and not (select relispartition from pg_class where oid = table_name::regclass)`,
    )
    expect(known.map(getTableName).toSorted()).toEqual(rows.map((row) => row.name).toSorted())
  })

  for (const table of known)
    test(`on the columns of ${getTableName(table)}`, async () => {
      const rows = await database().run<{ name: string; type: string; nullable: boolean }>(
        `select a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
           not a.attnotnull as nullable
         from pg_attribute a
         where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped
           and format_type(a.atttypid, a.atttypmod) <> 'tsvector'`,
        [getTableName(table)],
      )
      const declared = Object.values<PgColumn>(getTableColumns(table)).map((column) => ({
        name: column.name,
        type: TYPES[column.getSQLType()] ?? column.getSQLType(),
        nullable: !column.notNull,
      }))
      const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1)
      expect(declared.toSorted(byName)).toEqual(rows.toSorted(byName))
    })
})

/** Drizzle's names of types that Postgres spells otherwise. */
const TYPES: Readonly<Record<string, string>> = {
  'timestamp (3) with time zone': 'timestamp(3) with time zone',
}

/** The words that the check constraints of a column list. */
async function wordsOf(run: Run, place: string): Promise<readonly string[]> {
  const [table = '', column = ''] = place.split('.')
  const checks = await run<{ text: string }>(
    `select pg_get_constraintdef(c.oid) as text from pg_constraint c
     join pg_attribute a on a.attrelid = c.conrelid and a.attnum = any(c.conkey)
     where c.contype = 'c' and c.conrelid = $1::text::regclass and a.attname = $2
       and array_length(c.conkey, 1) = 1`,
    [table, column],
  )
  return [
    ...new Set(checks.flatMap(({ text }) => [...text.matchAll(/'(\w+)'/g)].map((m) => m[1] ?? ''))),
  ].toSorted()
}
