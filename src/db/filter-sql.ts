import { type SQL, sql } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'
import type { Filter } from '../core/vocabulary.ts'

/** A condition for a `where`, with its values apart: `$1`, `$2`… in their order. */
export type Condition = { readonly text: string; readonly params: readonly Value[] }
type Value = string | number | boolean

const OPERATORS = {
  $eq: sql` = `,
  $ne: sql` <> `,
  $lt: sql` < `,
  $lte: sql` <= `,
  $gt: sql` > `,
  $gte: sql` >= `,
} as const satisfies Record<string, SQL>
const isOperator = (op: string): op is keyof typeof OPERATORS => Object.hasOwn(OPERATORS, op)
const isEquality = (op: string): boolean => op === '$eq' || op === '$ne'

const isObject = (v: unknown): v is Record<string, unknown> =>
  typeof v === 'object' && v !== null && !Array.isArray(v)

/** What is not understood is a bug by now: it was checked when it came in. It must not become a filter that is wider. */
const bad = (what: string): never => {
  throw new Error(`a filter that was checked has ${what}`)
}

const list = (parts: readonly SQL[], between: SQL): SQL => {
  const [first, ...rest] = parts
  if (first === undefined) return bad('an empty list')
  return rest.length === 0 ? first : sql`(${sql.join([...parts], between)})`
}
const all = (parts: readonly SQL[]): SQL => list(parts, sql` and `)
const any = (parts: readonly SQL[]): SQL => list(parts, sql` or `)

/**
 * One comparison. The value has its own type, so that a column of another type is refused by Postgres instead of being compared
 * as text; order is that of code points, as everywhere else, whatever the database's collation.
 */
function compared(field: string, op: keyof typeof OPERATORS, value: unknown): SQL {
  const column = sql.identifier(field)
  const operator = OPERATORS[op]
  switch (typeof value) {
    case 'string':
      return isEquality(op)
        ? sql`${column}${operator}${value}::text`
        : sql`${column} collate "C"${operator}${value}::text`
    case 'boolean':
      return sql`${column}${operator}${value}::boolean`
    case 'number':
      // A whole number as one, so that an index on an integer column serves.
      return Number.isSafeInteger(value)
        ? sql`${column}${operator}${value}::bigint`
        : sql`${column}${operator}${value}::float8`
    default:
      return bad('a value that is none')
  }
}

function ofField(field: string, clause: unknown): SQL {
  if (!isObject(clause)) return compared(field, '$eq', clause)
  const parts = Object.entries(clause).map(([op, operand]) => {
    if (op === '$not') return sql`(not (${ofField(field, operand)}))`
    if (op === '$in')
      return Array.isArray(operand) && operand.length > 0
        ? any(operand.map((one) => compared(field, '$eq', one)))
        : bad('an empty $in')
    return isOperator(op) ? compared(field, op, operand) : bad('an unknown operator')
  })
  return all(parts)
}

function ofFilter(filter: unknown): SQL {
  if (!isObject(filter)) return bad('a clause that is no object')
  const parts = Object.entries(filter).map(([key, clause]) => {
    if (key === '$not') return sql`(not (${ofFilter(clause)}))`
    if (key === '$and' || key === '$or') {
      if (!Array.isArray(clause) || clause.length === 0) return bad(`an empty ${key}`)
      return (key === '$and' ? all : any)(clause.map(ofFilter))
    }
    return key.startsWith('$') ? bad('an unknown operator') : ofField(key, clause)
  })
  return all(parts)
}

const dialect = new PgDialect()

/**
 * Rows that match and that nothing blocks, as one condition over columns named as the entity's fields. Postgres has the
 * language's own logic of missing values, so null is neither matched nor blocked.
 */
export function conditionOf(rows: Filter, blocked: readonly Filter[]): Condition {
  const blocks = blocked.map((block) => sql`((${ofFilter(block)}) is not true)`)
  const { sql: text, params } = dialect.sqlToQuery(sql`(${all([ofFilter(rows), ...blocks])})`)
  return { text, params: params as Value[] }
}
