import postgres from 'postgres'
import { ownLines } from '../db/line.ts'
import { type Db, withRead } from '../db/tx.ts'
import type { OpenBus } from '../ports.ts'

const CHANNEL = 'lend'
const AGAIN_SECONDS_MAX = 2
const CLOSE_SECONDS = 5

/**
 * Kicks through the database itself: NOTIFY on any connection, LISTEN on one of its own, at `url`. LISTEN belongs to a
 * connection of the server's, so behind a transaction pooler `url` is a direct one.
 */
export const postgresBus =
  (db: Db, url: string): OpenBus =>
  async ({ onKick, onError }) => {
    // The driver connects and listens again by itself; each time it calls `onKick`, since kicks may have been missed.
    const client = postgres(url, {
      ...ownLines(),
      max: 1,
      onnotice: () => {},
      backoff: (tries) => Math.min(0.05 * 2 ** tries, AGAIN_SECONDS_MAX),
      connection: { application_name: 'lend bus' },
    })
    await client.listen(CHANNEL, onKick, onKick).catch(onError)
    return {
      send: async () => {
        await withRead(db, 'kick', (tx) => tx.sql`select pg_notify(${CHANNEL}, '')`)
      },
      close: () => client.end({ timeout: CLOSE_SECONDS }),
    }
  }
