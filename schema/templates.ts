import { z } from 'zod'
import { LIMITS, RESOURCE_LENGTH_MAX } from '../src/core/limits.ts'
import { ITEM_CHANGES } from '../src/core/terms.ts'
import { ACCESS, ENFORCED_AT, KINDS, type Limits, MODES, RISKS } from '../src/core/vocabulary.ts'
import { narrowAsked, time } from './people.ts'

/** Templates as people see them change (SPEC sections 3 and 8). Requests are strict; answers are open. */
const VERSION_MAX = 999_999

const place = z.object({
  resource: z.string().optional(),
  narrow: z.record(z.string(), z.unknown()).optional(),
})

/** All of one permission: what was, and what is. */
const itemChange = z.object({
  change: z.enum(ITEM_CHANGES),
  permission: z.string(),
  title: z.string(),
  unlocks: z.string(),
  kind: z.enum(KINDS).optional().meta({ description: 'Absent when the catalog has it no more' }),
  access: z.enum(ACCESS).optional(),
  risk: z.enum(RISKS).optional(),
  enforced_at: z.enum(ENFORCED_AT).optional(),
  sensitive: z.boolean().optional(),
  from: z.array(place),
  to: z.array(place),
})

export const templateDiff = z
  .object({
    widens: z.boolean().meta({ description: 'Whether anything is possible that was not' }),
    items: z.array(itemChange),
    modes: z.object({ added: z.array(z.enum(MODES)), removed: z.array(z.enum(MODES)) }),
    limits: z.array(
      z.object({
        limit: z.string(),
        change: z.enum(['raised', 'lowered']),
        from: z.int().nullable().meta({ description: 'null: unbounded' }),
        to: z.int().nullable(),
      }),
    ),
    children: z.array(
      z.object({
        change: z.enum(['added', 'removed', 'pinned']),
        template: z.string(),
        title: z.string(),
        from_version: z.int().optional(),
        to_version: z.int().optional(),
      }),
    ),
    sensitive: z.array(itemChange).meta({ description: 'Marks of the template’s own' }),
    context: z.object({ from: z.string(), to: z.string() }).optional(),
  })
  .meta({ id: 'TemplateDiff' })

export const templateChange = z
  .object({
    template: z.string(),
    title: z.string(),
    from_version: z.int().optional().meta({ description: 'What this person knew' }),
    to_version: z.int().meta({ description: 'The adopted version' }),
    since: time.optional(),
    suspended_rules: z.int(),
    digest: z.string().meta({ description: 'Names all that is shown here' }),
    diff: templateDiff,
  })
  .meta({ id: 'TemplateChange' })

const version = z.int().min(1).max(VERSION_MAX)

export const templateConfirm = z.strictObject({
  version: version.meta({ description: 'The version whose changes were seen: to_version' }),
  digest: z.string().min(1).max(128).optional(),
})

export const templateConfirmed = z.object({
  template: z.string(),
  version: z.int(),
  rules_confirmed: z.int(),
})

export const enablementAdopt = z.strictObject({ version })

const limitName = z.enum([...(Object.keys(LIMITS) as [keyof Limits]), 'requestWaitSeconds'])
const ITEMS_MAX = 200

const enablementFields = {
  template: z.string(),
  title: z.string(),
  status: z.enum(['on', 'off']),
  adopted_version: z.int(),
  kept: z.array(place.extend({ permission: z.string() })),
  modes: z.array(z.enum(MODES)),
  limits: z.record(z.string(), z.int()),
  updated_at: time,
}
const suspension = {
  widens: z.boolean(),
  rules_suspended: z.int().meta({ description: 'Rules that wait for their user to look' }),
}

export const enablementAdopted = z
  .object({ ...enablementFields, ...suspension })
  .meta({ id: 'EnablementAdopted' })

/** What is left out stays as it is; at the first turning on it is all that the version allows. */
export const enablementPut = z.strictObject({
  status: z.enum(['on', 'off']),
  version: version
    .optional()
    .meta({ description: 'At the first turning on; by default the newest published one' }),
  kept: z
    .array(
      z.strictObject({
        permission: z.string().min(1).max(128),
        resource: z.string().min(1).max(RESOURCE_LENGTH_MAX).optional(),
        narrow: narrowAsked.optional(),
      }),
    )
    .max(ITEMS_MAX)
    .optional()
    .meta({ description: 'An allow-list, each item within what the version may ask for' }),
  modes: z.array(z.enum(MODES)).max(MODES.length).optional(),
  limits: z
    .partialRecord(limitName, z.int().min(0).max(LIMITS.sessionLifeSeconds))
    .optional()
    .meta({ description: 'Each at most the version’s: a tenant only lowers' }),
})

export const enablementChanged = z
  .object({ ...enablementFields, ...suspension, sessions_ended: z.int() })
  .meta({ id: 'EnablementChanged' })

/** A published template in the gallery; the rest is there once it was turned on. */
export const enablement = z
  .object({
    ...enablementFields,
    adopted_version: z.int().optional(),
    kept: enablementFields.kept.optional(),
    modes: enablementFields.modes.optional(),
    limits: enablementFields.limits.optional(),
    updated_at: time.optional(),
    purpose: z.string(),
    latest_version: z.int().meta({ description: 'The newest published one' }),
    allows: z
      .object({
        version: z.int(),
        ceiling: enablementFields.kept,
        modes: enablementFields.modes,
        limits: enablementFields.limits,
      })
      .meta({
        description: 'What the adopted version may ask for, or the newest before it is adopted',
      }),
  })
  .meta({ id: 'Enablement' })

export type TemplateDiffView = z.output<typeof templateDiff>
export type TemplateChangeView = z.output<typeof templateChange>
