import { z } from 'zod'
import { NOTE_LENGTH_MAX, RESOURCE_LENGTH_MAX, TASK_LENGTH_MAX } from '../src/core/limits.ts'
import { DECISION_REASONS } from '../src/core/reason.ts'
import { ITEM_OUTCOMES, REQUEST_STATUSES, SESSION_STATUSES } from '../src/core/session.ts'
import { type Filter, KINDS, MODES, RISKS, RULE_EFFECTS } from '../src/core/vocabulary.ts'

/**
 * The People API's contract (SPEC section 8). Requests are strict: a member that is not understood is an error. Answers
 * are open, so that they can grow. Times are ISO 8601 in UTC with `Z`.
 */

const ANSWER_ITEMS_MAX = 100
const NARROW_LENGTH_MAX = 16_000
const ANSWERS = ['allow_once', 'allow_always', 'deny', 'deny_always'] as const

// Control, format (bidi, zero width), private and unassigned characters and half surrogates: nothing a name needs.
const UNSEEN = /\p{C}/u

/** One line of text whose every character can be seen. `max` in characters; never blank. */
export const name = (max: number) =>
  z
    .string()
    .refine((text) => !UNSEEN.test(text), { error: 'has an invisible or control character' })
    .refine((text) => [...text].length <= max, { error: `is longer than ${max} characters` })
    .refine((text) => text.trim() !== '', { error: 'is empty' })
    .meta({ minLength: 1, maxLength: max })

/** A person's own words, over several lines if they like. Control characters are refused before any schema is asked. */
export const prose = (max: number) =>
  z
    .string()
    .refine((text) => [...text].length <= max, { error: `is longer than ${max} characters` })
    .refine((text) => text.trim() !== '', { error: 'is empty' })
    .meta({ minLength: 1, maxLength: max })

/** As it is answered. */
export const time = z.string().meta({ format: 'date-time', description: 'ISO 8601, UTC' })

/** As it is asked; read as seconds since the epoch. */
export const timeAsked = z.iso
  .datetime({ error: 'must be a time in UTC, as in 2026-11-30T12:00:00Z' })
  .transform((text) => Date.parse(text) / 1000)

/** An id in a path or body. What names nothing is answered by the route, not here. */
export const id = z.string().min(1).max(64)

const isObject = (value: unknown): value is Filter =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A filter as asked; its operators and fields are checked with the catalog at hand. */
export const narrowAsked = z
  .custom<Filter>(isObject, { error: 'must be a filter object', abort: true })
  .refine((value) => JSON.stringify(value).length <= NARROW_LENGTH_MAX, {
    error: `is longer than ${NARROW_LENGTH_MAX} characters`,
  })
  .meta({ type: 'object' })

const narrow = z.record(z.string(), z.unknown())

export const templateName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,63}$/, { error: 'must be a template name, as in renewal-briefs' })

const templateRef = z.string().regex(/^[a-z][a-z0-9-]{0,63}(@[1-9][0-9]{0,5})?$/, {
  error: 'must be a template, as in renewal-briefs or renewal-briefs@3',
})

/** A list, newest first. `next` is there when there is more. */
export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), next: z.string().optional() })

export const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string().meta({ description: 'Stable. What a client decides by.' }),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
    limit: z.string().optional(),
    current: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ description: 'After a stale write: how the thing stands now' }),
    retry_after: z.int().optional().meta({ description: 'Seconds' }),
    request_id: z.string(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457' })

export const me = z
  .object({
    id: z.string(),
    login: z.string(),
    name: z.string(),
    email: z.string().optional(),
    staff_roles: z.array(z.string()),
    attributes: z.record(z.string(), z.unknown()),
    tenant: z.object({ id: z.string(), slug: z.string(), name: z.string() }),
  })
  .meta({ id: 'Me' })

export const session = z
  .object({
    id: z.string(),
    root_id: z.string(),
    parent_id: z.string().optional(),
    path: z.array(z.string()).meta({ description: 'Template titles, from the root to itself' }),
    user_id: z.string(),
    agent_id: z.string(),
    agent_name: z.string(),
    template: z.string(),
    template_version: z.int(),
    mode: z.enum(MODES).meta({ description: 'The mode that is in force now' }),
    mode_expires_at: time.optional(),
    status: z.enum(SESSION_STATUSES),
    end_reason: z.string().optional(),
    read_only: z.boolean(),
    version: z.int(),
    claimed: z.boolean().meta({ description: 'Whether the agent has taken it up' }),
    task: z.string().nullable(),
    created_at: time,
    expires_at: time,
    ended_at: time.optional(),
  })
  .meta({ id: 'Session' })

export const sessionNew = z.strictObject({
  agent_id: id,
  template: templateRef,
  mode: z.enum(MODES).optional(),
  mode_expires_at: timeAsked.optional(),
  task: prose(TASK_LENGTH_MAX).optional(),
})

export const sessionChange = z.strictObject({
  mode: z.enum(MODES),
  mode_expires_at: timeAsked.optional(),
})

export const sessionEnded = z.object({
  sessions_ended: z.int(),
  grants_revoked: z.int(),
  prompts_cancelled: z.int(),
})

export const grant = z
  .object({
    id: z.string(),
    permission: z.string(),
    title: z.string(),
    kind: z.enum(KINDS),
    resource: z.string().optional(),
    narrow: narrow.optional(),
    read_only: z.boolean(),
    source: z.object({
      by: z.enum(['user', 'rule', 'mode', 'inherited']),
      rule_id: z.string().optional(),
      request_id: z.string().optional(),
      from_session: z.string().optional(),
    }),
    since: time,
    uses: z.int(),
    last_used_at: time.optional(),
  })
  .meta({ id: 'Grant' })

export const sessionAccess = z.object({
  session_id: z.string(),
  items: z.array(grant),
  subagents: z.array(z.object({ session, items: z.array(grant) })),
})

export const revoked = z.object({
  revoked: z.int().meta({ description: 'Inherited grants that went with it are counted' }),
})

const rulePreview = z.object({
  effect: z.literal('allow'),
  template: z.string(),
  permission: z.string(),
  resource: z.string().optional(),
  narrow: narrow.optional(),
  covers: z.string(),
  does_not: z.string(),
})

export const requestItem = z
  .object({
    id: z.string(),
    permission: z.string(),
    title: z.string(),
    unlocks: z.string(),
    kind: z.enum(KINDS).optional().meta({ description: 'Absent when the catalog has no such id' }),
    resource: z.string().optional(),
    narrow: narrow.optional(),
    risk: z.enum(RISKS).optional(),
    sensitive: z.boolean(),
    outcome: z.enum(ITEM_OUTCOMES),
    decision_reason: z.string().meta({ enum: DECISION_REASONS }),
    decided_at: time.optional(),
    can_remember: z.boolean(),
    rule_preview: rulePreview.optional(),
  })
  .meta({ id: 'AccessRequestItem' })

export const accessRequest = z
  .object({
    id: z.string(),
    session_id: z.string(),
    root_session_id: z.string(),
    path: z.array(z.string()),
    agent: z.object({ id: z.string(), name: z.string() }),
    template: z.object({ name: z.string(), title: z.string(), version: z.int() }),
    reason: z.string().meta({ description: 'The agent’s own words; nothing has checked them' }),
    digest: z.string(),
    status: z.enum(REQUEST_STATUSES),
    created_at: time,
    expires_at: time.optional(),
    settled_at: time.optional(),
    note: z.string().optional(),
    items: z.array(requestItem),
  })
  .meta({ id: 'AccessRequest' })

export const decision = z.strictObject({
  digest: z.string().min(1).max(128),
  items: z
    .array(
      z.strictObject({
        id,
        decision: z.enum(ANSWERS),
        rule_expires_at: timeAsked.optional(),
      }),
    )
    .max(ANSWER_ITEMS_MAX),
  note: prose(NOTE_LENGTH_MAX).optional(),
})

export const rule = z
  .object({
    id: z.string(),
    template: z.string(),
    permission: z.string(),
    title: z.string(),
    resource: z.string().optional(),
    narrow: narrow.optional(),
    effect: z.enum(RULE_EFFECTS),
    status: z.enum(['active', 'suspended']),
    created_from: z.string().optional().meta({ description: 'The access request it came from' }),
    created_at: time,
    expires_at: time.optional(),
  })
  .meta({ id: 'Rule' })

export const ruleNew = z.strictObject({
  template: templateName,
  permission: name(128),
  resource: name(RESOURCE_LENGTH_MAX * 2).optional(),
  narrow: narrowAsked.optional(),
  effect: z.enum(RULE_EFFECTS),
  expires_at: timeAsked.optional(),
})

export type Me = z.output<typeof me>
export type SessionView = z.output<typeof session>
export type GrantView = z.output<typeof grant>
export type RequestItemView = z.output<typeof requestItem>
export type RequestView = z.output<typeof accessRequest>
export type RuleView = z.output<typeof rule>
