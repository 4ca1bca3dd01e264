import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A balancer as small as one can be: sends to whoever says that it is ready, keeps its connections, retries nothing. */
export type Balancer = {
  readonly url: string
  /** Requests that an instance did not answer, each in words. */
  readonly failures: string[]
  /** Answers so far by the port of who gave them. */
  readonly answers: ReadonlyMap<number, number>
  readonly isReady: (port: number) => boolean
  readonly close: () => Promise<void>
}

const LOOK_MILLIS = 100
const TO = 'x-test-port'

export async function startBalancer(behind: readonly number[]): Promise<Balancer> {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  const ready = new Map(behind.map((port) => [port, false]))
  const answers = new Map<number, number>()
  const failures: string[] = []
  let turn = 0

  const pick = (req: IncomingMessage): number | undefined => {
    const named = req.headers[TO]
    if (typeof named === 'string') return Number(named)
    const up = [...ready].filter(([, isUp]) => isUp).map(([port]) => port)
    // A sign-in is in the memory of one demo provider, so all of it stays with the first.
    return req.url?.startsWith('/demo/') ? up[0] : up[turn++ % up.length]
  }
  const pass = (req: IncomingMessage, res: ServerResponse, port: number) => {
    const { method, url, headers } = req
    const to = { host: '127.0.0.1', port, method, path: url, headers, agent }
    const onward = request(to, (answer) => {
      answers.set(port, (answers.get(port) ?? 0) + 1)
      // Whether a connection is kept is between two neighbours.
      const { connection: _, 'keep-alive': __, ...kept } = answer.headers
      res.writeHead(answer.statusCode ?? 502, kept)
      answer.pipe(res)
      answer.on('error', () => {
        failures.push(`${method} ${url} on ${port}: cut off`)
        res.destroy()
      })
    })
    onward.on('error', (error) => {
      if (res.destroyed) return
      failures.push(`${method} ${url} on ${port}: ${error.message}`)
      res.writeHead(502).end()
    })
    res.on('close', () => onward.destroy())
    req.pipe(onward)
  }
  const server = createServer((req, res) => {
    const port = pick(req)
    if (port !== undefined) return pass(req, res, port)
    failures.push(`${req.method} ${req.url}: nobody is ready`)
    res.writeHead(503).end()
  })
  server.keepAliveTimeout = 120_000
  const look = async (port: number) => {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null)
    await answer?.arrayBuffer()
    ready.set(port, answer?.status === 200)
  }
  const looking = setInterval(() => {
    for (const port of ready.keys()) void look(port)
  }, LOOK_MILLIS)
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    failures,
    answers,
    isReady: (one) => ready.get(one) === true,
    close: async () => {
      clearInterval(looking)
      agent.destroy()
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

/** The header that names the instance which a request is for. */
export const via = (port: number): Record<string, string> => ({ [TO]: String(port) })
