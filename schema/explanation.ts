import { z } from 'zod'
import { LIMITS } from '../src/core/limits.ts'
import { OUTCOMES } from '../src/core/reason.ts'
import { MODES } from '../src/core/vocabulary.ts'
import { id, time } from './people.ts'
import { draftItem, ITEMS_MAX, place, rated } from './studio.ts'

/** Why: a decision with every layer's answer (SPEC section 4). */
const decided = {
  outcome: z.enum(OUTCOMES),
  reason: z.string().meta({ description: 'A row of the decision (SPEC section 4)' }),
  says: z.string().meta({ description: 'Why, in a plain sentence' }),
  rule_id: z.string().optional(),
}
const layerAnswer = z.object({
  layer: z.string(),
  decides: z.boolean().meta({ description: 'Whose word counted' }),
  outcome: z
    .enum(OUTCOMES)
    .optional()
    .meta({ description: 'Absent: it lets the item through to the next layer' }),
  reason: z.string().optional(),
  rule_id: z.string().optional(),
  says: z.string(),
})
const explained = place.extend({
  ...rated.shape,
  ...decided,
  layers: z.array(layerAnswer).meta({ description: 'Strongest first' }),
})

export const explanation = explained
  .extend({
    user_id: z.string(),
    template: z.string(),
    template_version: z.int().optional(),
    mode: z.enum(MODES).meta({ description: 'That a new session would run in' }),
    blocked: z
      .enum(['template_off', 'user_disabled', 'frozen'])
      .optional()
      .meta({ description: 'Nothing could be asked for at all' }),
  })
  .meta({ id: 'Explanation' })

export const itemExplanation = z
  .object({
    request_id: z.string(),
    item_id: z.string(),
    session_id: z.string(),
    recorded: z.object({
      outcome: z.enum(['pending', 'granted', 'refused']),
      reason: z.string(),
      says: z.string(),
      asked_reason: z.string().optional(),
      rule_id: z.string().optional(),
      decided_at: time.optional(),
    }),
    now: explained.meta({ description: 'What the same session would get if it asked again' }),
    session_over: z.boolean(),
  })
  .meta({ id: 'ItemExplanation' })

export const templateTry = z.strictObject({
  user: z
    .union([
      z.strictObject({ login: id.meta({ description: 'A person of this organisation' }) }),
      z.strictObject({
        permissions: z
          .array(draftItem)
          .max(ITEMS_MAX)
          .meta({ description: 'What a made-up person has' }),
      }),
    ])
    .meta({ description: 'For whom it would ask' }),
  mode: z.enum(MODES).default('ask'),
  items: z.array(draftItem).min(1).max(LIMITS.itemsPerRequest),
})
export const templateTried = z
  .object({
    template: z.string(),
    version: z.int(),
    mode: z
      .enum(MODES)
      .meta({ description: 'The one asked for, or ask where the version has it not' }),
    items: z.array(explained),
  })
  .meta({ id: 'TemplateTried' })
