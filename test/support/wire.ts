import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A TCP line in the test's hands, in front of a server on this machine. */
export type Wire = {
  readonly port: number
  /** Ends every connection at once, and refuses new ones until `mend`. */
  readonly cut: () => void
  /** Nothing passes in either direction, and nobody is told, until `mend`. */
  readonly stall: () => void
  /** Every piece takes so long in each direction. */
  readonly slow: (millis: number) => void
  readonly mend: () => void
  readonly close: () => Promise<void>
}

type Held = { readonly to: Socket; readonly piece: Buffer }

export async function wireTo(port: number): Promise<Wire> {
  const sockets = new Set<Socket>()
  const held: Held[] = []
  let state: 'whole' | 'cut' | 'stalled' = 'whole'
  let millis = 0
  const write = (to: Socket, piece: Buffer) => {
    if (!to.destroyed) to.write(piece)
  }
  const pass = (from: Socket, to: Socket) => {
    sockets.add(from)
    from.on('data', (piece: Buffer) => {
      if (state === 'stalled') held.push({ to, piece })
      else if (millis > 0) setTimeout(() => write(to, piece), millis)
      else write(to, piece)
    })
    from.on('error', () => undefined)
    from.on('close', () => {
      sockets.delete(from)
      // What is under way arrives first.
      setTimeout(() => to.destroy(), millis)
    })
  }
  const server = createServer((client) => {
    if (state === 'cut') return void client.resetAndDestroy()
    const onward = connect(port, '127.0.0.1')
    pass(client, onward)
    pass(onward, client)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    port: (server.address() as AddressInfo).port,
    cut: () => {
      state = 'cut'
      for (const socket of sockets) socket.resetAndDestroy()
    },
    stall: () => {
      state = 'stalled'
    },
    slow: (by) => {
      millis = by
    },
    mend: () => {
      state = 'whole'
      millis = 0
      for (const { to, piece } of held.splice(0)) write(to, piece)
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((done) => server.close(done))
    },
  }
}

/** The same URL by another port. */
export function through(url: string, port: number): string {
  const other = new URL(url)
  other.port = String(port)
  return other.href
}
