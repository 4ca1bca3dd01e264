import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../mcp/support/until.ts'
import { emptyDatabase, postgresIsLeftOut, type Scratch } from '../support/postgres.ts'
import { through, type Wire, wireTo } from '../support/wire.ts'
import { freePort, type Server, startServer } from '../system/support/server.ts'

/**
 * Connections to the database that are lost while they are made. The driver asks each of them something by a promise that
 * nobody holds, which by itself would end the process.
 */
const ROUNDS = 12
const AT_ONCE = 12

describe.skipIf(postgresIsLeftOut)('a connection that is lost while it is made', () => {
  let scratch: Scratch
  let wire: Wire
  let server: Server
  let url: string
  const isReady = async () => (await fetch(`${url}/healthz`).catch(() => null))?.status === 200

  beforeAll(async () => {
    scratch = await emptyDatabase()
    wire = await wireTo(Number(new URL(scratch.url).port || 5432))
    const port = await freePort()
    url = `http://localhost:${port}`
    server = startServer({
      PORT: String(port),
      DATABASE_URL: through(scratch.url, wire.port),
      LEND_DATA: 'memory',
    })
    await until(isReady, 'it is ready', 60)
  })
  afterAll(async () => {
    server.child.kill('SIGKILL')
    await server.exit
    await wire.close()
    await scratch.drop()
  })

  test('ends requests, never the process', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      wire.mend()
      // A millisecond a way, so that the cut finds some in the middle of their first words.
      wire.slow(1)
      const asked = Array.from({ length: AT_ONCE }, (_, i) =>
        fetch(`${url}/t/nobody-${round}-${i}/oauth/jwks`).then(
          ({ status }) => status,
          () => 0,
        ),
      )
      await pause(2 + round * 2)
      wire.cut()
      for (const status of await Promise.all(asked)) expect([404, 503]).toContain(status)
    }
    wire.mend()
    await until(isReady, 'it is ready again', 60)
    expect(server.child.exitCode).toBeNull()
  })
})
