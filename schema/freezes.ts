import { z } from 'zod'
import { id, time } from './people.ts'

/** What is frozen (SPEC section 5). */
export const FREEZE_SCOPES = ['tenant', 'template', 'agent', 'user'] as const
export const freeze = z
  .object({
    id: z.string(),
    scope: z.enum(FREEZE_SCOPES),
    target_id: z.string(),
    target_name: z
      .string()
      .optional()
      .meta({ description: 'What it is of, as people know it. Absent: it is gone since' }),
    created_by: z.string(),
    created_by_login: z.string().optional(),
    created_at: time,
  })
  .meta({ id: 'Freeze' })
export const freezeNew = z.strictObject({ scope: z.enum(FREEZE_SCOPES), id })
