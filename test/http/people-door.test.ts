import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openApiDocument } from '../../src/http/people/app.ts'
import { createPeople, type People } from '../support/people.ts'

/** Who gets in, and what every error looks like, whatever the route (SPEC section 8). */
let people: People
beforeAll(async () => {
  people = await createPeople()
})
afterAll(() => people.world.close())

const session = { agent_id: 'agt_briefs', template: 'renewal-briefs' }

describe('the door', () => {
  test('nobody is answered 401 with a challenge, and learns nothing else', async () => {
    const answer = await people.call(null, 'GET', '/me')
    expect(answer.status).toBe(401)
    expect(answer.headers.get('WWW-Authenticate')).toBe('Bearer')
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
    expect(answer.headers.get('Cache-Control')).toBe('no-store')
    expect(answer.body).toMatchObject({ code: 'unauthenticated', status: 401 })
    expect(Object.keys(answer.body).sort()).toEqual(
      ['code', 'detail', 'request_id', 'status', 'title', 'type'].sort(),
    )
  })

  test.each([
    ['Bearer wrong', 'Bearer error="invalid_token"'],
    ['Basic dXNlcjpwYXNz', 'Bearer error="invalid_token"'],
    ['Bearer', 'Bearer error="invalid_token"'],
    ['Bearer a b', 'Bearer error="invalid_token"'],
  ])('a credential that is not one is refused: %s', async (header, challenge) => {
    const answer = await people.call(null, 'GET', '/me', { headers: { Authorization: header } })
    expect([answer.status, answer.headers.get('WWW-Authenticate')]).toEqual([401, challenge])
  })

  test('a person of one tenant is nobody in another (I17)', async () => {
    const answer = await people.call('maya', 'GET', '/me', { tenant: 'globex' })
    expect([answer.status, answer.body.code]).toEqual([401, 'unauthenticated'])
  })

  test.each(['nowhere', 'ACME', '%00', '__proto__', 'constructor'])(
    'an unknown tenant is 404 before anything else: %s',
    async (tenant) => {
      const answer = await people.call('maya', 'GET', '/me', { tenant })
      expect([answer.status, answer.body.code]).toEqual([404, 'not_found'])
    },
  )

  test.each([
    ['GET', '/nothing-here'],
    ['PUT', '/me'],
    ['DELETE', '/sessions'],
    ['GET', '/sessions/x/y/z'],
  ])('an unknown address is a 404 problem: %s %s', async (method, path) => {
    const answer = await people.call('maya', method, path)
    expect([answer.status, answer.body.code]).toEqual([404, 'not_found'])
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
  })

  test('a harmless X-Request-Id comes back, also in a problem; a harmful one does not', async () => {
    const kept = await people.call('maya', 'GET', '/nothing', {
      headers: { 'X-Request-Id': 'run-7.a_B' },
    })
    expect(kept.headers.get('X-Request-Id')).toBe('run-7.a_B')
    expect(kept.body.request_id).toBe('run-7.a_B')
    for (const bad of ['a b', 'a"b', 'x'.repeat(65), '<x>']) {
      const made = await people.call('maya', 'GET', '/me', { headers: { 'X-Request-Id': bad } })
      expect(made.headers.get('X-Request-Id')).toMatch(/^[0-9a-f-]{36}$/)
    }
  })

  test('GET /me says who, where and in which roles', async () => {
    const { status, body, headers } = await people.call('maya', 'GET', '/me')
    expect([status, headers.get('Cache-Control')]).toEqual([200, 'no-store'])
    expect(body).toEqual({
      id: 'usr_maya',
      login: 'maya',
      name: 'Maya',
      staff_roles: [],
      attributes: { region: 'emea' },
      tenant: { id: 'ten_acme', slug: 'acme', name: 'Acme' },
    })
  })
})

describe('a body that cannot be read', () => {
  const post = (call: Parameters<People['call']>[3]) =>
    people.call('maya', 'POST', '/sessions', call)

  test.each([
    ['malformed JSON', { raw: '{"agent_id":' }, 400, 'request_malformed'],
    ['no body', {}, 400, 'request_malformed'],
    ['a list', { body: [session] }, 400, 'request_malformed'],
    ['null', { body: null }, 400, 'request_malformed'],
    ['not UTF-8', { raw: new Uint8Array([0x22, 0xff, 0x22]) }, 400, 'request_malformed'],
    [
      'a form',
      { raw: 'agent_id=x', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } },
      415,
      'content_type_unsupported',
    ],
    [
      'text that browsers send without asking first',
      { raw: JSON.stringify(session), headers: { 'Content-Type': 'text/plain' } },
      415,
      'content_type_unsupported',
    ],
    [
      'another character set',
      { raw: '{}', headers: { 'Content-Type': 'application/json; charset=utf-16' } },
      415,
      'content_type_unsupported',
    ],
    ['too large', { body: { ...session, task: 'x'.repeat(300_000) } }, 413, 'body_too_large'],
    [
      'nested too deep',
      { raw: `{"task":${'['.repeat(90_000)}${']'.repeat(90_000)}}` },
      400,
      'request_malformed',
    ],
  ])('%s', async (_name, call, status, code) => {
    const answer = await post(call)
    expect([answer.status, answer.body.code]).toEqual([status, code])
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json')
  })

  test('application/json with its own character set is read', async () => {
    const headers = { 'Content-Type': 'application/json; charset=UTF-8' }
    expect((await post({ body: session, headers })).status).toBe(201)
  })

  test.each([
    ['NUL', { ...session, task: 'a\u0000b' }, 'task'],
    ['a control character', { ...session, task: 'a\u0007b' }, 'task'],
    ['an escape sequence', { ...session, task: '\u001b[2J' }, 'task'],
    ['half of a surrogate pair', { ...session, task: 'a\ud800' }, 'task'],
    ['a number where text belongs', { ...session, task: 7 }, 'task'],
    ['text too long', { ...session, task: 'é'.repeat(501) }, 'task'],
    ['blank text', { ...session, task: '  ' }, 'task'],
    ['an unknown member', { ...session, grants: ['*'] }, 'grants'],
    [
      'a member that poisons prototypes',
      JSON.parse('{"__proto__": {"mode": "bypass"}}'),
      '__proto__',
    ],
    ['a missing member', { template: 'renewal-briefs' }, 'agent_id'],
    ['a mode that there is not', { ...session, mode: 'yolo' }, 'mode'],
    ['bidirectional text in a name', { ...session, template: 'renewal\u202ebriefs' }, 'template'],
    ['a zero-width space in a name', { ...session, template: 'renewal\u200bbriefs' }, 'template'],
    [
      'a local time',
      { ...session, mode: 'auto', mode_expires_at: '2026-11-30T12:00' },
      'mode_expires_at',
    ],
  ])('%s is 400 and names the field', async (_name, body, path) => {
    const answer = await post({ body })
    expect([answer.status, answer.body.code]).toEqual([400, 'request_malformed'])
    const errors = answer.body.errors as { path: string; message: string }[]
    expect(errors.map((e) => e.path)).toContain(path)
    expect(errors.every((e) => e.message.length > 0)).toBe(true)
  })

  test('a path inside a list is plain: items.0.id', async () => {
    const answer = await people.call('maya', 'POST', '/access-requests/req_x/decision', {
      body: { digest: 'd', items: [{ decision: 'deny' }, { id: 'itm_1', decision: 'maybe' }] },
    })
    expect(answer.body.errors).toEqual([
      { path: 'items.0.id', message: 'is required' },
      {
        path: 'items.1.decision',
        message: 'must be one of allow_once, allow_always, deny, deny_always',
      },
    ])
  })
})

describe('a query', () => {
  test.each([
    ['an unknown parameter', '?sort=up', 'sort'],
    ['a parameter given twice', '?limit=1&limit=2', 'limit'],
    ['a limit of none', '?limit=0', 'limit'],
    ['a limit too high', '?limit=201', 'limit'],
    ['a limit that is no number', '?limit=ten', 'limit'],
    ['a cursor of nothing', '?cursor=abc', 'cursor'],
    [
      'a cursor of something else',
      `?cursor=${Buffer.from('{"a":1}').toString('base64url')}`,
      'cursor',
    ],
    [
      'a cursor with SQL in it',
      `?cursor=${Buffer.from(JSON.stringify([1, "x' or 1=1"])).toString('base64url')}`,
      'cursor',
    ],
    ['a status that there is not', '?status=open', 'status'],
    ['NUL', '?root_id=%00', 'root_id'],
  ])('%s is 400 and names it', async (_name, query, path) => {
    const answer = await people.call('maya', 'GET', `/sessions${query}`)
    expect([answer.status, answer.body.code]).toEqual([400, 'request_malformed'])
    expect((answer.body.errors as { path: string }[]).map((e) => e.path)).toEqual([path])
  })

  test.each(['%00', 'ses_%ED%A0%80', 'x'.repeat(65), '..%2F..', '%'])(
    'an id in the path that cannot be one is 404: %s',
    async (id) => {
      const answer = await people.call('maya', 'GET', `/sessions/${id}`)
      expect([answer.status, answer.headers.get('Content-Type')]).toEqual([
        404,
        'application/problem+json',
      ])
    },
  )
})

describe('when something breaks', () => {
  test('a bug is 500 with a request id and nothing of what broke', async () => {
    const broken = await createPeople({
      verifyUser: async () => {
        throw new Error('secret detail of the database')
      },
    })
    const answer = await broken.call('maya', 'GET', '/me', { headers: { 'X-Request-Id': 'r-1' } })
    expect([answer.status, answer.body.code, answer.body.request_id]).toEqual([
      500,
      'server_error',
      'r-1',
    ])
    expect(JSON.stringify(answer.body)).not.toContain('secret')
    expect(broken.bugs).toMatchObject([{ requestId: 'r-1' }])
    await broken.world.close()
  })

  test('a database that is gone is 503 with Retry-After, never an acceptance (I19)', async () => {
    const broken = await createPeople()
    await broken.world.pg.close()
    for (const [method, path, body] of [
      ['GET', '/sessions', undefined],
      ['POST', '/sessions', session],
      ['POST', '/access-requests/req_x/decision', { digest: 'd', items: [] }],
    ] as const) {
      const answer = await broken.call('maya', method, path, { body })
      expect([answer.status, answer.body.code]).toEqual([503, 'unavailable'])
      expect(Number(answer.headers.get('Retry-After'))).toBeGreaterThan(0)
    }
  })

  test('a server that refuses the connection is 503 too', async () => {
    const refused = await createPeople({
      verifyUser: async () => {
        throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
      },
    })
    expect((await refused.call('maya', 'GET', '/me')).status).toBe(503)
    await refused.world.close()
  })
})

describe('the document', () => {
  test('is OpenAPI 3.1, needs nobody to sign in, and names every route with its security', async () => {
    const response = await people.fetch('/openapi.json')
    expect(response.status).toBe(200)
    const document = (await response.json()) as ReturnType<typeof openApiDocument>
    expect(document).toEqual(JSON.parse(JSON.stringify(openApiDocument())))
    expect(document.openapi).toBe('3.1.0')
    const operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
    )
    expect(operations.length).toBeGreaterThan(10)
    for (const { operation } of operations) {
      expect(operation.security).toHaveLength(1)
      expect(Object.keys(operation.responses)).toContain('default')
      expect(operation.responses['401'].content).toHaveProperty(['application/problem+json'])
    }
    expect(document.paths).toHaveProperty(['/t/{tenant}/api/access-requests/{id}/decision', 'post'])
  })

  test('says what is strict, and what a write may be sent twice with', () => {
    const post = openApiDocument().paths?.['/t/{tenant}/api/rules']?.post
    expect(post?.requestBody).toMatchObject({
      content: { 'application/json': { schema: { additionalProperties: false } } },
    })
    expect(JSON.stringify(post?.parameters)).toContain('Idempotency-Key')
    expect(JSON.stringify(post?.responses)).toContain('sensitive_not_remembered')
  })
})
