import { z } from 'zod'
import { TOKEN_LIFE_SECONDS_MAX } from '../src/core/limits.ts'
import {
  type AgentId,
  type GrantId,
  KINDS,
  type Kind,
  type ServiceAccountId,
  type SessionId,
  type UserId,
} from '../src/core/vocabulary.ts'

/**
 * The claims of a session token on the wire (RFC 9068, RFC 9396; SPEC section 6), for whoever verifies one. A claim
 * that is not known is ignored (RFC 7519 section 4), so that a newer Lend can add one while it is rolled out. Grants
 * are strict: an unknown member may be a limit, and to ignore it would widen. `authorization_details` must be there, `[]`
 * when nothing is held, because absent reads as unlimited somewhere.
 */

/** The prefix says whose id it is, so that a user, an agent and a session are never mistaken for each other. */
const prefixed = <Id extends string>(prefix: string): z.ZodType<Id, string> =>
  // The brand exists only for the compiler; this is where a checked string earns it.
  z.string().regex(new RegExp(`^${prefix}_[A-Za-z0-9_-]{1,64}$`)) as unknown as z.ZodType<
    Id,
    string
  >

const sessionId = prefixed<SessionId>('ses')
const agentId = prefixed<AgentId>('agt')
const userId = prefixed<UserId>('usr')
const grantId = prefixed<GrantId>('grt')

const nonEmpty = z.string().min(1)
const seconds = z.int().positive()
/** `renewal-briefs@3` */
const template = z.string().regex(/^[^\s@]{1,128}@[1-9][0-9]{0,8}$/)

const DETAIL_TYPES = KINDS.map((kind): `lend_${Kind}` => `lend_${kind}`)

/** One grant (RFC 9396 section 2). */
export const authorizationDetailSchema = z.strictObject({
  type: z.enum(DETAIL_TYPES),
  permission: nonEmpty,
  actions: z.array(nonEmpty).min(1),
  identifier: nonEmpty.exactOptional(),
  narrow: z.record(z.string(), z.unknown()).exactOptional(),
  read_only: z.literal(true).exactOptional(),
  grant_id: grantId,
})

/** RFC 8693 section 4.1: outermost is the current actor. Only it counts for access; the inner ones are history. */
export const actSchema = z.object({
  iss: nonEmpty,
  sub: agentId,
  sub_profile: z.literal('ai_agent'),
  sid: sessionId,
  template,
  get act() {
    return actSchema.exactOptional()
  },
})

const shape = z.object({
  iss: nonEmpty,
  // One audience a token: a list is refused, even of one.
  aud: nonEmpty,
  sub: z.union([sessionId, userId]),
  client_id: agentId,
  jti: nonEmpty,
  iat: seconds,
  exp: seconds,
  nbf: z.int().exactOptional(),
  sid: sessionId,
  root_sid: sessionId,
  session_version: z.int().positive(),
  tenant: nonEmpty,
  template,
  on_behalf_of: userId,
  act: actSchema,
  authorization_details: z.array(authorizationDetailSchema),
  /** How many held grants had no room; absent when all are listed. */
  grants_omitted: z.int().positive().exactOptional(),
  scope: nonEmpty.exactOptional(),
  // A token bound to a key must not pass as a bearer token (RFC 9449 section 7.1). Lend binds none yet.
  cnf: z.never().exactOptional(),
})

/** Claims that agree with each other, whatever the time and whoever asks. */
export const sessionClaimsSchema = shape
  .refine((c) => c.exp > c.iat && c.exp - c.iat <= TOKEN_LIFE_SECONDS_MAX, {
    path: ['exp'],
    message: `is at most ${TOKEN_LIFE_SECONDS_MAX} seconds after iat`,
  })
  .refine((c) => c.sub === c.sid || c.sub === c.on_behalf_of, {
    path: ['sub'],
    message: 'is the session or the user of the token',
  })
  .refine((c) => c.act.sub === c.client_id && c.act.sid === c.sid && c.act.iss === c.iss, {
    path: ['act'],
    message: 'names another actor than the token does',
  })

const serviceAccountId = prefixed<ServiceAccountId>('svc')

const serviceShape = z.object({
  iss: nonEmpty,
  aud: nonEmpty,
  sub: serviceAccountId,
  client_id: serviceAccountId,
  jti: nonEmpty,
  iat: seconds,
  exp: seconds,
  nbf: z.int().exactOptional(),
  tenant: nonEmpty,
  service_version: z.int().positive(),
  authorization_details: z.array(
    z.strictObject({
      type: z.literal('lend_api'),
      permission: nonEmpty,
      actions: z.array(nonEmpty).min(1),
    }),
  ),
  grants_omitted: z.int().positive().exactOptional(),
  scope: nonEmpty.exactOptional(),
  // What only a session's token has: a token with any of it is no service account's.
  sid: z.never().exactOptional(),
  root_sid: z.never().exactOptional(),
  session_version: z.never().exactOptional(),
  on_behalf_of: z.never().exactOptional(),
  act: z.never().exactOptional(),
  template: z.never().exactOptional(),
  cnf: z.never().exactOptional(),
})

/** The claims of a service account's token: a tenant's backend program, which acts for nobody. */
export const serviceClaimsSchema = serviceShape
  .refine((c) => c.exp > c.iat && c.exp - c.iat <= TOKEN_LIFE_SECONDS_MAX, {
    path: ['exp'],
    message: `is at most ${TOKEN_LIFE_SECONDS_MAX} seconds after iat`,
  })
  .refine((c) => c.sub === c.client_id, {
    path: ['sub'],
    message: 'is the service account itself',
  })
