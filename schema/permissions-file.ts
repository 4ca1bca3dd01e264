import { z } from 'zod'
import { filterProblem } from '../src/core/filter.ts'
import { ENFORCED_WHERE, endpointKey, PROTECTIONS, type Slice } from '../src/core/slice.ts'
import { ACCESS, ENFORCED_AT, KINDS, RISKS } from '../src/core/vocabulary.ts'

/** `permissions.json`: what a service publishes of itself (SPEC section 2). */
export const PERMISSIONS_MAX = 500
export const ENDPOINTS_MAX = 2000
export const FILE_BYTES_MAX = 2 * 1024 * 1024

const PERMISSION = /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*:[a-z][a-z0-9_-]*$/
// The same as the database's endpoint_pattern_is_a_path.
const PATTERN = /^\/$|^(\/([A-Za-z0-9._~!$&'()+,=:@-]+|\{[a-z][a-z0-9_]*\}))+\/?$/
const POINTER = /^(\/([^~/\p{C}]|~[01])+)+$/u
const FIELD = /^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/
const UNSEEN = /\p{C}/u

/** Plain text (USER-ASKS 38): people read it when they decide. */
const line = (max: number) =>
  z
    .string()
    .max(max)
    .refine((text) => text.trim() !== '', { error: 'must not be empty' })
    .refine((text) => !UNSEEN.test(text), {
      error: 'must be one line without control or invisible characters',
    })

const permissionId = z.string().max(128).regex(PERMISSION, {
  error: 'must be name[.name…]:action in lower case, as in accounts:read',
})

const once = <T>(list: readonly T[]): boolean => new Set(list).size === list.length
const namesOnce = { error: 'names something twice' }

const data = z.strictObject({
  entity: z
    .string()
    .max(64)
    .regex(/^[a-z][a-z0-9_-]*$/, { error: 'must be a lower-case name' }),
  rows: z.unknown().superRefine((value, c) => {
    const problem = filterProblem(value, { userVariables: true })
    if (problem === null) return
    const path = problem.path === '' ? [] : problem.path.split('.')
    c.addIssue({ code: 'custom', message: problem.message, path })
  }),
  fields: z
    .array(z.string().max(64).regex(FIELD, { error: 'must be the name of a field' }))
    .min(1)
    .max(200)
    .refine(once, namesOnce),
})

const tool = z.strictObject({
  tools: z
    .array(
      z
        .string()
        .max(200)
        .regex(/^[a-z0-9][a-z0-9-]*\/[A-Za-z0-9_.-]{1,128}$/, {
          error: 'must be server/tool, as in mail/send_email',
        }),
    )
    .min(1)
    .max(100)
    .refine(once, namesOnce),
  destination: z
    .string()
    .max(256)
    .regex(POINTER, { error: 'must be a JSON pointer into the arguments, as in /to' })
    .optional(),
})

const FACTS = ['data', 'asset', 'tool'] as const

const permission = z
  .strictObject({
    id: permissionId,
    kind: z.enum(KINDS),
    title: line(100),
    description: line(500).meta({ description: 'What it unlocks, as people are told' }),
    keywords: z
      .string()
      .max(500)
      .refine((text) => !UNSEEN.test(text), { error: 'must not have control characters' })
      .default(''),
    access: z.enum(ACCESS),
    risk: z.enum(RISKS),
    sensitive: z.boolean().default(false),
    delegable: z.boolean().default(true).meta({ description: 'False: no agent can ever hold it' }),
    enforced_at: z.enum(ENFORCED_AT).optional(),
    data: data.optional(),
    asset: z
      .strictObject({
        type: z
          .string()
          .max(64)
          .regex(/^[a-z][a-z0-9_-]*$/, {
            error: 'must be a lower-case name, as in dashboard',
          }),
      })
      .optional(),
    tool: tool.optional(),
  })
  .superRefine((p, c) => {
    for (const fact of FACTS) {
      if (p.kind === fact && p[fact] === undefined)
        c.addIssue({ code: 'custom', path: [fact], message: `is required for kind ${fact}` })
      if (p.kind !== fact && p[fact] !== undefined)
        c.addIssue({ code: 'custom', path: [fact], message: `is not for kind ${p.kind}` })
    }
    const where = ENFORCED_WHERE[p.kind]
    if (p.enforced_at !== undefined && p.enforced_at !== where)
      c.addIssue({
        code: 'custom',
        path: ['enforced_at'],
        message: `must be ${where} for kind ${p.kind}`,
      })
  })

const endpoint = z
  .strictObject({
    method: z.string().regex(/^[A-Z]{1,16}$/, { error: 'must be upper-case letters, as in GET' }),
    pattern: z
      .string()
      .max(1000)
      .regex(PATTERN, { error: 'must be a path, as in /accounts/{id}' })
      .refine((text) => !/\/\.{1,2}(\/|$)/.test(text), { error: 'has a . or .. segment' }),
    access: z.enum(PROTECTIONS),
    permissions: z
      .array(permissionId)
      .max(50)
      .refine(once, namesOnce)
      .default([])
      .meta({ description: 'Any one of them is enough' }),
  })
  .superRefine((e, c) => {
    if (e.access !== 'ACCESS_CONTROLLED' && e.permissions.length > 0)
      c.addIssue({
        code: 'custom',
        path: ['permissions'],
        message: 'is for ACCESS_CONTROLLED endpoints only',
      })
    if (e.access === 'ACCESS_CONTROLLED' && e.permissions.length === 0)
      c.addIssue({
        code: 'custom',
        path: ['permissions'],
        message: 'must name at least one: else the endpoint lets nobody in',
      })
  })

export const permissionsFile = z
  .strictObject({
    $schema: z.string().max(500).optional(),
    permissions: z.array(permission).max(PERMISSIONS_MAX),
    endpoints: z.array(endpoint).max(ENDPOINTS_MAX).default([]),
  })
  .meta({ id: 'PermissionsFile' })

/** A problem of a file: `pointer` is RFC 6901, empty for the file itself. */
export type FileError = { readonly pointer: string; readonly message: string }

export const pointerOf = (path: readonly PropertyKey[]): string =>
  path.map((one) => `/${String(one).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

const object = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {}
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Names in a file, right or wrong as the rest of it may be, so that one answer tells all that is wrong. */
export type Mentions = {
  readonly permissions: readonly {
    readonly pointer: string
    readonly id: string
    readonly kind: unknown
  }[]
  readonly tools: readonly { readonly pointer: string; readonly tool: string }[]
  readonly needed: readonly { readonly pointer: string; readonly id: string }[]
}

function mentionsIn(value: unknown): Mentions {
  const file = object(value)
  const permissions = list(file.permissions).map((one, i) => ({ one: object(one), i }))
  return {
    permissions: permissions.flatMap(({ one, i }) =>
      typeof one.id === 'string'
        ? [{ pointer: `/permissions/${i}`, id: one.id, kind: one.kind }]
        : [],
    ),
    tools: permissions.flatMap(({ one, i }) =>
      list(object(one.tool).tools).flatMap((name, n) =>
        typeof name === 'string'
          ? [{ pointer: `/permissions/${i}/tool/tools/${n}`, tool: name }]
          : [],
      ),
    ),
    needed: list(file.endpoints).flatMap((one, i) =>
      list(object(one).permissions).flatMap((id, n) =>
        typeof id === 'string' ? [{ pointer: `/endpoints/${i}/permissions/${n}`, id }] : [],
      ),
    ),
  }
}

/** The same thing twice in one file. */
function twice(value: unknown, mentions: Mentions): readonly FileError[] {
  const ids = new Set<string>()
  const errors: FileError[] = []
  for (const { id, pointer } of mentions.permissions) {
    if (ids.has(id)) errors.push({ pointer: `${pointer}/id`, message: 'is in the file twice' })
    ids.add(id)
  }
  const keys = new Map<string, string>()
  for (const [i, one] of list(object(value).endpoints).entries()) {
    const { method, pattern } = object(one)
    if (typeof method !== 'string' || typeof pattern !== 'string') continue
    const key = endpointKey({ method, pattern })
    const first = keys.get(key)
    if (first !== undefined)
      errors.push({
        pointer: `/endpoints/${i}/pattern`,
        message: `matches exactly what ${first} does`,
      })
    else keys.set(key, `${method} ${pattern}`)
  }
  return errors
}

const BIT = 'is never in the file: Lend gives each permission its bit'

/**
 * Reads a file that was parsed already. All that can be told without the catalog is told at once: `errors` in the order of
 * the file's members; `slice` only when there are none.
 */
export function readPermissionsFile(value: unknown): {
  readonly errors: readonly FileError[]
  readonly slice: Slice | null
  readonly mentions: Mentions
} {
  const mentions = mentionsIn(value)
  const read = permissionsFile.safeParse(value)
  const wrong = twice(value, mentions)
  const issues = read.success ? [] : read.error.issues
  const errors = issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({
          pointer: pointerOf([...issue.path, key]),
          message: key === 'bit' ? BIT : 'is not known here',
        }))
      : [{ pointer: pointerOf(issue.path), message: issue.message }],
  )
  if (!read.success || wrong.length > 0)
    return { errors: [...errors, ...wrong], slice: null, mentions }
  const { permissions, endpoints } = read.data
  const slice: Slice = {
    permissions: permissions.map(({ data: d, asset, tool: t, enforced_at: _, ...rest }) => ({
      ...rest,
      enforced_at: ENFORCED_WHERE[rest.kind],
      ...(d === undefined ? {} : { data: { ...d, rows: object(d.rows) } }),
      ...(asset === undefined ? {} : { asset }),
      ...(t === undefined
        ? {}
        : {
            tool: {
              tools: t.tools,
              ...(t.destination === undefined ? {} : { destination: t.destination }),
            },
          }),
    })),
    endpoints,
  }
  return { errors: [], slice, mentions }
}
