import type { JWK } from 'jose'
import { forgeriesOf, type Hostile } from './forgeries.ts'
import { isRecord } from './token.ts'

/**
 * Which hostile tokens a resource server wrongly accepts: one request each, against the running server, whatever it is
 * written in. It needs a token that the server accepts, to make the others from and to know what acceptance looks like.
 */
export type Target = {
  /** An address that is answered to a good token, and to nobody without one. Only read from. */
  readonly url: string
  readonly method?: string
  readonly fetch?: typeof globalThis.fetch
}

export type { Hostile }

/** `accepted` and `broke` are faults; `unclear` is an answer that is neither the good token's nor a refusal. */
export type Outcome = 'refused' | 'accepted' | 'broke' | 'unclear'
export type Row = {
  readonly name: string
  readonly why: string
  readonly status: number
  readonly outcome: Outcome
}

/** The kit could not begin: what is wrong, in a sentence. */
export class NotTestable extends Error {}

const ANSWER_MILLIS_MAX = 10_000
/** RFC 6750 section 3.1, and what a server or proxy says to a header that it cannot take. */
const REFUSALS = new Set([400, 401, 403, 413, 431])

async function statusOf(target: Target, hostile: Pick<Hostile, 'token' | 'place'> | null) {
  const url = new URL(target.url)
  const headers = new Headers()
  if (hostile?.place === 'query') url.searchParams.set('access_token', hostile.token)
  else if (hostile?.place === 'cookie') headers.set('cookie', `access_token=${hostile.token}`)
  else if (hostile !== null) headers.set('authorization', `Bearer ${hostile.token}`)
  const answer = await (target.fetch ?? fetch)(url, {
    method: target.method ?? 'GET',
    headers,
    redirect: 'manual',
    signal: AbortSignal.timeout(ANSWER_MILLIS_MAX),
  })
  await answer.body?.cancel()
  return answer.status
}

const outcomeOf = (status: number, good: number): Outcome => {
  if (REFUSALS.has(status)) return 'refused'
  if (status === good || (status >= 200 && status < 300)) return 'accepted'
  return status >= 500 ? 'broke' : 'unclear'
}

/** An issuer's public keys (RFC 8414, RFC 7517). Throws `NotTestable`. */
export async function keysOf(
  issuer: string,
  get: typeof globalThis.fetch = fetch,
): Promise<readonly JWK[]> {
  const read = async (address: string): Promise<Readonly<Record<string, unknown>>> => {
    const answer = await get(address, { signal: AbortSignal.timeout(ANSWER_MILLIS_MAX) })
    const said: unknown = answer.ok ? await answer.json() : null
    if (!isRecord(said)) throw new NotTestable(`${address} is not answered with JSON.`)
    return said
  }
  const at = new URL(issuer)
  const { jwks_uri: uri } = await read(
    `${at.origin}/.well-known/oauth-authorization-server${at.pathname}`,
  )
  const { keys } = await read(String(uri))
  if (!Array.isArray(keys)) throw new NotTestable('The issuer has no keys.')
  return keys
}

/**
 * Tries every forgery, and the signed tokens that are given beside (of another audience, another tenant, an ended session),
 * in order. Throws `NotTestable` when the good token is refused or no token is needed.
 */
export async function tryAll(
  target: Target,
  of: {
    readonly token: string
    readonly keys: readonly JWK[]
    readonly signed?: readonly Hostile[]
    /** Told of each as it comes. */
    readonly onRow?: (row: Row) => void
  },
): Promise<readonly Row[]> {
  const good = await statusOf(target, { token: of.token })
  if (REFUSALS.has(good) || good >= 500)
    throw new NotTestable(`The good token is answered with ${good}, so nothing can be told.`)
  const none = await statusOf(target, null)
  if (!REFUSALS.has(none))
    throw new NotTestable(`No token at all is answered with ${none}: the address is not protected.`)
  const rows: Row[] = []
  for (const hostile of [...(await forgeriesOf(of.token, of.keys)), ...(of.signed ?? [])]) {
    const status = await statusOf(target, hostile).catch(() => 0)
    const { name, why } = hostile
    const row = {
      name,
      why,
      status,
      outcome: status === 0 ? 'broke' : outcomeOf(status, good),
    } as const
    rows.push(row)
    of.onRow?.(row)
  }
  return rows
}
