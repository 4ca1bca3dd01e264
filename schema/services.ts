import { z } from 'zod'
import { change, jwks, NAME_LENGTH_MAX, rotation, status } from './admin.ts'
import { name, time } from './people.ts'

const serviceId = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
  error: 'must be lower-case letters, digits and inner hyphens, as in accounts',
})
/** A service that publishes its part of the catalog, with its one client. */
export const service = z
  .object({
    id: z.string(),
    title: z.string(),
    version: z.int().optional().meta({ description: 'Its latest; absent: nothing published' }),
    permissions: z.int(),
    endpoints: z.int(),
    open_proposal: z.string().optional(),
    client_id: z.string().optional(),
    status: status.optional(),
    has_secret: z.boolean(),
    previous_secret_until: time
      .optional()
      .meta({ description: 'Until when the secret before this one still opens' }),
    jwks: z.record(z.string(), z.unknown()).optional(),
  })
  .meta({ id: 'Service' })
export const serviceMade = service.extend({ client_secret: z.string().optional() })
export const serviceNew = z.strictObject({
  id: serviceId,
  title: name(NAME_LENGTH_MAX),
  jwks: jwks.optional().meta({ description: 'Without keys a client secret is made' }),
})
export const serviceChange = change({
  title: name(NAME_LENGTH_MAX).optional(),
  status: status.optional(),
  jwks: jwks.nullable().optional(),
  rotate_secret: z
    .union([z.literal(true), rotation])
    .optional()
    .meta({ description: 'A new secret, answered once; true closes the old one at once' }),
  remove_secret: z.literal(true).optional(),
})
