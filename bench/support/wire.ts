import { connect, createServer, type Socket } from 'node:net'

/**
 * A proxy in front of Postgres that counts what a call costs on the wire. It is never there while something is timed.
 *
 * A round trip is one wait of the caller: everything sent while no answer is outstanding counts as one, so statements sent
 * together are one round trip.
 */
export type Counts = {
  readonly roundTrips: number
  readonly statements: number
  readonly transactions: number
  /** The statements, by round trip. */
  readonly sent: readonly (readonly string[])[]
}

export type Wire = {
  readonly url: string
  /** What callers sent since the last time. */
  readonly take: () => Counts
  readonly stop: () => void
}

/** Splits one direction into messages: a type, a length, a body. The first message of a client has no type. */
function messages(untypedFirst: boolean, seen: (type: string, body: Buffer) => void) {
  let rest = Buffer.alloc(0)
  let first = untypedFirst
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const head = first ? 0 : 1
      if (rest.length < head + 4) return
      const length = rest.readInt32BE(head)
      if (rest.length < head + length) return
      seen(first ? '' : String.fromCharCode(rest[0] ?? 0), rest.subarray(head + 4, head + length))
      first = false
      rest = rest.subarray(head + length)
    }
  }
}

const textFrom = (body: Buffer, at: number): [string, number] => {
  const end = body.indexOf(0, at)
  return [body.toString('utf8', at, end), end + 1]
}

/** What no caller asked for: jobs and the kicks between instances. */
const BACKGROUND =
  /^(listen|select pg_notify)|feed_cursor|activity_checkpoint|signing_key|order by expires_at/i

export function startWire(target: string): Promise<Wire> {
  const to = new URL(target)
  let sent: string[][] = []

  const watch = (client: Socket, server: Socket) => {
    const prepared = new Map<string, string>()
    let outstanding = 0
    /** One transaction, or one statement outside any: either a caller's or a job's, as a whole. */
    let unit: string[][] = []
    let open = false
    const ran = (sql: string) => {
      const text = sql.replaceAll(/\s+/g, ' ').trim()
      const flight = unit.at(-1)
      if (outstanding === 0 || flight === undefined) unit.push([text])
      else flight.push(text)
      if (/^begin/i.test(text)) open = true
      if (/^(commit|rollback)/i.test(text)) open = false
      if (open) return
      if (!unit.flat().some((one) => BACKGROUND.test(one))) sent.push(...unit)
      unit = []
    }
    const fromClient = messages(true, (type, body) => {
      if (type === 'P') {
        const [name, next] = textFrom(body, 0)
        prepared.set(name, textFrom(body, next)[0])
      } else if (type === 'B') {
        const [, next] = textFrom(body, 0)
        ran(prepared.get(textFrom(body, next)[0]) ?? '?')
      } else if (type === 'Q') ran(textFrom(body, 0)[0])
      if (type === 'Q' || type === 'S') outstanding++
    })
    const fromServer = messages(false, (type) => {
      if (type === 'Z' && outstanding > 0) outstanding--
    })
    client.on('data', (chunk: Buffer) => {
      fromClient(chunk)
      server.write(chunk)
    })
    server.on('data', (chunk: Buffer) => {
      fromServer(chunk)
      client.write(chunk)
    })
    const close = () => {
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) socket.on('close', close).on('error', close)
  }

  const proxy = createServer((client) =>
    watch(client, connect(Number(to.port || 5432), to.hostname)),
  )
  return new Promise((resolve) => {
    proxy.listen(0, '127.0.0.1', () => {
      const address = proxy.address()
      const url = new URL(target)
      url.port = String(typeof address === 'object' && address ? address.port : 0)
      resolve({
        url: url.href,
        take: () => {
          const was = sent
          sent = []
          const statements = was.flat()
          return {
            roundTrips: was.length,
            statements: statements.length,
            transactions: statements.filter((one) => /^begin/i.test(one)).length,
            sent: was,
          }
        },
        stop: () => proxy.close(),
      })
    })
  })
}
