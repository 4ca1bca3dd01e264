import { z } from 'zod'
import { RESOURCE_LENGTH_MAX } from '../core/limits.ts'
import { canonicalResource } from '../core/resource.ts'
import { type FieldError, fail, ok, type Result } from '../fault.ts'
import type { Question, Subject } from '../flows/evaluate-access.ts'
import type { Page } from '../flows/search-access.ts'

/**
 * What AuthZEN 1.0 sends, and what is made of it. Members that are not known are passed over, as the standard wants; one that is
 * known and missing, of another type or too long is an error that names it. Nothing that is not understood can widen: all that
 * is read is who, what and which.
 */
const NAME_LENGTH_MAX = 128
const TOKEN_LENGTH_MAX = 64 * 1024
const EVALUATIONS_MAX = 100
const PAGE_MAX = 200

const name = z.string().min(1).max(NAME_LENGTH_MAX)
const properties = z.record(z.string(), z.unknown()).optional()
const context = z.record(z.string(), z.unknown()).optional()
const subject = z.object({ type: name, id: z.string().min(1).max(RESOURCE_LENGTH_MAX), properties })
const action = z.object({ name, properties })
const resource = z.object({
  type: name,
  id: z.string().min(1).max(RESOURCE_LENGTH_MAX),
  properties,
})
const anyOf = z.object({ type: name, properties })
const page = z
  .object({
    token: z.string().max(1024).optional(),
    limit: z.int().min(1).optional(),
  })
  .optional()

const SHAPES = {
  evaluation: z.object({ subject, action, resource, context }),
  subjectSearch: z.object({ subject: anyOf, action, resource, context, page }),
  resourceSearch: z.object({ subject, action, resource: anyOf, context, page }),
  actionSearch: z.object({ subject, resource, context, page }),
  batch: z.object({
    evaluations: z
      .array(z.unknown())
      .max(EVALUATIONS_MAX, { error: `takes at most ${EVALUATIONS_MAX} evaluations` })
      .optional(),
    options: z
      .object({
        evaluations_semantic: z
          .enum(['execute_all', 'deny_on_first_deny', 'permit_on_first_permit'])
          .optional(),
      })
      .optional(),
    subject: z.record(z.string(), z.unknown()).optional(),
    action: z.record(z.string(), z.unknown()).optional(),
    resource: z.record(z.string(), z.unknown()).optional(),
    context,
  }),
}

const wrong = (path: string, message: string) =>
  fail('request_malformed', { errors: [{ path, message }] })

function parse<T>(shape: z.ZodType<T>, body: unknown): Result<T> {
  const parsed = shape.safeParse(body)
  if (parsed.success) return ok(parsed.data)
  const errors: FieldError[] = parsed.error.issues.map((issue) => ({
    path: issue.path.join('.'),
    message: issue.message,
  }))
  return fail('request_malformed', { errors })
}

/** A session is asked about by the token that was shown: its id alone is no evidence that it was there. */
function subjectOf(of: z.infer<typeof subject>): Result<Subject> {
  if (of.type === 'user') return ok({ type: 'user', id: of.id })
  if (of.type !== 'agent_session') return ok({ type: 'unknown' })
  const token = of.properties?.token
  if (token === undefined) return wrong('subject.properties.token', 'is required for a session')
  return typeof token === 'string' && token.length > 0 && token.length <= TOKEN_LENGTH_MAX
    ? ok({ type: 'agent_session', id: of.id, token })
    : wrong('subject.properties.token', 'must be the token that was shown')
}

/** One object in canonical form. A pattern is refused: a check is of one thing that is touched. */
function resourceOf(of: z.infer<typeof resource>): Result<Question['resource']> {
  if (of.type.includes('/')) return wrong('resource.type', 'has a slash')
  const canonical = canonicalResource(`${of.type}/${of.id}`)
  if (!canonical.ok) return wrong('resource.id', canonical.why)
  return canonical.value.endsWith('/*')
    ? wrong('resource.id', 'must name one object, not a pattern')
    : ok({ type: of.type.normalize('NFC'), item: canonical.value })
}

function pageOf(of: z.infer<typeof page>): Result<Page> {
  const after = Buffer.from(of?.token ?? '', 'base64url').toString()
  if (/\p{C}/u.test(after) || Buffer.from(after).toString('base64url') !== (of?.token ?? ''))
    return wrong('page.token', 'is not one that a search answered with')
  return ok({ after, limit: Math.min(of?.limit ?? PAGE_MAX, PAGE_MAX) })
}

export type Asked = Question

/** `{subject, action, resource, context?}`. */
export function evaluation(body: unknown): Result<Asked> {
  const read = parse(SHAPES.evaluation, body)
  if (!read.ok) return read
  const who = subjectOf(read.value.subject)
  if (!who.ok) return who
  const which = resourceOf(read.value.resource)
  if (!which.ok) return which
  return ok({ subject: who.value, action: read.value.action.name, resource: which.value })
}

type Batch = {
  readonly items: readonly unknown[]
  /** The decision after which the rest is not evaluated. */
  readonly stopAt: boolean | null
}

const STOPS = {
  execute_all: null,
  deny_on_first_deny: false,
  permit_on_first_permit: true,
} as const
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An item's entity replaces the default as a whole; only `type` and `id`, without which it is none, are filled in. */
function entityOf(own: unknown, fallback: Record<string, unknown> | undefined): unknown {
  if (own === undefined) return fallback
  if (!isObject(own) || fallback === undefined) return own
  const { type, id } = fallback
  return { ...(type === undefined ? {} : { type }), ...(id === undefined ? {} : { id }), ...own }
}

/** `{evaluations: […], subject?, action?, resource?, context?, options?}`: each item with the defaults filled in. */
export function batchOf(body: unknown): Result<Batch> {
  const read = parse(SHAPES.batch, body)
  if (!read.ok) return read
  const { evaluations = [], options, ...defaults } = read.value
  const items = evaluations.map((item) =>
    isObject(item)
      ? {
          subject: entityOf(item.subject, defaults.subject),
          action: item.action ?? defaults.action,
          resource: entityOf(item.resource, defaults.resource),
          context: item.context ?? defaults.context,
        }
      : item,
  )
  return ok({ items, stopAt: STOPS[options?.evaluations_semantic ?? 'execute_all'] })
}

/** `{subject: {type}, action, resource, page?}`: a `subject.id` is passed over. */
export function subjectSearch(
  body: unknown,
): Result<Pick<Question, 'action' | 'resource'> & { readonly type: string; readonly page: Page }> {
  const read = parse(SHAPES.subjectSearch, body)
  if (!read.ok) return read
  const which = resourceOf(read.value.resource)
  if (!which.ok) return which
  const from = pageOf(read.value.page)
  if (!from.ok) return from
  const { subject: who, action: what } = read.value
  return ok({ type: who.type, action: what.name, resource: which.value, page: from.value })
}

/** `{subject, action, resource: {type}, page?}`: a `resource.id` is passed over. */
export function resourceSearch(
  body: unknown,
): Result<Pick<Question, 'subject' | 'action'> & { readonly type: string; readonly page: Page }> {
  const read = parse(SHAPES.resourceSearch, body)
  if (!read.ok) return read
  const who = subjectOf(read.value.subject)
  if (!who.ok) return who
  const from = pageOf(read.value.page)
  if (!from.ok) return from
  const { action: what, resource: which } = read.value
  return ok({ subject: who.value, action: what.name, type: which.type, page: from.value })
}

/** `{subject, resource}`; an `action` is passed over. */
export function actionSearch(body: unknown): Result<Pick<Question, 'subject' | 'resource'>> {
  const read = parse(SHAPES.actionSearch, body)
  if (!read.ok) return read
  const who = subjectOf(read.value.subject)
  if (!who.ok) return who
  const which = resourceOf(read.value.resource)
  return which.ok ? ok({ subject: who.value, resource: which.value }) : which
}
