import { expect } from 'vitest'
import { type Answer, createPeople, type Json, type People } from '../../support/people.ts'
import type { Login } from '../../support/world-seed.ts'

export type Admin = People & {
  readonly get: (path: string, as?: Login) => Promise<Answer>
  readonly post: (path: string, body: unknown, as?: Login) => Promise<Answer>
  readonly patch: (path: string, body: unknown, as?: Login) => Promise<Answer>
  readonly remove: (path: string, as?: Login) => Promise<Answer>
  /** Everything that a write could have changed, to show that a refused one changed nothing. */
  readonly state: () => Promise<string>
  readonly records: (type?: string) => Promise<Json[]>
}

const WRITTEN = [
  'app_user',
  'user_group',
  'group_member',
  'role',
  'role_permission',
  'role_assignment',
  'user_permission',
  'restriction',
  'agent',
  'resource_server',
  'enforcement_point',
  'tool_server',
  'gateway_proxy',
  'gateway_mount',
  'identity_provider',
  'frozen',
  'enablement',
  'consent_rule',
  'feed',
  'activity',
  'session',
]

export const PROVIDER = 'https://idp.acme.example'

/** The People API over a fresh world whose acme and globex have an identity provider each. */
export async function createAdmin(): Promise<Admin> {
  const people = await createPeople()
  const { world } = people
  for (const tenant of ['acme', 'globex'] as const)
    await world.pg.query(
      `insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, created_at)
       values ($1, $2, $3, 'lend-api', array['people'], '2026-11-30T09:00:00Z')`,
      [`idp_${tenant}`, `ten_${tenant}`, `https://idp.${tenant}.example`],
    )
  return {
    ...people,
    get: (path, as = 'adam') => people.call(as, 'GET', path),
    post: (path, body, as = 'adam') => people.call(as, 'POST', path, { body }),
    patch: (path, body, as = 'adam') => people.call(as, 'PATCH', path, { body }),
    remove: (path, as = 'adam') => people.call(as, 'DELETE', path),
    state: async () => {
      const parts = await Promise.all(
        WRITTEN.map(async (table) => [
          table,
          await world.rows(`select to_jsonb(t) - 'xid' as row from ${table} t order by 1`),
        ]),
      )
      return JSON.stringify(parts)
    },
    records: (type = 'admin.changed') =>
      world.rows<Json>(
        `select type, user_id, agent_id, data from activity where type = $1 order by n`,
        [type],
      ),
  }
}

/** A refusal: its status, its code and, when given, a field that it names. */
export function expectProblem(answer: Answer, status: number, code: string, path?: string): void {
  expect([answer.status, answer.body.code]).toEqual([status, code])
  if (path !== undefined) expect(paths(answer)).toContain(path)
}

export const paths = (answer: Answer): unknown[] =>
  ((answer.body.errors ?? []) as Json[]).map((error) => error.path)

export const items = (answer: Answer): Json[] => (answer.body.items ?? []) as Json[]
