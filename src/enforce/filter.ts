/** A `narrow` or a catalog filter (SPEC section 2), for services that hold their rows in memory. */
type Row = Readonly<Record<string, unknown>>

/**
 * Null: a value is missing, so nothing can be said; `$not` of it is null too, and a row counts only
 * when true.
 */
type Truth = boolean | null

const isRecord = (value: unknown): value is Row =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

const unknown = (what: string): never => {
  // A clause that is not understood must not be passed over: the filter would be wider than it was
  // written.
  throw new Error(`lend/enforce: the filter has ${what}`)
}

const not = (truth: Truth): Truth => (truth === null ? null : !truth)

function every(truths: readonly Truth[]): Truth {
  if (truths.includes(false)) return false
  return truths.includes(null) ? null : true
}

const some = (truths: readonly Truth[]): Truth => not(every(truths.map(not)))

function valueAt(row: Row, field: string): unknown {
  let value: unknown = row
  for (const name of field.split('.'))
    value = isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined
  return value
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff

/** By code points, as SQL does with collation "C"; JavaScript's own order puts some of the BMP after the rest of Unicode. */
function order(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)]
    if (x === y) continue
    return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1
  }
  return a.length - b.length
}

const difference = (a: string | number | boolean, b: string | number | boolean): number =>
  typeof a === 'string' && typeof b === 'string' ? order(a, b) : a < b ? -1 : a > b ? 1 : 0

function compare(op: string, value: unknown, operand: unknown): Truth {
  if (op === '$in') {
    if (!Array.isArray(operand) || operand.length === 0) return unknown('an empty $in')
    return some(operand.map((one) => compare('$eq', value, one)))
  }
  if (!isScalar(operand)) return unknown(`an operand of ${op} that is no value`)
  if (!isScalar(value) || typeof value !== typeof operand) return null
  switch (op) {
    case '$eq':
      return value === operand
    case '$ne':
      return value !== operand
    case '$lt':
      return difference(value, operand) < 0
    case '$lte':
      return difference(value, operand) <= 0
    case '$gt':
      return difference(value, operand) > 0
    case '$gte':
      return difference(value, operand) >= 0
    default:
      return unknown(`the operator ${JSON.stringify(op)}`)
  }
}

function fieldTruth(value: unknown, clause: unknown): Truth {
  if (!isRecord(clause)) return compare('$eq', value, clause)
  const entries = Object.entries(clause)
  if (entries.length === 0) return unknown('an empty clause')
  return every(
    entries.map(([op, operand]) =>
      op === '$not'
        ? isRecord(operand)
          ? not(fieldTruth(value, operand))
          : unknown('a $not without a clause')
        : compare(op, value, operand),
    ),
  )
}

function truthOf(filter: unknown, row: Row): Truth {
  if (!isRecord(filter)) return unknown('a clause that is no object')
  const clauses = Object.entries(filter)
  if (clauses.length === 0) return unknown('an empty clause')
  return every(
    clauses.map(([key, clause]) => {
      if (key === '$not') return not(truthOf(clause, row))
      if (key !== '$and' && key !== '$or')
        return key.startsWith('$')
          ? unknown(`the operator ${JSON.stringify(key)}`)
          : fieldTruth(valueAt(row, key), clause)
      if (!Array.isArray(clause) || clause.length === 0) return unknown(`an empty ${key}`)
      const truths = clause.map((one) => truthOf(one, row))
      return key === '$and' ? every(truths) : some(truths)
    }),
  )
}

/**
 * Whether a row passes a filter. A comparison with a missing value, or one of another type, is
 * never true, also under `$not`, as in SQL. Throws on anything that is not understood; the caller
 * then shows nothing.
 */
export const matches = (filter: Row, row: Row): boolean => truthOf(filter, row) === true

/**
 * Whether any of the grants shows the row: grants are alternatives, and one without a `narrow`
 * shows all.
 */
export const shownBy = (grants: readonly { readonly narrow?: Row }[], row: Row): boolean =>
  grants.some((grant) => grant.narrow === undefined || matches(grant.narrow, row))
