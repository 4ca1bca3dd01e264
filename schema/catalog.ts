import { z } from 'zod'
import { ACCESS, ENFORCED_AT, KINDS, RISKS } from '../src/core/vocabulary.ts'

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
