import { z } from 'zod'
import { LIMITS, RESOURCE_LENGTH_MAX } from '../src/core/limits.ts'
import { OUTCOMES } from '../src/core/reason.ts'
import { ACCESS, ENFORCED_AT, KINDS, type Limits, MODES, RISKS } from '../src/core/vocabulary.ts'
import { id, name, narrowAsked, prose, templateName, time } from './people.ts'
import { templateDiff } from './templates.ts'

/** Templates as they are built and reviewed (SPEC sections 3 and 8). Requests are strict; answers are open. */
export const VERSION_MAX = 999_999
export const ITEMS_MAX = 200
const TITLE_LENGTH_MAX = 120
const PURPOSE_LENGTH_MAX = 2000
const CONTEXT_LENGTH_MAX = 20_000
const JUSTIFICATION_LENGTH_MAX = 500
const COMMENT_LENGTH_MAX = 4000
const NUMBER_MAX = 1_000_000

const version = z.int().min(1).max(VERSION_MAX)
const limitName = z.enum([...(Object.keys(LIMITS) as [keyof Limits]), 'requestWaitSeconds'])

/** An item as a draft names it: its shape is checked here, its meaning by validation. */
export const draftItem = z.strictObject({
  permission: z.string().min(1).max(128),
  resource: z.string().min(1).max(RESOURCE_LENGTH_MAX).optional(),
  narrow: narrowAsked.optional(),
})

/** An item of the ceiling, with why the job needs it. */
const ceilingItem = draftItem.extend({
  justification: prose(JUSTIFICATION_LENGTH_MAX)
    .optional()
    .meta({ description: 'Why the job needs it, for whoever reviews it. It decides nothing' }),
})

const text = (max: number) =>
  z
    .string()
    .refine((value) => [...value].length <= max, { error: `is longer than ${max} characters` })

/** What a version says. What is left out is empty, or the default: a draft may be incomplete. */
export const draftTerms = {
  purpose: text(PURPOSE_LENGTH_MAX).optional().meta({ description: 'The job, in words' }),
  ceiling: z
    .array(ceilingItem)
    .max(ITEMS_MAX)
    .optional()
    .meta({ description: 'The most that a session may ever ask for' }),
  context: text(CONTEXT_LENGTH_MAX)
    .optional()
    .meta({ description: 'Instructions that the agent is given' }),
  modes: z
    .array(z.enum(MODES))
    .max(MODES.length)
    .optional()
    .meta({ description: '`ask` always is one' }),
  limits: z
    .partialRecord(limitName, z.int().min(0).max(NUMBER_MAX))
    .optional()
    .meta({ description: 'Each at most the default' }),
  children: z
    .array(z.strictObject({ template: templateName, version }))
    .max(50)
    .optional()
    .meta({ description: 'Templates of subagents, each pinned to a version' }),
  sensitive: z
    .array(draftItem)
    .max(ITEMS_MAX)
    .optional()
    .meta({ description: 'Always asked for, whatever the catalog says of them' }),
  sponsor: id
    .optional()
    .meta({ description: 'Who answers for it: a person of the owning tenant, by id or login' }),
}

export const templateDraft = z
  .strictObject({
    ...draftTerms,
    revision: z
      .int()
      .min(1)
      .optional()
      .meta({ description: 'The revision that was edited. Or in If-Match, as in "3"' }),
    base: z.enum(['published', 'nothing']).optional().meta({
      description:
        'Of a new draft: where what is left out comes from, the last published or nothing',
    }),
  })
  .meta({ id: 'TemplateDraft' })

export const templateNew = z.strictObject({
  name: templateName.meta({ description: 'Unique on the deployment' }),
  title: name(TITLE_LENGTH_MAX),
  visibility: z.enum(['private', 'public']).default('private'),
  draft: z.strictObject(draftTerms).optional().meta({ description: 'Of version 1' }),
})

export const PROBLEM_CODES = [
  'purpose_missing',
  'ceiling_empty',
  'item_invalid',
  'item_unknown',
  'item_retired',
  'never_delegable',
  'item_twice',
  'limit_too_high',
  'child_unknown',
  'child_unpublished',
  'child_cyclic',
  'child_twice',
  'sponsor_missing',
  'sponsor_disabled',
  'sponsor_gone',
  'example_differs',
  'example_invalid',
] as const

export const templateProblem = z
  .object({
    pointer: z.string().meta({ description: 'RFC 6901, into the draft' }),
    code: z.enum(PROBLEM_CODES),
    message: z.string(),
  })
  .meta({ id: 'TemplateProblem' })

export const place = z.object({
  permission: z.string(),
  resource: z.string().optional(),
  narrow: z.record(z.string(), z.unknown()).optional(),
})

const STATUSES = ['draft', 'in_review', 'published', 'retired'] as const

export const templateVersion = z
  .object({
    template: z.string(),
    template_id: z.string(),
    title: z.string(),
    version: z.int(),
    status: z.enum(STATUSES),
    revision: z.int().meta({ description: 'Raised by every change of the draft; also the ETag' }),
    base_version: z.int().optional(),
    purpose: z.string(),
    ceiling: z.array(place.extend({ justification: z.string().optional() })),
    context: z.string(),
    modes: z.array(z.enum(MODES)),
    limits: z.record(z.string(), z.int()),
    children: z.array(z.object({ template: z.string(), version: z.int().optional() })),
    sensitive: z.array(place),
    sponsor: z
      .object({
        id: z.string(),
        login: z.string().optional(),
        name: z.string().optional(),
        status: z.enum(['active', 'disabled', 'gone']),
      })
      .optional()
      .meta({ description: 'Only in the tenant that owns the template' }),
    authors: z.array(z.string()).optional(),
    reviewer: z.string().optional(),
    updated_at: time.optional(),
    submitted_at: time.optional(),
    published_at: time.optional(),
    retired_at: time.optional(),
    problems: z
      .array(templateProblem)
      .optional()
      .meta({ description: 'What keeps a draft from being submitted' }),
  })
  .meta({ id: 'TemplateVersion' })

export const template = z
  .object({
    id: z.string(),
    name: z.string(),
    title: z.string(),
    visibility: z.enum(['private', 'public']),
    owned: z.boolean().meta({ description: 'Whether this organisation publishes it' }),
    created_at: time,
    latest_version: z.int().optional().meta({ description: 'The newest published one' }),
    open_version: z.int().optional().meta({ description: 'A draft, or what is in review' }),
    sponsor_needed: z
      .boolean()
      .optional()
      .meta({ description: 'A published version whose sponsor has left: name another' }),
    versions: z.array(
      z.object({
        version: z.int(),
        status: z.enum(STATUSES),
        purpose: z.string(),
        published_at: time.optional(),
      }),
    ),
  })
  .meta({ id: 'Template' })

export const templateReview = z.strictObject({
  verdict: z.enum(['approve', 'send_back']),
  comment: prose(COMMENT_LENGTH_MAX).optional().meta({ description: 'Sending back needs one' }),
  revision: z.int().min(1).optional().meta({ description: 'What was reviewed' }),
})
export const templateReviewed = templateVersion
  .extend({
    widens: z.boolean().optional().meta({ description: 'Of what was published' }),
  })
  .meta({ id: 'TemplateReviewed' })

export const templateNote = z.strictObject({ comment: prose(COMMENT_LENGTH_MAX).optional() })
export const templateCommentNew = z.strictObject({
  body: prose(COMMENT_LENGTH_MAX),
  on: draftItem.optional().meta({ description: 'An item of the ceiling; left out: the version' }),
})
export const templateComment = z
  .object({
    id: z.string(),
    user: z.object({ id: z.string(), login: z.string(), name: z.string() }),
    kind: z.enum(['comment', 'submitted', 'withdrawn', 'sent_back', 'approved']),
    body: z.string(),
    on: place.optional().meta({ description: 'The item of the ceiling that it is about' }),
    created_at: time,
  })
  .meta({ id: 'TemplateComment' })

export const sponsorChange = z.strictObject({ sponsor: id })

export const rated = z.object({
  title: z.string(),
  unlocks: z.string(),
  kind: z.enum(KINDS).optional().meta({ description: 'Absent when the catalog has it no more' }),
  access: z.enum(ACCESS).optional(),
  risk: z.enum(RISKS).optional(),
  enforced_at: z.enum(ENFORCED_AT).optional(),
})
const reached = place.extend({
  sensitive: z.boolean(),
  by: z.array(z.string()).meta({ description: 'Versions that contribute it' }),
})

export const templateVersionDiff = z
  .object({
    template: z.string(),
    version: z.int(),
    against: z.int().optional().meta({ description: 'Absent: nothing was published before' }),
    diff: templateDiff,
  })
  .meta({ id: 'TemplateVersionDiff' })

export const templateReach = z
  .object({
    template: z.string(),
    version: z.int(),
    members: z.array(z.string()).meta({ description: 'The version and all below it' }),
    items: z.array(reached.extend(rated.shape)),
    pairs: z
      .array(z.object({ reads: reached, sends: reached }))
      .meta({ description: 'Reads what is sensitive, and can send it out' }),
  })
  .meta({ id: 'TemplateReach' })

/** What must come of an item, checked by the decision itself wherever the draft is validated. */
const example = z.strictObject({
  user_has: z.array(draftItem).max(ITEMS_MAX).meta({ description: 'What a made-up person has' }),
  mode: z.enum(MODES).default('ask'),
  item: draftItem,
  expect: z
    .string()
    .regex(/^(granted|refused|asked)( [a-z_]+)?$/, {
      error: 'must be an outcome and, if you like, its reason, as in refused outside_ceiling',
    })
    .meta({ description: 'As in `asked`, or `refused outside_ceiling`' }),
})
const examples = z.array(example).max(100).optional()

export const templateValidate = z.strictObject({
  name: templateName.optional().meta({ description: 'The template that it is a draft of' }),
  draft: z.strictObject(draftTerms),
  examples,
})
export const templateValidated = z
  .object({
    ok: z.boolean(),
    problems: z.array(templateProblem),
    against: z.int().optional().meta({ description: 'The last published version, if any' }),
    diff: templateDiff,
  })
  .meta({ id: 'TemplateValidated' })

/** A template in a file of its builders' own repository. */
export const templateFile = z
  .strictObject({
    $schema: z.string().max(2048).optional(),
    name: templateName,
    title: name(TITLE_LENGTH_MAX),
    visibility: z.enum(['private', 'public']).default('private'),
    ...draftTerms,
    examples,
  })
  .meta({ id: 'TemplateFile' })

const replayFields = {
  days: z.int(),
  items: z.int().meta({ description: 'Recorded items that were decided again' }),
  truncated: z.boolean().meta({ description: 'There were more; the newest were looked at' }),
  changed: z
    .object({ refused: z.int(), asked: z.int(), granted: z.int() })
    .meta({ description: 'How many would now come out so, and did not' }),
  own: z
    .array(
      place.extend({
        request_id: z.string(),
        item_id: z.string(),
        session_id: z.string(),
        user_id: z.string(),
        at: time,
        was: z.object({ outcome: z.enum(OUTCOMES), reason: z.string() }),
        now: z.object({ outcome: z.enum(OUTCOMES), reason: z.string(), says: z.string() }),
      }),
    )
    .meta({ description: 'Of this organisation, newest first' }),
}
export const replayed = z.object(replayFields).meta({ id: 'Replay' })

export const templateReplay = z
  .object({
    template: z.string(),
    version: z.int(),
    ...replayFields,
    others: z
      .array(
        z.object({
          permission: z.string(),
          outcome: z.enum(OUTCOMES),
          reason: z.string(),
          count: z.int(),
        }),
      )
      .meta({ description: 'Of other organisations: counts and nothing else' }),
  })
  .meta({ id: 'TemplateReplay' })

export const enablementPreview = z
  .object({
    template: z.string(),
    from_version: z.int().meta({ description: 'What is adopted' }),
    to_version: z.int(),
    widens: z.boolean().meta({ description: 'People’s allow rules would wait for a look' }),
    kept: z.array(place).meta({ description: 'What this organisation would keep of it' }),
    modes: z.array(z.enum(MODES)),
    limits: z.record(z.string(), z.int()),
    diff: templateDiff,
    replay: replayed.meta({ description: 'Recorded requests here, decided again' }),
  })
  .meta({ id: 'EnablementPreview' })
