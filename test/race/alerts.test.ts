import { createHmac } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Db } from '../../src/db/tx.ts'
import { guardedFetch } from '../../src/identity/fetch-guard.ts'
import { createAlerts } from '../../src/ops/alerts.ts'
import { openPostgres, runOn, seedDatabase } from '../support/databases.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'

/** Three instances on one server and a real webhook: each change of a state is told once, whoever notices it. */
const SECRET = `whsec_${Buffer.from('a secret of thirty-two bytes, so').toString('base64')}`

type Told = {
  readonly id: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly state: string
  readonly status: string
}

describe.skipIf(postgresIsLeftOut)('state changes', () => {
  let scratch: Scratch
  let dbs: Db[]
  let hook: Server
  let told: Told[]
  let answers: number[]
  let now: number
  let away: boolean
  let bugs: unknown[]
  /** How each of the three is. */
  let fresh: boolean[]
  let lost: number[]
  let unreachable: string[][]
  let looks: (() => Promise<void>)[]

  beforeAll(async () => {
    hook = createServer((req, res) => {
      const chunks: Buffer[] = []
      req.on('data', (chunk: Buffer) => chunks.push(chunk))
      req.on('end', () => {
        const status = answers.shift() ?? 204
        const body = Buffer.concat(chunks).toString()
        const { data } = JSON.parse(body)
        const headers = Object.fromEntries(
          Object.entries(req.headers).map(([name, value]) => [name, String(value)]),
        )
        const id = headers['webhook-id'] ?? ''
        if (status < 300) told.push({ id, body, headers, ...data })
        res.writeHead(status).end()
      })
    })
    await new Promise<void>((done) => hook.listen(0, '127.0.0.1', done))
    scratch = await scratchDatabase()
    dbs = [0, 1, 2].map(() => openPostgres(scratch.url, 2))
    await seedDatabase(one())
  })
  beforeEach(async () => {
    await runOn(one())('truncate alert_state, instance_report')
    ;[told, answers, bugs, away] = [[], [], [], false]
    now = Date.parse('2026-11-30T12:00:00Z')
    fresh = [true, true, true]
    lost = [0, 0, 0]
    unreachable = [[], [], []]
    const { port } = hook.address() as AddressInfo
    const send = guardedFetch({ allowPrivate: true, timeoutMillis: 2_000, maxBytes: 1024 })
    looks = dbs.map((db, i) => {
      const begin: Db['begin'] = (...call) =>
        away ? Promise.reject(new Error('the database is away')) : db.begin(...call)
      return createAlerts({
        ctx: { db: { ...db, begin }, clock: { now: () => now } },
        gateway: {
          isFresh: () => fresh[i] ?? true,
          counts: () => ({ callsLostEver: lost[i] ?? 0 }) as never,
        },
        unreachable: () => unreachable[i] ?? [],
        ...{
          deployment: 'test-eu',
          webhook: `http://127.0.0.1:${port}/hook`,
          secret: SECRET,
          send,
        },
        onBug: (error) => bugs.push(error),
      }).look
    })
  })
  afterAll(async () => {
    hook.closeAllConnections()
    hook.close()
    await Promise.all(dbs.map((db) => db.close()))
    await scratch.drop()
  })
  function one(): Db {
    const [first] = dbs
    if (first === undefined) throw new Error('no database')
    return first
  }

  /** All three look, at once, every ten seconds of this time. */
  async function pass(seconds: number): Promise<void> {
    for (let i = 0; i < seconds / 10; i++) {
      now += 10_000
      await Promise.all(looks.map((look) => look()))
    }
  }
  const changes = () => told.map(({ state, status }) => `${state} ${status}`)

  test('nothing is told while all is well', async () => {
    await pass(120)
    expect([changes(), bugs]).toEqual([[], []])
  })

  test('a feed that stays behind on one instance: told once, and its return once', async () => {
    await pass(20)
    fresh[1] = false
    await pass(120)
    expect(changes()).toEqual(['feed failing'])
    fresh[1] = true
    await pass(120)
    expect(changes()).toEqual(['feed failing', 'feed ok'])
    expect(told[0]?.id).not.toBe(told[1]?.id)
  })

  test('one that flaps is not told of', async () => {
    for (let i = 0; i < 10; i++) {
      fresh[i % 3] = i % 2 === 0
      await pass(10)
      fresh = [true, true, true]
      await pass(10)
    }
    expect(changes()).toEqual([])
  })

  test('lost call records at once; ten minutes without another, and it is over', async () => {
    await pass(20)
    lost[2] = 5
    await pass(20)
    expect(changes()).toEqual(['calls_lost failing'])
    await pass(720)
    expect(changes()).toEqual(['calls_lost failing', 'calls_lost ok'])
  })

  test('the identity provider of a tenant, by the tenant’s name; one that nobody trusts is nobody’s', async () => {
    await runOn(one())(
      `insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, created_at)
       values ('idp_test', 'ten_acme', 'https://idp.acme.example', 'lend', '{people}', now())`,
    )
    unreachable[0] = ['https://idp.acme.example', 'https://stranger.example']
    await pass(60)
    expect(changes()).toEqual(['provider/acme failing'])
    unreachable[0] = []
    await pass(90)
    expect(changes()).toEqual(['provider/acme failing', 'provider/acme ok'])
  })

  test('a database that is away: told by one of the three, and its return by that one', async () => {
    await pass(20)
    away = true
    await pass(120)
    expect(changes()).toEqual(['database failing'])
    away = false
    await pass(60)
    expect(changes()).toEqual(['database failing', 'database ok'])
  })

  test('a webhook that fails is tried again under the same id, and not for ever', async () => {
    answers = [500, 503]
    await pass(20)
    fresh[0] = false
    await pass(200)
    expect(changes()).toEqual(['feed failing'])
    answers = Array.from({ length: 100 }, () => 500)
    fresh[0] = true
    await pass(2_000)
    expect(changes()).toEqual(['feed failing'])
    expect(answers).toHaveLength(100 - 6)
  })

  test('whoever takes over does not tell again', async () => {
    await pass(20)
    fresh = [false, false, false]
    await pass(60)
    const [, , third] = looks
    looks = third === undefined ? [] : [third]
    await pass(200)
    expect(changes()).toEqual(['feed failing'])
  })

  test('signed as Standard Webhooks does, tagged by deployment, and nothing else in it', async () => {
    await pass(10)
    fresh[0] = false
    await pass(60)
    const [first] = told
    if (first === undefined) throw new Error('nothing was told')
    const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64')
    const signed = `${first.id}.${first.headers['webhook-timestamp']}.${first.body}`
    const signature = createHmac('sha256', key).update(signed).digest('base64')
    expect(first.headers['webhook-signature']).toBe(`v1,${signature}`)
    expect(JSON.parse(first.body)).toEqual({
      type: 'lend.state_changed',
      timestamp: expect.stringMatching(/^2026-11-30T12:/),
      data: { deployment: 'test-eu', state: 'feed', status: 'failing' },
    })
  })

  // The last: its record stays.
  test('records that no checkpoint anchors', async () => {
    await runOn(one())(
      `insert into activity (id, tenant_id, chain, seq, at, type, data, prev_hash, hash)
       values ('act_test', 'ten_acme', 'ten_acme', 1000, to_timestamp($1::float8), 'admin.changed',
         '{}', repeat('0', 64), repeat('1', 64))`,
      [now / 1000],
    )
    await pass(600)
    expect(changes()).toEqual([])
    await pass(900)
    expect(changes()).toEqual(['checkpoint failing'])
  })
})
