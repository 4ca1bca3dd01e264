import { isUtf8 } from 'node:buffer'
import { bodyBytes } from '../body-bytes.ts'
import { FAULTS, type Fault, fail, faultSays, ok, type Result } from '../fault.ts'

const FORM_BYTES_MAX = 64 * 1024
const REPEATABLE = new Set(['resource', 'audience'])
const NAME_SHOWN_MAX = 64
const CONTROL_BUT_LINES = /[^\P{Cc}\n\r\t]/u

/** Reads an OAuth request's form (RFC 6749 section 3.2): no parameter twice, none in the query. */
export async function readForm(request: Request): Promise<Result<URLSearchParams>> {
  const type = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/x-www-form-urlencoded')
    return fail('request_malformed', {
      detail: 'The body must be application/x-www-form-urlencoded.',
    })
  const body = await bodyBytes(request, FORM_BYTES_MAX)
  if (body === null)
    return fail('body_too_large', { detail: `The body is larger than ${FORM_BYTES_MAX} bytes.` })
  const text = isUtf8(body) ? Buffer.from(body).toString('utf8') : null
  if (text === null) return fail('request_malformed', { detail: 'The body is not UTF-8.' })
  const garbled = text.split('&').find((pair) => !isDecodable(pair))
  if (garbled !== undefined)
    return fail('request_malformed', {
      errors: [{ path: nameIn(garbled), message: 'is not percent-encoded UTF-8' }],
    })
  const form = new URLSearchParams(text)
  const names = [...form.keys()]
  const twice = names.find((name, i) => names.indexOf(name) !== i && !REPEATABLE.has(name))
  if (twice !== undefined)
    return fail('request_malformed', {
      errors: [{ path: twice.slice(0, NAME_SHOWN_MAX), message: 'is sent more than once' }],
    })
  for (const [name, value] of form) {
    if (CONTROL_BUT_LINES.test(value))
      return fail('request_malformed', {
        errors: [{ path: name.slice(0, NAME_SHOWN_MAX), message: 'has a control character' }],
      })
  }
  return ok(form)
}

/** URLSearchParams would repair it without a word: half a surrogate pair, say, cannot be written in UTF-8 at all. */
function isDecodable(pair: string): boolean {
  try {
    decodeURIComponent(pair)
    return true
  } catch {
    return false
  }
}

const nameIn = (pair: string): string => (pair.split('=', 1)[0] ?? '').slice(0, NAME_SHOWN_MAX)

const noStore = { 'cache-control': 'no-store', pragma: 'no-cache' }

export const oauthJson = (
  body: object,
  status = 200,
  headers: Record<string, string> = {},
): Response =>
  new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...noStore, ...headers },
  })

/**
 * The one translation of a fault to OAuth (RFC 6749 section 5.2). `error` is the standard's code; `error_reason` is ours,
 * one of the fault table's.
 */
export function oauthFault(fault: Fault, usedBasic = false): Response {
  const { oauth } = FAULTS[fault.code]
  const errors = fault.errors?.map((e) => `${e.path} ${e.message}`).join('; ')
  const says = errors === undefined ? faultSays(fault) : `${faultSays(fault)} ${errors}.`
  const retry = fault.retryAfterSeconds
  const body = {
    error: oauth,
    // RFC 6749 allows printable ASCII without quote and backslash here.
    error_description: says
      .replace(/[’‘]/g, "'")
      .replace(/[^\x20-\x7e]/g, '?')
      .replace(/["\\]/g, "'"),
    error_reason: fault.code,
    ...(fault.limit === undefined ? {} : { limit: fault.limit }),
    ...(retry === undefined ? {} : { retry_after: retry }),
  }
  return oauthJson(body, statusOf(fault), {
    ...(retry === undefined ? {} : { 'retry-after': String(retry) }),
    ...(retry === undefined && oauth === 'temporarily_unavailable' ? { 'retry-after': '5' } : {}),
    ...(oauth === 'invalid_client' && usedBasic
      ? { 'www-authenticate': 'Basic realm="lend"' }
      : {}),
  })
}

function statusOf(fault: Fault): number {
  if (fault.code === 'limit_reached' || fault.code === 'rate_limited') return 429
  if (fault.code === 'body_too_large') return 413
  switch (FAULTS[fault.code].oauth) {
    case 'invalid_client':
      return 401
    case 'temporarily_unavailable':
      return 503
    default:
      return 400
  }
}

/** A parameter without a value counts as omitted (RFC 6749 section 3.2). */
export const param = (form: URLSearchParams, name: string): string | undefined => {
  const value = form.get(name)
  return value === null || value === '' ? undefined : value
}

export const malformed = (path: string, message: string) =>
  fail('request_malformed', { errors: [{ path, message }] })

/** RFC 8707: an absolute URI without a fragment; one audience a token. */
export function resourceOf(form: URLSearchParams): Result<string | undefined> {
  if (param(form, 'audience') !== undefined)
    return fail('target_invalid', { detail: 'Name the resource server by resource, not audience.' })
  // A parameter without a value counts as omitted (RFC 6749 section 3.2).
  const all = form.getAll('resource').filter((value) => value !== '')
  if (all.length > 1)
    return fail('target_invalid', { detail: 'One audience a token: send one resource.' })
  const [resource] = all
  if (resource === undefined) return ok(undefined)
  return URL.canParse(resource) && !resource.includes('#') ? ok(resource) : fail('target_invalid')
}
