import { z } from 'zod'
import { ACTIVITY_TYPES } from '../src/core/activity.ts'
import { id, name, time, timeAsked } from './people.ts'

/** The record as it is read, exported and verified (SPEC sections 8 and 11). */
const PERMISSION_LENGTH_MAX = 128

const templateOrVersion = z.string().regex(/^[a-z][a-z0-9-]{0,63}(@[1-9][0-9]{0,5})?$/, {
  error: 'must be a template, as in renewal-briefs or renewal-briefs@3',
})

const typeName = z.enum(ACTIVITY_TYPES)

/** One type, or several with commas between them. */
const types = z
  .string()
  .transform((text, ctx) => {
    const read = z.array(typeName).safeParse(text.split(','))
    if (read.success) return read.data
    const at = Number(read.error.issues[0]?.path[0] ?? 0)
    const message = `has no type ${JSON.stringify(text.split(',')[at]?.slice(0, 40))}; it is one of ${ACTIVITY_TYPES.join(', ')}, or several with commas between them`
    ctx.addIssue({ code: 'custom', message })
    return z.NEVER
  })
  .meta({
    description: `One, or several with commas between them, of ${ACTIVITY_TYPES.join(', ')}`,
  })

/** Filters of the list and the export: all of them narrow, and an unknown one is an error, never ignored. */
export const activityFilter = z.strictObject({
  session: id.optional(),
  root: id.optional(),
  user: id.optional(),
  agent: id.optional(),
  template: templateOrVersion.optional().meta({ description: 'A name, or one version of it' }),
  permission: name(PERMISSION_LENGTH_MAX).optional(),
  type: types.optional(),
  from: timeAsked.optional().meta({ description: 'Inclusive. ISO 8601, UTC' }),
  to: timeAsked.optional().meta({ description: 'Exclusive. ISO 8601, UTC' }),
})

export const activityRecord = z
  .object({
    id: z.string(),
    tenant_id: z.string(),
    seq: z.int().meta({ description: 'Counts within its chain, from 1' }),
    at: time,
    type: z.enum(ACTIVITY_TYPES),
    agent_id: z.string().optional(),
    user_id: z.string().optional(),
    session_id: z.string().optional(),
    root_session_id: z.string().optional(),
    template: z.string().optional(),
    data: z.record(z.string(), z.unknown()),
    prev_hash: z.string(),
    hash: z.string().meta({
      description: 'SHA-256, in hex, of the canonical JSON (RFC 8785) of all the other members',
    }),
  })
  .meta({ id: 'ActivityRecord' })

export const verification = z
  .object({
    ok: z.boolean(),
    chains: z.int(),
    records: z.int(),
    problems: z.array(
      z.object({
        chain: z.string(),
        seq: z.int(),
        id: z.string().optional(),
        problem: z.string(),
      }),
    ),
    checkpoint: z
      .object({
        n: z.int(),
        at: time,
        root: z.string(),
        key: z.string().meta({ description: 'RFC 7638 thumbprint of the key that signed it' }),
        public_jwk: z.record(z.string(), z.unknown()),
      })
      .optional(),
    cut_before: time.optional().meta({
      description: 'Records of earlier times went with their months; a checkpoint vouches for it',
    }),
  })
  .meta({ id: 'ActivityVerification' })
