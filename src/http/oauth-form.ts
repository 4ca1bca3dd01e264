import { FAULTS, type Fault, fail, faultSays, ok, type Result } from '../fault.ts'

const FORM_BYTES_MAX = 64 * 1024
const REPEATABLE = new Set(['resource', 'audience'])

/** Reads an OAuth request's form (RFC 6749 section 3.2): no parameter twice, none in the query. */
export async function readForm(request: Request): Promise<Result<URLSearchParams>> {
  const type = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/x-www-form-urlencoded')
    return fail('request_malformed', {
      detail: 'The body must be application/x-www-form-urlencoded.',
    })
  const body = await boundedText(request, FORM_BYTES_MAX)
  if (body === null)
    return fail('request_malformed', { detail: `The body is larger than ${FORM_BYTES_MAX} bytes.` })
  const form = new URLSearchParams(body)
  const names = [...form.keys()]
  const twice = names.find((name, i) => names.indexOf(name) !== i && !REPEATABLE.has(name))
  if (twice !== undefined)
    return fail('request_malformed', {
      errors: [{ path: twice.slice(0, 64), message: 'is sent more than once' }],
    })
  for (const [name, value] of form) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused here
    if (/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(value) || /\p{Cs}/u.test(value))
      return fail('request_malformed', {
        errors: [{ path: name.slice(0, 64), message: 'has a control character' }],
      })
  }
  return ok(form)
}

async function boundedText(request: Request, bytesMax: number): Promise<string | null> {
  if (Number(request.headers.get('content-length') ?? 0) > bytesMax) return null
  if (request.body === null) return ''
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > bytesMax) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const noStore = { 'cache-control': 'no-store', pragma: 'no-cache' }

export const oauthJson = (
  body: object,
  status = 200,
  headers: Record<string, string> = {},
): Response => Response.json(body, { status, headers: { ...noStore, ...headers } })

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
    ...(oauth === 'temporarily_unavailable' ? { 'retry-after': '5' } : {}),
    ...(oauth === 'invalid_client' && usedBasic
      ? { 'www-authenticate': 'Basic realm="lend"' }
      : {}),
  })
}

function statusOf(fault: Fault): number {
  if (fault.code === 'limit_reached') return 429
  switch (FAULTS[fault.code].oauth) {
    case 'invalid_client':
      return 401
    case 'temporarily_unavailable':
      return 503
    default:
      return 400
  }
}
