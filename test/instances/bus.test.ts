import { setTimeout as pause } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { busOf } from '../../src/bus/open.ts'
import { type Db, postgresDb } from '../../src/db/tx.ts'
import { createNotify } from '../../src/notify.ts'
import { scratchCluster } from '../support/cluster.ts'
import { postgresIsLeftOut } from '../support/postgres.ts'
import { scratchRedis } from '../support/redis.ts'
import { through, type Wire, wireTo } from '../support/wire.ts'

/** What every bus is held to, whatever it goes by: a kick reaches others, and no trouble of the bus is anybody else's. */
type Server = {
  readonly url: string
  readonly port: number
  readonly stop: () => Promise<void>
  readonly start: () => Promise<void>
  readonly remove: () => Promise<void>
}

const POSTGRES = async (): Promise<Server> => scratchCluster()
const REDIS = async (): Promise<Server> => {
  const redis = await scratchRedis()
  return { ...redis, remove: redis.stop }
}

const KINDS: readonly [string, 'databaseUrl' | 'redisUrl', () => Promise<Server>, boolean][] = [
  ['Postgres', 'databaseUrl', POSTGRES, postgresIsLeftOut],
  ['Redis', 'redisUrl', REDIS, false],
]

const LATE = { timeout: 10_000, interval: 20 }

/** What is left after everything that nobody holds is gone. */
setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')
const heap = () => {
  collect()
  return process.memoryUsage().heapUsed
}

describe.each(KINDS)('the bus by %s', (_, setting, serve, isLeftOut) => {
  describe.skipIf(isLeftOut)(isLeftOut ? 'left out: LEND_TEST_NO_POSTGRES=1' : 'runs', () => {
    let server: Server
    let wire: Wire
    const opened: { stop: () => Promise<void> }[] = []
    beforeAll(async () => {
      server = await serve()
      wire = await wireTo(server.port)
    })
    afterEach(async () => {
      wire.mend()
      for (const one of opened.splice(0)) await one.stop()
    })
    afterAll(async () => {
      await wire.close()
      await server.remove()
    })

    /** One instance's end of the bus. */
    async function instance() {
      const url = through(server.url, wire.port)
      const none = { databaseUrl: null, databaseDirectUrl: null, redisUrl: null }
      // Only Postgres's bus asks it anything.
      const db: Db = postgresDb(setting === 'databaseUrl' ? url : 'postgres://127.0.0.1:1/none')
      const notes: string[] = []
      let woken = 0
      const of = { ...none, publicUrl: 'http://localhost:4000', [setting]: url }
      const notify = await createNotify(busOf(of, db), (what) => notes.push(what))
      notify.subscribe(() => woken++)
      const stop = async () => {
        await notify.stop()
        await db.close()
      }
      opened.push({ stop })
      return { kick: notify.kick, notes, woken: () => woken }
    }

    const heardBy = async (one: { woken: () => number }, after: () => unknown) => {
      const before = one.woken()
      await after()
      await expect.poll(one.woken, LATE).toBeGreaterThan(before)
    }

    /** A kick may be lost while the one end is back and the other is not: each is one more chance. */
    const hearsAgain = (one: { woken: () => number }, kick: () => void) =>
      expect
        .poll(async () => {
          const before = one.woken()
          kick()
          await pause(50)
          return one.woken() > before
        }, LATE)
        .toBe(true)

    test('a kick reaches the other instance, and those who wait here without it', async () => {
      const [a, b] = [await instance(), await instance()]
      await heardBy(b, a.kick)
      await heardBy(a, b.kick)
      const before = a.woken()
      wire.stall()
      a.kick()
      await Promise.resolve()
      expect(a.woken()).toBe(before + 1)
    })

    test('is told of once when it goes and once when it is back, and then works by itself', async () => {
      const [a, b] = [await instance(), await instance()]
      await heardBy(b, a.kick)
      await server.stop()
      for (let i = 0; i < 20; i++) {
        a.kick()
        await pause(10)
      }
      await expect.poll(() => a.notes.length, LATE).toBe(1)
      // Who connects again looks, since kicks may have been missed.
      await heardBy(b, server.start)
      await hearsAgain(b, a.kick)
      await hearsAgain(a, b.kick)
      await expect
        .poll(() => a.notes, LATE)
        .toEqual([
          'the bus is away: other instances notice changes by looking',
          'the bus works again',
        ])
    })

    test('a line that is cut is connected again', async () => {
      const [a, b] = [await instance(), await instance()]
      wire.cut()
      await pause(200)
      await heardBy(b, wire.mend)
      await hearsAgain(b, a.kick)
    })

    test('an instance starts without it, and finds it later', async () => {
      wire.cut()
      const a = await instance()
      a.kick()
      await heardBy(a, wire.mend)
    })

    test.each([
      ['gone', () => wire.cut()],
      ['silent', () => wire.stall()],
    ])('%s: a kick neither blocks, throws nor piles up', async (_how, breaks) => {
      const [a, b] = [await instance(), await instance()]
      await heardBy(b, a.kick)
      breaks()
      const before = heap()
      const began = performance.now()
      for (let round = 0; round < 200; round++) {
        for (let i = 0; i < 500; i++) a.kick()
        await pause(1)
      }
      // A hundred thousand kicks, most of it pauses; a kick that waited for the bus would take minutes.
      expect(performance.now() - began).toBeLessThan(30_000)
      expect(heap() - before).toBeLessThan(4_000_000)
      wire.mend()
      await hearsAgain(b, a.kick)
    })
  })
})
