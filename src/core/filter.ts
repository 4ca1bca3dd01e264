import { FILTER_DEPTH_MAX } from './limits.ts'
import type { Filter } from './vocabulary.ts'

/**
 * The filter language (SPEC section 2): `{field: value}`, `{field: {$op: value}}`, `$and`, `$or`, `$not`. An unknown
 * operator or an empty clause is an error, never ignored: a filter that is not understood would widen.
 */
const COMPARE = new Set(['$eq', '$ne', '$lt', '$lte', '$gt', '$gte', '$in'])
const FIELD = /^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/
const NAMES_MAX = 64
/** Names that some reader of JSON somewhere would not keep as an ordinary member. */
const NOT_FIELDS = /(^|\.)(__proto__|constructor|prototype)(\.|$)/

export type FilterProblem = { readonly path: string; readonly message: string }

type Reading = {
  readonly userVariables: boolean
  /** Fields the filter may name; absent: any. */
  readonly fields?: readonly string[]
}

const isObject = (v: unknown): v is Record<string, unknown> =>
  typeof v === 'object' && v !== null && !Array.isArray(v)

const isScalar = (v: unknown): boolean =>
  typeof v === 'string' || typeof v === 'boolean' || (typeof v === 'number' && Number.isFinite(v))

function operandProblem(op: string, v: unknown, path: string, how: Reading): FilterProblem | null {
  if (isObject(v) && Object.keys(v).length === 1 && typeof v.$user === 'string') {
    if (!how.userVariables) return { path, message: 'may not use $user: write the value itself' }
    return FIELD.test(v.$user) ? null : { path, message: 'names no user attribute' }
  }
  if (op === '$in') {
    if (!Array.isArray(v) || v.length === 0)
      return { path, message: '$in needs a list with at least one value' }
    return v.every(isScalar) && v.length <= 200
      ? null
      : { path, message: '$in takes at most 200 strings, numbers or booleans' }
  }
  return isScalar(v) ? null : { path, message: 'must be a string, a number or a boolean' }
}

function fieldProblem(
  field: string,
  clause: unknown,
  path: string,
  depth: number,
  how: Reading,
): FilterProblem | null {
  if (!FIELD.test(field) || field.length > NAMES_MAX || NOT_FIELDS.test(field))
    return { path, message: `${JSON.stringify(field.slice(0, 40))} is not an operator or a field` }
  if (how.fields !== undefined && !how.fields.includes(field))
    return { path, message: 'is not a field the user can see' }
  if (!isObject(clause) || '$user' in clause) return operandProblem('$eq', clause, path, how)
  const operators = Object.entries(clause)
  if (operators.length === 0) return { path, message: 'is an empty clause' }
  for (const [op, operand] of operators) {
    const at = `${path}.${op}`
    if (op === '$not') {
      if (!isObject(operand)) return { path: at, message: '$not needs a clause' }
      if (depth >= FILTER_DEPTH_MAX) return tooDeep(at)
      const problem = fieldProblem(field, operand, at, depth + 1, how)
      if (problem) return problem
    } else if (COMPARE.has(op)) {
      const problem = operandProblem(op, operand, at, how)
      if (problem) return problem
    } else return { path: at, message: `unknown operator ${JSON.stringify(op.slice(0, 40))}` }
  }
  return null
}

const tooDeep = (path: string): FilterProblem => ({
  path,
  message: `is nested more than ${FILTER_DEPTH_MAX} deep`,
})

/** Null when `value` is a filter; else the first problem, with its path. `narrow` may not use `$user`. */
export function filterProblem(
  value: unknown,
  how: Reading,
  path = '',
  depth = 1,
): FilterProblem | null {
  if (!isObject(value)) return { path, message: 'must be a filter object' }
  if (depth > FILTER_DEPTH_MAX) return tooDeep(path)
  const clauses = Object.entries(value)
  if (clauses.length === 0) return { path, message: 'is an empty clause' }
  for (const [key, clause] of clauses) {
    const at = path === '' ? key : `${path}.${key}`
    if (key === '$and' || key === '$or') {
      if (!Array.isArray(clause) || clause.length === 0)
        return { path: at, message: `${key} needs a list with at least one clause` }
      for (const [i, one] of clause.entries()) {
        const problem = filterProblem(one, how, `${at}.${i}`, depth + 1)
        if (problem) return problem
      }
    } else if (key === '$not') {
      const problem = filterProblem(clause, how, at, depth + 1)
      if (problem) return problem
    } else {
      const problem = fieldProblem(key, clause, at, depth, how)
      if (problem) return problem
    }
  }
  return null
}

export const isFilter = (value: unknown): value is Filter =>
  filterProblem(value, { userVariables: true }) === null
