import { Pool } from 'undici'
import { timed } from './peer.ts'

export type Sent = {
  readonly method?: 'GET' | 'POST'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The only status that counts as done; 200 when absent. */
  readonly status?: number
}

export type Driven = {
  readonly perSecond: number
  readonly seconds: number
  readonly bodies: readonly string[]
}

/**
 * A closed loop: `concurrency` keep-alive connections, each with one request in flight, every request sent once. An
 * answer that is not the expected one stops the benchmark: a refusal must never count as speed.
 */
export async function drive(
  origin: string,
  concurrency: number,
  requests: readonly Sent[],
  accept: (body: string) => boolean = () => true,
): Promise<Driven> {
  const pool = new Pool(origin, { connections: concurrency, pipelining: 1 })
  const bodies: string[] = []
  try {
    const seconds = await timed(requests.length, concurrency, async (i) => {
      const sent = requests[i]
      if (sent === undefined) return
      const { statusCode, body } = await pool.request({
        method: sent.method ?? 'POST',
        path: sent.path,
        headers: sent.headers ?? {},
        ...(sent.body === undefined ? {} : { body: sent.body }),
      })
      const text = await body.text()
      if (statusCode !== (sent.status ?? 200) || !accept(text))
        throw new Error(`${sent.path} answered ${statusCode}: ${text.slice(0, 500)}`)
      bodies[i] = text
    })
    return { perSecond: requests.length / seconds, seconds, bodies }
  } finally {
    await pool.close()
  }
}

export const form = (
  path: string,
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Sent => ({
  path,
  headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  body: new URLSearchParams(fields).toString(),
})

export const jsonPost = (
  path: string,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Sent => ({
  path,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})

export const basic = (id: string, secret: string): { readonly authorization: string } => ({
  authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')}`,
})
