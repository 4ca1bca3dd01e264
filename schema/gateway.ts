import { z } from 'zod'
import { change, rotation, status } from './admin.ts'
import { PROXY_FAMILIES } from './auth-decision.ts'
import { name, time } from './people.ts'

/** Reverse proxies of a tenant and what they expose (SPEC section 9). Requests are strict; answers can grow. */
const NAME_LENGTH_MAX = 120
const SERVICE_LENGTH_MAX = 64
const PREFIX_LENGTH_MAX = 512

const family = z.enum(PROXY_FAMILIES)

export const proxy = z
  .object({
    id: z.string(),
    name: z.string(),
    family: family.optional().meta({ description: 'Absent: it may ask through each family' }),
    status,
    forward_auth: z.string().meta({ description: 'What the proxy is to ask' }).optional(),
    previous_secret_until: time
      .optional()
      .meta({ description: 'When the secret before this one stops opening; absent when it has' }),
    created_at: time,
  })
  .meta({ id: 'Proxy' })
export const proxyWithSecret = proxy.extend({
  secret: z
    .string()
    .optional()
    .meta({ description: 'For the header X-Lend-Proxy-Secret. Answered once' }),
})
export const proxyNew = z.strictObject({ name: name(NAME_LENGTH_MAX), family })
export const proxyChange = change({
  name: name(NAME_LENGTH_MAX).optional(),
  status: status.optional(),
  rotate_secret: rotation.optional(),
})

/** As requests are compared with it: decoded, no segment of dots, no slash at the end. */
const prefix = z
  .string()
  .max(PREFIX_LENGTH_MAX)
  .regex(/^\/$|^(\/[A-Za-z0-9._~!$&'()+,=:@-]+)+$/, {
    error: 'must be a path such as /accounts, without a slash at its end, escapes or a query',
  })
  .refine((path) => !/\/\.{1,2}(\/|$)/.test(path), { error: 'must not have segments of dots' })

export const mount = z
  .object({ id: z.string(), prefix: z.string(), service: z.string(), created_at: time })
  .meta({ id: 'Mount' })
export const mountNew = z.strictObject({ prefix, service: name(SERVICE_LENGTH_MAX) })
