import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fail, ok } from '../../src/fault.ts'
import { openApiDocument } from '../../src/http/people/app.ts'
import type { StaffRole } from '../../src/http/people/endpoint.ts'
import { createPeople, type People } from '../support/people.ts'

/**
 * Every route of the People API against every role, out of the document: a role that a route names passes its door, any other
 * is refused with 403 before anything else of the request is looked at. What each role may do at all is stated once, below.
 */
const ROLES = ['user', 'builder', 'reviewer', 'org_admin', 'auditor'] as const
type Role = (typeof ROLES)[number]

type Route = { readonly method: string; readonly path: string; readonly roles: readonly string[] }
const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const ROUTES: readonly Route[] = Object.entries(openApiDocument().paths ?? {}).flatMap(
  ([path, operations]) =>
    Object.entries(operations as Record<string, { 'x-lend-roles'?: string[] }>)
      .filter(([method]) => METHODS.includes(method))
      .map(([method, of]) => ({
        method: method.toUpperCase(),
        path: path.replace('/t/{tenant}/api', '').replaceAll(/\{\w+\}/g, 'nothing_such'),
        roles: of['x-lend-roles'] ?? [],
      })),
)
const PEOPLES = ROUTES.filter(({ roles }) => !roles.includes('service'))
const nameOf = ({ method, path, roles }: Route) => `${method} ${path} (${roles.join(', ')})`

/** A person without a staff role is everybody: what a user may do, staff may do for themselves. */
const passes = (route: Route, role: Role): boolean =>
  route.roles.includes('user') || route.roles.includes(role)

let people: People
beforeAll(async () => {
  people = await createPeople({
    verifyUser: async (token) => {
      const role = ROLES.find((one) => token === `a-${one}`)
      if (role === undefined) return fail('unauthenticated')
      const staffRoles = role === 'user' ? [] : [role satisfies StaffRole]
      return ok({ ...people.world.asUser('maya'), staffRoles })
    },
  })
})
afterAll(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

describe('who may do what', () => {
  test('every route names who may use it', () => {
    expect(ROUTES.length).toBeGreaterThan(60)
    for (const route of ROUTES) {
      expect(route.roles.length, nameOf(route)).toBeGreaterThan(0)
      for (const role of route.roles) expect([...ROLES, 'service'], nameOf(route)).toContain(role)
    }
  })

  test('an auditor changes nothing: no write names that role', () => {
    const writes = PEOPLES.filter(
      ({ method, roles }) => method !== 'GET' && roles.includes('auditor'),
    )
    expect(writes.map(nameOf)).toEqual([])
  })

  test('an auditor reads all: every read that names a role of the organisation’s names that one', () => {
    const closed = PEOPLES.filter(
      ({ method, roles }) =>
        method === 'GET' && roles.includes('org_admin') && !roles.includes('auditor'),
    )
    expect(closed.map(nameOf)).toEqual([])
  })

  test.each(PEOPLES.map((route) => [nameOf(route), route] as const))('%s', async (_, route) => {
    for (const role of ROLES) {
      const answer = await people.raw(null, route.method, route.path, {
        headers: { Authorization: `Bearer a-${role}` },
        // An open stream would not end by itself.
        signal: AbortSignal.timeout(2000),
      })
      const refused = answer.status === 403
      if (!refused) await answer.body?.cancel()
      expect([role, answer.status === 401], nameOf(route)).toEqual([role, false])
      expect([role, refused], nameOf(route)).toEqual([role, !passes(route, role)])
    }
    const nobody = await people.raw(null, route.method, route.path)
    expect(nobody.status).toBe(401)
  })
})
