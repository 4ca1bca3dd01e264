/** Why a path is refused before anything is looked up. */
export type BadPath = 'hostile' | 'too_long'

export type NormalPath = { readonly segments: readonly string[] }

const PATH_LENGTH_MAX = 4096
const SEGMENTS_MAX = 64
/** Printable ASCII without space: RFC 9112 lets nothing else into a request target. Two headers joined by ", " fail here. */
const RAW = /^[\x21-\x7e]+$/
const CONTROL = /\p{C}/u
const ENCODED_AGAIN = /%[0-9a-f]{2}/i

/** One segment decoded once, or null when two readers could see different things in it. */
function segmentOf(raw: string): string | null {
  let text = raw
  if (raw.includes('%')) {
    try {
      text = decodeURIComponent(raw)
    } catch {
      return null
    }
    if (text.includes('/') || CONTROL.test(text) || ENCODED_AGAIN.test(text)) return null
  }
  return text === '' || text === '.' || text === '..' || text.includes('\\') ? null : text
}

/**
 * The path of a request target, decoded and taken apart once; the query is left out. What an upstream might read
 * differently is refused, never repaired: `.` and `..`, empty segments, encoded slashes, backslashes, NUL and other control
 * characters, double encoding, path parameters (`;`), fragments and absolute forms. A slash at the end makes another
 * path: its last segment is empty.
 */
export function normalPath(target: string): NormalPath | BadPath {
  const query = target.indexOf('?')
  const path = query === -1 ? target : target.slice(0, query)
  if (path.length > PATH_LENGTH_MAX) return 'too_long'
  if (!path.startsWith('/') || !RAW.test(path) || /[;#\\]/.test(path)) return 'hostile'
  if (path === '/') return { segments: [] }
  const raw = path.slice(1).split('/')
  if (raw.length > SEGMENTS_MAX) return 'too_long'
  const segments: string[] = []
  for (const [i, one] of raw.entries()) {
    const segment = one === '' && i === raw.length - 1 ? '' : segmentOf(one)
    if (segment === null) return 'hostile'
    segments.push(segment)
  }
  return { segments }
}
