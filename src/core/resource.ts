import { RESOURCE_LENGTH_MAX } from './limits.ts'

/**
 * Resources and patterns (SPEC section 2): `dashboard/q3-pipeline`, `domain/customer.example`, `dashboard/*`.
 * `*` stands only as the whole last segment and matches one or more characters except `/`.
 * Every comparison is between canonical strings; `canonicalResource` is the only way to make one.
 */
export type Canonical = { readonly ok: true; readonly value: string }
export type NotCanonical = { readonly ok: false; readonly why: string }

// Letters, marks, digits, punctuation and symbols: no control, format (bidi, zero width), surrogate or space characters.
const SEGMENT = /^[\p{L}\p{M}\p{N}\p{P}\p{S}]+$/u
const LABEL = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/

const no = (why: string): NotCanonical => ({ ok: false, why })

function canonicalDomain(domain: string): Canonical | NotCanonical {
  if (/[\s/\\@:?#%[\]]/u.test(domain)) return no('is not a domain name')
  // The URL parser is the platform's UTS 46 mapping: it gives the lower-case A-label form or fails.
  const url = URL.parse?.(`http://${domain}/`) ?? parsed(`http://${domain}/`)
  if (url === null) return no('is not a domain name')
  const host = url.hostname.replace(/\.$/, '')
  const labels = host.split('.')
  if (host.length > 253 || labels.some((label) => label.length > 63 || !LABEL.test(label)))
    return no('is not a domain name')
  return { ok: true, value: host }
}

function parsed(url: string): URL | null {
  try {
    return new URL(url)
  } catch {
    return null
  }
}

/**
 * The canonical form of a resource or pattern, or why it has none: NFC; a `domain/…` resource becomes a lower-case
 * A-label without a trailing dot. Idempotent.
 */
export function canonicalResource(text: string): Canonical | NotCanonical {
  const resource = text.normalize('NFC')
  if (resource.length === 0) return no('is empty')
  if (resource.length > RESOURCE_LENGTH_MAX)
    return no(`is longer than ${RESOURCE_LENGTH_MAX} characters`)
  const segments = resource.split('/')
  if (segments.length < 2) return no('must be a type and a name, as in dashboard/q3-pipeline')
  for (const [i, segment] of segments.entries()) {
    if (segment === '') return no('has an empty segment')
    if (!SEGMENT.test(segment)) return no('has a space, control or invisible character')
    if (segment === '.' || segment === '..') return no('has a . or .. segment')
    if (/[\\%]/.test(segment)) return no('has a backslash or percent sign')
    const whole = segment === '*' && i === segments.length - 1
    if (segment.includes('*') && !whole)
      return no('may have * only as its whole last segment, as in dashboard/*')
  }
  const [type, name] = segments
  if (type !== 'domain' || name === undefined || name === '*') return { ok: true, value: resource }
  if (segments.length !== 2) return no('is not a domain name')
  const domain = canonicalDomain(name)
  return domain.ok ? { ok: true, value: `domain/${domain.value}` } : domain
}

const isPattern = (resource: string): boolean => resource.endsWith('/*')
const stem = (pattern: string): string => pattern.slice(0, -1)

/** Whether everything `b` matches is matched by `a`. Absent covers only absent: they are different permissions. */
export function patternCovers(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  if (a === b) return true
  if (!isPattern(a)) return false
  const rest = b.startsWith(stem(a)) ? b.slice(stem(a).length) : ''
  return rest !== '' && !rest.includes('/')
}

/** Whether some resource is matched by both. */
export function patternsOverlap(a: string | undefined, b: string | undefined): boolean {
  return patternCovers(a, b) || patternCovers(b, a)
}
