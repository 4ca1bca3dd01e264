import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMcpEndpoint } from '../../src/mcp/endpoint.ts'
import { ACME, authenticate, createBackend } from './support/backend.ts'
import {
  bodyOf,
  HEADERS,
  JSON_HEADERS,
  LIST,
  messageOf,
  type Raw,
  raw,
  rpc,
  type Served,
  served,
  type ToolAnswer,
} from './support/serve.ts'

let here: Served
beforeAll(async () => {
  here = await served({ keepAliveMs: 25 })
})
afterAll(() => here.close())

const metadata = () =>
  `http://localhost:${here.port}/.well-known/oauth-protected-resource/t/acme/mcp`

/** What every answer has, whatever it says; a test that forgets to ask would not notice a cache. */
const ask = async (options: Parameters<typeof raw>[1] = {}): Promise<Raw> => {
  const answer = await raw(here, options)
  expect(answer.headers['cache-control']).toBe('no-store')
  return answer
}

describe('methods and bodies', () => {
  it.each(['GET', 'DELETE', 'HEAD', 'PUT', 'PATCH', 'OPTIONS'])('%s is 405', async (method) => {
    for (const headers of [HEADERS, {}]) {
      const answer = await ask({ method, headers })
      expect(answer.status).toBe(405)
      expect(answer.headers.allow).toBe('POST')
    }
  })

  it('refuses a batch, whatever is in it', async () => {
    for (const body of ['[]', `[${LIST}]`, `[${LIST},${LIST}]`]) {
      const answer = await ask({ body })
      expect(answer.status).toBe(400)
      expect(messageOf(answer)).toMatchObject({ error: { code: -32600 }, id: null })
    }
  })

  it.each(['', '{', 'null', '"text"', '7', '\ufeff{}x', `${LIST}${LIST}`])(
    'refuses %j',
    async (body) => {
      const answer = await ask({ body })
      expect(answer.status).toBe(400)
      expect([-32700, -32600]).toContain(messageOf(answer).error?.code)
    },
  )

  it('calls what is not JSON a parse error, and so what is not UTF-8', async () => {
    for (const body of ['{"jsonrpc"', Buffer.from([0x22, 0xff, 0x22])])
      expect(messageOf(await ask({ body })).error?.code).toBe(-32700)
  })

  it.each([undefined, 'text/plain', 'application/x-www-form-urlencoded', 'application/jsonp'])(
    'refuses content type %s',
    async (type) => {
      const { 'content-type': _, ...rest } = HEADERS
      const headers = type === undefined ? rest : { ...rest, 'content-type': type }
      for (const body of [LIST, 'a=b']) expect((await ask({ headers, body })).status).toBe(415)
    },
  )

  it('takes a charset', async () => {
    const headers = { ...HEADERS, 'content-type': 'Application/JSON; charset=utf-8' }
    expect((await ask({ headers })).status).toBe(200)
  })

  it('refuses a body over 1 MiB, declared or not, and takes one just below', async () => {
    const padded = (size: number): string => LIST.padEnd(size, ' ')
    expect((await ask({ body: padded(1024 * 1024) })).status).toBe(200)
    expect((await ask({ body: padded(1024 * 1024 + 1) })).status).toBe(413)
    const chunked = { ...HEADERS, 'transfer-encoding': 'chunked' }
    expect((await ask({ headers: chunked, body: padded(1024 * 1024) })).status).toBe(200)
    expect((await ask({ headers: chunked, body: padded(1024 * 1024 + 1) })).status).toBe(413)
  })

  it('survives a deep body', async () => {
    const deep = `${'{"$not":'.repeat(90_000)}1${'}'.repeat(90_000)}`
    const body = rpc('tools/call', { name: 'iam.request_access' }).replace(
      '"name"',
      `"arguments":{"items":[{"permission":"a:b","narrow":${deep}}],"reason":"b"},"name"`,
    )
    const answer = await ask({ body })
    expect(answer.status).toBe(200)
    expect(bodyOf(messageOf(answer).result as ToolAnswer)).toMatchObject({
      code: 'request_malformed',
    })
    expect(answer.body).not.toMatch(/stack|\.ts:/)
    expect(here.bugs).toEqual([])
  })
})

describe('DNS rebinding', () => {
  it.each([
    'evil.example',
    'localhost',
    'localhost:1',
    'localhost.evil.example',
    '127.0.0.2',
    '[::2]',
  ])('refuses Host %s', async (host) => {
    const answer = await ask({ headers: { ...HEADERS, host } })
    expect(answer.status).toBe(403)
    expect(answer.body).not.toContain(host === '127.0.0.2' ? 'iam.' : host)
  })

  it.each(['localhost', '127.0.0.1', '[::1]', 'LOCALHOST'])(
    'serves Host %s on its port',
    async (name) => {
      const answer = await ask({ headers: { ...HEADERS, host: `${name}:${here.port}` } })
      expect(answer.status).toBe(200)
    },
  )

  it('refuses a foreign Origin and takes its own', async () => {
    const own = `http://localhost:${here.port}`
    const as = (origin: string) => ask({ headers: { ...HEADERS, origin } })
    for (const origin of [own, `http://127.0.0.1:${here.port}`, `http://[::1]:${here.port}`])
      expect((await as(origin)).status, origin).toBe(200)
    for (const origin of [
      'null',
      'https://evil.example',
      `https://localhost:${here.port}`,
      'http://localhost',
      `${own}.evil.example`,
      `http://evil.example/${own}`,
    ])
      expect((await as(origin)).status, origin).toBe(403)
  })

  it('refuses before it looks at the token or the method', async () => {
    const headers = { host: 'evil.example' }
    expect((await ask({ method: 'GET', headers })).status).toBe(403)
    expect((await ask({ headers })).headers['www-authenticate']).toBeUndefined()
  })

  it('has no loopback aliases when its public URL is not one', async () => {
    const endpoint = createMcpEndpoint({
      publicUrl: 'https://lend.example',
      authenticate,
      tools: createBackend().tools,
    })
    const at = async (host: string, origin?: string): Promise<number> => {
      const headers = new Headers({ ...HEADERS, host, ...(origin === undefined ? {} : { origin }) })
      const url = 'http://10.0.0.1/t/acme/mcp'
      return (await endpoint(new Request(url, { method: 'POST', headers, body: LIST }), ACME))
        .status
    }
    expect(await at('lend.example', 'https://lend.example')).toBe(200)
    expect(await at('lend.example:443')).toBe(200)
    for (const host of ['localhost', '127.0.0.1', 'lend.example:80', '10.0.0.1', 'xlend.example'])
      expect(await at(host), host).toBe(403)
    expect(await at('lend.example', 'http://lend.example')).toBe(403)
  })
})

describe('credentials', () => {
  const none = () => `Bearer resource_metadata="${metadata()}"`
  const invalid = (why: string) =>
    `Bearer error="invalid_token", error_description="${why}", resource_metadata="${metadata()}"`
  const as = (authorization: string | string[]): Promise<Raw> =>
    ask({ headers: { ...JSON_HEADERS, Authorization: authorization } })

  it('challenges without an error code when there is no bearer credential', async () => {
    for (const answer of [
      await ask({ headers: JSON_HEADERS }),
      await as('Basic bGl2ZTpsaXZl'),
      await as('DPoP live'),
      await as('Bearerlive'),
      await ask({ headers: JSON_HEADERS, path: '/t/acme/mcp?access_token=live' }),
    ]) {
      expect(answer.status).toBe(401)
      expect(answer.headers['www-authenticate']).toBe(none())
    }
  })

  it.each([
    ['stale', 'The token has been superseded. Re-issue it.'],
    ['other', 'A valid access token is needed.'],
  ])('refuses the token %s', async (token, why) => {
    const answer = await as(`Bearer ${token}`)
    expect(answer.status).toBe(401)
    expect(answer.headers['www-authenticate']).toBe(invalid(why))
    expect(messageOf(answer)).toMatchObject({ error: { message: why } })
  })

  it('quotes what it says, so that no header can be forged', async () => {
    const answer = await as('Bearer odd')
    expect(answer.headers['www-authenticate']).toBe(
      invalid(String.raw`say \"no\" \\ to the user's ????X: y`),
    )
    expect(answer.headers.x).toBeUndefined()
  })

  it('refuses two Authorization headers and what is not one token', async () => {
    for (const one of [
      ['Bearer live', 'Bearer live'],
      ['Bearer live', 'Basic bGl2ZQ=='],
      'Bearer',
      'Bearer live live',
      'Bearer live,live',
      'Bearer "live"',
    ]) {
      const answer = await as(one)
      expect(answer.status, String(one)).toBe(401)
      expect(answer.headers['www-authenticate']).toBe(
        invalid('The credentials are not well formed.'),
      )
    }
  })

  it('takes the scheme in any case, and a second token in the address changes nothing', async () => {
    expect((await as('bearer live')).status).toBe(200)
    const path = '/t/acme/mcp?access_token=other'
    expect((await ask({ path })).status).toBe(200)
  })

  it('never widens in an outage (I19), and says nothing of it', async () => {
    const before = here.bugs.length
    for (const token of ['outage', 'provider']) {
      const answer = await as(`Bearer ${token}`)
      expect(answer.status).toBe(503)
      expect(answer.headers['retry-after']).toBe('5')
      expect(answer.headers['www-authenticate']).toBeUndefined()
      expect(answer.body).not.toMatch(/10\.0\.0\.5|hunter2/)
    }
    expect(here.bugs.splice(before)).toHaveLength(1)
  })

  it('asks for credentials before it reads the body', async () => {
    for (const body of ['{', `[${LIST}]`, ' '.repeat(2 * 1024 * 1024)])
      expect((await ask({ headers: JSON_HEADERS, body })).status).toBe(401)
  })
})
