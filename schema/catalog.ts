import { z } from 'zod'
import { ACCESS, ENFORCED_AT, KINDS, RISKS } from '../src/core/vocabulary.ts'
import { prose } from './people.ts'

/** A row of the catalog as it is read (SPEC section 2). */
export const TASK_WORDS_LENGTH_MAX = 500

export const permission = z
  .object({
    id: z.string(),
    title: z.string(),
    description: z.string(),
    unlocks: z.string().meta({ description: 'The same sentence under the name the tools use' }),
    kind: z.enum(KINDS),
    service: z.string(),
    access: z.enum(ACCESS),
    risk: z.enum(RISKS),
    sensitive: z.boolean(),
    delegable: z.boolean().meta({ description: 'False: no agent can ever hold it' }),
    enforced_at: z.enum(ENFORCED_AT),
    resource_hint: z.string().optional().meta({ description: 'Items of it must name a resource' }),
    bit: z.int(),
    matched: z
      .array(z.string())
      .optional()
      .meta({ description: 'Words of the search for which it was found' }),
  })
  .meta({ id: 'Permission' })

/** One difference between what is in force of a service and what it asks for. */
export const sliceChange = z
  .object({
    of: z.enum(['permission', 'endpoint']),
    id: z.string(),
    what: z.string().meta({ description: 'added, removed, returned, or a member as in data.rows' }),
    effect: z.enum(['tightens', 'loosens', 'neutral']),
    from: z.unknown().optional(),
    to: z.unknown().optional(),
    risk: z.enum(RISKS).optional(),
  })
  .meta({ id: 'CatalogChange' })

const slice = z.object({
  permissions: z.array(z.record(z.string(), z.unknown())),
  endpoints: z.array(z.record(z.string(), z.unknown())),
})

export const catalogPublished = z
  .object({
    service: z.string(),
    version: z.int(),
    published: z.boolean().meta({ description: 'Whether this call made the version' }),
    changes: z.array(sliceChange),
    proposal: z.string().optional().meta({
      description: 'What loosens has not taken effect: it waits here for security',
    }),
    sessions_narrowed: z.int(),
    grants_ended: z.int(),
  })
  .meta({ id: 'CatalogPublished' })

export const catalogDiff = z
  .object({
    service: z.string(),
    base_version: z.int(),
    changes: z.array(sliceChange),
    waits: z.boolean().meta({ description: 'Whether something would wait for security' }),
  })
  .meta({ id: 'CatalogDiff' })

export const catalogVersion = z
  .object({
    version: z.int(),
    service: z.string(),
    published_by: z.string(),
    published_at: z.string().meta({ format: 'date-time' }),
    how: z.enum(['published', 'approved', 'rolled_back']),
    slice: slice.optional().meta({ description: 'In force from this version on' }),
  })
  .meta({ id: 'CatalogVersion' })

export const proposal = z
  .object({
    id: z.string(),
    service: z.string(),
    status: z.enum(['open', 'approved', 'sent_back', 'replaced']),
    changes: z.array(sliceChange),
    slice: slice.optional(),
    proposed_by: z.string(),
    created_at: z.string().meta({ format: 'date-time' }),
    version: z.int().optional(),
    reviewed_by: z.string().optional(),
    reviewed_at: z.string().optional(),
    comment: z.string().optional(),
  })
  .meta({ id: 'CatalogProposal' })

export const proposalReview = z
  .strictObject({
    verdict: z.enum(['approve', 'send_back']),
    comment: prose(2000).optional(),
  })
  .refine((review) => review.verdict === 'approve' || review.comment !== undefined, {
    path: ['comment'],
    error: 'is required to send a proposal back',
  })

export const rollBack = z.strictObject({
  version: z
    .int()
    .min(1)
    .max(2 ** 31 - 1),
})
