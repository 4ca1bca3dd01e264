import type { ProblemBody } from './types.ts'

/** The server answered, and the answer is no. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly problem: ProblemBody
  /** When it will be answered again, if the server has said so. */
  readonly againAt: string | undefined

  constructor(problem: ProblemBody) {
    super(problem.detail)
    this.problem = problem
    const { retry_after: seconds } = problem
    this.againAt =
      seconds === undefined ? undefined : new Date(Date.now() + seconds * 1000).toISOString()
  }
  get status(): number {
    return this.problem.status
  }
  get code(): string {
    return this.problem.code
  }
}

/** No answer came: the server is down, or the line is. Whether a write was done is then not known. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
}

type How = {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  readonly body?: unknown
  /** The same key on every attempt of one intention: then a retry cannot do it twice. */
  readonly idempotencyKey?: string
  /** The revision that was seen: of any other the write is refused. */
  readonly ifMatch?: number
  readonly signal?: AbortSignal | undefined
}

const isProblem = (value: unknown): value is ProblemBody =>
  typeof value === 'object' && value !== null && 'code' in value && 'detail' in value

async function problemOf(response: Response): Promise<ProblemBody> {
  const body: unknown = await response.json().catch(() => null)
  if (isProblem(body)) return { ...body, status: response.status }
  return {
    type: 'about:blank',
    title: response.statusText,
    status: response.status,
    detail: `The server answered ${response.status} and said no more.`,
    code: response.status === 401 ? 'unauthenticated' : 'unknown',
    request_id: response.headers.get('X-Request-Id') ?? '',
  }
}

export async function call<Answer>(url: string, how: How = {}): Promise<Answer> {
  const headers = new Headers({ Accept: 'application/json' })
  if (how.body !== undefined) headers.set('Content-Type', 'application/json')
  if (how.idempotencyKey) headers.set('Idempotency-Key', how.idempotencyKey)
  if (how.ifMatch !== undefined) headers.set('If-Match', `"${how.ifMatch}"`)
  let response: Response
  try {
    response = await fetch(url, {
      method: how.method ?? 'GET',
      credentials: 'same-origin',
      cache: 'no-store',
      headers,
      ...(how.body === undefined ? {} : { body: JSON.stringify(how.body) }),
      ...(how.signal ? { signal: how.signal } : {}),
    })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new Unreachable('The server cannot be reached.')
  }
  // A proxy in front answers so while the server behind it is away.
  if (response.status === 502 || response.status === 504)
    throw new Unreachable('The server cannot be reached.')
  if (!response.ok) throw new Refused(await problemOf(response))
  if (response.status === 204) return undefined as Answer
  const text = await response.text()
  return (text === '' ? undefined : JSON.parse(text)) as Answer
}

export const newKey = (): string => crypto.randomUUID()

export const isCode = (error: unknown, ...codes: readonly string[]): error is Refused =>
  error instanceof Refused && codes.includes(error.code)

export const isStatus = (error: unknown, status: number): error is Refused =>
  error instanceof Refused && error.status === status
