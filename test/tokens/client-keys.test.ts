import { generateKeyPairSync } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { checkRegisteredJwks } from '../../src/tokens/client-auth.ts'

const ec = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve })
const rsa = (modulusLength: number, publicExponent = 65_537) =>
  generateKeyPairSync('rsa', { modulusLength, publicExponent })
const open = (pair: { publicKey: ReturnType<typeof ec>['publicKey'] }) =>
  pair.publicKey.export({ format: 'jwk' })

const p256 = ec('P-256')
const rsa2048 = rsa(2048)
const ed25519 = generateKeyPairSync('ed25519')
const publicP256 = open(p256)

describe('registers', () => {
  it.each<[string, object[]]>([
    ['P-256', [publicP256]],
    ['P-384', [open(ec('P-384'))]],
    ['P-521', [open(ec('P-521'))]],
    ['RSA of 2048 bits', [open(rsa2048)]],
    ['Ed25519', [open(ed25519)]],
    [
      'a key with kid, alg, use and key_ops',
      [{ ...publicP256, kid: '1', alg: 'ES256', use: 'sig', key_ops: ['verify'] }],
    ],
    [
      'two keys',
      [
        { ...publicP256, kid: '1' },
        { ...open(rsa2048), kid: '2' },
      ],
    ],
  ])('%s', (_, keys) => {
    expect(checkRegisteredJwks({ keys })).toEqual([])
  })
})

const hex = (text: string) => Buffer.from(text, 'hex').toString('base64url')

describe('does not register', () => {
  it.each<[string, unknown, string]>([
    ['no set', null, 'keys'],
    ['a lone key', publicP256, 'keys'],
    ['keys that are no list', { keys: {} }, 'keys'],
    ['no key', { keys: [] }, 'keys'],
    ['eleven keys', { keys: Array(11).fill(publicP256) }, 'keys'],
    ['null for a key', { keys: [null] }, 'keys.0'],
    ['a list for a key', { keys: [[]] }, 'keys.0'],
    ['a private EC key', { keys: [p256.privateKey.export({ format: 'jwk' })] }, 'keys.0.d'],
    ['a private RSA key', { keys: [rsa2048.privateKey.export({ format: 'jwk' })] }, 'keys.0.d'],
    ['a prime of an RSA key', { keys: [{ ...open(rsa2048), p: 'AQAB' }] }, 'keys.0.p'],
    ['a private Ed25519 key', { keys: [ed25519.privateKey.export({ format: 'jwk' })] }, 'keys.0.d'],
    ['a shared secret', { keys: [{ kty: 'oct', k: 'c2VjcmV0' }] }, 'keys.0.k'],
    ['a shared secret without its k', { keys: [{ kty: 'oct' }] }, 'keys.0.kty'],
    ['a public key with a k', { keys: [{ ...publicP256, k: 'c2VjcmV0' }] }, 'keys.0.k'],
    ['secp256k1', { keys: [open(ec('secp256k1'))] }, 'keys.0.kty'],
    ['X25519', { keys: [{ kty: 'OKP', crv: 'X25519', x: 'A'.repeat(43) }] }, 'keys.0.kty'],
    ['a kty from the prototype', { keys: [{ kty: 'constructor' }] }, 'keys.0.kty'],
    ['a curve from the prototype', { keys: [{ kty: 'EC', crv: 'toString' }] }, 'keys.0.kty'],
    ['RSA of 1024 bits', { keys: [open(rsa(1024))] }, 'keys.0.n'],
    [
      'RSA of 1024 bits with zeros before',
      {
        keys: [{ kty: 'RSA', e: 'AQAB', n: hex(`${'00'.repeat(200)}${'ff'.repeat(128)}`) }],
      },
      'keys.0.n',
    ],
    [
      'RSA of 16384 bits',
      { keys: [{ kty: 'RSA', e: 'AQAB', n: hex('ff'.repeat(2048)) }] },
      'keys.0.n',
    ],
    ['RSA with exponent 1', { keys: [{ ...open(rsa2048), e: 'AQ' }] }, 'keys.0.e'],
    ['RSA with exponent 3', { keys: [open(rsa(2048, 3))] }, 'keys.0.e'],
    ['RSA with an even exponent', { keys: [{ ...open(rsa2048), e: hex('010002') }] }, 'keys.0.e'],
    ['RSA without a modulus', { keys: [{ kty: 'RSA', e: 'AQAB' }] }, 'keys.0.n'],
    ['a point off its curve', { keys: [{ ...publicP256, y: publicP256.x }] }, 'keys.0.x'],
    [
      'a point at nought',
      {
        keys: [{ ...publicP256, x: hex('00'.repeat(32)), y: hex('00'.repeat(32)) }],
      },
      'keys.0.x',
    ],
    ['EC without y', { keys: [{ ...publicP256, y: undefined }] }, 'keys.0.x'],
    [
      'Ed25519 of 31 bytes',
      { keys: [{ kty: 'OKP', crv: 'Ed25519', x: hex('01'.repeat(31)) }] },
      'keys.0.x',
    ],
    ['alg of another curve', { keys: [{ ...publicP256, alg: 'ES384' }] }, 'keys.0.alg'],
    ['alg HS256', { keys: [{ ...publicP256, alg: 'HS256' }] }, 'keys.0.alg'],
    ['alg none', { keys: [{ ...publicP256, alg: 'none' }] }, 'keys.0.alg'],
    ['a key for encryption', { keys: [{ ...publicP256, use: 'enc' }] }, 'keys.0.use'],
    [
      'a key that may not verify',
      { keys: [{ ...publicP256, key_ops: ['sign'] }] },
      'keys.0.key_ops',
    ],
    ['a kid that is a number', { keys: [{ ...publicP256, kid: 1 }] }, 'keys.0.kid'],
    [
      'one kid for two keys',
      {
        keys: [
          { ...publicP256, kid: '1' },
          { ...open(rsa2048), kid: '1' },
        ],
      },
      'keys.1.kid',
    ],
  ])('%s', (_, jwks, path) => {
    expect(checkRegisteredJwks(jwks).map((error) => error.path)).toEqual([path])
  })
})
