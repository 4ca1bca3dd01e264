import { connect, type Socket } from 'node:net'

/** Where the driver wants to go, as it has read it from the URL. */
type To = {
  readonly host: readonly string[]
  readonly port: readonly number[]
  /** A Unix socket's file, if that is what the host is. */
  readonly path: string | false
}

class HungUp extends Error {
  readonly code = 'CONNECTION_CLOSED'
  constructor() {
    super('The database hung up before its first word.')
  }
}

/**
 * Options that have the driver open its connections here. A server that takes a connection and hangs up without a word, as
 * the balancer in front of a stopped one does, is an outage like any other: the driver by itself would try again without a
 * pause and without an end, and whoever asked would wait for ever.
 */
export function ownLines(): { readonly socket: (to: To) => Socket } {
  let turn = 0
  return {
    socket: ({ host, port, path }) => {
      const n = turn++ % Math.max(host.length, 1)
      const name = host[n] ?? 'localhost'
      const socket = path ? connect(path) : connect(port[n] ?? 5432, name)
      let spoke = false
      socket.once('data', () => {
        spoke = true
      })
      socket.once('end', () => {
        if (!spoke) socket.destroy(new HungUp())
      })
      // The driver checks a certificate against it.
      return Object.assign(socket, { host: name })
    },
  }
}
