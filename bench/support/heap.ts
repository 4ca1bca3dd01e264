import { WebSocket } from 'undici'

const COLLECTIONS = 3

export type Memory = {
  /** What the program still holds: the heap and the buffers outside it. */
  readonly held: number
  readonly rss: number
}
type Usage = { readonly heapUsed: number; readonly external: number; readonly rss: number }

/**
 * A server's memory after full collections, through Node's own inspector, which it was started with (`--inspect`). The
 * least of several: what is under way while one of them runs is no leak.
 */
export async function inspectorOf(output: string) {
  const [url] = /ws:\/\/127\.0\.0\.1:\d+\/[0-9a-f-]+/.exec(output) ?? []
  if (url === undefined) throw new Error('the server has no inspector')
  const socket = new WebSocket(url)
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve())
    socket.addEventListener('error', () => reject(new Error('the inspector does not answer')))
  })
  const waiting = new Map<number, (result: string) => void>()
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data))
    waiting.get(id)?.(result?.result?.value ?? '')
    waiting.delete(id)
  })
  let last = 0
  const ask = (method: string, params: object = {}): Promise<string> =>
    new Promise((resolve) => {
      waiting.set(++last, resolve)
      socket.send(JSON.stringify({ id: last, method, params }))
    })
  const look = async (): Promise<Usage> => {
    await ask('HeapProfiler.collectGarbage')
    const expression = 'JSON.stringify(process.memoryUsage())'
    return JSON.parse(await ask('Runtime.evaluate', { expression, returnByValue: true }))
  }
  return {
    memory: async (): Promise<Memory> => {
      const seen: Usage[] = []
      for (let n = 0; n < COLLECTIONS; n++) seen.push(await look())
      const least = (of: (usage: Usage) => number) => Math.min(...seen.map(of))
      return { held: least((u) => u.heapUsed + u.external), rss: least((u) => u.rss) }
    },
    close: () => socket.close(),
  }
}

export type Sample = Memory & { readonly tokens: number }

/** How much more is held with each token, in bytes, by least squares. */
export function bytesATokenOf(samples: readonly Sample[]): number {
  const mean = (of: (s: Sample) => number) =>
    samples.reduce((sum, s) => sum + of(s), 0) / samples.length
  const [x, y] = [mean((s) => s.tokens), mean((s) => s.held)]
  const over = samples.reduce((sum, s) => sum + (s.tokens - x) * (s.held - y), 0)
  const under = samples.reduce((sum, s) => sum + (s.tokens - x) ** 2, 0)
  return over / under
}
