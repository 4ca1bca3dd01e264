import { z } from 'zod'
import { filterProblem } from '../src/core/filter.ts'
import {
  REASON_LENGTH_MAX,
  RESOURCE_LENGTH_MAX,
  TASK_LENGTH_MAX,
  WAIT_SECONDS_MAX,
} from '../src/core/limits.ts'
import {
  DECISION_REASONS,
  type DecisionReason,
  ENDS,
  OUTCOMES,
  REASONS,
  RETRIES,
} from '../src/core/reason.ts'
import { ENFORCED_AT, type Filter, KINDS, MODES, RISKS } from '../src/core/vocabulary.ts'

/**
 * The wire contract of the seven tools (SPEC section 7). Arguments are strict: a member that is not
 * understood is an error, since ignoring it could grant something other than what was meant.
 * Results are open, so that they can grow.
 */

/**
 * More than a session's own limit is a limit fault of the flow; this only bounds the work of
 * reading.
 */
const ITEMS_MAX = 100
const PERMISSION_LENGTH_MAX = 128
const SUMMARY_LENGTH_MAX = 1000
const DESCRIBED_MAX = 50
const NARROW_LENGTH_MAX = 16_000

// Postgres stores neither NUL nor half a surrogate pair, and no control character helps a person to
// read a reason.
const CONTROL = /\p{Cc}/u
const CONTROL_BUT_LINES = /[^\P{Cc}\n\t]/u
const LONE_SURROGATE = /\p{Cs}/u

/**
 * Why a string cannot be taken at all, or null. Invisible and bidirectional characters pass:
 * screens escape them.
 */
function unprintable(text: string, control: RegExp): string | null {
  if (LONE_SURROGATE.test(text)) return 'has half of a surrogate pair, which is not text'
  if (control.test(text)) return 'has a control character'
  return null
}

/** Nothing that anybody could see: spaces, format characters, and what fonts leave out. */
const UNSEEN_ALONE = /^[\s\p{Cf}\p{Default_Ignorable_Code_Point}]*$/u

const codePoints = (text: string): number => [...text].length

type TextBounds = { readonly min: 0 | 1; readonly max: number; readonly lines: boolean }

/**
 * Text of bounded length in code points, as JSON Schema counts. What is required may not be blank.
 */
function text({ min, max, lines }: TextBounds) {
  return z
    .string()
    .superRefine((value, ctx) => {
      const why = unprintable(value, lines ? CONTROL_BUT_LINES : CONTROL)
      if (why !== null) ctx.addIssue({ code: 'custom', message: why })
      if (codePoints(value) > max)
        ctx.addIssue({ code: 'custom', message: `is longer than ${max} characters` })
      if (min > 0 && UNSEEN_ALONE.test(value)) ctx.addIssue({ code: 'custom', message: 'is empty' })
    })
    .meta({ minLength: min, maxLength: max })
}

const prose = (max: number) => text({ min: 1, max, lines: true })
const name = (max: number) => text({ min: 1, max, lines: false })

const permission = name(PERMISSION_LENGTH_MAX).describe('Permission id, as in accounts:read')
const resource = name(RESOURCE_LENGTH_MAX).describe(
  'One object or destination, as in dashboard/q3-pipeline, or a pattern, as in dashboard/*. Required for assets and for tools with a destination; leave it out elsewhere',
)

const strings = (value: unknown): string[] => {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return [...Object.keys(value), ...Object.values(value).flatMap(strings)]
}

function narrowProblem(value: unknown): { path: string; message: string } | null {
  // The filter's own check comes first: it bounds the depth, so that what follows may recurse.
  const problem = filterProblem(value, { userVariables: false })
  if (problem !== null) return problem
  if (JSON.stringify(value).length > NARROW_LENGTH_MAX)
    return { path: '', message: `is longer than ${NARROW_LENGTH_MAX} characters` }
  for (const text of strings(value)) {
    const why = unprintable(text, CONTROL)
    if (why !== null) return { path: '', message: why }
  }
  return null
}

const isObject = (value: unknown): value is Filter =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

// Not z.record: it drops a `__proto__` member in silence, and a filter that loses a clause is
// wider.
const narrow = z
  .custom<Filter>(isObject, { error: 'must be a filter object', abort: true })
  .superRefine((value, ctx) => {
    const problem = narrowProblem(value)
    if (problem === null) return
    const path = problem.path === '' ? [] : problem.path.split('.')
    ctx.addIssue({ code: 'custom', path, message: problem.message })
  })
  .meta({ type: 'object' })
  .describe(
    'Makes a data request smaller: {"renewal_in_days": {"$lte": 90}}. Operators $eq $ne $lt $lte $gt $gte $in $and $or $not',
  )

const item = z.strictObject({
  permission,
  resource: resource.exactOptional(),
  narrow: narrow.exactOptional(),
})

const template = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}(@[1-9][0-9]{0,8})?$/, {
    error: 'must be a template name, as in email-drafter or email-drafter@1',
  })
  .describe('Child template, as in email-drafter, or with its adopted version, email-drafter@1')

const reasons = DECISION_REASONS.filter(
  (key): key is DecisionReason => Object.hasOwn(REASONS, key) || Object.hasOwn(ENDS, key),
)

const at = z.string().meta({ format: 'date-time' }).describe('ISO 8601, UTC')
const count = z.int().nonnegative()

const itemResult = z.object({
  permission: z.string(),
  resource: z.string().exactOptional(),
  narrow: z.custom<Filter>(isObject).meta({ type: 'object' }).exactOptional(),
})

/** A grant as every surface shows it (SPEC section 8). */
export const grant = z.object({
  id: z.string(),
  ...itemResult.shape,
  read_only: z.boolean(),
  source: z.object({
    by: z.enum(['user', 'rule', 'mode', 'inherited']),
    rule_id: z.string().exactOptional(),
    request_id: z.string().exactOptional(),
    from_session: z.string().exactOptional(),
  }),
  since: at,
  uses: count,
  last_used_at: at.exactOptional(),
})

/** A question to the user that this session is waiting for. */
export const pendingItem = z.object({
  request_id: z.string(),
  ...itemResult.shape,
  reason: z.enum(reasons),
  message: z.string(),
  since: at,
  expires_at: at.exactOptional(),
  review_url: z.string().exactOptional(),
})

const tokenRefresh = z
  .boolean()
  .describe('What is held now differs from what your token carries: re-issue the token')

const described = z.object({
  id: z.string(),
  title: z.string(),
  unlocks: z.string(),
  kind: z.enum(KINDS),
  risk: z.enum(RISKS),
  sensitive: z.boolean(),
  delegable: z.boolean(),
  in_ceiling: z.boolean(),
  held: z.boolean(),
  resource_hint: z.string().exactOptional(),
  why: z.string().describe('Why it is listed for this task'),
})

/** What only the catalog knows is absent when no permission has the id; `would` then says so. */
const explained = z.object({
  permission: z.string(),
  title: z.string().exactOptional(),
  unlocks: z.string().exactOptional(),
  kind: z.enum(KINDS).exactOptional(),
  risk: z.enum(RISKS).exactOptional(),
  sensitive: z.boolean().exactOptional(),
  enforced_at: z.enum(ENFORCED_AT).exactOptional(),
  delegable: z.boolean().exactOptional(),
  in_ceiling: z.boolean(),
  held: z.boolean(),
  resource_hint: z.string().exactOptional(),
  would: z
    .object({ outcome: z.enum(OUTCOMES), reason: z.enum(reasons), message: z.string() })
    .describe('What would happen if this session asked for it now'),
})

const outcome = z.object({
  ...itemResult.shape,
  outcome: z.enum(['granted', 'refused', 'pending']),
  reason: z.enum(reasons),
  message: z.string(),
  retry: z.enum(RETRIES).describe('What has to happen before asking again can help'),
  retry_after: count.exactOptional().describe('Seconds; with retry: later'),
  request_id: z.string().exactOptional(),
})

const released = z.object({ id: z.string(), ...itemResult.shape })

type Annotations = {
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: boolean
}

type Row = {
  /** For clients whose models refuse dots in a name. */
  readonly underscore: string
  readonly title: string
  readonly description: string
  readonly input: z.ZodType<object>
  readonly output: z.ZodType<object>
  readonly annotations: Annotations
}

const looks = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}
const changes = { ...looks, readOnlyHint: false, idempotentHint: false }
const takesAway = { ...looks, readOnlyHint: false, destructiveHint: true }

/** The seven tools, by their dotted names. A description is all that a model knows of a tool. */
export const TOOLS = {
  'iam.describe_permissions': {
    underscore: 'iam_describe_permissions',
    title: 'Find permissions for a task',
    description:
      'Say in plain words what you are about to do; get the permissions that fit, best first, with what each unlocks and whether this session may ask for it. It asks nobody and grants nothing. Use it before iam.request_access when you do not know the permission id.',
    input: z.strictObject({
      task: prose(TASK_LENGTH_MAX).describe('What you are about to do, in plain words'),
      kind: z.enum(KINDS).exactOptional().describe('Only permissions of this kind'),
      limit: z.int().min(1).max(DESCRIBED_MAX).exactOptional().describe('How many at most'),
    }),
    output: z.object({ permissions: z.array(described) }),
    annotations: looks,
  },
  'iam.explain': {
    underscore: 'iam_explain',
    title: 'Explain a permission',
    description:
      'What one permission unlocks, how risky it is, where it is checked, whether an agent can have it, and what would happen if this session asked for it now. It asks nobody and grants nothing.',
    input: z.strictObject({ permission }),
    output: explained,
    // It counts against the request rate and is recorded, yet changes nothing the session holds.
    annotations: looks,
  },
  'iam.request_access': {
    underscore: 'iam_request_access',
    title: 'Ask for access',
    description:
      'Ask to borrow access for this session. Name the fewest items that the next step needs and say why in words the user understands: the user reads your reason. Each item comes back granted, refused or pending. Pending means the user is being asked: wait with wait_seconds, or go on with other work and look again with iam.my_access; asking for the same item again asks nobody twice. Refused comes with retry: when it is never, do not ask again.',
    input: z.strictObject({
      items: z.array(item).min(1).max(ITEMS_MAX).describe('What you need, and nothing more'),
      reason: prose(REASON_LENGTH_MAX).describe('Why you need it now, for the user to read'),
      wait_seconds: z
        .int()
        .min(0)
        .max(WAIT_SECONDS_MAX)
        .exactOptional()
        .describe('How long to wait for the user to answer before returning; 0 if left out'),
    }),
    output: z.object({
      items: z.array(outcome),
      request_id: z.string().exactOptional(),
      expires_at: at.exactOptional(),
      review_url: z.string().exactOptional().describe('Where the user answers; only they can'),
      token_refresh: tokenRefresh,
    }),
    annotations: changes,
  },
  'iam.my_access': {
    underscore: 'iam_my_access',
    title: 'Show what this session holds',
    description:
      'What this session holds now, what it is waiting for, its mode, its end, and what its template is for.',
    input: z.strictObject({}),
    output: z.object({
      grants: z.array(grant),
      pending: z.array(pendingItem),
      mode: z.enum(MODES),
      expires_at: at,
      template: z.string(),
      context: z.string().describe('What this kind of agent is for, as its builder wrote it'),
      token_refresh: tokenRefresh.exactOptional(),
    }),
    annotations: looks,
  },
  'iam.start_subagent': {
    underscore: 'iam_start_subagent',
    title: 'Start a subagent',
    description:
      'Start a child session for a subagent on one of the child templates of yours. It inherits those of your grants that its template allows; with read_only, only those that read. It can ask for more itself, and ends when you do. Your host turns session_id into a token for it.',
    input: z.strictObject({
      template,
      read_only: z.boolean().exactOptional().describe('Inherit only what reads'),
      task: prose(TASK_LENGTH_MAX).exactOptional().describe('What the subagent is to do'),
    }),
    output: z.object({
      session_id: z.string(),
      template: z.string(),
      inherited: z.array(grant.pick({ id: true, read_only: true }).extend(itemResult.shape)),
      expires_at: at,
      mode: z.enum(MODES),
      read_only: z.boolean(),
    }),
    annotations: changes,
  },
  'iam.release_access': {
    underscore: 'iam_release_access',
    title: 'Give access back',
    description:
      'Give back what you no longer need, by permission (and resource) or by grant id. Do so as soon as a step is done. What you do not hold is passed over.',
    input: z.strictObject({
      items: z
        .array(
          z.union([
            z.strictObject({ permission, resource: resource.exactOptional() }),
            z.strictObject({ grant_id: name(PERMISSION_LENGTH_MAX).describe('As in grt_…') }),
          ]),
        )
        .min(1)
        .max(ITEMS_MAX),
    }),
    output: z.object({ released: z.array(released), token_refresh: tokenRefresh }),
    annotations: takesAway,
  },
  'iam.end_session': {
    underscore: 'iam_end_session',
    title: 'End the session',
    description:
      'End this session and every subagent under it, and give everything back. It cannot be undone. Call it when the work is done.',
    input: z.strictObject({
      summary: prose(SUMMARY_LENGTH_MAX).exactOptional().describe('What was done, for the record'),
    }),
    output: z.object({ sessions_ended: count, grants_revoked: count }),
    annotations: takesAway,
  },
} as const satisfies Record<string, Row>

export type ToolName = keyof typeof TOOLS

type Deep<T> = T extends readonly (infer One)[]
  ? readonly Deep<One>[]
  : T extends object
    ? { readonly [Key in keyof T]: Deep<T[Key]> }
    : T

export type ToolArguments<Name extends ToolName> = Deep<z.output<(typeof TOOLS)[Name]['input']>>
export type ToolResult<Name extends ToolName> = Deep<z.output<(typeof TOOLS)[Name]['output']>>

export type DescribePermissionsArguments = ToolArguments<'iam.describe_permissions'>
export type DescribePermissionsResult = ToolResult<'iam.describe_permissions'>
export type ExplainArguments = ToolArguments<'iam.explain'>
export type ExplainResult = ToolResult<'iam.explain'>
export type RequestAccessArguments = ToolArguments<'iam.request_access'>
export type RequestAccessResult = ToolResult<'iam.request_access'>
export type MyAccessArguments = ToolArguments<'iam.my_access'>
export type MyAccessResult = ToolResult<'iam.my_access'>
export type StartSubagentArguments = ToolArguments<'iam.start_subagent'>
export type StartSubagentResult = ToolResult<'iam.start_subagent'>
export type ReleaseAccessArguments = ToolArguments<'iam.release_access'>
export type ReleaseAccessResult = ToolResult<'iam.release_access'>
export type EndSessionArguments = ToolArguments<'iam.end_session'>
export type EndSessionResult = ToolResult<'iam.end_session'>
export type GrantView = Deep<z.output<typeof grant>>
export type PendingView = Deep<z.output<typeof pendingItem>>
export type ItemOutcome = Deep<z.output<typeof outcome>>
