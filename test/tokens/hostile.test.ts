import { createHmac, createPublicKey, type KeyObject } from 'node:crypto'
import { EncryptJWT } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Db } from '../../src/db/tx.ts'
import { createKeyStore, type KeyStore } from '../../src/tokens/keys.ts'
import { verifySessionToken } from '../../src/tokens/verify.ts'
import {
  ACME,
  b64,
  forged,
  freshDb,
  GLOBEX,
  issuerOf,
  MCP,
  START,
  someClaims,
  stolenKey,
  stoppedClock,
} from './world.ts'

/**
 * Every row is signed with the tenant's real key unless its point is the signature: so it passes only for want of the
 * one check that it is named after. The control row shows that the forger makes tokens which verify.
 */
let db: Db
let keys: KeyStore
let es: Awaited<ReturnType<typeof stolenKey>>
let rs: Awaited<ReturnType<typeof stolenKey>>
let globex: Awaited<ReturnType<typeof stolenKey>>

beforeAll(async () => {
  db = await freshDb()
  keys = createKeyStore({ db, clock: stoppedClock(), vault: undefined })
  es = await stolenKey(db, ACME, 'ES256')
  rs = await stolenKey(db, ACME, 'RS256')
  globex = await stolenKey(db, GLOBEX, 'ES256')
})

const check = (token: string) =>
  verifySessionToken(keys, {
    token,
    tenant: ACME,
    issuer: issuerOf(ACME),
    audience: MCP,
    now: START,
  })

type Part = Record<string, unknown>
type Made = {
  header?: Part
  claims?: Part
  key?: KeyObject
  der?: boolean
  text?: string
  head?: string
}
const whole = () => someClaims(START, { grants: 2, child: true })
const made = (by: Made = {}): string =>
  forged(
    { key: by.key ?? es.key, ...(by.der ? { der: true } : {}) },
    by.head ?? JSON.stringify({ typ: 'at+jwt', alg: 'ES256', kid: es.kid, ...by.header }),
    by.text ?? JSON.stringify({ ...whole(), ...by.claims }),
  )
const parts = (): [string, string, string] => made().split('.') as [string, string, string]
const hmac = (secret: string | Buffer): string => {
  const signed = `${b64(JSON.stringify({ typ: 'at+jwt', alg: 'HS256', kid: es.kid }))}.${parts()[1]}`
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}
const unsigned = (alg: string): string =>
  `${b64(JSON.stringify({ typ: 'at+jwt', alg, kid: es.kid }))}.${parts()[1]}.`
/** The last character again, with an unused bit set: lenient decoders read the same bytes. */
const spelledElse = (part: string): string => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  return part.slice(0, -1) + alphabet[alphabet.indexOf(part.slice(-1)) + 1]
}
const detail = (more: Part): Part => ({
  authorization_details: [
    {
      type: 'lend_api',
      permission: 'accounts:read',
      actions: ['read'],
      grant_id: 'grt_1',
      ...more,
    },
  ],
})
const act = (more: Part): Part => ({ act: { ...whole().act, ...more } })
/** Named in both places, so that only the comparison with the issuer expected can tell. */
const issued = (iss: string): Part => ({ iss, act: { ...whole().act, iss } })

type Row = [attack: string, token: () => string | Promise<string>]

const ALGORITHM: Row[] = [
  ['alg none, no signature', () => unsigned('none')],
  ['alg None', () => unsigned('None')],
  ['alg nOnE with a signature', () => made({ header: { alg: 'nOnE' } })],
  ['alg missing', () => made({ header: { alg: undefined } })],
  ['alg a list', () => made({ header: { alg: ['ES256'] } })],
  ['alg es256 in lower case', () => made({ header: { alg: 'es256' } })],
  ['alg from the prototype', () => made({ header: { alg: 'constructor' } })],
  [
    'HS256 with the public PEM as the secret',
    () => hmac(createPublicKey(es.key).export({ type: 'spki', format: 'pem' })),
  ],
  [
    'HS256 with the public DER as the secret',
    () => hmac(createPublicKey(es.key).export({ type: 'spki', format: 'der' })),
  ],
  ['HS256 with the public JWK as the secret', () => hmac(JSON.stringify(es.publicJwk))],
  ['HS256 with an empty secret', () => hmac('')],
  ['RS256 named, ES256 key meant', () => made({ header: { alg: 'RS256' } })],
  ['ES256 named, RS256 key meant', () => made({ header: { kid: rs.kid }, key: rs.key })],
  ['RS256 signature under the ES256 kid', () => made({ header: { alg: 'RS256' }, key: rs.key })],
  ['PS256', () => made({ header: { alg: 'PS256', kid: rs.kid }, key: rs.key })],
  ['ES384', () => made({ header: { alg: 'ES384' } })],
]

const KEY: Row[] = [
  ['kid missing', () => made({ header: { kid: undefined } })],
  ['kid empty', () => made({ header: { kid: '' } })],
  ['kid a list', () => made({ header: { kid: [es.kid] } })],
  ['kid of another tenant', () => made({ header: { kid: globex.kid }, key: globex.key })],
  ['kid ours, key of another tenant', () => made({ key: globex.key })],
  ['kid a path', () => made({ header: { kid: '../../../../dev/null' } })],
  ['kid a path behind ours', () => made({ header: { kid: `${es.kid}/../x` } })],
  ['kid an SQL fragment', () => made({ header: { kid: `' or '1'='1` } })],
  ['kid with a NUL', () => made({ header: { kid: `${es.kid}\u0000` } })],
  ['kid __proto__', () => made({ header: { kid: '__proto__' } })],
  ['kid unknown but well formed', () => made({ header: { kid: 'A'.repeat(43) } })],
  ['key embedded as jwk', () => made({ header: { jwk: globex.publicJwk }, key: globex.key })],
  [
    'key embedded as jwk, without kid',
    () => made({ header: { kid: undefined, jwk: globex.publicJwk }, key: globex.key }),
  ],
  ['jku', () => made({ header: { jku: 'https://evil.test/jwks' } })],
  ['x5u', () => made({ header: { x5u: 'https://evil.test/cert' } })],
  ['x5c', () => made({ header: { x5c: ['MIIB'] } })],
  ['crit', () => made({ header: { crit: ['exp'], exp: START + 60 } })],
  ['crit empty', () => made({ header: { crit: [] } })],
  ['b64 false', () => made({ header: { b64: false, crit: ['b64'] } })],
]

const TYPE: Row[] = [
  ['typ missing', () => made({ header: { typ: undefined } })],
  ['typ JWT', () => made({ header: { typ: 'JWT' } })],
  ['typ of a logout token', () => made({ header: { typ: 'logout+jwt' } })],
  ['typ of a client assertion', () => made({ header: { typ: 'client-authentication+jwt' } })],
  ['typ in capitals', () => made({ header: { typ: 'AT+JWT' } })],
]

const FORM: Row[] = [
  ['empty', () => ''],
  ['dots only', () => '..'],
  ['two parts', () => parts().slice(0, 2).join('.')],
  ['four parts', () => `${made()}.`],
  ['four parts, the last one full', () => `${made()}.AA`],
  ['empty signature', () => `${parts().slice(0, 2).join('.')}.`],
  ['empty payload', () => `${parts()[0]}..${parts()[2]}`],
  [
    'a JWE in five parts',
    () =>
      new EncryptJWT({ sub: 'ses_1' })
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', typ: 'at+jwt', kid: es.kid })
        .encrypt(new Uint8Array(32)),
  ],
  [
    'a JSON serialisation',
    () => JSON.stringify({ protected: parts()[0], payload: parts()[1], signature: parts()[2] }),
  ],
  ['white space before', () => ` ${made()}`],
  ['white space after', () => `${made()}\n`],
  ['white space inside', () => made().replace('.', ' .')],
  ['padding', () => `${made()}==`],
  [
    'the alphabet of plain base64',
    () => made().replaceAll('-', '+').replaceAll('_', '/').replace(/.$/, '/'),
  ],
  [
    'unused bits of the signature set',
    () => {
      const [h, p, s] = parts()
      return [h, p, spelledElse(s)].join('.')
    },
  ],
  ['a character too few in the signature', () => made().slice(0, -1)],
  ['a character of another script', () => made().replace(/.$/, 'é')],
  ['a token of 17 KB', () => made({ claims: { jti: 'x'.repeat(12_800) } })],
  ['a token of 10 MB', () => `${'A'.repeat(10_000_000)}.AA.AA`],
]

const SIGNATURE: Row[] = [
  ['DER instead of r and s', () => made({ der: true })],
  ['r and s zero', () => `${parts().slice(0, 2).join('.')}.${b64(Buffer.alloc(64))}`],
  [
    'r and s of the group order',
    () => {
      const n = 'ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551'
      return `${parts().slice(0, 2).join('.')}.${b64(Buffer.from(n + n, 'hex'))}`
    },
  ],
  [
    'signature of another token',
    () => {
      const [h, p] = parts()
      return [h, p, made({ claims: { session_version: 8 } }).split('.')[2]].join('.')
    },
  ],
  [
    'signature cut to 63 bytes',
    () => {
      const [h, p, s] = parts()
      return [h, p, b64(Buffer.from(s, 'base64url').subarray(0, 63))].join('.')
    },
  ],
  [
    'signature with a byte after it',
    () => {
      const [h, p, s] = parts()
      return [h, p, b64(Buffer.concat([Buffer.from(s, 'base64url'), Buffer.alloc(1)]))].join('.')
    },
  ],
  [
    'payload changed',
    () => {
      const [h, , s] = parts()
      const more = { ...someClaims(START), session_version: 99 }
      return [h, b64(JSON.stringify(more)), s].join('.')
    },
  ],
]

const JSON_TRICKS: Row[] = [
  [
    'a claim twice',
    () => made({ text: JSON.stringify(someClaims(START)).replace('{', '{"sid":"ses_2",') }),
  ],
  [
    'a header member twice',
    () => made({ head: `{"alg":"none","typ":"at+jwt","alg":"ES256","kid":"${es.kid}"}` }),
  ],
  [
    '__proto__ among the claims',
    () => made({ text: JSON.stringify(someClaims(START)).replace('{', '{"__proto__":{"a":1},') }),
  ],
  [
    'all claims in __proto__',
    () => made({ text: `{"__proto__":${JSON.stringify(someClaims(START))}}` }),
  ],
  [
    '__proto__ with an escape',
    () => made({ text: JSON.stringify(someClaims(START)).replace('{', '{"\\u005f_proto__":1,') }),
  ],
  [
    'header members in __proto__',
    () => made({ head: `{"__proto__":{"alg":"ES256"},"typ":"at+jwt","kid":"${es.kid}"}` }),
  ],
  [
    'constructor in place of a claim',
    () => made({ claims: { sid: undefined, constructor: 'ses_1' } }),
  ],
  ['white space in the JSON', () => made({ text: JSON.stringify(someClaims(START), null, 1) })],
  ['a byte order mark', () => made({ text: `\ufeff${JSON.stringify(someClaims(START))}` })],
  [
    'text that is not UTF-8',
    () => {
      const payload = JSON.stringify(someClaims(START)).replace('jti-1', 'jti-é')
      const bytes = Buffer.from(payload, 'latin1')
      return forged(
        { key: es.key },
        JSON.stringify({ typ: 'at+jwt', alg: 'ES256', kid: es.kid }),
        bytes as never,
      )
    },
  ],
  ['claims a list', () => made({ text: '[]' })],
  ['claims null', () => made({ text: 'null' })],
  ['claims not JSON', () => made({ text: '{' })],
  [
    'claims nested out of measure',
    () => made({ text: `{"a":${'['.repeat(6000)}${']'.repeat(5990)}` }),
  ],
]

const CLAIMS: Row[] = [
  ['iss of another tenant', () => made({ claims: issued(issuerOf(GLOBEX)) })],
  ['iss with a slash after it', () => made({ claims: issued(`${issuerOf(ACME)}/`) })],
  ['iss in another case', () => made({ claims: issued(issuerOf(ACME).toUpperCase()) })],
  ['iss missing', () => made({ claims: { iss: undefined } })],
  ['aud of another resource', () => made({ claims: { aud: 'http://accounts.test' } })],
  ['aud a list of one', () => made({ claims: { aud: [MCP] } })],
  ['aud a list of two', () => made({ claims: { aud: [MCP, 'http://accounts.test'] } })],
  ['aud with a slash after it', () => made({ claims: { aud: `${MCP}/` } })],
  ['aud missing', () => made({ claims: { aud: undefined } })],
  ['aud our issuer', () => made({ claims: { aud: issuerOf(ACME) } })],
  ['tenant another', () => made({ claims: { tenant: 'globex' } })],
  ['tenant missing', () => made({ claims: { tenant: undefined } })],
  ['exp now', () => made({ claims: { iat: START - 900, exp: START } })],
  ['exp missing', () => made({ claims: { exp: undefined } })],
  ['exp a string', () => made({ claims: { exp: String(START + 60) } })],
  ['exp null', () => made({ claims: { exp: null } })],
  ['exp not whole', () => made({ claims: { exp: START + 60.5 } })],
  ['exp a second too far', () => made({ claims: { exp: START + 901 } })],
  ['exp in a thousand years', () => made({ claims: { exp: START + 31_536_000_000 } })],
  [
    'exp infinite',
    () => made({ text: JSON.stringify(someClaims(START)).replace(/"exp":\d+/, '"exp":1e999') }),
  ],
  ['exp before iat', () => made({ claims: { iat: START + 2, exp: START + 1 } })],
  ['iat missing', () => made({ claims: { iat: undefined } })],
  ['iat a string', () => made({ claims: { iat: String(START) } })],
  ['iat in the future', () => made({ claims: { iat: START + 60, exp: START + 120 } })],
  ['nbf in the future', () => made({ claims: { nbf: START + 60 } })],
  ['nbf a string', () => made({ claims: { nbf: '0' } })],
  ['authorization_details missing', () => made({ claims: { authorization_details: undefined } })],
  ['authorization_details null', () => made({ claims: { authorization_details: null } })],
  ['authorization_details an object', () => made({ claims: { authorization_details: {} } })],
  ['authorization_details a string', () => made({ claims: { authorization_details: '[]' } })],
  ['a grant of an unknown type', () => made({ claims: detail({ type: 'lend_root' }) })],
  ['a grant without an id', () => made({ claims: detail({ grant_id: undefined }) })],
  ['a grant with no actions', () => made({ claims: detail({ actions: [] }) })],
  ['a grant with a limit we do not know', () => made({ claims: detail({ only_before: 12 }) })],
  ['a grant whose read_only is false', () => made({ claims: detail({ read_only: false }) })],
  ['a grant whose narrow is null', () => made({ claims: detail({ narrow: null }) })],
  ['a grant whose identifier is empty', () => made({ claims: detail({ identifier: '' }) })],
  ['scope empty', () => made({ claims: { scope: '' } })],
  ['scope a list', () => made({ claims: { scope: ['accounts:read'] } })],
  ['sub missing', () => made({ claims: { sub: undefined } })],
  ['sub another session', () => made({ claims: { sub: 'ses_9' } })],
  ['sub another user', () => made({ claims: { sub: 'usr_omar' } })],
  ['sub the agent', () => made({ claims: { sub: 'agt_1' } })],
  ['sid a user id', () => made({ claims: { sid: 'usr_maya', sub: 'usr_maya' } })],
  ['sid missing', () => made({ claims: { sid: undefined } })],
  ['sid a number', () => made({ claims: { sid: 1 } })],
  ['root_sid missing', () => made({ claims: { root_sid: undefined } })],
  ['client_id a session id', () => made({ claims: { client_id: 'ses_1' } })],
  ['on_behalf_of missing', () => made({ claims: { on_behalf_of: undefined } })],
  ['on_behalf_of an agent', () => made({ claims: { on_behalf_of: 'agt_1' } })],
  ['jti missing', () => made({ claims: { jti: undefined } })],
  ['session_version missing', () => made({ claims: { session_version: undefined } })],
  ['session_version zero', () => made({ claims: { session_version: 0 } })],
  ['session_version a fraction', () => made({ claims: { session_version: 7.5 } })],
  ['session_version a string', () => made({ claims: { session_version: '7' } })],
  ['template without a version', () => made({ claims: { template: 'renewal-briefs' } })],
  ['act missing', () => made({ claims: { act: undefined } })],
  ['act of another agent', () => made({ claims: act({ sub: 'agt_2' }) })],
  ['act of another session', () => made({ claims: act({ sid: 'ses_9' }) })],
  ['act of another issuer', () => made({ claims: act({ iss: 'http://evil.test' }) })],
  ['a token bound to a key, sent as bearer', () => made({ claims: { cnf: { jkt: 'x' } } })],
]

it('control: what the forger makes verifies', async () => {
  expect(await check(made())).toMatchObject({ ok: true })
  expect(await check(made({ header: { typ: 'application/at+jwt' } }))).toMatchObject({ ok: true })
  expect(await check(made({ header: { alg: 'RS256', kid: rs.kid }, key: rs.key }))).toMatchObject({
    ok: true,
  })
  expect(await check(made({ claims: { ...detail({}), new_claim: 1 } }))).toMatchObject({ ok: true })
  expect(await check(made({ claims: { authorization_details: [] } }))).toMatchObject({ ok: true })
})

it('a kid that cannot be a thumbprint is not looked for', async () => {
  const clock = stoppedClock()
  const store = createKeyStore({ db, clock, vault: undefined })
  await store.verifierKeys(ACME.id)
  clock.forward(10)
  const before = db.statements()
  for (const kid of ['', 'x', '../x', 'A'.repeat(44), `${'A'.repeat(42)}=`]) {
    const on = { tenant: ACME, issuer: issuerOf(ACME), audience: MCP, now: START }
    await verifySessionToken(store, { ...on, token: made({ header: { kid } }) })
  }
  expect(db.statements()).toBe(before)
})

describe.each([
  ['algorithm', ALGORITHM],
  ['key', KEY],
  ['type', TYPE],
  ['form', FORM],
  ['signature', SIGNATURE],
  ['JSON', JSON_TRICKS],
  ['claims', CLAIMS],
])('refuses, by %s', (_, rows) => {
  it.each(rows)('%s', async (_attack, token) => {
    expect(await check(await token())).toEqual({ ok: false, fault: { code: 'unauthenticated' } })
  })
})
