import { z } from 'zod'
import { change, jwks, rotation, status } from './admin.ts'
import { name, time } from './people.ts'

/** Service accounts of a tenant: its backend programs (SPEC section 9). Requests are strict; answers can grow. */
const NAME_LENGTH_MAX = 120
const PERMISSION_LENGTH_MAX = 128

export const serviceAccount = z
  .object({
    id: z.string(),
    name: z.string(),
    status,
    version: z.int().meta({ description: 'Tokens of another version are refused' }),
    jwks: z.record(z.string(), z.unknown()).optional(),
    has_secret: z.boolean(),
    previous_secret_until: time
      .optional()
      .meta({ description: 'When the secret before this one stops opening; absent when it has' }),
    created_at: time,
  })
  .meta({ id: 'ServiceAccount' })
/** The secret is answered by the call that makes it and never again, not even to a repeat of that call. */
export const serviceAccountMade = serviceAccount.extend({ client_secret: z.string().optional() })
export const serviceAccountNew = z.strictObject({
  name: name(NAME_LENGTH_MAX),
  jwks: jwks.optional().meta({ description: 'Without keys a client secret is made' }),
})
export const serviceAccountChange = change({
  name: name(NAME_LENGTH_MAX).optional(),
  status: status.optional(),
  jwks: jwks.nullable().optional(),
  rotate_secret: rotation.optional(),
  remove_secret: z.literal(true).optional(),
})

export const servicePermission = z
  .object({
    id: z.string(),
    permission: z.string(),
    title: z.string(),
    service: z.string(),
    created_at: time,
  })
  .meta({ id: 'ServicePermission' })
export const servicePermissionNew = z.strictObject({
  permission: name(PERMISSION_LENGTH_MAX).meta({ description: 'An API permission' }),
})
