import { Hono } from 'hono'
import { fail, ok } from '../../src/fault.ts'
import { createPeopleApi } from '../../src/http/people/app.ts'
import type { PeopleDeps } from '../../src/http/people/auth.ts'
import { createWorld, type World } from './world.ts'
import { type Login, PEOPLE, TENANT_IDS, type TenantSlug } from './world-seed.ts'

/** JSON as a test looks at it: any member may be there, and its type is for the assertion to say. */
export type Json = { readonly [key: string]: JsonValue }
export type JsonValue = string | number | boolean | null | Json | readonly JsonValue[]

export type Answer = {
  readonly status: number
  readonly headers: Headers
  /** What came, in whatever shape; assertions say which. */
  readonly body: Json
}

export type Call = {
  readonly body?: unknown
  /** Sent as it is, instead of `body`. */
  readonly raw?: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  /** Another tenant's address than the caller's own. */
  readonly tenant?: string
  readonly signal?: AbortSignal
}

export type People = {
  readonly world: World
  readonly bugs: { error: unknown; requestId: string }[]
  /** As the product mounts it: beside others, at the root. */
  readonly fetch: (path: string, init?: RequestInit) => Promise<Response>
  /** Null: nobody. */
  readonly raw: (as: Login | null, method: string, path: string, call?: Call) => Promise<Response>
  readonly call: (as: Login | null, method: string, path: string, call?: Call) => Promise<Answer>
}

export const tokenOf = (login: Login): string => `token-of-${login}`

/** The People API over a fresh world, with tokens that are the person's name. */
export async function createPeople(more: Partial<PeopleDeps> = {}): Promise<People> {
  const world = await createWorld()
  const bugs: { error: unknown; requestId: string }[] = []
  const api = createPeopleApi(world.ctx, {
    verifyUser: async (token) => {
      const login = Object.keys(PEOPLE).find((one) => tokenOf(one as Login) === token)
      return login === undefined ? fail('unauthenticated') : ok(world.asUser(login as Login))
    },
    findTenant: async (slug) =>
      Object.hasOwn(TENANT_IDS, slug) ? world.tenant(slug as TenantSlug) : null,
    onBug: (error, requestId) => void bugs.push({ error, requestId }),
    ...more,
  })
  const outer = new Hono()
  outer.route('/', api)
  const fetch = async (path: string, init?: RequestInit) => outer.request(path, init)
  const raw: People['raw'] = async (as, method, path, call = {}) => {
    const tenant = call.tenant ?? (as === null ? 'acme' : PEOPLE[as].tenant)
    const sent = call.raw ?? (call.body === undefined ? undefined : JSON.stringify(call.body))
    return fetch(`/t/${tenant}/api${path}`, {
      method,
      ...(sent === undefined ? {} : { body: sent as NonNullable<RequestInit['body']> }),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
      headers: {
        ...(as === null ? {} : { Authorization: `Bearer ${tokenOf(as)}` }),
        ...(sent === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...call.headers,
      },
    })
  }
  return {
    world,
    bugs,
    fetch,
    raw,
    call: async (...args) => {
      const response = await raw(...args)
      const text = await response.text()
      return {
        status: response.status,
        headers: response.headers,
        body: text === '' ? {} : JSON.parse(text),
      }
    },
  }
}
