import { filterProblem } from './filter.ts'
import type { Filter, GrantId } from './vocabulary.ts'

/**
 * What a session may see of an entity (SPEC section 9): one part a grant, alternatives that are never multiplied together; and
 * what its user is kept from, which no grant lifts (I14). Whatever is not understood shows less, never more (I19).
 */
export type Restriction = { readonly blocks: Filter | null; readonly masks: readonly string[] }

export type DataGrant = {
  readonly id: GrantId
  readonly permission: string
  readonly narrow?: Filter
  /** Of the catalog, as it is now. */
  readonly rows: unknown
  readonly fields: readonly string[]
}

export type DataPart = {
  readonly grantId: GrantId
  readonly permission: string
  /** Without `$user`: its values are in it. */
  readonly rows: Filter
  readonly fields: readonly string[]
}

export type DataView = {
  readonly parts: readonly DataPart[]
  readonly masked: readonly string[]
  /** A row that any of these matches is not there, whatever a part says. */
  readonly blocked: readonly Filter[]
}

export type Attributes = { readonly [name: string]: unknown }

/** Masks every field of the entity. */
const ALL_FIELDS = '*'
const IN_MAX = 200

const isObject = (v: unknown): v is Record<string, unknown> =>
  typeof v === 'object' && v !== null && !Array.isArray(v)

const isScalar = (v: unknown): v is string | number | boolean =>
  typeof v === 'string' || typeof v === 'boolean' || (typeof v === 'number' && Number.isFinite(v))

const isVariable = (v: unknown): v is { readonly $user: string } =>
  isObject(v) && typeof v.$user === 'string'

function attributeAt(attributes: Attributes, path: string): unknown {
  let value: unknown = attributes
  for (const name of path.split('.'))
    value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  return value
}

/** An operand with the user's value in it; undefined when the user has none that fits. */
function operand(op: string, value: unknown, attributes: Attributes): unknown {
  if (!isVariable(value)) return value
  const found = attributeAt(attributes, value.$user)
  if (op !== '$in') return isScalar(found) ? found : undefined
  const fits = Array.isArray(found) && found.length > 0 && found.length <= IN_MAX
  return fits && found.every(isScalar) ? found : undefined
}

function boundField(clause: unknown, attributes: Attributes): unknown {
  if (!isObject(clause) || isVariable(clause)) return operand('$eq', clause, attributes)
  const bound: Record<string, unknown> = {}
  for (const [op, value] of Object.entries(clause)) {
    const one = op === '$not' ? boundField(value, attributes) : operand(op, value, attributes)
    if (one === undefined) return undefined
    bound[op] = one
  }
  return bound
}

type Binding = {
  readonly attributes: Attributes
  /** Under a `$not` a branch that is left out would show more, so there nothing may be. */
  readonly dropsBranches: boolean
}

/**
 * The filter with the user's attributes in place of `$user`; null: nothing can match. A comparison with a value that the user
 * does not have is never true, so only a branch of `$or` can do without it.
 */
function bound(filter: Filter, how: Binding): Filter | null {
  const made: Record<string, unknown> = {}
  for (const [key, clause] of Object.entries(filter)) {
    if (key === '$and' || key === '$or') {
      const all = (Array.isArray(clause) ? clause : []).map((one) => bound(one, how))
      const some = all.filter((one) => one !== null)
      const mayDrop = key === '$or' && how.dropsBranches
      if (some.length === 0 || (some.length < all.length && !mayDrop)) return null
      made[key] = some
    } else if (key === '$not') {
      const one = isObject(clause) ? bound(clause, { ...how, dropsBranches: false }) : null
      if (one === null) return null
      made[key] = one
    } else {
      const one = boundField(clause, how.attributes)
      if (one === undefined) return null
      made[key] = one
    }
  }
  return made
}

/** Rows that a grant shows, or null when it shows none. A filter that is not one shows none. */
export function boundRows(rows: unknown, attributes: Attributes): Filter | null {
  if (!isObject(rows) || filterProblem(rows, { userVariables: true }) !== null) return null
  return bound(rows, { attributes, dropsBranches: true })
}

/** The fields that a filter names. */
export function fieldsIn(filter: Filter): readonly string[] {
  return Object.entries(filter).flatMap(([key, clause]) => {
    if (key === '$and' || key === '$or')
      return (Array.isArray(clause) ? clause : []).flatMap((one) =>
        isObject(one) ? fieldsIn(one) : [],
      )
    if (key === '$not') return isObject(clause) ? fieldsIn(clause) : []
    return [key]
  })
}

const isMasked = (masked: readonly string[], field: string): boolean =>
  masked.includes(ALL_FIELDS) || masked.includes(field)

/** A block that cannot be told apart from the rest blocks everything; null. */
function blocksOf(
  restrictions: readonly Restriction[],
  attributes: Attributes,
): readonly Filter[] | null {
  const blocks = restrictions.flatMap((r) => (r.blocks === null ? [] : [r.blocks]))
  const made = blocks.map((block) =>
    filterProblem(block, { userVariables: true }) === null
      ? bound(block, { attributes, dropsBranches: false })
      : null,
  )
  const understood = made.filter((block) => block !== null)
  return understood.length === made.length ? understood : null
}

/** What these grants show of one entity to this user. Pure. */
export function dataView(of: {
  readonly grants: readonly DataGrant[]
  readonly attributes: Attributes
  readonly restrictions: readonly Restriction[]
}): DataView {
  const masked = [...new Set(of.restrictions.flatMap((r) => r.masks))].toSorted()
  const blocked = blocksOf(of.restrictions, of.attributes)
  if (blocked === null) return { parts: [], masked, blocked: [] }
  const parts = of.grants.flatMap((grant): DataPart[] => {
    const { narrow } = grant
    const rows = boundRows(grant.rows, of.attributes)
    if (rows === null) return []
    if (narrow !== undefined) {
      if (filterProblem(narrow, { userVariables: false }) !== null) return []
      // It was over fields that the user could see. Now it would tell by its rows what a mask hides.
      if (fieldsIn(narrow).some((field) => isMasked(masked, field))) return []
    }
    return [
      {
        grantId: grant.id,
        permission: grant.permission,
        rows: narrow === undefined ? rows : { $and: [rows, narrow] },
        fields: grant.fields.filter((field) => !isMasked(masked, field)),
      },
    ]
  })
  return { parts, masked, blocked }
}
