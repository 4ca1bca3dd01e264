import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Attributes, dataView } from '../../src/core/data.ts'
import { filterProblem } from '../../src/core/filter.ts'
import type { Filter, GrantId } from '../../src/core/vocabulary.ts'
import { conditionOf } from '../../src/db/filter-sql.ts'
import { matches } from '../../src/enforce/index.ts'
import { eachDatabase, type Run } from '../support/databases.ts'

/**
 * The rows that the parameterised SQL finds are those that a plain evaluation in memory finds, over random rows, filters, user
 * attributes and restrictions; and neither finds one that the filters as written would not.
 */
type Value = string | number | boolean
type DataRow = { readonly id: number } & { readonly [field: string]: Value | null }

const TEXTS = ['', 'a', 'B', 'emea', 'amer', "o'x", '"', '%', '$1', 'é', 'e\u0301', '\uffee', '😀']
const COLUMNS = {
  region: fc.constantFrom(...TEXTS),
  name: fc.oneof(fc.constantFrom(...TEXTS), fc.string({ unit: 'grapheme', maxLength: 4 })),
  arr: fc.oneof(fc.integer({ min: -5, max: 5 }), fc.integer({ min: -(2 ** 40), max: 2 ** 40 })),
  rate: fc.oneof(
    fc.constantFrom(-0.5, 0, 0.1, 0.5, 1),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
  ),
  open: fc.boolean(),
} as const
type Column = keyof typeof COLUMNS
const NAMES = Object.keys(COLUMNS) as Column[]

// What Postgres keeps of a string and of a number: no NUL, no half of a pair, and zero has no sign.
const storable = (value: Value): Value =>
  typeof value === 'string'
    ? Buffer.from(value).toString().replaceAll('\u0000', '')
    : value === 0
      ? 0
      : value
const valuesOf = (column: Column) => (COLUMNS[column] as fc.Arbitrary<Value>).map(storable)

const rows: fc.Arbitrary<readonly DataRow[]> = fc
  .array(
    fc.record(
      Object.fromEntries(
        NAMES.map((name) => [name, fc.option(valuesOf(name), { nil: null, freq: 5 })]),
      ),
    ),
    { minLength: 1, maxLength: 20 },
  )
  .map((all) => all.map((row, id) => ({ ...row, id }) as DataRow))

const COMPARE = ['$eq', '$ne', '$lt', '$lte', '$gt', '$gte'] as const
/** Of the values' type, as a catalog and an agent who mean it would write: attributes that a user has, and has not. */
const variable = (column: Column) =>
  fc.constantFrom({ $user: column }, { $user: `their.${column}` }, { $user: 'missing' })

function clause(column: Column, withUser: boolean): fc.Arbitrary<unknown> {
  const plain = valuesOf(column)
  const operand = withUser ? fc.oneof({ weight: 3, arbitrary: plain }, variable(column)) : plain
  const compared = fc.tuple(fc.constantFrom(...COMPARE), operand).map(([op, v]) => ({ [op]: v }))
  const listed = fc.array(plain, { minLength: 1, maxLength: 3 }).map((list) => ({ $in: list }))
  const one = fc.oneof(operand, compared, listed)
  return fc.oneof(
    { weight: 4, arbitrary: one },
    fc.tuple(compared, listed).map(([a, b]) => ({ ...a, ...b })),
    fc.oneof(compared, listed).map((inner) => ({ $not: inner })),
  )
}

const field = (withUser: boolean) =>
  fc
    .constantFrom(...NAMES)
    .chain((name) => clause(name, withUser).map((made) => ({ [name]: made }) as Filter))

function filter(withUser: boolean, depth = 3): fc.Arbitrary<Filter> {
  if (depth === 1) return field(withUser)
  const inner = filter(withUser, depth - 1)
  const list = fc.array(inner, { minLength: 1, maxLength: 3 })
  return fc.oneof(
    { weight: 2, arbitrary: field(withUser) },
    list.map((all) => ({ $and: all })),
    list.map((all) => ({ $or: all })),
    inner.map((one) => ({ $not: one })),
    fc.tuple(field(withUser), list).map(([one, all]) => ({ ...one, $or: all })),
  )
}

const attributes: fc.Arbitrary<Attributes> = fc.record(
  {
    ...Object.fromEntries(NAMES.map((name) => [name, valuesOf(name)])),
    their: fc.record(Object.fromEntries(NAMES.map((name) => [name, valuesOf(name)])), {
      requiredKeys: [],
    }),
  },
  { requiredKeys: [] },
)

// The third way to say it: over the filters as they are written, a value that is not there makes nothing true.
const truth = (of: unknown, row: DataRow, user: Attributes): boolean | null => {
  const each = Object.entries(of as object).map(([key, said]): boolean | null => {
    if (key === '$not') return not(truth(said, row, user))
    if (key === '$and') return both((said as unknown[]).map((one) => truth(one, row, user)))
    if (key === '$or')
      return not(both((said as unknown[]).map((one) => not(truth(one, row, user)))))
    return ofClause(said, row[key] ?? null, user)
  })
  return both(each)
}
const not = (t: boolean | null) => (t === null ? null : !t)
const both = (all: readonly (boolean | null)[]) =>
  all.includes(false) ? false : all.includes(null) ? null : true
const isMap = (v: unknown): v is Record<string, unknown> =>
  typeof v === 'object' && v !== null && !Array.isArray(v)
function ofClause(said: unknown, value: Value | null, user: Attributes): boolean | null {
  if (!isMap(said) || '$user' in said) return ofClause({ $eq: said }, value, user)
  return both(
    Object.entries(said).map(([op, raw]) => {
      if (op === '$not') return not(ofClause(raw, value, user))
      if (op === '$in')
        return not(both((raw as Value[]).map((one) => not(ofClause({ $eq: one }, value, user)))))
      const operand = isMap(raw) ? looked(String(raw.$user), user) : (raw as Value)
      if (value === null || operand === null) return null
      const [a, b] = [Buffer.from(String(value)), Buffer.from(String(operand))]
      const order =
        typeof value === 'string' ? Buffer.compare(a, b) : Number(value) - Number(operand)
      const is = {
        $eq: order === 0,
        $ne: order !== 0,
        $lt: order < 0,
        $lte: order <= 0,
        $gt: order > 0,
      }
      return op === '$gte' ? order >= 0 : is[op as keyof typeof is]
    }),
  )
}
const looked = (path: string, user: Attributes): Value | null =>
  path
    .split('.')
    .reduce<unknown>((at, name) => (isMap(at) ? (at[name] ?? null) : null), user) as Value | null
const names = (of: unknown): readonly string[] =>
  isMap(of)
    ? Object.entries(of).flatMap(([key, v]) => (key === '$user' ? [String(v)] : names(v)))
    : Array.isArray(of)
      ? of.flatMap(names)
      : []

const fill = (run: Run, all: readonly DataRow[]) =>
  run(
    `insert into seen select * from jsonb_to_recordset($1::text::jsonb)
     as r (id integer, region text, name text, arr bigint, rate float8, open boolean)`,
    [JSON.stringify(all)],
  )

const found = async (run: Run, of: { text: string; params: readonly Value[] }) =>
  (await run<{ id: number }>(`select id from seen where ${of.text} order by id`, of.params)).map(
    (row) => row.id,
  )

const RUNS = 150

eachDatabase('the SQL of a data filter', (database) => {
  test('finds what a plain evaluation finds', async () => {
    await database().rolledBack(async (run) => {
      await run(
        'create table seen (id integer, region text, name text, arr bigint, rate float8, open boolean)',
      )
      await fc.assert(
        fc.asyncProperty(
          rows,
          fc.array(fc.record({ rows: filter(true), narrow: fc.option(filter(false)) }), {
            minLength: 1,
            maxLength: 2,
          }),
          fc.array(filter(true, 2), { maxLength: 2 }),
          attributes,
          async (all, grants, blocks, user) => {
            for (const one of [...grants.map((g) => g.rows), ...blocks])
              expect(filterProblem(one, { userVariables: true })).toBeNull()
            await run('delete from seen')
            await fill(run, all)
            const view = dataView({
              grants: grants.map((grant, i) => ({
                id: `grt_${i}` as GrantId,
                permission: 'a:b',
                rows: grant.rows,
                ...(grant.narrow === null ? {} : { narrow: grant.narrow }),
                fields: NAMES,
              })),
              attributes: user,
              restrictions: blocks.map((block) => ({ blocks: block, masks: [] })),
            })
            const blocked = (row: DataRow) => blocks.some((b) => truth(b, row, user) === true)
            for (const part of view.parts) {
              const inSql = await found(run, conditionOf(part.rows, view.blocked))
              const inMemory = all.filter(
                (row) => matches(part.rows, row) && !view.blocked.some((b) => matches(b, row)),
              )
              expect(inSql).toEqual(inMemory.map((row) => row.id))
              const grant = grants[Number(part.grantId.slice(4))]
              const written = all.filter(
                (row) =>
                  truth(grant?.rows, row, user) === true &&
                  (grant?.narrow == null || truth(grant.narrow, row, user) === true) &&
                  !blocked(row),
              )
              const least = written.map((row) => row.id)
              for (const id of inSql) expect(least).toContain(id)
              const missing = names([grant?.rows, blocks]).some((n) => looked(n, user) === null)
              if (!missing) expect(inSql).toEqual(least)
            }
          },
        ),
        { numRuns: RUNS },
      )
    })
  })

  test('a value is a parameter, and a name is quoted: neither is ever SQL', async () => {
    const { text, params } = conditionOf({ name: `'; drop table seen; --` }, [{ open: true }])
    expect(text).toBe('(("name" = $1::text and (("open" = $2::boolean) is not true)))')
    expect(params).toEqual([`'; drop table seen; --`, true])
    // Whatever the database sorts by; equality needs none, so that an index serves.
    expect(conditionOf({ name: { $lt: 'b' } }, []).text).toBe('("name" collate "C" < $1::text)')
    expect(conditionOf({ 'a"b': 1 }, []).text).toBe('("a""b" = $1::bigint)')
  })

  test('a value of another type than the column is refused, not compared as text', async () => {
    await database().rolledBack(async (run) => {
      await run('create table seen (id integer, region text)')
      await run(`insert into seen values (1, '7')`)
      await expect(found(run, conditionOf({ region: { $gt: 5 } }, []))).rejects.toThrow()
    })
    await database().rolledBack(async (run) => {
      await run('create table seen (id integer, region text)')
      await expect(found(run, conditionOf({ id: { $in: [1, 'x'] } }, []))).rejects.toThrow()
    })
  })

  test('a filter that is not one throws: it never becomes a wider one', () => {
    for (const wrong of [{}, { $or: [] }, { a: {} }, { a: { $like: 'x' } }, { $nor: [{ a: 1 }] }])
      expect(() => conditionOf(wrong, [])).toThrow()
    for (const wrong of [{ a: null }, { a: { $user: 'x' } }, { a: { $in: [] } }, { a: [1] }])
      expect(() => conditionOf(wrong as Filter, [])).toThrow()
  })
})
