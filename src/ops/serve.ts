import { createServer, type Server } from 'node:http'

const HEADERS_MILLIS_MAX = 5000

/**
 * `GET /metrics` and nothing else, to be listened on apart from what clients reach. `text` is the exposition format of
 * Prometheus; what it throws answers 500 without a word of why.
 */
export function serveMetrics(
  text: () => Promise<{ readonly type: string; readonly body: string }>,
): Server {
  const server = createServer((request, response) => {
    const { method, url } = request
    if (url !== '/metrics') return void response.writeHead(404).end()
    if (method !== 'GET' && method !== 'HEAD')
      return void response.writeHead(405, { allow: 'GET, HEAD' }).end()
    text().then(
      ({ type, body }) => {
        response.writeHead(200, { 'content-type': type, 'cache-control': 'no-store' })
        response.end(method === 'HEAD' ? undefined : body)
      },
      () => void response.writeHead(500).end(),
    )
  })
  server.headersTimeout = HEADERS_MILLIS_MAX
  server.requestTimeout = HEADERS_MILLIS_MAX
  return server
}
