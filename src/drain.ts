import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'

const ANSWERS_MILLIS_MAX = 10_000
const IDLE_EVERY_MILLIS = 250
/** A connection that was just taken may have a request on its way: it is given so long before it counts as idle. */
const SETTLE_MILLIS = 500

const pause = (millis: number) => new Promise<void>((done) => setTimeout(done, millis))

export type Drain = {
  /** Called with every answer before it is written. */
  readonly watch: (res: ServerResponse) => void
  /** From now on every answer says that its connection ends with it. */
  readonly announce: () => void
  /** Takes connections for `graceMillis` more, then none, and resolves when all that was asked is answered. */
  readonly end: (servers: readonly Server[], graceMillis: number) => Promise<void>
}

/**
 * Brings an instance's connections to an end so that nobody's request is lost: whoever keeps one is told to open another
 * (`Connection: close`, RFC 9112 section 9.6), new ones are taken until balancers have seen that `/readyz` says no, and
 * only then is listening stopped. An answer that takes longer than ten seconds after that is cut off.
 */
export function createDrain(): Drain {
  const open = new Set<ServerResponse>()
  let isDraining = false
  return {
    watch: (res) => {
      if (isDraining) {
        res.shouldKeepAlive = false
        return
      }
      open.add(res)
      res.once('close', () => open.delete(res))
    },
    announce: () => {
      isDraining = true
      for (const res of open) if (!res.headersSent) res.shouldKeepAlive = false
    },
    end: async (servers, graceMillis) => {
      await pause(graceMillis)
      // Not `server.close`, which ends idle connections at once, one whose first request is on its way among them.
      const closed = Promise.all(
        servers.map(
          (server) => new Promise((done) => NetServer.prototype.close.call(server, done)),
        ),
      )
      const sweep = () => {
        for (const server of servers) server.closeIdleConnections()
      }
      if (graceMillis > 0) await Promise.race([closed, pause(SETTLE_MILLIS)])
      sweep()
      const sweeping = setInterval(sweep, IDLE_EVERY_MILLIS)
      const late = setTimeout(() => {
        for (const server of servers) server.closeAllConnections()
      }, ANSWERS_MILLIS_MAX)
      await closed
      clearInterval(sweeping)
      clearTimeout(late)
    },
  }
}
