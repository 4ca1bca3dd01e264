import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, importJWK, jwtVerify } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Hostile, keysOf, NotTestable, tryAll } from '../../src/enforce/conformance.ts'
import { bearerOf, createEnforcer, requirePermission } from '../../src/enforce/index.ts'
import { type Issuer, startIssuer } from './support/issuer.ts'

/** The kit against servers that are wrong on purpose, one mistake each, and against one that is right. */
let lend: Issuer
beforeAll(async () => {
  lend = await startIssuer()
})
afterAll(() => lend.close())

type Judge = (token: string | null, request: Request) => Promise<boolean> | boolean

const serving = async <T>(judge: Judge, use: (url: string) => Promise<T>): Promise<T> => {
  const server = createServer(
    getRequestListener(
      async (request) => {
        const token = bearerOf(request.headers.get('authorization'))
        const good = await Promise.resolve(judge(token, request)).catch(() => false)
        return good ? Response.json({ items: [] }) : new Response(null, { status: 401 })
      },
      { overrideGlobalObjects: false },
    ),
  )
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/accounts`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const keys = () => createLocalJWKSet({ keys: [lend.publicJwk] })
const verified: Judge = async (token) => {
  await jwtVerify(token ?? '', keys(), { issuer: lend.issuer, audience: lend.audience })
  return true
}

/** Signed by the issuer's own key, and still not for this server. */
async function signed(): Promise<readonly Hostile[]> {
  const why = 'signed'
  const now = Math.floor(Date.now() / 1000)
  const act = { iss: lend.issuer, sub: 'agt_1', sid: 'ses_1' }
  const of: Readonly<Record<string, Parameters<Issuer['token']>>> = {
    'another audience': [{ aud: `${lend.audience}/other` }],
    'the control token': [{ aud: `${lend.issuer}/mcp` }],
    'two audiences': [{ aud: [lend.audience, 'https://other.example'] }],
    'another tenant’s issuer': [{ iss: lend.issuer.replace('acme', 'globex') }],
    'another tenant’s name': [{ tenant: 'globex' }],
    expired: [{ iat: now - 900, exp: now - 1 }],
    'a life of a day': [{ exp: now + 86_400 }],
    'no end': [{ exp: undefined }],
    'typ JWT': [{}, { header: { typ: 'JWT' } }],
    'typ of an ID token': [{}, { header: { typ: 'id_token+jwt' } }],
    'a sub of neither': [{ sub: 'agt_1' }],
    'another session’s act': [{ act: { ...act, sid: 'ses_2' } }],
    'bound to a key': [{ cnf: { jkt: 'x' } }],
    'no list of grants': [{ authorization_details: undefined }],
  }
  return Promise.all(
    Object.entries(of).map(async ([name, args]) => ({
      name,
      why,
      token: await lend.token(...args),
    })),
  )
}

const run = (judge: Judge, more: readonly Hostile[] = []) =>
  serving(judge, async (url) =>
    tryAll({ url }, { token: await lend.token(), keys: await keysOf(lend.issuer), signed: more }),
  )

const accepted = async (judge: Judge, more: readonly Hostile[] = []): Promise<readonly string[]> =>
  (await run(judge, more)).filter(({ outcome }) => outcome !== 'refused').map(({ name }) => name)

test('a server that uses lend/enforce refuses all of them', async () => {
  const enforcer = createEnforcer({ issuer: lend.issuer, audience: lend.audience })
  const app = new Hono()
  app.get('/accounts', requirePermission(enforcer, { permission: 'accounts:read' }), (c) =>
    c.json({}),
  )
  const judge: Judge = async (_, request) => (await app.request(request)).status === 200
  const rows = await run(judge, await signed())
  expect(rows.filter(({ outcome }) => outcome !== 'refused')).toEqual([])
  expect(rows.length).toBeGreaterThan(45)
})

describe('a server that', () => {
  const header = (token: string) => decodeProtectedHeader(token)
  test.each<[string, Judge, readonly string[]]>([
    [
      'only decodes',
      async (token) => decodeJwt(token ?? '') !== null,
      ['alg none, no signature', 'claims changed: more permissions'],
    ],
    [
      'believes alg none',
      async (token, r) => (header(token ?? '').alg === 'none' ? true : verified(token, r)),
      ['alg none, no signature', 'alg none, old signature'],
    ],
    [
      'believes alg none in capitals',
      async (token, r) =>
        /^none$/i.test(header(token ?? '').alg ?? '') ? true : verified(token, r),
      ['alg None, no signature', 'alg NONE, no signature'],
    ],
    [
      'takes the public key for a secret',
      async (token, r) => {
        if (header(token ?? '').alg !== 'HS256') return verified(token, r)
        await jwtVerify(token ?? '', new TextEncoder().encode(JSON.stringify(lend.publicJwk)))
        return true
      },
      ['HS256 with the public key as JWK'],
    ],
    [
      'takes the embedded key',
      async (token, r) => {
        const { jwk } = header(token ?? '')
        if (jwk === undefined) return verified(token, r)
        await jwtVerify(token ?? '', await importJWK(jwk, 'ES256'))
        return true
      },
      ['an embedded jwk'],
    ],
    [
      'reads the query',
      async (token, r) => verified(token ?? new URL(r.url).searchParams.get('access_token'), r),
      ['the good token in the address'],
    ],
    [
      'reads cookies',
      async (token, r) =>
        verified(token ?? (r.headers.get('cookie') ?? '').slice('access_token='.length), r),
      ['the good token in a cookie'],
    ],
    [
      'trims padding',
      async (token, r) => verified(token?.replace(/=+$/, '') ?? null, r),
      ['padding after the signature'],
    ],
    ['accepts anything', (token) => token !== null, ['no token: null', 'two parts']],
  ])('%s is found out', async (_, judge, names) => {
    expect(await accepted(judge)).toEqual(expect.arrayContaining([...names]))
  })

  test('verifies as a library does by default is found out by what the issuer signed for others', async () => {
    expect(await accepted(verified, await signed())).toEqual(
      expect.arrayContaining(['typ JWT', 'two audiences', 'a life of a day', 'bound to a key']),
    )
  })

  test('breaks is not taken for one that refuses', async () => {
    const rows = await serving(verified, async (url) =>
      tryAll(
        {
          url,
          fetch: async (input, init) => {
            const answer = await fetch(input, init)
            const odd = new Headers(init?.headers).get('authorization')?.includes('null') === true
            return odd ? new Response(null, { status: 500 }) : answer
          },
        },
        { token: await lend.token(), keys: [lend.publicJwk] },
      ),
    )
    expect(rows.find(({ name }) => name === 'no token: null')?.outcome).toBe('broke')
  })

  test.each<[string, Judge]>([
    ['refuses the good token', () => false],
    ['needs no token', () => true],
  ])('%s cannot be tested', async (_, judge) => {
    await expect(run(judge)).rejects.toThrow(NotTestable)
  })
})
