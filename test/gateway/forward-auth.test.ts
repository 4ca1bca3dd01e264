import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { authDecision, PROXY_FAMILIES } from '../../schema/auth-decision.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'
import {
  type Asking,
  ask,
  demoSecret,
  lentSession,
  linesOf,
  reasonOf,
  tokenFor,
} from './support/proxy.ts'

let lend: LiveServer
let session: Awaited<ReturnType<typeof lentSession>>

beforeAll(async () => {
  lend = await serveLend()
  session = await lentSession(lend)
})
afterAll(async () => {
  expect(lend.bugs).toEqual([])
  await lend.close()
})

const reason = async (of: Asking) => reasonOf(await ask(lend, of))

describe.each(PROXY_FAMILIES)('as %s asks', (family) => {
  test('what is held goes through, with who it is and an empty body', async () => {
    const answer = await ask(lend, { family, token: session.token })
    expect(answer).toMatchObject({ status: 200, body: '' })
    expect(answer.headers).toMatchObject({
      'content-length': '0',
      'cache-control': 'no-store',
      'x-identity-type': 'agent_session',
      'x-identity-id': session.started.session_id,
      'x-session-id': session.started.session_id,
      'x-agent-id': (await lend.agent()).client_id,
      'x-on-behalf-of': await lend.userId('maya'),
      'x-tenant-id': await lend.tenantId(),
      'x-request-id': expect.stringMatching(/./),
    })
    expect(answer.headers['transfer-encoding']).toBeUndefined()
  })

  test('what is not held is refused, and so is what has no token', async () => {
    const target = '/demo/mail/templates'
    const mail = await tokenFor(lend, session.control, 'mail')
    const refused = await ask(lend, { family, method: 'POST', target, token: mail })
    expect(refused).toMatchObject({ status: 403, body: '' })
    expect(reasonOf(refused)).toBe('PERMISSION_MISSING')
    expect(refused.headers['www-authenticate']).toContain('scope="email-templates:write"')
    const none = await ask(lend, { family })
    expect(none.status).toBe(401)
    expect(reasonOf(none)).toBe('MISSING_TOKEN')
    expect(none.headers['www-authenticate']).toBe('Bearer realm="lend"')
  })

  test('an open endpoint names nobody, in so many words', async () => {
    const answer = await ask(lend, { family, target: '/demo/accounts/health' })
    expect(answer.status).toBe(200)
    for (const name of ['x-identity-type', 'x-identity-id', 'x-session-id', 'x-agent-id'])
      expect(answer.headers[name]).toBe('')
  })
})

describe('one header family only', () => {
  const open = '/demo/accounts/health'
  const others = {
    nginx: ['X-Original-Method', 'GET', 'X-Original-URI', open],
    forwarded: ['X-Forwarded-Method', 'GET', 'X-Forwarded-Uri', open],
  }
  test.each([
    ['nginx', 'nginx', others.forwarded],
    ['traefik', 'traefik', others.nginx],
    ['caddy', 'caddy', others.nginx],
  ] as const)('%s is not moved by another’s headers', async (_, family, raw) => {
    expect(await reason({ family, raw })).toBe('MISSING_TOKEN')
    const bare = { family, address: `/t/acme/forward-auth/${family}` }
    // Only the other family's headers, none of its own.
    const own = family === 'nginx' ? ['X-Original-Method', 'X-Original-URI'] : []
    expect(own.length === 0 || (await reason({ ...bare, raw })) === 'MISSING_TOKEN').toBe(true)
  })

  test('envoy is not moved by any', async () => {
    const raw = [...others.nginx, ...others.forwarded]
    expect(await reason({ family: 'envoy', raw })).toBe('MISSING_TOKEN')
  })

  test('with its own headers missing nothing is looked for elsewhere', async () => {
    const address = '/t/acme/forward-auth/nginx'
    expect(await reason({ family: 'envoy', address, raw: others.forwarded })).toBe(
      'REQUEST_INCOMPLETE',
    )
  })

  test.each([
    '/t/acme/forward-auth/envoy/../nginx',
    '/t/acme/forward-auth/envoy/%2e%2e/nginx',
    '/t/acme/forward-auth/%6eginx',
  ])('an address that leads to another family is refused: %s', async (address) => {
    const answer = await ask(lend, { family: 'envoy', address, raw: others.nginx })
    expect(answer.status).not.toBe(200)
  })
})

describe('headers that come twice', () => {
  test.each([
    ['the target', ['X-Original-URI', '/demo/accounts/health']],
    ['the method', ['X-Original-Method', 'POST']],
    ['the token', ['Authorization', 'Bearer other']],
    ['the secret', ['X-Lend-Proxy-Secret', 'other']],
    ['the target, in other letters', ['x-ORIGINAL-uri', '/demo/accounts/health']],
    ['the token, in other letters', ['AUTHORIZATION', 'Bearer other']],
    ['the request’s id', ['X-Request-Id', 'a', 'x-request-id', 'b']],
  ] as const)('%s', async (_, raw) => {
    expect(await reason({ token: session.token, raw })).toBe('HEADER_DUPLICATED')
  })

  test('but a trace’s does not refuse, and is then none; nor does a header that only looks like one', async () => {
    const id = crypto.randomUUID()
    const trace = ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01']
    const others = ['X-Original-URJ', '/demo/accounts/health', 'X-Forwarded-Uri', '/demo/mail']
    const raw = ['X-Request-Id', id, ...trace, ...trace, ...others, ...others]
    expect(await reason({ token: session.token, raw })).toBe('allowed')
    expect((await linesOf(lend, id))[0]).toMatchObject({ trace_id: null })
  })
})

describe('the address', () => {
  test.each(['/t/acme/forward-auth/nginxx', '/t/acme/forward-auth/nginx/', '/t/acme/forward-auth'])(
    'is none: %s',
    async (address) => {
      expect((await ask(lend, { address, token: session.token })).status).toBe(404)
    },
  )

  test.each([
    '/t/acme/forward-auth/nginx?x=/envoy/demo',
    '/t//acme/forward-auth/nginx',
    '/T/acme/forward-auth/nginx',
  ])(
    'in another spelling lets nobody through that the plain one would not: %s',
    async (address) => {
      expect((await ask(lend, { address })).status).not.toBe(200)
    },
  )
})

describe('the proxy', () => {
  test.each([
    ['no secret', null],
    ['an empty secret', ''],
    ['a wrong secret', 'wrong'],
    ['a long secret', 'x'.repeat(2000)],
  ] as const)('%s', async (_, secret) => {
    expect(await reason({ secret, token: session.token })).toBe('PROXY_UNAUTHENTICATED')
    // Nor for what is open to everybody.
    expect(await reason({ secret, target: '/demo/accounts/health' })).toBe('PROXY_UNAUTHENTICATED')
  })

  test('another tenant’s secret opens nothing here (I17)', async () => {
    const secret = demoSecret(lend, 'globex')
    expect(await reason({ secret, token: session.token })).toBe('PROXY_UNAUTHENTICATED')
  })

  test('an unknown tenant is not found', async () => {
    const answer = await ask(lend, { tenant: 'nobody', secret: 'x' })
    expect(answer.status).toBe(404)
    expect(reasonOf(answer)).toBe('NO_SUCH_TENANT')
  })

  test('only a hash of the secret is kept', async () => {
    const rows = await lend.rows('select * from gateway_proxy')
    expect(JSON.stringify(rows)).not.toContain(demoSecret(lend))
  })
})

describe('the endpoint', () => {
  test.each([
    ['a path below no mount', '/elsewhere', 'NO_SUCH_SERVICE'],
    ['a mount’s name as a prefix of a segment', '/demo/accountsx/accounts', 'NO_SUCH_SERVICE'],
    ['a path that the service has not', '/demo/accounts/nothing', 'NO_SUCH_PATH'],
    ['a slash at the end', '/demo/accounts/accounts/', 'NO_SUCH_PATH'],
    ['two dots', '/demo/accounts/health/../accounts', 'PATH_HOSTILE'],
    ['an encoded slash', '/demo/accounts/health%2f..%2faccounts', 'PATH_HOSTILE'],
    ['a backslash', '/demo/accounts/health\\..\\accounts', 'PATH_HOSTILE'],
    ['NUL', '/demo/accounts/health%00', 'PATH_HOSTILE'],
    ['a very long path', `/demo/accounts/${'a'.repeat(5000)}`, 'PATH_TOO_LONG'],
  ])('%s', async (_, target, why) => {
    expect(await reason({ target, token: session.token })).toBe(why)
  })

  test.each(['/demo/accounts/health/../accounts', '/demo/accounts/health/%2e%2e/accounts'])(
    'behind envoy’s prefix too: %s',
    async (target) => {
      expect((await ask(lend, { family: 'envoy', target, token: session.token })).status).not.toBe(
        200,
      )
    },
  )

  test('another method is another endpoint', async () => {
    expect(await reason({ method: 'DELETE', token: session.token })).toBe('NO_SUCH_PATH')
  })

  test('exact beats wildcard: what asks only for a token does not ask for more', async () => {
    const bare = await lend.start('maya')
    const token = await tokenFor(lend, bare.access_token)
    expect(await reason({ token, target: '/demo/accounts/accounts/mine' })).toBe('allowed')
    expect(await reason({ token, target: '/demo/accounts/accounts/acc-1' })).toBe(
      'PERMISSION_MISSING',
    )
  })

  test('an endpoint that lists no permission lets nobody in', async () => {
    await lend.rows(
      `insert into endpoint values ('accounts', 'GET', '/sealed', 'ACCESS_CONTROLLED')`,
    )
    await lend.gateway.caughtUp()
    expect(await reason({ token: session.token, target: '/demo/accounts/sealed' })).toBe(
      'PERMISSION_MISSING',
    )
  })

  test('a change of the rows is a change of the answer, without a restart', async () => {
    const target = '/demo/accounts/new'
    expect(await reason({ target })).toBe('NO_SUCH_PATH')
    await lend.rows(`insert into endpoint values ('accounts', 'GET', '/new', 'OPEN')`)
    await expect.poll(() => reason({ target }), { timeout: 5000 }).toBe('allowed')
  })
})

describe('the token', () => {
  test('of another tenant', async () => {
    const gus = await lend.start('gus')
    expect(await reason({ token: gus.access_token })).toBe('TENANT_MISMATCH')
  })

  test('for another audience, the control audience included', async () => {
    expect(await reason({ token: await tokenFor(lend, session.control, 'mail') })).toBe(
      'AUDIENCE_MISMATCH',
    )
    expect(await reason({ token: session.control })).toBe('TOKEN_INVALID')
  })

  test('in the form where `sub` is the user: still a session, and still cut to its grants', async () => {
    const token = await tokenFor(lend, session.control, 'reports')
    const answer = await ask(lend, { token })
    expect(answer.headers).toMatchObject({
      'x-identity-type': 'agent_session',
      'x-identity-id': session.started.session_id,
    })
    const bare = await lend.start('maya')
    expect(await reason({ token: await tokenFor(lend, bare.access_token, 'reports') })).toBe(
      'PERMISSION_MISSING',
    )
  })

  test.each([
    ['no scheme', 'abc', 'AUTHORIZATION_MALFORMED'],
    ['another scheme', 'Basic abc', 'AUTHORIZATION_MALFORMED'],
    ['two tokens', 'Bearer a, Bearer b', 'AUTHORIZATION_MALFORMED'],
    ['nonsense', 'Bearer abc', 'TOKEN_INVALID'],
  ])('%s', async (_, authorization, why) => {
    expect(await reason({ raw: ['Authorization', authorization] })).toBe(why)
  })

  test('changed in one place, after it has been seen', async () => {
    expect(await reason({ token: session.token })).toBe('allowed')
    const at = session.token.length - 20
    const other = session.token[at] === 'A' ? 'B' : 'A'
    const forged = session.token.slice(0, at) + other + session.token.slice(at + 1)
    expect(await reason({ token: forged })).toBe('TOKEN_INVALID')
  })

  test('a person’s own, from their provider, by what they have', async () => {
    const aud = lend.resource('accounts')
    const maya = await lend.mintUserToken('maya', { aud })
    const answer = await ask(lend, { token: maya })
    expect(answer.headers).toMatchObject({
      'x-identity-type': 'user',
      'x-identity-id': await lend.userId('maya'),
      'x-session-id': '',
      'x-on-behalf-of': '',
    })
    expect(await reason({ token: await lend.mintUserToken('adam', { aud }) })).toBe(
      'PERMISSION_MISSING',
    )
    // What an app holds for exchange is for Lend.
    expect(await reason({ token: await lend.userToken('maya', 'app') })).toBe('TOKEN_INVALID')
    expect(await reason({ token: await lend.mintUserToken('maya', { aud, sub: 'no-one' }) })).toBe(
      'USER_UNKNOWN',
    )
  })

  test('read under an older registry, by name, and counted', async () => {
    expect(await reason({ token: session.token })).toBe('allowed')
    const before = lend.gateway.counts().byNames
    await lend.rows(`insert into registry values (99, 'accounts', now(), 'a test')`)
    await lend.gateway.caughtUp()
    expect(await reason({ token: session.token })).toBe('allowed')
    expect(lend.gateway.counts().byNames).toBe(before + 1)
  })
})

describe('AUTH_DECISION', () => {
  test.each([
    ['an allowed call', () => ({ token: session.token })],
    ['a refused one', () => ({ token: session.token, method: 'DELETE' })],
    ['no token', () => ({})],
    ['an open endpoint', () => ({ target: '/demo/accounts/health' })],
    ['no secret', () => ({ secret: null })],
    [
      'an unknown tenant',
      () => ({ tenant: 'no"body', secret: 'x', address: '/t/no%22body/forward-auth/nginx' }),
    ],
    ['a hostile path', () => ({ target: '/demo/"\\..\\%00' })],
  ] as const)('%s is exactly one line, with every field', async (_, of) => {
    const id = crypto.randomUUID()
    await ask(lend, { ...of(), raw: ['X-Request-Id', id] })
    const lines = await linesOf(lend, id)
    expect(lines).toHaveLength(1)
    // Strict: a field more or less, or a reason that is not on the list, fails.
    expect(authDecision.safeParse(lines[0]).error).toBeUndefined()
  })

  test('says who, what, why and by what', async () => {
    const id = crypto.randomUUID()
    const trace = '0af7651916cd43dd8448eb211c80319c'
    const raw = ['X-Request-Id', id, 'traceparent', `00-${trace}-b7ad6b7169203331-01`]
    await ask(lend, { token: session.token, target: '/demo/accounts/accounts/a?secret=1', raw })
    expect((await linesOf(lend, id))[0]).toMatchObject({
      trace_id: trace,
      tenant: 'acme',
      tenant_id: await lend.tenantId(),
      path: '/demo/accounts/accounts/a',
      endpoint: '/accounts/{id}',
      endpoint_access: 'ACCESS_CONTROLLED',
      identity_type: 'agent_session',
      session_id: session.started.session_id,
      user_id: await lend.userId('maya'),
      agent_id: (await lend.agent()).client_id,
      permission: 'accounts:read',
      grant_id: expect.stringMatching(/^grt_/),
      decision: 'allow',
      decision_reason: 'PERMISSION_HELD',
    })
  })

  test('holds no token and no secret', async () => {
    await lend.gateway.flush()
    const all = lend.lines.join('\n')
    for (const secret of [session.token, session.token.split('.')[2], demoSecret(lend)])
      expect(all).not.toContain(secret)
  })
})

describe('calls', () => {
  test('reach the activity log, like ones together, and count the grant’s uses (I12)', async () => {
    const own = await lentSession(lend)
    for (let i = 0; i < 3; i++) await ask(lend, { token: own.token })
    await ask(lend, { token: own.token, target: '/demo/accounts/accounts/mine' })
    await ask(lend, {
      token: await tokenFor(lend, own.control, 'mail'),
      method: 'POST',
      target: '/demo/mail/templates',
    })
    await lend.gateway.flush()
    const rows = await lend.rows<{ type: string; data: object }>(
      `select type, data from activity where session_id = $1 and type like 'call.%' order by seq`,
      [own.started.session_id],
    )
    expect(rows).toMatchObject([
      {
        type: 'call.allowed',
        data: { permission: 'accounts:read', calls: 3, target: 'GET /demo/accounts/accounts' },
      },
      {
        type: 'call.allowed',
        data: { service: 'accounts', target: 'GET /demo/accounts/accounts/mine' },
      },
      {
        type: 'call.denied',
        data: { permission: 'email-templates:write', reason: 'permission_missing' },
      },
    ])
    const [grant] = await lend.rows<{ uses: number }>(
      'select uses from access_grant where session_id = $1',
      [own.started.session_id],
    )
    expect(grant?.uses).toBe(3)
  })
})
