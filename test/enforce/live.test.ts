import { afterAll, beforeAll, expect, test } from 'vitest'
import { createEnforcer, type Enforcer } from '../../src/enforce/index.ts'
import { ACCESS_TOKEN, type LiveServer, serveLend, TOKEN_EXCHANGE } from '../support/live-server.ts'

/** The published library against the real server, over HTTP, as a service team would use it. */
let lend: LiveServer
let online: Enforcer
let offline: Enforcer
beforeAll(async () => {
  lend = await serveLend()
  const { client_id, client_secret } = await lend.enforcementPoint()
  const of = { issuer: lend.issuer(), audience: lend.resource('accounts') }
  offline = createEnforcer(of)
  online = createEnforcer({
    ...of,
    introspect: { clientId: client_id, clientSecret: client_secret },
  })
})
afterAll(async () => {
  await online.close()
  await lend.close()
  expect(lend.bugs).toEqual([])
})

const READ = { permission: 'accounts:read' }

const tokenFor = async (control: string, resource: string): Promise<string> => {
  const form = {
    grant_type: TOKEN_EXCHANGE,
    subject_token: control,
    subject_token_type: ACCESS_TOKEN,
  }
  const answer = await lend.token({ ...form, resource }, await lend.agent())
  return answer.body.access_token
}

test('a session from nothing to a grant and back', async () => {
  const started = await lend.start('maya')
  const before = await tokenFor(started.access_token, lend.resource('accounts'))
  expect((await offline.check(before, READ)).reason).toBe('not_granted')
  expect((await online.check(before, READ)).reason).toBe('not_granted')

  await lend.lend('maya', started.access_token, [READ])
  // Live, the token from before will do; by itself, it carries what it carried.
  expect((await online.check(before, READ)).reason).toBe('granted')
  expect((await offline.check(before, READ)).reason).toBe('not_granted')
  const token = await tokenFor(started.access_token, lend.resource('accounts'))
  const verdict = await offline.check(token, READ)
  expect(verdict).toMatchObject({
    allowed: true,
    session: started.session_id,
    user: await lend.userId('maya'),
  })

  online.report({
    session: started.session_id,
    ...READ,
    grant: verdict.grant?.grant_id ?? '',
    outcome: 'allowed',
    target: 'GET /accounts',
  })
  await online.flush()
  const uses = await lend.rows('select uses from access_grant where session_id = $1', [
    started.session_id,
  ])
  expect(uses).toEqual([{ uses: 1 }])

  await lend.endSessions('maya')
  expect(await online.check(token, READ)).toMatchObject({ reason: 'session_over', status: 401 })
})

test('a token for another service, the control token and a person’s token are all refused', async () => {
  const started = await lend.start('maya')
  const others = [
    await tokenFor(started.access_token, lend.resource('dashboards')),
    started.access_token,
    await lend.userToken('maya', 'app'),
    await lend.userToken('maya', 'people'),
  ]
  for (const token of others)
    for (const enforcer of [offline, online])
      expect((await enforcer.check(token, READ)).reason).toBe('token_invalid')
  await lend.endSessions('maya')
})

test('a token whose sub is the user passes like any other: nothing is derived from sub', async () => {
  const started = await lend.start('maya')
  const reports = createEnforcer({ issuer: lend.issuer(), audience: lend.resource('reports') })
  const token = await tokenFor(started.access_token, lend.resource('reports'))
  expect(await reports.check(token, READ)).toMatchObject({
    reason: 'not_granted',
    session: started.session_id,
  })
  await lend.endSessions('maya')
})
