import postgres from 'postgres'

/**
 * Connections for transactions, one client of one connection each. postgres.js's own `begin` waits for its answer before
 * the first statement and for the last statement before `commit`; on a connection of one's own they travel together.
 *
 * A seat whose connection is lost is thrown away: nothing that was meant for a transaction may ever run outside it.
 */
export type Seat = {
  readonly sql: postgres.ReservedSql
  readonly options: postgres.Sql['options']
  /** Called once when the connection is lost, during a transaction or between two. */
  onLost: (error: Error) => void
  lost: boolean
  /** Whether no transaction is open on it. */
  idle: boolean
  /** Gives the connection up, whatever is under way on it. */
  readonly drop: (why: Error) => void
}

export type Connections = {
  readonly open: number
  readonly busy: number
  readonly waiting: number
  readonly most: number
}

export type Seats = {
  readonly counts: () => Connections

  readonly take: () => Promise<Seat>
  /** Takes a seat back, for another transaction if it is sound. */
  readonly give: (seat: Seat) => void
  readonly close: () => Promise<void>
}

export class ConnectionLost extends Error {
  readonly code = 'CONNECTION_CLOSED'
  constructor(says = 'The connection to the database was lost.') {
    super(says)
  }
}

const busy = (): ConnectionLost =>
  new ConnectionLost('No connection to the database became free in time.')

async function openSeat(url: string, options: postgres.Options<never>): Promise<Seat> {
  let seat: Seat | undefined
  const client = postgres(url, {
    ...options,
    max: 1,
    idle_timeout: undefined,
    max_lifetime: null,
    onclose: () => {
      if (seat === undefined || seat.lost) return
      seat.lost = true
      seat.onLost(new ConnectionLost())
    },
  })
  const close = () => void client.end({ timeout: 0 }).catch(() => undefined)
  try {
    const sql = await client.reserve()
    const { options: parsed } = client
    const made: Seat = {
      ...{ sql, options: parsed, onLost: () => undefined, lost: false, idle: true },
      drop: (why) => {
        close()
        if (made.lost) return
        made.lost = true
        made.onLost(why)
      },
    }
    seat = made
    return seat
  } catch (error) {
    close()
    throw error
  }
}

type Asking = { readonly resolve: (seat: Seat) => void; readonly reject: (error: unknown) => void }
/** In line; `called` when it is their turn, from where on nobody's patience ends but the connection's own. */
type Waiting = Asking & { readonly called: () => void }

/**
 * At most `most` connections, opened when they are needed and kept. Whoever finds none free waits in line, for at most
 * `patienceMillis`.
 */
export function createSeats(
  url: string,
  options: postgres.Options<never>,
  of: {
    readonly most: number
    readonly patienceMillis: number
    readonly prepare: (seat: Seat) => void
  },
): Seats {
  const free: Seat[] = []
  const waiting: Waiting[] = []
  let made = 0
  let closed = false
  let idle: (() => void) | undefined

  function openFor(one: Asking): void {
    made++
    openSeat(url, options).then(
      (seat) => {
        of.prepare(seat)
        one.resolve(seat)
      },
      (error) => {
        made--
        one.reject(error)
        next()
      },
    )
  }

  function callFirst(): Waiting | undefined {
    const one = waiting.shift()
    one?.called()
    return one
  }

  /** After a seat has gone: the first in line may have a new one. */
  function next(): void {
    const one = callFirst()
    if (one !== undefined) openFor(one)
    else if (closed && made === 0) idle?.()
  }

  function discard(seat: Seat): void {
    made--
    seat.drop(new ConnectionLost())
    next()
  }

  function waitInLine({ resolve, reject }: Asking): void {
    const late = setTimeout(() => {
      waiting.splice(waiting.indexOf(one), 1)
      reject(busy())
    }, of.patienceMillis)
    const one: Waiting = { resolve, reject, called: () => clearTimeout(late) }
    waiting.push(one)
  }

  return {
    counts: () => ({
      open: made,
      busy: made - free.length,
      waiting: waiting.length,
      most: of.most,
    }),
    take: () => {
      if (closed) return Promise.reject(new ConnectionLost())
      for (let seat = free.pop(); seat !== undefined; seat = free.pop()) {
        if (!seat.lost) return Promise.resolve(seat)
        discard(seat)
      }
      return new Promise((resolve, reject) => {
        if (made < of.most) openFor({ resolve, reject })
        else waitInLine({ resolve, reject })
      })
    },
    give: (seat) => {
      seat.onLost = () => undefined
      if (!seat.idle || seat.lost) return discard(seat)
      const one = callFirst()
      if (one !== undefined) return one.resolve(seat)
      if (closed) return discard(seat)
      free.push(seat)
    },
    close: async () => {
      closed = true
      for (const seat of free.splice(0)) discard(seat)
      if (made > 0)
        await new Promise<void>((done) => {
          idle = done
        })
    },
  }
}
