import { isUtf8 } from 'node:buffer'

/** A JWS in compact form, taken apart: nothing in it is trusted yet. */
export type Compact = {
  readonly header: string
  readonly payload: string
  readonly signature: Buffer
  /** The ASCII text that was signed (RFC 7515 section 5.2). */
  readonly signed: string
}

/** Node refuses 16 KB of headers by default, so a longer token could not be presented anyway. */
export const TOKEN_LENGTH_MAX = 16_384

/**
 * Strict base64url: what does not encode to itself again (padding, white space, the other alphabet, unused bits that
 * are set) is refused. A lenient decoder gives one token many spellings.
 */
function decoded(part: string): Buffer | null {
  const bytes = Buffer.from(part, 'base64url')
  return bytes.length > 0 && bytes.toString('base64url') === part ? bytes : null
}

/**
 * Exactly three non-empty parts of base64url that re-encode to themselves, header and payload in valid UTF-8, at most
 * `TOKEN_LENGTH_MAX` characters; otherwise null.
 */
export function compactParts(token: string): Compact | null {
  if (token.length > TOKEN_LENGTH_MAX) return null
  const [first, second, third, more] = token.split('.', 4)
  if (first === undefined || second === undefined || third === undefined || more !== undefined)
    return null
  const header = decoded(first)
  const payload = decoded(second)
  const signature = decoded(third)
  if (header === null || payload === null || signature === null) return null
  if (!isUtf8(header) || !isUtf8(payload)) return null
  return {
    header: header.toString(),
    payload: payload.toString(),
    signature,
    signed: token.slice(0, first.length + 1 + second.length),
  }
}

export type JsonObject = { readonly [name: string]: unknown }

/** A JSON object, or null for any other text. */
export function jsonObject(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? { ...value }
      : null
  } catch {
    return null
  }
}

/**
 * A JSON object in the one spelling that Lend writes, or null. A member given twice, white space, a needless escape or
 * `1.0` do not survive parsing and writing again, so two readers cannot see two different tokens. `"__proto__":` can
 * only stand where a member is named: inside a string its quotes are escaped.
 */
export function canonicalObject(text: string): JsonObject | null {
  if (text.includes('"__proto__":')) return null
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
    return JSON.stringify(value) === text ? { ...value } : null
  } catch {
    return null
  }
}
