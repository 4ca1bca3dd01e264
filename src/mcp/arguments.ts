import type { z } from 'zod'
import type { FieldError } from '../fault.ts'

/** Why a tool's arguments were not understood, field by field, in words a model can act on. */
type Issue = z.core.$ZodIssue

const ERRORS_MAX = 20
const NAME_SHOWN_MAX = 64

const shown = (key: PropertyKey): string => {
  const name = String(key)
  return name.length > NAME_SHOWN_MAX ? `${name.slice(0, NAME_SHOWN_MAX)}…` : name
}

const WORDS: Readonly<Record<string, string>> = {
  string: 'text',
  array: 'a list',
  object: 'an object',
  boolean: 'true or false',
  number: 'a number',
  int: 'a whole number',
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let at = value
  for (const key of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = Reflect.get(at, key)
  }
  return at
}

/** JSON has no undefined, so what is undefined is absent. */
function messageOf(issue: Issue, value: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      if (value === undefined) return 'is required'
      return `must be ${WORDS[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      if (value === undefined) return 'is required'
      return `must be one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return issue.origin === 'array'
        ? `needs at least ${issue.minimum} of them`
        : `must be at least ${issue.minimum}`
    case 'too_big':
      return issue.origin === 'array'
        ? `has more than ${issue.maximum} of them`
        : `must be at most ${issue.maximum}`
    default:
      return issue.message
  }
}

/** Of several allowed shapes, the one that fits best is the one that was meant. */
const nearest = (branches: readonly (readonly Issue[])[]): readonly Issue[] =>
  branches.reduce((best, one) => (one.length < best.length ? one : best), branches[0] ?? [])

function flatten(issue: Issue, prefix: readonly PropertyKey[], args: unknown): FieldError[] {
  const path = [...prefix, ...issue.path]
  if (issue.code === 'invalid_union')
    return nearest(issue.errors).flatMap((one) => flatten(one, path, args))
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({
      path: [...path, key].map(shown).join('.'),
      message: 'is not known here',
    }))
  return [{ path: path.map(shown).join('.'), message: messageOf(issue, valueAt(args, path)) }]
}

/** The field errors of `args`, the first of each field only, and not more than a reader can use. */
export function fieldErrors(error: z.ZodError, args: unknown): readonly FieldError[] {
  const byPath = new Map<string, FieldError>()
  for (const one of error.issues.flatMap((issue) => flatten(issue, [], args)))
    if (!byPath.has(one.path)) byPath.set(one.path, one)
  return [...byPath.values()].slice(0, ERRORS_MAX)
}
