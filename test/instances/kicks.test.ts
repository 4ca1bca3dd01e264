import { AsyncLocalStorage } from 'node:async_hooks'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Lend, serveInstances } from '../mcp/support/lend.ts'
import { pause } from '../mcp/support/until.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'
import { postgresIsLeftOut, scratchDatabase } from '../support/postgres.ts'
import { type Redis, scratchRedis } from '../support/redis.ts'

const left = postgresIsLeftOut ? ' (left out: LEND_TEST_NO_POSTGRES=1)' : ''
const A = 0
const B = 1
const WAIT = { wait_seconds: 30 }
/** A lost kick costs at most one look, every two seconds. */
const LOST_MILLIS = 6_000

describe.skipIf(postgresIsLeftOut)(`two instances that kick through Redis${left}`, () => {
  let redis: Redis
  let lend: Lend
  let drop = async () => {}
  beforeAll(async () => {
    redis = await scratchRedis()
    const scratch = await scratchDatabase()
    drop = scratch.drop
    lend = await serveInstances(scratch.url, 2, { redisUrl: redis.url })
  })
  afterEach(() => lend.tidy())
  afterAll(async () => {
    await lend?.close()
    await drop()
    await redis?.stop()
  })

  /** Waits on the one while the user answers on the other; how long it took from the answer. */
  async function answered(meanwhile: () => Promise<unknown> = async () => {}) {
    const maya = lend.person('maya')
    const agent = await lend.start('maya', { via: A })
    const waiting = agent.ask(['accounts:read'], WAIT)
    const { id } = await maya.asked(agent)
    await pause(300)
    await meanwhile()
    const answer = await maya.answer(id, 'allow_once', { via: B })
    expect(answer.status).toBe(200)
    const at = performance.now()
    expect((await waiting).items).toMatchObject([{ outcome: 'granted', reason: 'allowed_by_user' }])
    return performance.now() - at
  }

  test('nothing listens in the database, and waits are woken by the kick', async () => {
    const listening = await lend.sql(
      `select 1 from pg_stat_activity
       where datname = current_database() and application_name = 'lend bus'`,
    )
    expect(listening).toEqual([])
    const took: number[] = []
    for (let n = 0; n < 5; n++) took.push(await answered())
    // A look every two seconds would come more than one second after most of these answers.
    expect(took.toSorted((a, b) => a - b)[2]).toBeLessThan(1_000)
    expect(lend.bugs()).toEqual([])
  })

  test('I19 without Redis nothing fails, and a wait costs a look more', async () => {
    expect(await answered(redis.stop)).toBeLessThan(LOST_MILLIS)
    const agent = await lend.start('maya', { mode: 'bypass', via: A })
    await agent.ask(['accounts:read'])
    await agent.refresh()
    const other = agent.on(B)
    await agent.call('iam.release_access', { items: [{ permission: 'accounts:read' }] })
    // What was taken back is asked of the database, not of the bus.
    expect([await other.status(), await agent.status()]).toEqual([401, 401])
    await redis.start()
    // Each instance says once that it went, and once that it is back.
    const told = async () => {
      await answered()
      return lend.bugs().length
    }
    await expect.poll(told, { timeout: 20_000 }).toBe(4)
    expect(await answered()).toBeLessThan(LOST_MILLIS)
    expect(lend.bugs()).toHaveLength(4)
  })
})

describe('a kick', () => {
  let lend: LiveServer
  beforeAll(async () => {
    lend = await serveLend()
  })
  afterAll(() => lend.close())

  test('is never sent from inside a transaction: whoever is woken would find nothing yet', async () => {
    const inside = new AsyncLocalStorage<string>()
    const kicks: (string | undefined)[] = []
    const { db, notify } = lend.ctx
    const { begin } = db
    const { kick } = notify
    Object.assign(db, {
      begin: (...[label, body, planned]: Parameters<typeof begin>) =>
        begin(label, (tx) => inside.run(label, () => body(tx)), planned),
    })
    Object.assign(notify, {
      kick: () => {
        kicks.push(inside.getStore())
        kick()
      },
    })
    const counted = async (act: () => Promise<unknown>) => {
      const before = kicks.length
      await act()
      expect(kicks.length).toBeGreaterThan(before)
    }
    let session = await lend.start('maya')
    const items = [{ permission: 'accounts:read' }]
    await counted(async () => {
      session = await lend.start('maya')
    })
    await counted(() => lend.lend('maya', session.access_token, items))
    await counted(async () => {
      session = { ...session, ...(await lend.reissue(session.refresh_token)) }
    })
    const mcp = await lend.mcp(session.access_token)
    await counted(() => mcp.call('iam.start_subagent', { template: 'email-drafter' }))
    await counted(() => mcp.call('iam.release_access', { items }))
    await counted(async () => (await lend.freeze('user', await lend.userId('omar')))())
    await counted(() => lend.endSessions('maya'))
    expect(kicks.filter((label) => label !== undefined)).toEqual([])
  })
})
