import { z } from 'zod'
import { RESOURCE_LENGTH_MAX } from '../src/core/limits.ts'
import { DECISION_REASONS } from '../src/core/reason.ts'
import { activityRecord } from './activity.ts'
import { id, name, session, templateName, time, timeAsked } from './people.ts'

/** What compliance reads beside the record itself (SPEC section 11): session by session, and how consent goes. */
const PERMISSION_LENGTH_MAX = 128
const DAYS_MAX = 366
const ITEMS_MAX = 200

export const TREE_EXPORT_FORMATS = ['csv', 'ndjson'] as const
export const treeFilter = z.strictObject({
  user: id.optional(),
  agent: id.optional(),
  template: templateName.optional(),
  permission: name(PERMISSION_LENGTH_MAX).optional(),
  from: timeAsked.optional().meta({ description: 'Live at this time or later. ISO 8601, UTC' }),
  to: timeAsked.optional().meta({ description: 'Started before this time. ISO 8601, UTC' }),
})

const counted = z.object({ by: z.string().optional(), reason: z.string().optional(), n: z.int() })

export const treeSummary = z
  .object({
    session,
    user: z.object({ id: z.string(), login: z.string(), name: z.string() }),
    subagents: z.int(),
    asked: z.int().meta({ description: 'Items' }),
    granted: z.int(),
    refused: z.int(),
    lost: z.int().meta({ description: 'Grants that ended before their session did' }),
    calls_allowed: z.int(),
    calls_denied: z.int(),
    items: z.array(
      z.object({
        permission: z.string(),
        title: z.string(),
        sensitive: z.boolean(),
        resource: z.string().optional(),
        asked: z.int(),
        granted: z.array(counted).meta({ description: 'By user, rule, mode or inherited' }),
        refused: z.array(counted).meta({ description: 'By prompt, rule or policy, and why' }),
        ended: z.array(counted).meta({ description: 'Why' }),
        calls_allowed: z.int(),
        calls_denied: z.int(),
        first_at: time,
        last_at: time,
      }),
    ),
  })
  .meta({ id: 'SessionSummary' })

export const timeline = z
  .object({
    session,
    lanes: z.array(
      z.object({
        session,
        records: z.array(activityRecord).meta({ description: 'Oldest first; no calls, no tokens' }),
        grants: z.array(
          z.object({
            grant_id: z.string(),
            permission: z.string(),
            resource: z.string().optional(),
            by: z.string(),
            from: time,
            to: time.optional().meta({ description: 'Absent while it is held' }),
            ended: z.string().optional(),
          }),
        ),
        calls: z.array(
          z.object({
            permission: z.string(),
            at: time.meta({ description: 'Where the stretch begins' }),
            allowed: z.int(),
            denied: z.int(),
          }),
        ),
      }),
    ),
    stretch_seconds: z.int().meta({ description: 'Calls are counted by stretches of this length' }),
    truncated: z.boolean().meta({ description: 'There is more than is shown; the record has all' }),
  })
  .meta({ id: 'SessionTimeline' })

export const recordDetail = z
  .object({
    record: activityRecord,
    decision: z
      .object({
        layer: z.string().meta({ description: 'What decided' }),
        reason: z.string().meta({ enum: DECISION_REASONS }),
        says: z.string(),
        rule: z
          .object({ id: z.string(), effect: z.string(), status: z.string(), created_at: time })
          .optional()
          .meta({ description: 'Absent when it has been deleted since' }),
      })
      .optional(),
    chain: z.object({
      ok: z
        .boolean()
        .meta({ description: 'Its hash is that of its contents, and both links hold' }),
      problem: z.string().optional(),
      prev_id: z.string().optional(),
      next_id: z.string().optional(),
      checkpoint: z
        .object({ n: z.int(), at: time })
        .optional()
        .meta({ description: 'The first signed checkpoint that anchors it' }),
    }),
  })
  .meta({ id: 'ActivityDetail' })

const days = (of: number) =>
  z
    .string()
    .regex(/^[1-9][0-9]{0,2}$/, { error: `must be a whole number of days from 1 to ${DAYS_MAX}` })
    .transform(Number)
    .refine((n) => n <= DAYS_MAX, { error: `must be at most ${DAYS_MAX}` })
    .default(of)
    .meta({ type: 'integer', minimum: 1, maximum: DAYS_MAX })

const REVIEW_DAYS = 90
const HEALTH_DAYS = 30

export const reviewQuery = z.strictObject({ days: days(REVIEW_DAYS) })
export const healthQuery = z.strictObject({ days: days(HEALTH_DAYS) })

export const reviews = z
  .object({
    days: z.int(),
    unused_rules: z.array(
      z.object({
        id: z.string(),
        user: z.object({ id: z.string(), login: z.string() }),
        template: z.string(),
        permission: z.string(),
        title: z.string(),
        resource: z.string().optional(),
        created_at: time,
        last_used_at: time.optional(),
      }),
    ),
    never_refused: z
      .array(z.object({ template: z.string(), title: z.string(), answered: z.int() }))
      .meta({ description: 'Templates whose people said yes to everything' }),
    never_used: z.array(
      z.object({
        template: z.string(),
        permission: z.string(),
        title: z.string(),
        granted: z.int(),
        sessions: z.int(),
      }),
    ),
  })
  .meta({ id: 'AccessReviews' })

const consent = z.object({
  sessions: z.int(),
  prompts: z.int(),
  prompts_per_session: z.number().nullable(),
  allowed: z.int(),
  denied: z.int(),
  expired: z.int(),
  cancelled: z.int(),
  refused_at_answer: z.int(),
  approve_rate: z.number().nullable().meta({ description: 'Of those answered; null: none was' }),
  seconds_to_decide: z
    .object({ median: z.number(), p90: z.number() })
    .nullable()
    .meta({ description: 'From question to answer' }),
})

export const consentHealth = z
  .object({
    days: z.int(),
    all: consent,
    templates: z.array(consent.extend({ template: z.string(), title: z.string() })),
  })
  .meta({ id: 'ConsentHealth' })

export const enablementNarrow = z.strictObject({
  remove: z
    .array(
      z.strictObject({
        permission: name(PERMISSION_LENGTH_MAX),
        resource: name(RESOURCE_LENGTH_MAX)
          .optional()
          .meta({ description: 'Absent: whatever is kept of this permission' }),
      }),
    )
    .min(1)
    .max(ITEMS_MAX),
})
