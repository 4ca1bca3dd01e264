import { createHmac, createPublicKey } from 'node:crypto'
import { exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newDemoIdpKey } from '../../src/demo/idp/secrets.ts'
import { signIn, signInFully } from '../../src/demo/idp/sign-in.ts'
import { createUserTokenVerifier } from '../../src/identity/login.ts'
import {
  type DemoWorld,
  goodClaims,
  keyOf,
  mint,
  serveDemoWorld,
  testClock,
} from './support/demo-world.ts'

let world: DemoWorld
beforeAll(async () => {
  world = await serveDemoWorld()
})
afterAll(() => world.close())

const verifier = (clock = testClock()) =>
  createUserTokenVerifier({ publicUrl: world.publicUrl, clock, fetchMillisMax: 1_000 })

const outcome = async (token: string, providers = [world.provider('acme')]) => {
  const result = await verifier().verify(token, providers)
  return result.ok ? 'accepted' : result.fault.code
}

const secretOf = (client: 'people' | 'app') => world.secrets.clientSecrets.acme?.[client] ?? ''
const maya = (client: 'people' | 'app') => ({
  publicUrl: world.publicUrl,
  tenant: 'acme',
  login: 'maya',
  client,
  clientSecret: secretOf(client),
})

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('a token from a real sign-in', () => {
  it.each([
    ['people', 'lend-web'],
    ['app', 'renewal-app'],
  ] as const)('through the client of the %s is verified', async (client, clientId) => {
    const provider = world.provider('acme')
    const result = await verifier().verify(await signIn(maya(client)), [
      world.provider('globex'),
      provider,
    ])
    expect(result).toEqual({
      ok: true,
      value: {
        provider,
        issuer: provider.issuer,
        subject: 'acme-maya',
        clientId,
        mayAct: null,
        expiresAt: expect.any(Number),
        profile: { login: 'maya', name: 'Maya Ortiz', email: 'maya@acme.example' },
      },
    })
  })

  it('is refused by a tenant that does not trust its issuer', async () => {
    const token = await signIn(maya('app'))
    expect(await outcome(token, [world.provider('globex')])).toBe('subject_token_invalid')
    expect(await outcome(token, [])).toBe('subject_token_invalid')
  })

  it('is refused by a tenant that is not its audience, though it trusts the issuer', async () => {
    const provider = { ...world.provider('acme'), audience: world.provider('globex').audience }
    expect(await outcome(await signIn(maya('app')), [provider])).toBe('subject_token_invalid')
  })

  it('is refused when two providers claim its issuer', async () => {
    const provider = world.provider('acme')
    const twin = { ...provider, id: 'idp_twin' }
    expect(await outcome(await signIn(maya('app')), [provider, twin])).toBe('subject_token_invalid')
  })

  it('ends with its hour', async () => {
    const clock = testClock()
    const token = await signIn(maya('app'))
    const { verify } = verifier(clock)
    expect((await verify(token, [world.provider('acme')])).ok).toBe(true)
    clock.forward(3600 - 10)
    expect((await verify(token, [world.provider('acme')])).ok).toBe(true)
    clock.forward(20)
    expect(await verify(token, [world.provider('acme')])).toEqual({
      ok: false,
      fault: { code: 'subject_token_invalid' },
    })
  })

  it('outlives a restart of the provider', async () => {
    const token = await signIn(maya('app'))
    await world.restart(world.secrets)
    expect(await outcome(token)).toBe('accepted')
  })

  it('is the access token: the ID token beside it is refused', async () => {
    const { accessToken, idToken } = await signInFully(maya('app'))
    expect(await outcome(accessToken)).toBe('accepted')
    expect(await outcome(idToken)).toBe('subject_token_invalid')
    const forClient = { ...world.provider('acme'), audience: 'lend-web' }
    const people = await signInFully(maya('people'))
    expect(await outcome(people.idToken, [forClient])).toBe('subject_token_invalid')
  })
})

describe('what is read', () => {
  const read = async (changes: Record<string, unknown>) => {
    const result = await verifier().verify(await mint(world, changes), [world.provider('acme')])
    return result.ok ? result.value : result.fault.code
  }

  it('is accepted unchanged, so that each refusal below is for its own change', async () => {
    expect(await outcome(await mint(world))).toBe('accepted')
  })

  it('azp names the client, alone or in agreement with client_id', async () => {
    expect(await read({ client_id: undefined, azp: 'cli' })).toMatchObject({ clientId: 'cli' })
    expect(await read({ client_id: 'cli', azp: 'cli' })).toMatchObject({ clientId: 'cli' })
    expect(await read({ client_id: undefined })).toMatchObject({ clientId: null })
  })

  it('may_act names who else may act', async () => {
    expect(await read({ may_act: { sub: 'agent-app' } })).toMatchObject({ mayAct: 'agent-app' })
  })

  it('an audience among others is enough', async () => {
    const { audience } = world.provider('acme')
    expect(await read({ aud: ['https://else.example', audience] })).toMatchObject({ mayAct: null })
  })

  it('a profile is kept as far as it is clean, and an unverified address is not', async () => {
    const changes = { name: 'a\u0000b', email: 'x@y.example', email_verified: false }
    expect(await read(changes)).toMatchObject({ profile: { login: 'maya' } })
    expect((await read(changes)) as { profile: object }).not.toHaveProperty('profile.name')
    expect((await read(changes)) as { profile: object }).not.toHaveProperty('profile.email')
  })

  it('a token is good a few seconds past its end, for clocks that differ', async () => {
    const now = Math.floor(Date.now() / 1000)
    expect(await outcome(await mint(world, { exp: now - 2 }))).toBe('accepted')
  })
})

describe('claims that are refused', () => {
  const now = () => Math.floor(Date.now() / 1000)
  it.each<[string, () => Record<string, unknown>]>([
    ['act: exchanged already', () => ({ act: { sub: 'agt_1' } })],
    ['act of null is still act', () => ({ act: null })],
    ['sid: a session’s token', () => ({ sid: 'ses_1' })],
    ['nonce: an ID token', () => ({ nonce: 'n' })],
    ['at_hash: an ID token', () => ({ at_hash: 'h' })],
    ['c_hash: an ID token', () => ({ c_hash: 'h' })],
    ['typ ID in the claims', () => ({ typ: 'ID' })],
    ['typ Refresh in the claims', () => ({ typ: 'Refresh' })],
    ['events: a logout token', () => ({ events: {} })],
    ['cnf: a bound token used as a bearer', () => ({ cnf: { jkt: 'x' } })],
    ['aud of another API', () => ({ aud: 'https://else.example' })],
    ['aud that only begins like ours', () => ({ aud: `${world.provider('acme').audience}/mcp` })],
    ['aud missing', () => ({ aud: undefined })],
    ['aud not a list of texts', () => ({ aud: [world.provider('acme').audience, 7] })],
    ['exp missing', () => ({ exp: undefined })],
    ['exp past', () => ({ exp: now() - 10 })],
    ['exp as text', () => ({ exp: String(now() + 60) })],
    ['nbf to come', () => ({ nbf: now() + 60 })],
    ['sub missing', () => ({ sub: undefined })],
    ['sub empty', () => ({ sub: '' })],
    ['sub longer than 255', () => ({ sub: 'x'.repeat(256) })],
    ['sub with a control character', () => ({ sub: 'acme-maya\u0000' })],
    ['sub with half a surrogate pair', () => ({ sub: 'maya\ud800' })],
    ['azp and client_id that differ', () => ({ azp: 'other-app' })],
    ['client_id that is no text', () => ({ client_id: { toString: 'renewal-app' } })],
    ['may_act without sub', () => ({ may_act: { iss: 'x' } })],
    ['may_act that is no object', () => ({ may_act: 'renewal-app' })],
    ['iss with a slash more', () => ({ iss: `${world.provider('acme').issuer}/` })],
    ['iss missing', () => ({ iss: undefined })],
    ['iss as a list', () => ({ iss: [world.provider('acme').issuer] })],
  ])('%s', async (_name, changes) => {
    expect(await outcome(await mint(world, changes()))).toBe('subject_token_invalid')
  })

  it('aud equal to the client, whatever the tenant calls its audience', async () => {
    const provider = { ...world.provider('acme'), audience: 'renewal-app' }
    const token = await mint(world, { aud: 'renewal-app' })
    expect(await outcome(token, [provider])).toBe('subject_token_invalid')
    const both = await mint(world, { aud: ['renewal-app', 'https://api.example'] })
    expect(await outcome(both, [provider])).toBe('accepted')
  })
})

describe('headers that are refused', () => {
  it.each(['id_token', 'logout+jwt', 'dpop+jwt', 'secevent+jwt', 'rt+jwt', ''])(
    'typ %j',
    async (typ) => {
      const token = await mint(world, {}, { header: { typ } })
      expect(await outcome(token)).toBe('subject_token_invalid')
    },
  )

  it.each(['JWT', 'AT+JWT', 'application/at+jwt', undefined])('but typ %j is not', async (typ) => {
    expect(await outcome(await mint(world, {}, { header: { typ } }))).toBe('accepted')
  })

  it('jwk: a key that the token brings itself', async () => {
    const key = await newDemoIdpKey()
    const { d: _private, ...jwk } = key
    const token = await mint(world, {}, { key, header: { jwk } })
    expect(await outcome(token)).toBe('subject_token_invalid')
  })

  it.each(['jku', 'x5u'])('%s: even a good token may not point to keys elsewhere', async (name) => {
    const token = await mint(world, {}, { header: { [name]: `${world.publicUrl}/keys` } })
    const before = world.hits('/keys')
    expect(await outcome(token)).toBe('subject_token_invalid')
    expect(world.hits('/keys')).toBe(before)
  })

  it('crit: an extension that nobody here knows, though the signature is good', async () => {
    const token = await new SignJWT(goodClaims(world))
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', crit: ['mine'], mine: 1 })
      .sign(await importJWK(keyOf(world, 'acme'), 'ES256'), { crit: { mine: true } })
    expect(await outcome(token)).toBe('subject_token_invalid')
  })
})

describe('signatures that are refused', () => {
  it('none at all (alg none), in every spelling', async () => {
    for (const alg of ['none', 'None', 'NONE', '']) {
      const head = `${encode({ alg, typ: 'at+jwt' })}.${encode(goodClaims(world))}`
      expect(await outcome(`${head}.`)).toBe('subject_token_invalid')
      expect(await outcome(`${head}.AA`)).toBe('subject_token_invalid')
      expect(await outcome(head)).toBe('subject_token_invalid')
    }
  })

  it('HS256 with the public key as the secret (key confusion), in any form', async () => {
    const { d: _private, ...jwk } = keyOf(world, 'acme')
    const key = createPublicKey({ key: jwk as import('node:crypto').JsonWebKey, format: 'jwk' })
    const forms = [
      key.export({ type: 'spki', format: 'pem' }),
      key.export({ type: 'spki', format: 'der' }),
      JSON.stringify(jwk),
    ]
    for (const secret of forms) {
      const header = encode({ alg: 'HS256', typ: 'at+jwt', kid: jwk.kid })
      const head = `${header}.${encode(goodClaims(world))}`
      const mac = createHmac('sha256', secret).update(head).digest('base64url')
      expect(await outcome(`${head}.${mac}`)).toBe('subject_token_invalid')
    }
  })

  it('by another tenant’s provider', async () => {
    const token = await mint(world, {}, { key: keyOf(world, 'globex') })
    expect(await outcome(token)).toBe('subject_token_invalid')
  })

  it('by a stranger who borrows the kid', async () => {
    const key = { ...(await newDemoIdpKey()), kid: keyOf(world, 'acme').kid ?? '' }
    expect(await outcome(await mint(world, {}, { key }))).toBe('subject_token_invalid')
  })

  it('of an algorithm that the key is not for', async () => {
    const { privateKey } = await generateKeyPair('ES384', { extractable: true })
    const key: JWK = { ...(await exportJWK(privateKey)), kid: keyOf(world, 'acme').kid ?? '' }
    const token = await new SignJWT(goodClaims(world))
      .setProtectedHeader({ alg: 'ES384', typ: 'at+jwt', kid: key.kid ?? '' })
      .sign(await importJWK(key, 'ES384'))
    expect(await outcome(token)).toBe('subject_token_invalid')
  })

  it('over other claims than these', async () => {
    const [header, , signature] = (await mint(world)).split('.')
    const payload = encode({ ...goodClaims(world), sub: 'acme-adam' })
    expect(await outcome(`${header}.${payload}.${signature}`)).toBe('subject_token_invalid')
  })
})

describe('forms that are refused', () => {
  it('a second spelling of a good token (non-canonical base64url)', async () => {
    const token = await mint(world)
    const [header = '', payload = '', signature = ''] = token.split('.')
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    // 64 bytes are 86 characters with four bits unused: the last character has 15 others that
    // decode alike.
    const last = alphabet.indexOf(signature.slice(-1))
    const twin = signature.slice(0, -1) + alphabet[last + 1]
    expect(Buffer.from(twin, 'base64url')).toEqual(Buffer.from(signature, 'base64url'))
    expect(await outcome(token)).toBe('accepted')
    for (const other of [
      `${header}.${payload}.${twin}`,
      `${header}.${payload}.${signature}==`,
      `${header}.${payload}.${signature}\n`,
      ` ${token}`,
      `Bearer ${token}`,
      `${header}.${payload}.${signature}.`,
      `${header}.${payload}`,
      `${header}..${signature}`,
      '',
      '..',
      'opaque',
    ]) {
      expect(await outcome(other), JSON.stringify(other)).toBe('subject_token_invalid')
    }
  })

  it('a huge one, signed or not', async () => {
    const token = await mint(world, { filler: 'x'.repeat(16 * 1024) })
    expect(await outcome(token)).toBe('subject_token_invalid')
    expect(await outcome(await mint(world, { filler: 'x'.repeat(8 * 1024) }))).toBe('accepted')
  })
})

describe('Lend’s own tokens', () => {
  it('are no user’s, even if an administrator names Lend as a provider', async () => {
    for (const issuer of [`${world.publicUrl}/t/acme`, `${world.publicUrl}/t/globex`]) {
      const own = { ...world.provider('acme'), issuer }
      const before = world.hits('openid-configuration')
      expect(await outcome(await mint(world, { iss: issuer }), [own])).toBe('subject_token_invalid')
      expect(world.hits('openid-configuration')).toBe(before)
    }
  })

  it('cannot be set up as a provider; a real one can, a dead one not', async () => {
    const { checkIssuer } = verifier()
    const check = async (issuer: string) => {
      const result = await checkIssuer({ issuer, privateNetwork: true })
      return result.ok ? 'ok' : result.fault.code
    }
    expect(await check(world.provider('acme').issuer)).toBe('ok')
    expect(await check(`${world.publicUrl}/t/acme`)).toBe('unprocessable')
    expect(await check(`${world.publicUrl.replace('http', 'HTTP')}/t/acme`)).toBe('unprocessable')
    expect(await check('acme')).toBe('unprocessable')
    expect(await check(`${world.provider('acme').issuer}?x=1`)).toBe('unprocessable')
    expect(await check(`${world.publicUrl}/demo/idp/nobody`)).toBe('provider_unavailable')
  })
})
