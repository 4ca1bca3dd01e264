import { expect, test } from 'vitest'
import { withRead, withTx } from '../../src/db/tx.ts'
import { eachDatabase } from '../support/databases.ts'

/** Arrays go in and come out whole on both databases, in and outside a transaction. */
eachDatabase('arrays', (database) => {
  const TEXTS = ['a"b', 'c\\d', '{x}', '', 'NULL', 'ü,', ' ', "o'clock", 'two\nlines']
  const both = async <T>(
    ask: (sql: Parameters<Parameters<typeof withTx>[2]>[0]['sql']) => Promise<T[]>,
  ) => {
    const { db } = database()
    const inside = await withTx(db, 'test', (tx) => ask(tx.sql))
    expect(await withRead(db, 'test', (tx) => ask(tx.sql))).toEqual(inside)
    return inside[0]
  }

  test('of texts, whatever is in them', async () => {
    const row = await both((sql) => sql`select ${TEXTS}::text[] as texts, ${[]}::text[] as none`)
    expect(row).toEqual({ texts: TEXTS, none: [] })
  })
  test('of numbers and truth values', async () => {
    const numbers = [1.5, -2, 0]
    const row = await both(
      (sql) => sql`select ${numbers}::float8[] as floats, array[1, -2]::integer[] as integers,
        array[true, false] as booleans`,
    )
    expect(row).toEqual({ floats: numbers, integers: [1, -2], booleans: [true, false] })
  })
  test('that a set is compared with, and that it is gathered into', async () => {
    const row = await both(
      (sql) => sql`select array_agg(x order by x) as found from unnest(${TEXTS}::text[]) x
        where x = any(${['{x}', 'a"b']}::text[])`,
    )
    expect(row).toEqual({ found: ['a"b', '{x}'] })
  })
})
