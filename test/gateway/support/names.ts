import { createSocket } from 'node:dgram'
import { until } from '../../mcp/support/until.ts'

/** A DNS server that knows some names, all of them this machine. Of others it says nothing, as one that is gone. */
export type Names = {
  readonly port: number
  /** Resolves when each name that it knows has been told. */
  readonly told: () => Promise<void>
  /** From now on it says nothing. */
  readonly silence: () => void
  /** Questions so far that it left without an answer. */
  readonly unanswered: () => number
  readonly close: () => Promise<void>
}

const HEADER = 12
/** A pointer to the question's name; an address; of the Internet; for a second; four bytes. */
const THIS_MACHINE = [0xc0, HEADER, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]

/** RFC 1035 section 4: the name that is asked for, and where the question ends. */
function questionOf(query: Buffer): { readonly name: string; readonly end: number } {
  const labels: string[] = []
  let at = HEADER
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), end: at + 5 }
}

export async function nameServer(known: readonly string[]): Promise<Names> {
  const untold = new Set(known)
  let unanswered = 0
  let isSilent = false
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    const { name, end } = questionOf(query)
    if (isSilent || !known.includes(name)) {
      unanswered++
      return
    }
    const header = [...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]
    const answer = [...header, ...query.subarray(HEADER, end), ...THIS_MACHINE]
    socket.send(Buffer.from(answer), from.port, from.address, () => untold.delete(name))
  })
  await new Promise<void>((done) => socket.bind(0, '127.0.0.1', done))
  return {
    port: socket.address().port,
    told: async () => {
      await until(async () => untold.size === 0, 'every name was asked for')
    },
    silence: () => {
      isSilent = true
    },
    unanswered: () => unanswered,
    close: () => new Promise((done) => socket.close(() => done())),
  }
}
