import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { SignJWT } from 'jose'
import * as oauth from 'oauth4webapi'
import { beforeAll, describe, expect, it } from 'vitest'
import { saveRestored } from '../../src/db/restored.ts'
import { type Db, withTx } from '../../src/db/tx.ts'
import {
  authenticateClient,
  hashSecret,
  isSignedByOneOf,
  sweepAssertions,
} from '../../src/tokens/client-auth.ts'
import {
  AWKWARD,
  edPair,
  type Key,
  otherPair,
  pair,
  registerClients,
  rsaPair,
  secret,
} from './clients.ts'
import { ACME, freshDb, GLOBEX, issuerOf, START, stoppedClock } from './world.ts'

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

let db: Db
const clock = stoppedClock()

beforeAll(async () => {
  db = await freshDb()
  await registerClients(db)
})

type Given = { authorization?: string; form?: Record<string, string> | string }
const authenticate = (given: Given, tenant = ACME) =>
  authenticateClient(
    { db, clock, issuer: issuerOf(tenant), tenant },
    { authorization: given.authorization, form: new URLSearchParams(given.form ?? {}) },
  )
const encoded = (text: string) => encodeURIComponent(text).replaceAll('%20', '+')
const basic = (id: string, with_: string) =>
  `Basic ${Buffer.from(`${encoded(id)}:${encoded(with_)}`).toString('base64')}`
const post = (id: string, with_: string) => ({ client_id: id, client_secret: with_ })

const UNAUTHENTICATED = { ok: false, fault: { code: 'client_unauthenticated' } }
const MALFORMED = { ok: false, fault: { code: 'request_malformed' } }
const TRUSTS = { appClients: [], providers: [] }
const AGENT_KEYS = {
  ok: true,
  value: { kind: 'agent', id: 'agt_keys', status: 'active', trusts: TRUSTS },
}

let serial = 0
type Assertion = {
  header?: Record<string, unknown>
  claims?: Record<string, unknown>
  key?: Key | KeyObject | Uint8Array
}
const assertionOf = async ({ header, claims, key }: Assertion = {}) => {
  const now = clock.seconds()
  return new SignJWT({
    iss: 'agt_keys',
    sub: 'agt_keys',
    aud: issuerOf(ACME),
    jti: `jti-${serial++}`,
    iat: now,
    exp: now + 60,
    ...claims,
  })
    .setProtectedHeader({ alg: 'ES256', kid: 'k1', ...header })
    .sign(key ?? pair.privateKey)
}
const asserting = (client_assertion: string, more: Record<string, string> = {}) => ({
  form: { client_assertion_type: ASSERTION_TYPE, client_assertion, ...more },
})

describe('a secret', () => {
  it('by basic', async () => {
    expect(await authenticate({ authorization: basic('agt_secret', secret) })).toEqual({
      ok: true,
      value: { kind: 'agent', id: 'agt_secret', status: 'active', trusts: TRUSTS },
    })
  })

  it('by post', async () => {
    expect(await authenticate({ form: post('agt_secret', secret) })).toMatchObject({ ok: true })
  })

  it('of an enforcement point, with its services', async () => {
    expect(await authenticate({ authorization: basic('epc_1', secret) })).toEqual({
      ok: true,
      value: {
        kind: 'enforcement_point',
        id: 'epc_1',
        services: ['accounts', 'dashboards'],
        resources: [],
      },
    })
  })

  it('of a disabled agent says so and leaves it to the flow', async () => {
    expect(await authenticate({ form: post('agt_off', secret) })).toMatchObject({
      ok: true,
      value: { status: 'disabled' },
    })
  })

  it('with special characters, percent-encoded', async () => {
    expect(await authenticate({ authorization: basic('agt_awkward', AWKWARD) })).toMatchObject({
      ok: true,
    })
    const raw = `Basic ${Buffer.from(`agt_awkward:${AWKWARD}`).toString('base64')}`
    expect(await authenticate({ authorization: raw })).toEqual(UNAUTHENTICATED)
  })

  it.each([
    ['with the scheme in lower case', () => basic('agt_secret', secret).replace('Basic', 'basic')],
  ])('by basic %s', async (_, authorization) => {
    expect(await authenticate({ authorization: authorization() })).toMatchObject({ ok: true })
  })

  it.each<[string, () => Given, object]>([
    ['that is wrong', () => ({ form: post('agt_secret', `${secret}x`) }), UNAUTHENTICATED],
    ['of an unknown client', () => ({ form: post('agt_nobody', secret) }), UNAUTHENTICATED],
    [
      'of a client of another tenant',
      () => ({ form: post('agt_globex', secret) }),
      UNAUTHENTICATED,
    ],
    ['of a client that has none', () => ({ form: post('agt_other', secret) }), UNAUTHENTICATED],
    [
      'of a client that has none, empty',
      () => ({ authorization: basic('agt_other', '') }),
      UNAUTHENTICATED,
    ],
    [
      'that is its own hash',
      () => ({ form: post('agt_secret', hashSecret(secret)) }),
      UNAUTHENTICATED,
    ],
    ['under an id with a NUL', () => ({ form: post('agt_secret\0', secret) }), UNAUTHENTICATED],
    ['under an SQL fragment', () => ({ form: post("agt_' or 1=1 --", secret) }), UNAUTHENTICATED],
    ['of a megabyte', () => ({ form: post('agt_secret', 'x'.repeat(1e6)) }), UNAUTHENTICATED],
    ['left out', () => ({ form: { client_id: 'agt_secret' } }), UNAUTHENTICATED],
    ['left empty', () => ({ form: post('agt_secret', '') }), UNAUTHENTICATED],
    ['with nothing else', () => ({}), UNAUTHENTICATED],
    ['without an id', () => ({ form: { client_secret: secret } }), MALFORMED],
    [
      'in a header of another scheme',
      () => ({ authorization: `Bearer ${secret}` }),
      UNAUTHENTICATED,
    ],
    ['in a header that is not base64', () => ({ authorization: 'Basic %%%' }), UNAUTHENTICATED],
    ['in a header without a colon', () => ({ authorization: 'Basic YWJj' }), UNAUTHENTICATED],
    [
      'in a header with a bad escape',
      () => ({ authorization: `Basic ${btoa('agt_secret:%zz')}` }),
      UNAUTHENTICATED,
    ],
    [
      'by basic, another client_id in the form',
      () => ({
        authorization: basic('agt_secret', secret),
        form: { client_id: 'agt_off' },
      }),
      UNAUTHENTICATED,
    ],
    [
      'by basic and by post',
      () => ({
        authorization: basic('agt_secret', secret),
        form: post('agt_secret', secret),
      }),
      MALFORMED,
    ],
    [
      'given twice',
      () => ({
        form: `client_id=agt_secret&client_secret=${secret}&client_secret=${secret}`,
      }),
      MALFORMED,
    ],
    [
      'under two ids',
      () => ({
        form: `client_id=agt_secret&client_id=agt_off&client_secret=${secret}`,
      }),
      MALFORMED,
    ],
  ])('%s is refused', async (_, given, fault) => {
    expect(await authenticate(given())).toMatchObject(fault)
  })

  it('that is bad looks the same as a client that is unknown', async () => {
    const bad = await authenticate({ form: post('agt_secret', 'x') })
    expect(bad).toEqual(await authenticate({ form: post('agt_nobody', 'x') }))
    expect(bad).toEqual(UNAUTHENTICATED)
  })
})

describe('an assertion', () => {
  it.each<[string, Assertion]>([
    ['by ES256 and kid', {}],
    ['by ES256 without kid', { header: { kid: undefined } }],
    ['by PS256', { header: { alg: 'PS256', kid: undefined }, key: rsaPair.privateKey }],
    ['by Ed25519', { header: { alg: 'Ed25519', kid: undefined }, key: edPair.privateKey }],
    [
      'by EdDSA, its older name',
      { header: { alg: 'EdDSA', kid: undefined }, key: edPair.privateKey },
    ],
    ['of type JWT', { header: { typ: 'JWT' } }],
    ['of the type of RFC 7523bis', { header: { typ: 'client-authentication+jwt' } }],
    ['that lives five minutes', { claims: { exp: START + 300 } }],
    ['without iat', { claims: { iat: undefined } }],
    ['with a jti of 255 characters', { claims: { jti: 'x'.repeat(255) } }],
  ])('%s is good', async (_, how) => {
    expect(await authenticate(asserting(await assertionOf(how)))).toEqual(AGENT_KEYS)
  })

  it.each<[string, Assertion]>([
    ['aud the token endpoint', { claims: { aud: `${issuerOf(ACME)}/oauth/token` } }],
    ['aud a list of our issuer alone', { claims: { aud: [issuerOf(ACME)] } }],
    ['aud a list', { claims: { aud: [issuerOf(ACME), 'https://evil.test'] } }],
    ['aud with a slash after it', { claims: { aud: `${issuerOf(ACME)}/` } }],
    ['aud of another tenant', { claims: { aud: issuerOf(GLOBEX) } }],
    ['aud missing', { claims: { aud: undefined } }],
    ['exp too far', { claims: { exp: START + 331 } }],
    ['exp past', { claims: { exp: START - 31 } }],
    ['exp missing', { claims: { exp: undefined } }],
    ['exp a string', { claims: { exp: String(START + 60) } }],
    ['iat in the future', { claims: { iat: START + 31 } }],
    ['iat a string', { claims: { iat: 'now' } }],
    ['nbf in the future', { claims: { nbf: START + 31 } }],
    ['jti missing', { claims: { jti: undefined } }],
    ['jti empty', { claims: { jti: '' } }],
    ['jti a number', { claims: { jti: 7 } }],
    ['jti of 256 characters', { claims: { jti: 'x'.repeat(256) } }],
    ['jti with a NUL', { claims: { jti: 'a\0b' } }],
    ['jti with half a surrogate pair', { claims: { jti: 'a\ud800' } }],
    ['iss another client', { claims: { iss: 'agt_other' } }],
    ['iss missing', { claims: { iss: undefined } }],
    ['sub another client, key of this one', { claims: { iss: 'agt_other', sub: 'agt_other' } }],
    ['another client’s key', { key: otherPair.privateKey }],
    ['another client’s key without kid', { header: { kid: undefined }, key: otherPair.privateKey }],
    ['a client of another tenant', { claims: { iss: 'agt_globex', sub: 'agt_globex' } }],
    ['an unknown client', { claims: { iss: 'agt_nobody', sub: 'agt_nobody' } }],
    ['a client that has only a secret', { claims: { iss: 'agt_secret', sub: 'agt_secret' } }],
    ['an enforcement point', { claims: { iss: 'epc_1', sub: 'epc_1' } }],
    ['kid of no key', { header: { kid: 'k9' } }],
    ['a type of ours', { header: { typ: 'at+jwt' } }],
    ['HS256 with the secret', { header: { alg: 'HS256' }, key: Buffer.from(secret) }],
    [
      'HS256 with the secret’s hash',
      { header: { alg: 'HS256' }, key: Buffer.from(hashSecret(secret)) },
    ],
  ])('%s is refused', async (_, how) => {
    expect(await authenticate(asserting(await assertionOf(how)))).toEqual(UNAUTHENTICATED)
  })

  it('by a key that should never have been registered is refused', async () => {
    const weak = generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 3 })
    const header = { alg: 'RS256', kid: undefined }
    const assertion = await assertionOf({ header, key: weak.privateKey })
    const key = weak.publicKey.export({ format: 'jwk' })
    expect(await isSignedByOneOf({ keys: [key] }, assertion)).toBe(false)
  })

  it('with alg none is refused', async () => {
    const [, payload] = (await assertionOf()).split('.')
    const none = `${btoa('{"alg":"none"}').replaceAll('=', '')}.${payload}.`
    expect(await authenticate(asserting(none))).toEqual(UNAUTHENTICATED)
  })

  it('beside a client_id that it does not name is refused', async () => {
    const good = await assertionOf()
    expect(await authenticate(asserting(good, { client_id: 'agt_other' }))).toEqual(UNAUTHENTICATED)
    expect(await authenticate(asserting(good, { client_id: 'agt_keys' }))).toEqual(AGENT_KEYS)
  })

  it('beside a secret, without its type or of another type is malformed', async () => {
    const good = await assertionOf()
    expect(await authenticate(asserting(good, { client_secret: secret }))).toMatchObject(MALFORMED)
    const authorization = basic('agt_keys', secret)
    expect(await authenticate({ authorization, ...asserting(good) })).toMatchObject(MALFORMED)
    expect(await authenticate({ form: { client_assertion: good } })).toMatchObject(MALFORMED)
    expect(await authenticate({ form: { client_assertion_type: ASSERTION_TYPE } })).toMatchObject(
      MALFORMED,
    )
    // None of these used it up.
    expect(await authenticate(asserting(good))).toEqual(AGENT_KEYS)
  })

  it('is good once', async () => {
    const once = asserting(await assertionOf())
    expect(await authenticate(once)).toEqual(AGENT_KEYS)
    expect(await authenticate(once)).toEqual(UNAUTHENTICATED)
  })

  it('is good once when two send it at the same time', async () => {
    const once = asserting(await assertionOf())
    const both = await Promise.all([authenticate(once), authenticate(once)])
    expect(both.filter((one) => one.ok)).toHaveLength(1)
  })

  it('spelled otherwise is no other assertion', async () => {
    const once = await assertionOf()
    expect(await authenticate(asserting(`${once}=`))).toEqual(UNAUTHENTICATED)
    expect(await authenticate(asserting(`${once}\n`))).toEqual(UNAUTHENTICATED)
  })

  it('is not used up by somebody who cannot sign it', async () => {
    const claims = { jti: 'wanted' }
    const thief = await assertionOf({ claims, key: otherPair.privateKey })
    expect(await authenticate(asserting(thief))).toEqual(UNAUTHENTICATED)
    expect(await authenticate(asserting(await assertionOf({ claims })))).toEqual(AGENT_KEYS)
  })

  it('from before a restore may have been used, so it is refused; one from after it is not', async () => {
    const now = clock.seconds()
    const old = { iat: now - 1, exp: now + 60 }
    const undated = { iat: undefined, exp: now + 299 }
    const restored = { at: (now - 1) * 1000, backupAt: 0 }
    await withTx(db, 'test', (tx) => saveRestored(tx, restored))
    try {
      for (const claims of [old, undated])
        expect(await authenticate(asserting(await assertionOf({ claims })))).toEqual(
          UNAUTHENTICATED,
        )
      expect(await authenticate(asserting(await assertionOf()))).toEqual(AGENT_KEYS)
    } finally {
      await withTx(db, 'test', (tx) => tx.sql`delete from installation where name = 'restored'`)
    }
  })

  it('may share its jti with another client’s', async () => {
    const claims = { jti: 'shared' }
    expect(await authenticate(asserting(await assertionOf({ claims })))).toEqual(AGENT_KEYS)
    const other = await assertionOf({
      claims: { ...claims, iss: 'agt_other', sub: 'agt_other' },
      key: otherPair.privateKey,
    })
    expect(await authenticate(asserting(other))).toMatchObject({ ok: true })
  })

  it('is remembered until it could no longer be used, then forgotten', async () => {
    const later = stoppedClock()
    const once = await assertionOf({ claims: { jti: 'swept', exp: START + 60 } })
    const on = { db, clock: later, issuer: issuerOf(ACME), tenant: ACME }
    const send = () =>
      authenticateClient(on, {
        authorization: undefined,
        form: new URLSearchParams(asserting(once).form),
      })
    expect(await send()).toEqual(AGENT_KEYS)
    for (const wait of [60, 29, 1, 30]) {
      later.forward(wait)
      await withTx(db, 'test', (tx) => sweepAssertions(tx, later.seconds()))
      expect(await send()).toEqual(UNAUTHENTICATED)
    }
    later.forward(1000)
    await withTx(db, 'test', (tx) => sweepAssertions(tx, later.seconds()))
    const left = await withTx(db, 'test', (tx) => tx.sql`select jti from client_assertion`)
    expect(left).toEqual([])
  })
})

describe('an outside client', () => {
  /** What oauth4webapi would send, caught on its way. */
  const sentBy = async (clientAuth: oauth.ClientAuth, id: string): Promise<Given> => {
    let given: Given = {}
    const server = { issuer: issuerOf(ACME), token_endpoint: `${issuerOf(ACME)}/oauth/token` }
    await oauth.genericTokenEndpointRequest(
      server,
      { client_id: id, [oauth.clockSkew]: START - Math.floor(Date.now() / 1000) },
      clientAuth,
      'urn:ietf:params:oauth:grant-type:token-exchange',
      {},
      {
        [oauth.allowInsecureRequests]: true,
        [oauth.customFetch]: async (_url, { headers, body }) => {
          const authorization = new Headers(headers).get('authorization')
          given = { ...(authorization === null ? {} : { authorization }), form: String(body) }
          return new Response(null, { status: 500 })
        },
      },
    )
    return given
  }

  it.each<[string, oauth.ClientAuth, string]>([
    ['private_key_jwt', oauth.PrivateKeyJwt({ key: pair.privateKey, kid: 'k1' }), 'agt_keys'],
    ['private_key_jwt with RSA', oauth.PrivateKeyJwt(rsaPair.privateKey), 'agt_keys'],
    ['client_secret_basic', oauth.ClientSecretBasic(secret), 'agt_secret'],
    ['client_secret_basic, awkward', oauth.ClientSecretBasic(AWKWARD), 'agt_awkward'],
    ['client_secret_post', oauth.ClientSecretPost(AWKWARD), 'agt_awkward'],
    ['client_secret_basic of an enforcement point', oauth.ClientSecretBasic(secret), 'epc_1'],
  ])('is known by %s', async (_, clientAuth, id) => {
    expect(await authenticate(await sentBy(clientAuth, id))).toMatchObject({
      ok: true,
      value: { id },
    })
  })

  it('is not known by client_secret_jwt', async () => {
    const given = await sentBy(oauth.ClientSecretJwt(secret), 'agt_secret')
    expect(await authenticate(given)).toEqual(UNAUTHENTICATED)
  })
})
