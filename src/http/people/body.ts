import { bodyBytes } from '../../body-bytes.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { WireFault } from '../problem.ts'

/** Reads a JSON body, bounded in bytes and depth, and refuses text that Postgres or a person could not make sense of. */
export const BODY_BYTES_MAX = 256 * 1024
const DEPTH_MAX = 32
const KEY_SHOWN_MAX = 64

export type Body = Result<unknown> | { readonly ok: false; readonly fault: WireFault }

const CONTROL_BUT_LINES = /[^\P{Cc}\n\r\t]/u
const LONE_SURROGATE = /\p{Cs}/u

const whyNot = (text: string): string | null => {
  if (LONE_SURROGATE.test(text)) return 'has half of a surrogate pair, which is not text'
  if (CONTROL_BUT_LINES.test(text)) return 'has a control character'
  return null
}

type Bad = { readonly path: string; readonly message: string }

const shown = (key: string): string =>
  JSON.stringify(key.slice(0, KEY_SHOWN_MAX)).slice(1, -1).replaceAll(/\p{C}/gu, '\uFFFD')

/** The first string, key or value, that is not text; a number that JSON cannot give back; or nesting nothing needs. */
export function textProblem(value: unknown, path: readonly string[] = []): Bad | null {
  const at = path.map(shown).join('.')
  if (typeof value === 'string') {
    const message = whyNot(value)
    return message === null ? null : { path: at, message }
  }
  // 1e999 reads as infinity, which is stored as null: another value than was sent.
  if (typeof value === 'number' && !Number.isFinite(value))
    return { path: at, message: 'is too large a number' }
  if (typeof value !== 'object' || value === null) return null
  if (path.length >= DEPTH_MAX)
    return { path: path.slice(0, 1).map(shown).join('.'), message: 'is nested too deep' }
  for (const [key, member] of Object.entries(value)) {
    const here = [...path, key]
    const message =
      whyNot(key) ?? (key === '__proto__' && !Array.isArray(value) ? 'is not known here' : null)
    if (message !== null) return { path: here.map(shown).join('.'), message }
    const problem = textProblem(member, here)
    if (problem !== null) return problem
  }
  return null
}

const isJson = (contentType: string | null): boolean =>
  /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(contentType ?? '')

/** The parsed body; undefined when there is none. `max` in bytes. */
export async function readBody(request: Request, max: number): Promise<Body> {
  const bytes = await bodyBytes(request, max)
  if (bytes === null)
    return fail('body_too_large', { detail: `The body is larger than ${max} bytes.` })
  if (bytes.byteLength === 0) return ok(undefined)
  if (!isJson(request.headers.get('Content-Type')))
    return { ok: false, fault: { code: 'content_type_unsupported' } }
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return fail('request_malformed', { detail: 'The body is not JSON in UTF-8.' })
  }
  const bad = textProblem(value)
  return bad === null ? ok(value) : fail('request_malformed', { errors: [bad] })
}
