import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from 'jose'
import { allowInsecureRequests, customFetch, validateJwtAccessToken } from 'oauth4webapi'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Db } from '../../src/db/tx.ts'
import { createKeyStore, type KeyStore } from '../../src/tokens/keys.ts'
import { signToken } from '../../src/tokens/sign.ts'
import {
  looksLikeLendToken,
  unverifiedClaims,
  verifySessionToken,
} from '../../src/tokens/verify.ts'
import { ACME, freshDb, issuerOf, MCP, START, someClaims, stoppedClock } from './world.ts'

let db: Db
let keys: KeyStore

beforeAll(async () => {
  db = await freshDb()
  keys = createKeyStore({ db, clock: stoppedClock(), vault: undefined })
})

const check = (token: string, more: { now?: number; audience?: string | string[] } = {}) =>
  verifySessionToken(keys, {
    token,
    tenant: ACME,
    issuer: issuerOf(ACME),
    audience: MCP,
    now: START,
    ...more,
  })

describe.each(['ES256', 'RS256'] as const)('a session token signed with %s', (alg) => {
  it('is what jose verifies outside, with the header and no more', async () => {
    const claims = someClaims(START, { grants: 3, child: true })
    const token = await signToken(keys, { tenantId: ACME.id, claims, alg })
    const jwks = (await keys.jwks(ACME.id)) as JSONWebKeySet
    const { payload, protectedHeader } = await jwtVerify(token, createLocalJWKSet(jwks), {
      issuer: issuerOf(ACME),
      audience: MCP,
      typ: 'at+jwt',
      currentDate: new Date(START * 1000),
    })
    expect(payload).toEqual(claims)
    expect(Object.keys(protectedHeader)).toEqual(['typ', 'alg', 'kid'])
    expect(protectedHeader).toMatchObject({ typ: 'at+jwt', alg })
  })

  it.each([
    ['of a root session that holds nothing', {}],
    ['of a subagent with grants', { grants: 3, child: true }],
    ['whose subject is the user', { subject: 'user' as const }],
  ])('%s verifies with its claims whole', async (_, how) => {
    const claims = someClaims(START, how)
    const token = await signToken(keys, { tenantId: ACME.id, claims, alg })
    const result = await check(token)
    expect(result).toMatchObject({ ok: true, value: { header: decodeProtectedHeader(token) } })
    expect(result.ok && result.value.claims).toEqual(claims)
  })
})

it('is accepted by an independent RFC 9068 resource server', async () => {
  // Real time: that library has no clock to set.
  const now = Math.floor(Date.now() / 1000)
  const token = await signToken(keys, { tenantId: ACME.id, claims: someClaims(now) })
  const request = new Request(MCP, { headers: { authorization: `Bearer ${token}` } })
  const server = { issuer: issuerOf(ACME), jwks_uri: `${issuerOf(ACME)}/oauth/jwks` }
  const claims = await validateJwtAccessToken(server, request, MCP, {
    [allowInsecureRequests]: true,
    [customFetch]: async () => Response.json(await keys.jwks(ACME.id)),
  })
  expect(claims).toMatchObject({
    sub: 'ses_1',
    on_behalf_of: 'usr_maya',
    authorization_details: [],
  })
})

it('lives until its last second and not into the next', async () => {
  const token = await signToken(keys, { tenantId: ACME.id, claims: someClaims(START) })
  expect(await check(token, { now: START + 899 })).toMatchObject({ ok: true })
  expect(await check(token, { now: START + 900 })).toMatchObject({ ok: false })
})

it('is taken two seconds before it was issued, for clocks that differ, and no earlier', async () => {
  const token = await signToken(keys, { tenantId: ACME.id, claims: someClaims(START) })
  expect(await check(token, { now: START - 2 })).toMatchObject({ ok: true })
  expect(await check(token, { now: START - 3 })).toMatchObject({ ok: false })
})

it('is for one of several audiences that a caller answers for', async () => {
  const token = await signToken(keys, { tenantId: ACME.id, claims: someClaims(START) })
  expect(await check(token, { audience: ['http://accounts.test', MCP] })).toMatchObject({
    ok: true,
  })
  expect(await check(token, { audience: ['http://accounts.test'] })).toMatchObject({ ok: false })
  expect(await check(token, { audience: [] })).toMatchObject({ ok: false })
})

it.each([
  ['without authorization_details', { authorization_details: undefined }, /empty set/],
  ['that lives too long', { exp: START + 901 }, /I4/],
  ['that is dead already', { exp: START }, /dead/],
  ['too long for a request header', { jti: 'x'.repeat(13_000) }, /request header/],
])('is never signed %s', async (_, wrong, why) => {
  const claims = { ...someClaims(START), ...wrong } as ReturnType<typeof someClaims>
  await expect(signToken(keys, { tenantId: ACME.id, claims })).rejects.toThrow(why)
})

it('looks like one of ours, unlike a person’s', async () => {
  const publicUrl = 'http://localhost:4000'
  const token = await signToken(keys, { tenantId: ACME.id, claims: someClaims(START) })
  const of = (claims: object) =>
    `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.AA`
  expect(looksLikeLendToken(unverifiedClaims(token), publicUrl)).toBe(true)
  expect(looksLikeLendToken(unverifiedClaims(token), 'https://elsewhere.test')).toBe(true)
  expect(
    looksLikeLendToken(unverifiedClaims(of({ iss: `${publicUrl}/t/globex` })), publicUrl),
  ).toBe(true)
  expect(
    looksLikeLendToken(unverifiedClaims(of({ iss: 'http://idp.test', sid: 'x' })), publicUrl),
  ).toBe(false)
  for (const junk of ['', '.', '..', 'a.b.c', 'e30.bnVsbA.AA', 'opaque'])
    expect(looksLikeLendToken(unverifiedClaims(junk), publicUrl)).toBe(false)
})
