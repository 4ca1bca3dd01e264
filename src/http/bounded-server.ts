import { createServer, type RequestListener, type Server } from 'node:http'

/** What a client may take of the server by being large or slow. */
export type ServerBounds = {
  /** Of the request line and all headers; more is answered 431. */
  readonly headerBytes: number
  /** From the connection, or the answer before, to the last header; longer is answered 408. */
  readonly headersMillis: number
  /** From the connection, or the answer before, to the last byte of the body; longer is answered 408. */
  readonly requestMillis: number
  /** A connection over which nothing has moved either way for so long is cut: a reader that does not read, say. */
  readonly idleMillis: number
  /** How long a connection is kept between requests. */
  readonly keptAliveMillis: number
  /** How often what is late is looked for. */
  readonly lookMillis: number
}

export const BOUNDS: ServerBounds = {
  headerBytes: 16 * 1024,
  headersMillis: 10_000,
  requestMillis: 30_000,
  // Streams say something every 15 seconds, and the longest that an answer may wait in silence is 25.
  idleMillis: 60_000,
  // Longer than any proxy keeps a connection idle: whoever takes up one that is just being closed is cut off.
  keptAliveMillis: 75_000,
  lookMillis: 1_000,
}

/**
 * An HTTP server that slow and large clients cannot hold: whatever each of them does, it has its connection for a bounded time
 * and its bytes in bounded memory. Answers of Node's own (408, 431) carry no body.
 */
export function boundedServer(handle: RequestListener, of: Partial<ServerBounds> = {}): Server {
  const bounds = { ...BOUNDS, ...of }
  const server = createServer(
    {
      maxHeaderSize: bounds.headerBytes,
      headersTimeout: bounds.headersMillis,
      requestTimeout: bounds.requestMillis,
      keepAliveTimeout: bounds.keptAliveMillis,
      connectionsCheckingInterval: bounds.lookMillis,
    },
    handle,
  )
  server.timeout = bounds.idleMillis
  return server
}
