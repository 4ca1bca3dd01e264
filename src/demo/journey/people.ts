import { z } from 'zod'

/** A person at the People API, with nothing but an access token of theirs and fetch. */
export type PersonApi = {
  /** GET; throws unless it is answered with 200. */
  readonly get: <T>(path: string, shape: z.ZodType<T>) => Promise<T>
  /** Any other method; throws unless it is answered with success. */
  readonly send: <T>(
    method: 'POST' | 'PATCH' | 'DELETE',
    path: string,
    shape: z.ZodType<T>,
    body?: object,
  ) => Promise<T>
  /** The status alone, for what should be refused. */
  readonly statusOf: (method: string, path: string, body?: object) => Promise<number>
  readonly text: (path: string) => Promise<string>
}

/** `base` is `{issuer}/api`. */
export function personApi(base: string, token: string): PersonApi {
  const request = (method: string, path: string, body?: object) =>
    fetch(`${base}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const good = async (method: string, path: string, body?: object) => {
    const answer = await request(method, path, body)
    if (answer.ok) return answer
    throw new Error(`${method} ${path} was answered with ${answer.status}: ${await answer.text()}`)
  }
  return {
    get: async (path, shape) => shape.parse(await (await good('GET', path)).json()),
    send: async (method, path, shape, body) => {
      const answer = await good(method, path, body)
      return shape.parse(answer.status === 204 ? null : await answer.json())
    },
    statusOf: async (method, path, body) => {
      const answer = await request(method, path, body)
      await answer.body?.cancel()
      return answer.status
    },
    text: async (path) => (await good('GET', path)).text(),
  }
}

// What the journey reads of the answers, as SPEC section 8 gives their shapes.

const listOf = <T extends z.ZodType>(item: T) =>
  z.looseObject({ items: z.array(item), next: z.string().optional() })

export const grant = z.looseObject({
  id: z.string(),
  permission: z.string(),
  resource: z.string().optional(),
  read_only: z.boolean(),
  source: z.looseObject({ by: z.enum(['user', 'rule', 'mode', 'inherited']) }),
  uses: z.number(),
})
export const access = z.looseObject({ items: z.array(grant) })

const requestItem = z.looseObject({
  id: z.string(),
  permission: z.string(),
  title: z.string(),
  resource: z.string().optional(),
  risk: z.string().optional(),
  sensitive: z.boolean(),
  outcome: z.enum(['pending', 'granted', 'refused']),
  decision_reason: z.string(),
  can_remember: z.boolean(),
})
export const accessRequest = z.looseObject({
  id: z.string(),
  session_id: z.string(),
  path: z.array(z.string()),
  reason: z.string(),
  digest: z.string(),
  status: z.enum(['pending', 'settled']),
  items: z.array(requestItem),
})
export type AccessRequest = z.output<typeof accessRequest>
export const accessRequests = listOf(accessRequest)

export const session = z.looseObject({ id: z.string(), mode: z.string(), status: z.string() })
export const rules = listOf(
  z.looseObject({ permission: z.string(), effect: z.string(), template: z.string() }),
)
export const users = listOf(z.looseObject({ id: z.string(), login: z.string() }))
export const directPermissions = listOf(
  z.looseObject({ id: z.string(), permission: z.string(), resource: z.string().optional() }),
)
export const record = z.looseObject({
  seq: z.number(),
  at: z.string(),
  type: z.string(),
  session_id: z.string().optional(),
  template: z.string().optional(),
  data: z.record(z.string(), z.unknown()),
})
export type ActivityLine = z.output<typeof record>
export const records = listOf(record)
export const verification = z.looseObject({ ok: z.boolean(), records: z.number() })

// What the tools answer (SPEC section 7).

export const asked = z.looseObject({
  items: z.array(
    z.looseObject({
      permission: z.string(),
      outcome: z.string(),
      reason: z.string(),
      retry: z.string(),
    }),
  ),
  request_id: z.string().optional(),
  token_refresh: z.boolean(),
})
export const myAccess = z.looseObject({
  grants: z.array(grant),
  pending: z.array(z.looseObject({ permission: z.string() })),
  mode: z.string(),
})
export const described = z.looseObject({
  permissions: z.array(
    z.looseObject({ id: z.string(), in_ceiling: z.boolean(), risk: z.string() }),
  ),
})
export const child = z.looseObject({
  session_id: z.string(),
  template: z.string(),
  inherited: z.array(z.looseObject({ permission: z.string(), read_only: z.boolean() })),
})
export const ended = z.looseObject({ sessions_ended: z.number(), grants_revoked: z.number() })

export const credentials = z.looseObject({
  issuer: z.string(),
  mcp: z.string(),
  agents: z.array(
    z.looseObject({
      client_id: z.string(),
      client_secret: z.string(),
      templates: z.array(z.string()),
    }),
  ),
  enforcement_points: z.array(z.looseObject({ client_id: z.string(), client_secret: z.string() })),
  resource_servers: z.array(z.looseObject({ resource: z.string(), subject: z.string() })),
})
export type Credentials = z.output<typeof credentials>
