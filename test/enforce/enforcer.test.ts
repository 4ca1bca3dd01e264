import { generateKeyPair } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createEnforcer } from '../../src/enforce/index.ts'
import { CREDENTIALS, GRANT, type Issuer, startIssuer } from './support/issuer.ts'

/**
 * A resource server's own checks: whatever cannot be verified is not allowed (I19, USER-ASKS 1).
 */
let lend: Issuer
beforeAll(async () => {
  lend = await startIssuer()
})
afterAll(() => lend.close())
afterEach(() => {
  lend.live = { active: true, ...lend.claims() }
  lend.keysDown = false
  lend.metadata = { ...lend.metadata, issuer: lend.issuer }
})

const READ = { permission: 'accounts:read' }
const offline = () => createEnforcer({ issuer: lend.issuer, audience: lend.audience })
const online = () =>
  createEnforcer({ issuer: lend.issuer, audience: lend.audience, introspect: CREDENTIALS })
const reasonFor = async (changes: Record<string, unknown>, wanted: object = {}) =>
  (await offline().check(await lend.token(changes), { ...READ, ...wanted })).reason

test('a good token with the grant is allowed, and says for whom', async () => {
  expect(await offline().check(await lend.token(), READ)).toEqual({
    allowed: true,
    reason: 'granted',
    status: 200,
    session: 'ses_1',
    agent: 'agt_1',
    user: 'usr_maya',
    grant: GRANT,
    grants: [GRANT],
    ask: READ,
  })
})

describe('what a token lacks is never taken for unlimited', () => {
  test.each([
    ['no authorization_details', { authorization_details: undefined }, 'token_invalid'],
    ['null', { authorization_details: null }, 'token_invalid'],
    ['an object', { authorization_details: {} }, 'token_invalid'],
    ['an empty list', { authorization_details: [] }, 'not_granted'],
    ['scope alone', { authorization_details: [], scope: 'accounts:read' }, 'not_granted'],
    [
      'a grant with a limit that is not known here',
      { authorization_details: [{ ...GRANT, not_after: '12:00' }] },
      'token_invalid',
    ],
    [
      'a grant of another permission',
      { authorization_details: [{ ...GRANT, permission: 'accounts:write' }] },
      'not_granted',
    ],
    [
      'a grant without a permission',
      { authorization_details: [{ ...GRANT, permission: undefined }] },
      'token_invalid',
    ],
    [
      'a read_only that is not true',
      { authorization_details: [{ ...GRANT, read_only: false }] },
      'token_invalid',
    ],
  ])('%s', async (_, changes, reason) => {
    expect(await reasonFor(changes)).toBe(reason)
  })
})

describe('tokens that are not this issuer’s for exactly this audience', () => {
  test.each([
    ['a list with the audience in it', () => ({ aud: [lend.audience] })],
    ['the control audience', () => ({ aud: `${lend.issuer}/mcp` })],
    ['an audience that begins alike', () => ({ aud: `${lend.audience}/admin` })],
    ['another tenant’s issuer', () => ({ iss: lend.issuer.replace('acme', 'globex') })],
    ['another tenant’s name', () => ({ tenant: 'globex' })],
    ['a sub of neither session nor user', () => ({ sub: 'agt_1' })],
    ['no session', () => ({ sid: undefined })],
    [
      'an actor who is somebody else',
      () => ({ act: { ...Object(lend.claims().act), sub: 'agt_2' } }),
    ],
    ['no actor', () => ({ act: undefined })],
    ['a binding to a key', () => ({ cnf: { jkt: 'x' } })],
    ['a longer life than tokens have', () => ({ exp: Math.floor(Date.now() / 1000) + 3600 })],
  ])('%s', async (_, changes) => {
    expect(await reasonFor(changes())).toBe('token_invalid')
  })

  test('an expired token is told apart, since a re-issue helps', async () => {
    const now = Math.floor(Date.now() / 1000)
    expect(await reasonFor({ iat: now - 901, exp: now - 1 })).toBe('token_expired')
  })

  test.each([
    ['another kind of token', { header: { typ: 'JWT' } }],
    ['an unknown key', { header: { kid: 'k2' } }],
    ['a critical header', { header: { crit: ['b64'], b64: true } }],
  ])('%s', async (_, signing) => {
    const verdict = await offline().check(await lend.token({}, signing), READ)
    expect(verdict).toMatchObject({ allowed: false, reason: 'token_invalid', status: 401 })
  })

  test('another key under the known name', async () => {
    const { privateKey } = await generateKeyPair('ES256')
    expect((await offline().check(await lend.token({}, { key: privateKey }), READ)).reason).toBe(
      'token_invalid',
    )
  })

  test('the public key taken for a shared secret', async () => {
    const key = new TextEncoder().encode(JSON.stringify(lend.publicJwk))
    const token = await lend.token({}, { key, header: { alg: 'HS256' } })
    expect((await offline().check(token, READ)).reason).toBe('token_invalid')
  })

  test('no signature at all', async () => {
    const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const token = `${b64({ alg: 'none', typ: 'at+jwt' })}.${b64(lend.claims())}.`
    expect((await offline().check(token, READ)).reason).toBe('token_invalid')
  })

  test.each([null, undefined, ''])('%j is no token', async (token) => {
    expect(await offline().check(token, READ)).toMatchObject({
      reason: 'token_missing',
      status: 401,
    })
  })

  test.each(['x', 'a.b.c', '....', 'x'.repeat(70_000)])('garbage', async (token) => {
    expect((await offline().check(token, READ)).reason).toBe('token_invalid')
  })
})

describe('what a grant reaches', () => {
  const asset = (identifier: string | undefined) => ({
    authorization_details: [
      {
        type: 'lend_asset',
        permission: 'dashboard:view',
        actions: ['view'],
        grant_id: 'grt_2',
        ...(identifier === undefined ? {} : { identifier }),
      },
    ],
  })
  test.each([
    ['dashboard/q3', 'dashboard/q3', 'granted'],
    ['dashboard/q3', 'dashboard/q4', 'not_granted'],
    ['dashboard/*', 'dashboard/q4', 'granted'],
    ['dashboard/*', 'dashboard/a/b', 'not_granted'],
    ['dashboard/*', 'report/q4', 'not_granted'],
    ['dashboard/q3', 'dashboard/*', 'not_granted'],
    ['dashboard/q3', undefined, 'not_granted'],
    [undefined, 'dashboard/q3', 'not_granted'],
    ['domain/customer.example', 'domain/CUSTOMER.example.', 'granted'],
    ['domain/customer.example', 'domain/evil.example', 'not_granted'],
    ['dashboard/*', 'dashboard/../x', 'resource_invalid'],
    ['domain/*', 'domain/a b', 'resource_invalid'],
  ])('%s for %s: %s', async (held, wanted, reason) => {
    const resource = wanted === undefined ? {} : { resource: wanted }
    const want = { permission: 'dashboard:view', ...resource }
    expect(await reasonFor(asset(held), want)).toBe(reason)
  })

  test('a grant for reading only does not let write', async () => {
    const held = { authorization_details: [{ ...GRANT, read_only: true }] }
    expect(await reasonFor(held)).toBe('granted')
    expect(await reasonFor(held, { writes: true })).toBe('read_only')
  })

  test('a narrowed grant counts only for those who say that they narrow', async () => {
    const narrow = { renewal_in_days: { $lte: 90 } }
    const held = { authorization_details: [{ ...GRANT, narrow }] }
    expect(await reasonFor(held)).toBe('narrowed')
    const verdict = await offline().check(await lend.token(held), { ...READ, narrows: true })
    expect(verdict.grants).toEqual([{ ...GRANT, narrow }])
  })
})

describe('live', () => {
  test('what is held now counts, not what the token carries', async () => {
    const empty = await lend.token({ authorization_details: [], scope: undefined })
    expect((await online().check(empty, READ)).reason).toBe('granted')
    lend.live = { active: true, ...lend.claims({ authorization_details: [] }) }
    expect((await online().check(await lend.token(), READ)).reason).toBe('not_granted')
  })

  test('a token that is dead is refused at once', async () => {
    lend.live = { active: false }
    expect(await online().check(await lend.token(), READ)).toMatchObject({
      reason: 'session_over',
      status: 401,
      session: 'ses_1',
    })
  })

  test('a bad token is not even asked about', async () => {
    const before = lend.introspections()
    await online().check(await lend.token({ aud: 'elsewhere' }), READ)
    expect(lend.introspections()).toBe(before)
  })

  test.each<[string, Issuer['live']]>([
    ['an error', 500],
    ['a refusal of our credentials', 401],
    ['a connection that breaks', 'cut'],
    ['an answer without active', {}],
    ['active that is not true', { active: 'true' }],
    ['active alone', { active: true }],
    ['a list', []],
  ])('%s allows nothing', async (_, live) => {
    lend.live = live
    expect(await online().check(await lend.token(), READ)).toMatchObject({
      allowed: false,
      reason: 'unavailable',
      status: 503,
      grants: [],
    })
  })

  test('an answer about another session allows nothing', async () => {
    const act = { ...Object(lend.claims().act), sid: 'ses_2' }
    lend.live = { active: true, ...lend.claims({ sid: 'ses_2', sub: 'ses_2', act }) }
    expect((await online().check(await lend.token(), READ)).reason).toBe('unavailable')
  })

  test('an answer for another audience allows nothing', async () => {
    lend.live = { active: true, ...lend.claims({ aud: 'elsewhere' }) }
    expect((await online().check(await lend.token(), READ)).reason).toBe('unavailable')
  })

  test('silence allows nothing, and ends', { timeout: 10_000 }, async () => {
    lend.live = 'hang'
    expect((await online().check(await lend.token(), READ)).reason).toBe('unavailable')
  })
})

describe('when Lend cannot be reached at the start', () => {
  test('keys that cannot be had: nothing is allowed, and it is no fault of the token', async () => {
    lend.keysDown = true
    expect((await offline().check(await lend.token(), READ)).reason).toBe('unavailable')
  })

  test('keys that were had serve on', async () => {
    const enforcer = offline()
    await enforcer.check(await lend.token(), READ)
    lend.keysDown = true
    expect((await enforcer.check(await lend.token(), READ)).reason).toBe('granted')
  })

  test.each([
    ['another issuer', { issuer: 'http://127.0.0.1:1/t/acme' }],
    ['keys elsewhere', { jwks_uri: 'http://127.0.0.1:1/jwks' }],
    ['introspection elsewhere', { introspection_endpoint: 'http://127.0.0.1:1/introspect' }],
  ])('metadata that names %s is not followed', async (_, changes) => {
    const good = lend.metadata
    lend.metadata = { ...good, ...changes }
    const verdict = await online().check(await lend.token(), READ)
    lend.metadata = good
    expect(verdict.reason).toBe('unavailable')
  })

  test('nothing listens', async () => {
    const nobody = 'http://127.0.0.1:1/t/acme'
    const enforcer = createEnforcer({ issuer: nobody, audience: lend.audience })
    expect((await enforcer.check(await lend.token(), READ)).reason).toBe('unavailable')
  })
})
