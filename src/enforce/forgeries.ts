import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { isRecord } from './token.ts'

/** Tokens that nobody may accept, made from one that is good and from the issuer's public keys. */
export type Hostile = {
  readonly name: string
  /** What whoever accepts it gets wrong. */
  readonly why: string
  readonly token: string
  /** Where it is shown, if not as a bearer token in the header. */
  readonly place?: 'query' | 'cookie'
}

type Parts = {
  readonly header: Readonly<Record<string, unknown>>
  readonly payload: Readonly<Record<string, unknown>>
  readonly signature: string
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const base64url = (of: Uint8Array): string =>
  btoa(String.fromCharCode(...of))
    .replace(/\+/g, '-')
    .replace(/\//g, '_')
    .replace(/=+$/, '')
const decoded = (text: string): Uint8Array =>
  Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))
const encoded = (of: object): string => base64url(bytes(JSON.stringify(of)))

/** Null: not three parts with JSON in the first two. */
export function partsOf(token: string): Parts | null {
  try {
    const [head = '', body = '', signature = '', ...rest] = token.split('.')
    const read = (part: string): unknown => JSON.parse(new TextDecoder().decode(decoded(part)))
    const [header, payload] = [read(head), read(body)]
    if (!isRecord(header) || !isRecord(payload) || rest.length > 0 || signature === '') return null
    return { header, payload, signature }
  } catch {
    return null
  }
}

const joined = (header: object, payload: object, signature: string): string =>
  `${encoded(header)}.${encoded(payload)}.${signature}`

/** RFC 7518 section 3.6, RFC 8725 section 2.1. */
function unsigned({ header, payload, signature }: Parts): readonly Hostile[] {
  const why = 'It does not insist on a signature.'
  return [
    ...['none', 'None', 'NONE'].flatMap((alg) => [
      { name: `alg ${alg}, no signature`, why, token: joined({ ...header, alg }, payload, '') },
      {
        name: `alg ${alg}, old signature`,
        why,
        token: joined({ ...header, alg }, payload, signature),
      },
    ]),
    { name: 'no signature', why, token: joined(header, payload, '') },
    { name: 'two parts', why, token: `${encoded(header)}.${encoded(payload)}` },
  ]
}

/** Good signature, other claims. */
function tampered({ header, payload, signature }: Parts, token: string): readonly Hostile[] {
  const why = 'It does not check the signature over what it reads.'
  const changed: Readonly<Record<string, object>> = {
    'a later end': { exp: Number(payload.exp) + 3600 },
    'another user': { on_behalf_of: 'usr_somebody', sub: 'usr_somebody' },
    'another session': { sid: 'ses_somebody', sub: 'ses_somebody' },
    'another tenant': { tenant: 'somebody' },
    'more permissions': { authorization_details: [{ type: 'lend_api', permission: '*' }] },
  }
  const [head = '', body = ''] = token.split('.')
  return [
    ...Object.entries(changed).map(([name, more]) => ({
      name: `claims changed: ${name}`,
      why,
      token: joined(header, { ...payload, ...more }, signature),
    })),
    {
      name: 'header changed: typ',
      why,
      token: joined({ ...header, typ: 'JWT' }, payload, signature),
    },
    {
      name: 'a signature of zeros',
      why,
      token: `${head}.${body}.${base64url(new Uint8Array(64))}`,
    },
  ]
}

async function spkiOf(jwk: JWK): Promise<string> {
  const { alg = 'ES256' } = jwk
  const how =
    alg === 'ES256'
      ? { name: 'ECDSA', namedCurve: 'P-256' }
      : { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('jwk', { ...jwk, use: 'sig' }, how, true, ['verify'])
  const der = new Uint8Array(await crypto.subtle.exportKey('spki', key))
  const lines = btoa(String.fromCharCode(...der)).match(/.{1,64}/g) ?? []
  return `-----BEGIN PUBLIC KEY-----\n${lines.join('\n')}\n-----END PUBLIC KEY-----\n`
}

/** RFC 8725 section 2.1: the public key, taken for a shared secret. */
async function confused({ header, payload }: Parts, jwk: JWK): Promise<readonly Hostile[]> {
  const why = 'It lets the token choose the algorithm, and takes the public key for a secret.'
  const pem = await spkiOf(jwk)
  const secrets: Readonly<Record<string, string>> = {
    'as PEM': pem,
    'as PEM without its last line break': pem.trimEnd(),
    'as JWK': JSON.stringify(jwk),
  }
  return Promise.all(
    Object.entries(secrets).map(async ([name, secret]) => ({
      name: `HS256 with the public key ${name}`,
      why,
      token: await new SignJWT({ ...payload })
        .setProtectedHeader({ ...header, alg: 'HS256' })
        .sign(bytes(secret)),
    })),
  )
}

/** RFC 7515 section 4.1, RFC 8725 sections 2.9 and 3.10: whatever the header says of keys is the attacker's word. */
async function selfSigned({ header, payload }: Parts): Promise<readonly Hostile[]> {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk = await exportJWK(publicKey)
  const own = await calculateJwkThumbprint(jwk)
  const sign = (more: object) => {
    const head = { ...header, alg: 'ES256', ...more }
    return new SignJWT({ ...payload }).setProtectedHeader(head).sign(privateKey)
  }
  const by = 'It takes a key that is not its issuer’s.'
  const named = 'It takes the key that the token itself brings or names.'
  const tricks: readonly (readonly [string, object, string])[] = [
    ['another key under the good kid', {}, by],
    ['another key under its own kid', { kid: own }, by],
    ['another key without a kid', { kid: undefined }, by],
    ['a kid that is a path', { kid: '../../../../dev/null' }, by],
    ['a kid that is SQL', { kid: "x' union select 'k' --" }, by],
    ['a kid that is an address', { kid: 'https://attacker.example/jwks' }, by],
    ['an embedded jwk', { jwk }, named],
    ['a jku of its own', { jku: 'https://attacker.example/jwks' }, named],
    ['an x5u of its own', { x5u: 'https://attacker.example/cert' }, named],
  ]
  return Promise.all(
    tricks.map(async ([name, more, why]) => ({ name, why, token: await sign(more) })),
  )
}

const LAST = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** The same bytes, written otherwise: one token must have one spelling, or revoking it by its text means nothing. */
function misspelled(token: string): readonly Hostile[] {
  const why =
    'It takes more than one spelling of a token (RFC 7515 section 2: base64url, no padding).'
  const at = LAST.indexOf(token.at(-1) ?? 'A')
  const signature = token.slice(token.lastIndexOf('.') + 1)
  const standard = signature.replace(/-/g, '+').replace(/_/g, '/')
  const head = token.slice(0, -signature.length)
  return [
    { name: 'padding after the signature', why, token: `${token}==` },
    // 64 bytes leave four bits of the last letter unused.
    ...(signature.length % 4 === 2
      ? [{ name: 'unused bits in the signature', why, token: token.slice(0, -1) + LAST[at ^ 1] }]
      : []),
    ...(standard === signature
      ? []
      : [{ name: 'the signature in the other alphabet', why, token: head + standard }]),
    { name: 'a part too many', why, token: `${token}.` },
  ]
}

/** Where no token is looked for (RFC 9700 section 4.3.2). */
const misplaced = (token: string): readonly Hostile[] => [
  {
    name: 'the good token in the address',
    why: 'It takes tokens from the query, which ends up in logs.',
    token,
    place: 'query',
  },
  {
    name: 'the good token in a cookie',
    why: 'It takes tokens from cookies, which a browser sends by itself.',
    token,
    place: 'cookie',
  },
]

/** All that can be made from a good token. `keys`: the issuer's, of which the token's own is used. */
export async function forgeriesOf(
  token: string,
  keys: readonly JWK[],
): Promise<readonly Hostile[]> {
  const parts = partsOf(token)
  if (parts === null) throw new Error('the token is not a signed JWT')
  const key = keys.find(({ kid }) => kid === parts.header.kid)
  return [
    ...['x', 'null', 'undefined', '..'].map((text) => ({
      name: `no token: ${text}`,
      why: 'It does not look at the token.',
      token: text,
    })),
    ...unsigned(parts),
    ...tampered(parts, token),
    ...(key === undefined ? [] : await confused(parts, key)),
    ...(await selfSigned(parts)),
    ...misspelled(token),
    ...misplaced(token),
  ]
}
