import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newDemoIdpKey } from '../../src/demo/idp/secrets.ts'
import { createUserTokenVerifier } from '../../src/identity/login.ts'
import {
  type DemoWorld,
  keyOf,
  mint,
  serve,
  serveDemoWorld,
  testClock,
} from './support/demo-world.ts'

let world: DemoWorld
beforeEach(async () => {
  world = await serveDemoWorld()
})
afterEach(() => world.close())

/** A verifier of acme, with the clock that it goes by. */
const acme = () => {
  const clock = testClock()
  const options = { publicUrl: world.publicUrl, clock, fetchMillisMax: 300 }
  const { verify } = createUserTokenVerifier(options)
  const outcome = async (token: string, changes = {}) => {
    const result = await verify(token, [{ ...world.provider('acme'), ...changes }])
    return result.ok ? 'accepted' : result.fault.code
  }
  return { clock, outcome }
}

const keyHits = () => world.hits('/demo/idp/acme/jwks')

async function rotate() {
  const next = await newDemoIdpKey()
  const keys = { ...world.secrets.keys, acme: [next, keyOf(world, 'acme')] }
  await world.restart({ ...world.secrets, keys })
}

describe('keys', () => {
  it('are fetched once for many tokens, also when all come at once', async () => {
    const { outcome } = acme()
    const token = await mint(world)
    const all = await Promise.all(Array.from({ length: 20 }, () => outcome(token)))
    expect(new Set(all)).toEqual(new Set(['accepted']))
    for (let i = 0; i < 5; i++) expect(await outcome(token)).toBe('accepted')
    expect(keyHits()).toBe(1)
    expect(world.hits('openid-configuration')).toBe(1)
  })

  it('that are new are picked up by the first token that names them', async () => {
    const { outcome, clock } = acme()
    const before = await mint(world)
    expect(await outcome(before)).toBe('accepted')
    await rotate()
    clock.forward(31)
    expect(await outcome(await mint(world))).toBe('accepted')
    expect(await outcome(before)).toBe('accepted')
    expect(keyHits()).toBe(2)
  })

  it('that are withdrawn are refused within ten minutes', async () => {
    const { outcome, clock } = acme()
    const token = await mint(world)
    expect(await outcome(token)).toBe('accepted')
    await world.restart({
      ...world.secrets,
      keys: { ...world.secrets.keys, acme: [await newDemoIdpKey()] },
    })
    clock.forward(10 * 60 + 1)
    expect(await outcome(token)).toBe('subject_token_invalid')
    expect(await outcome(await mint(world))).toBe('accepted')
  })

  it('a flood of unknown kids asks the provider once in the cooldown, not once each', async () => {
    const { outcome, clock } = acme()
    expect(await outcome(await mint(world))).toBe('accepted')
    const flood = async () => {
      for (let i = 0; i < 25; i++) {
        const token = await mint(world, {}, { header: { kid: `made-up-${i}` } })
        expect(await outcome(token)).toBe('subject_token_invalid')
      }
    }
    await flood()
    expect(keyHits()).toBe(1)
    clock.forward(31)
    await flood()
    expect(keyHits()).toBe(2)
    expect(await outcome(await mint(world))).toBe('accepted')
  })

  it('of the wrong issuer are never asked for', async () => {
    const { outcome } = acme()
    const token = await mint(world, { iss: 'http://127.0.0.1:1/' })
    expect(await outcome(token)).toBe('subject_token_invalid')
    expect(await outcome(await mint(world, { act: {} }))).toBe('subject_token_invalid')
    expect(world.hits('openid-configuration')).toBe(0)
  })
})

describe('a provider that is down', () => {
  it.each(['down', 'silent'] as const)(
    '(%s) is a clear refusal, never an acceptance',
    async (mode) => {
      const { outcome } = acme()
      world.mode = mode
      expect(await outcome(await mint(world))).toBe('provider_unavailable')
    },
  )

  it('is not asked again by every token, and is found when it is back', async () => {
    const { outcome, clock } = acme()
    const token = await mint(world)
    world.mode = 'down'
    for (let i = 0; i < 10; i++) expect(await outcome(token)).toBe('provider_unavailable')
    expect(world.hits('openid-configuration')).toBe(1)
    world.mode = 'up'
    clock.forward(6)
    expect(await outcome(token)).toBe('accepted')
  })

  it('is served by known keys for ten minutes and no longer', async () => {
    const { outcome, clock } = acme()
    const token = await mint(world)
    expect(await outcome(token)).toBe('accepted')
    world.mode = 'down'
    clock.forward(10 * 60 - 5)
    expect(await outcome(token)).toBe('accepted')
    clock.forward(10)
    expect(await outcome(token)).toBe('provider_unavailable')
  })

  it('makes a token of an unknown key undecided, and those of known keys stay good', async () => {
    const { outcome, clock } = acme()
    expect(await outcome(await mint(world))).toBe('accepted')
    world.mode = 'down'
    clock.forward(31)
    const token = await mint(world, {}, { header: { kid: 'new' } })
    expect(await outcome(token)).toBe('provider_unavailable')
    expect(await outcome(await mint(world))).toBe('accepted')
  })
})

describe('a provider inside', () => {
  it('is reached only if its row says so, whatever another row has fetched', async () => {
    const { outcome } = acme()
    const token = await mint(world)
    expect(await outcome(token, { privateNetwork: true })).toBe('accepted')
    const before = keyHits()
    expect(await outcome(token, { privateNetwork: false })).toBe('provider_unavailable')
    expect(keyHits()).toBe(before)
  })
})

describe('a provider that answers wrongly', () => {
  type Answers = { metadata: (issuer: string) => unknown; keys: unknown; status?: number }
  const publicKey = () => {
    const { d: _private, ...jwk } = keyOf(world, 'acme')
    return jwk
  }
  const good = (): Answers => ({
    metadata: (issuer) => ({ issuer, jwks_uri: `${issuer}/keys` }),
    keys: { keys: [publicKey()] },
  })

  async function withProvider(answers: Answers): Promise<string> {
    const { origin, close } = await serve((req, res) => {
      const body = req.url === '/keys' ? answers.keys : answers.metadata(origin)
      res.writeHead(req.url === '/keys' ? (answers.status ?? 200) : 200, {
        'content-type': 'application/json',
        ...(answers.status === 302 ? { location: '/elsewhere' } : {}),
      })
      res.end(typeof body === 'string' ? body : JSON.stringify(body))
    })
    try {
      const { outcome } = acme()
      return await outcome(await mint(world, { iss: origin }), { issuer: origin })
    } finally {
      await close()
    }
  }

  it('is accepted when right, so that each refusal below is for its own answer', async () => {
    expect(await withProvider(good())).toBe('accepted')
  })

  it.each<[string, () => Partial<Answers>]>([
    ['another issuer', () => ({ metadata: (i) => ({ issuer: `${i}x`, jwks_uri: `${i}/keys` }) })],
    ['an issuer alike', () => ({ metadata: (i) => ({ issuer: `${i}/`, jwks_uri: `${i}/keys` }) })],
    ['no jwks_uri', () => ({ metadata: (i) => ({ issuer: i }) })],
    ['a jwks_uri of a file', () => ({ metadata: (i) => ({ issuer: i, jwks_uri: 'file:///x' }) })],
    ['metadata that is no JSON', () => ({ metadata: () => '<html>' })],
    ['keys that are no JSON', () => ({ keys: '<html>' })],
    ['keys that are no list', () => ({ keys: { keys: publicKey() } })],
    ['more keys than anyone has', () => ({ keys: { keys: Array(101).fill(publicKey()) } })],
    ['an error that carries keys', () => ({ status: 500 })],
    ['a redirect to its keys', () => ({ status: 302 })],
    ['more bytes than allowed', () => ({ keys: { keys: [publicKey()], x: 'x'.repeat(300_000) } })],
    ['a key that is none', () => ({ keys: { keys: [{ ...publicKey(), x: 'AAAA' }] } })],
  ])('%s', async (_name, changes) => {
    expect(await withProvider({ ...good(), ...changes() })).toBe('provider_unavailable')
  })

  it.each<[string, () => Partial<Answers>]>([
    ['no keys', () => ({ keys: { keys: [] } })],
    ['two keys of one name', () => ({ keys: { keys: [publicKey(), publicKey()] } })],
    ['its private key', () => ({ keys: { keys: [keyOf(world, 'acme')] } })],
    ['a key for something else', () => ({ keys: { keys: [{ ...publicKey(), use: 'enc' }] } })],
    ['a secret', () => ({ keys: { keys: [{ kty: 'oct', k: 'AAAA', kid: publicKey().kid }] } })],
  ])('%s verifies nothing', async (_name, changes) => {
    expect(await withProvider({ ...good(), ...changes() })).toBe('subject_token_invalid')
  })
})
