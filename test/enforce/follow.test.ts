import { setTimeout as pause } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createFollower } from '../../src/enforce/follow.ts'
import { createEnforcer, type Enforcer } from '../../src/enforce/index.ts'
import { tokenFor } from '../gateway/support/proxy.ts'
import { type Body, basic, type LiveServer, serveLend } from '../support/live-server.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase, urlOf } from '../support/postgres.ts'
import { CREDENTIALS } from './support/issuer.ts'

const READ = { permission: 'accounts:read' }
const PROMISED_MILLIS = 2000

/** A resource server that checks by itself and follows the feed, against the real server (SPEC section 9). */
describe('a service that follows', () => {
  let lend: LiveServer
  let enforcer: Enforcer
  let introspections = 0
  beforeAll(async () => {
    lend = await serveLend()
    const { client_id: clientId, client_secret: clientSecret } = await lend.enforcementPoint()
    enforcer = createEnforcer({
      issuer: lend.issuer(),
      audience: lend.resource('accounts'),
      introspect: { clientId, clientSecret },
      follow: {},
      fetch: (...given) => {
        if (String(given[0]).endsWith('/introspect')) introspections++
        return fetch(...given)
      },
    })
  })
  afterAll(async () => {
    await enforcer.close()
    await lend.close()
    expect(lend.bugs).toEqual([])
  })

  async function lent() {
    const started = await lend.start('maya')
    await lend.lend('maya', started.access_token, [READ])
    const { access_token: control } = await lend.reissue(started.refresh_token)
    return { started, control, token: await tokenFor(lend, control) }
  }
  const reason = async (token: string) => (await enforcer.check(token, READ)).reason
  async function refusedAfter(token: string, change: () => Promise<unknown>) {
    expect(await reason(token)).toBe('granted')
    await change()
    const began = performance.now()
    await expect.poll(() => reason(token), { timeout: 6000, interval: 20 }).toBe('session_over')
    expect(performance.now() - began).toBeLessThan(PROMISED_MILLIS)
  }
  const maya = () => lend.userToken('maya')

  test('refuses the end of a session within two seconds, and never introspects', async () => {
    expect(await enforcer.ready()).toBe(true)
    const { started, token } = await lent()
    await refusedAfter(token, async () =>
      lend.api(await maya(), 'POST', `/sessions/${started.session_id}/end`, {}),
    )
    expect(introspections).toBe(0)
  })

  test('refuses what a release made old, and lets through the next token as far as it goes', async () => {
    const { started, control, token } = await lent()
    const mcp = await lend.mcp(control)
    await refusedAfter(token, () => mcp.call('iam.release_access', { items: [READ] }))
    const again = await lend.reissue(started.refresh_token)
    expect(await reason(await tokenFor(lend, again.access_token))).toBe('not_granted')
  })

  test.each(['tenant', 'template', 'agent', 'user'] as const)(
    'a frozen %s is refused until it is thawed',
    async (scope) => {
      const { token } = await lent()
      const ids = {
        tenant: 'acme',
        template: 'renewal-briefs',
        agent: (await lend.agent()).client_id,
        user: await lend.userId('maya'),
      }
      const adam = await lend.userToken('adam')
      let freeze = ''
      await refusedAfter(token, async () => {
        const body = { scope, id: ids[scope] }
        freeze = String((await lend.api<Body>(adam, 'POST', '/freezes', body)).body.id)
      })
      await lend.api(adam, 'DELETE', `/freezes/${freeze}`)
      await expect.poll(() => reason(token), { timeout: 3000 }).toBe('granted')
    },
  )

  test('what was taken back before it began is in its first state', async () => {
    const { started, token } = await lent()
    await lend.api(await maya(), 'POST', `/sessions/${started.session_id}/end`, {})
    const { client_id: clientId, client_secret: clientSecret } = await lend.enforcementPoint()
    const late = createEnforcer({
      issuer: lend.issuer(),
      audience: lend.resource('accounts'),
      introspect: { clientId, clientSecret },
      follow: {},
    })
    expect((await late.check(token, READ)).reason).toBe('session_over')
    await late.close()
    expect((await late.check(token, READ)).reason).toBe('unavailable')
  })
})

/** The door itself, over HTTP. */
describe('the feed', () => {
  let lend: LiveServer
  beforeAll(async () => {
    lend = await serveLend()
  })
  afterAll(async () => {
    await lend.close()
    expect(lend.bugs).toEqual([])
  })
  type Feed = {
    cursor: string
    reset: boolean
    sessions: { session_id: string; version: number; active: boolean }[]
    frozen: unknown[]
    errors?: { path: string }[]
  }
  const read = async (query: string, tenant = 'acme') =>
    lend.request<Feed>(`/t/${tenant}/enforce/revocations${query}`, {
      headers: { authorization: basic(await lend.enforcementPoint(undefined, tenant)) },
    })
  const ended = async (login = 'maya') => {
    const started = await lend.start(login)
    await lend.endSessions(login)
    return started.session_id
  }

  test('tells each tenant its own sessions, from the place that was given', async () => {
    const first = await read('')
    expect(first.body).toMatchObject({ reset: true })
    const ours = await ended()
    const theirs = await ended('gus')
    const next = await read(`?after=${first.body.cursor}`)
    expect(next.body.reset).toBe(false)
    expect(next.body.sessions.map((one) => one.session_id)).toEqual([ours])
    expect(next.body.sessions).toMatchObject([{ active: false }])
    expect((await read(`?after=${next.body.cursor}`)).body.sessions).toEqual([])
    const globex = await read('', 'globex')
    expect(globex.body.sessions.map((one) => one.session_id)).toContain(theirs)
    expect(globex.text).not.toContain(ours)
  })

  test('waits for news, and no longer than it was told', async () => {
    const { body } = await read('')
    const began = performance.now()
    const quiet = await read(`?after=${body.cursor}&wait=1`)
    expect(performance.now() - began).toBeGreaterThan(900)
    expect(quiet.body.sessions).toEqual([])
    const waiting = read(`?after=${quiet.body.cursor}&wait=20`)
    await pause(300)
    const id = await ended()
    const since = performance.now()
    expect((await waiting).body.sessions.map((one) => one.session_id)).toEqual([id])
    expect(performance.now() - since).toBeLessThan(PROMISED_MILLIS)
  })

  test('begins anew for a place that was trimmed', async () => {
    const { body } = await read('')
    const id = await ended()
    const next = await read(`?after=${body.cursor}`)
    expect(next.body.reset).toBe(false)
    await lend.rows('delete from gateway_feed where tenant_id = $1 returning id', [
      await lend.tenantId(),
    ])
    const other = await ended()
    const late = await read(`?after=${body.cursor}`)
    expect(late.body.reset).toBe(true)
    expect(late.body.sessions.map((one) => one.session_id)).toContain(other)
    expect(late.body.sessions.map((one) => one.session_id)).not.toContain(id)
  })

  test.each([
    ['?after=nonsense', 'after'],
    ['?after=99999999999999999999-1', 'after'],
    ['?wait=26', 'wait'],
    ['?wait=-1', 'wait'],
  ])('%s is refused, naming it', async (query, path) => {
    const answer = await read(query)
    expect(answer.status).toBe(400)
    expect(answer.body.errors).toMatchObject([{ path }])
  })

  test('is for enforcement points alone', async () => {
    const agent = await lend.agent()
    const headers: [string, number][] = [
      [basic(agent), 403],
      [`Bearer ${await lend.userToken('adam')}`, 401],
      [basic({ ...(await lend.enforcementPoint()), client_secret: 'wrong' }), 401],
    ]
    for (const [authorization, status] of headers) {
      const at = '/t/acme/enforce/revocations'
      expect((await lend.request(at, { headers: { authorization } })).status).toBe(status)
    }
  })
})

describe.skipIf(postgresIsLeftOut)('on Postgres', () => {
  let scratch: Scratch
  let lend: LiveServer
  const server = postgres(urlOf('postgres'), { max: 1, onnotice: () => {} })
  beforeAll(async () => {
    scratch = await scratchDatabase()
    lend = await serveLend({ database: scratch.url, jobs: false })
  })
  afterAll(async () => {
    await lend.close()
    await scratch.drop()
    await server.end()
  })

  test('a row that commits late, behind others, is told all the same', async () => {
    const point = await lend.enforcementPoint()
    const read = async (after: string) =>
      (
        await lend.request<{ cursor: string; sessions: { session_id: string }[] }>(
          `/t/acme/enforce/revocations${after}`,
          { headers: { authorization: basic(point) } },
        )
      ).body
    let { cursor } = await read('')
    const tenant = await lend.tenantId()
    const slow = postgres(scratch.url, { max: 1 })
    const told = new Set<string>()
    const look = async () => {
      const heard = await read(`?after=${cursor}`)
      cursor = heard.cursor
      for (const one of heard.sessions) told.add(one.session_id)
    }
    const row = (id: string) => ({ sid: id, version: 2, active: true })
    await slow.begin(async (tx) => {
      await tx`insert into gateway_feed (tenant_id, topic, data, at)
        values (${tenant}, 'session_narrowed', ${tx.json(row('ses_late'))}, clock_timestamp())`
      await lend.rows(
        `insert into gateway_feed (tenant_id, topic, data, at)
         values ($1, 'session_narrowed', $2::text::jsonb, clock_timestamp()) returning id`,
        [tenant, JSON.stringify(row('ses_early'))],
      )
      await look()
      await look()
      expect([...told]).toEqual(['ses_early'])
    })
    await look()
    expect([...told]).toEqual(['ses_early', 'ses_late'])
    await slow.end()
  })

  test('with the database gone nothing is allowed after the stated time', async () => {
    const { client_id: clientId, client_secret: clientSecret } = await lend.enforcementPoint()
    let ahead = 0
    const enforcer = createEnforcer({
      issuer: lend.issuer(),
      audience: lend.resource('accounts'),
      introspect: { clientId, clientSecret },
      follow: { closedAfterMillis: 20_000 },
      now: () => Date.now() + ahead,
    })
    const started = await lend.start('maya')
    await lend.lend('maya', started.access_token, [READ])
    const { access_token: control } = await lend.reissue(started.refresh_token)
    const token = await tokenFor(lend, control)
    expect((await enforcer.check(token, READ)).reason).toBe('granted')
    const name = new URL(scratch.url).pathname.slice(1)
    await server.unsafe(`alter database ${name} allow_connections false`)
    await server`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`
    await pause(1000)
    expect((await enforcer.check(token, READ)).reason).toBe('granted')
    ahead = 21_000
    expect(await enforcer.check(token, READ)).toMatchObject({ reason: 'unavailable', status: 503 })
    await server.unsafe(`alter database ${name} allow_connections true`)
    await expect
      .poll(async () => (await enforcer.check(token, READ)).reason, { timeout: 15_000 })
      .toBe('granted')
    await enforcer.close()
  })
})

/** Against answers of a stand-in. */
describe('a follower', () => {
  const facts = (session: string, version = 1, issuedAt = 1000) => ({
    ...{ session, version, issuedAt, rootSession: session, agent: 'agt_1', user: 'usr_1' },
    ...{ tenant: 'acme', template: 'briefs@1', expiresAt: 1900, grants: [] },
    lineage: [{ agent: 'agt_1', template: 'briefs' }],
  })
  const narrowed = (id: string) => ({ session_id: id, version: 2, active: true })
  const follower = (
    answers: readonly unknown[],
    more: { now?: () => number; max?: number } = {},
  ) => {
    let asked = 0
    return createFollower({
      issuer: 'https://lend.example/t/acme',
      credentials: CREDENTIALS,
      now: more.now ?? (() => 1_000_000),
      ...(more.max === undefined ? {} : { entriesMax: more.max }),
      fetch: async (_, init) => {
        const answer = await answers[asked++]
        if (answer !== undefined) return Response.json(answer)
        await new Promise((_resolve, reject) =>
          init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
        )
        throw new Error('not reached')
      },
    })
  }
  const state = { cursor: '1-1', reset: true, more: false, sessions: [], frozen: [] }

  test.each([
    ['no cursor', { ...state, cursor: undefined }],
    [
      'a session without a version',
      { ...state, sessions: [{ session_id: 'ses_1', active: true }] },
    ],
    ['a freeze that names nothing', { ...state, frozen: [{ scope: 'user' }] }],
    ['no list of sessions', { ...state, sessions: null }],
    ['a page that is not the last', { ...state, more: true }],
  ])(
    'is not warm by an answer with %s',
    async (_, answer) => {
      const one = follower([answer])
      expect(await one.warm()).toBe(false)
      expect(await one.standing(facts('ses_1'))).toEqual({ denied: 'unavailable' })
      one.close()
    },
    10_000,
  )

  test('is closed while its clock is behind the news', async () => {
    let now = 1_000_000
    const one = follower([state], { now: () => now })
    expect(await one.warm()).toBe(true)
    expect(await one.standing(facts('ses_1'))).toHaveProperty('facts')
    now -= 1
    expect(await one.standing(facts('ses_1'))).toEqual({ denied: 'unavailable' })
    one.close()
  })

  test('holds no more than its bound, and loses no narrowing by that', async () => {
    const sessions = ['ses_1', 'ses_2', 'ses_3'].map(narrowed)
    const one = follower([{ ...state, sessions }], { max: 2 })
    await one.warm()
    expect(one.size()).toBe(2)
    for (const id of ['ses_1', 'ses_2', 'ses_3', 'ses_4'])
      expect(await one.standing(facts(id))).toEqual({ denied: 'session_over' })
    // What was issued since is not what had to make room.
    expect(await one.standing(facts('ses_4', 1, 1061))).toHaveProperty('facts')
    expect(await one.standing(facts('ses_3', 1, 1061))).toEqual({ denied: 'session_over' })
    one.close()
  })

  test('forgets what no living token can need', async () => {
    let now = 1_000_000
    let give: (answer: unknown) => void = () => {}
    const later = new Promise((resolve) => {
      give = resolve
    })
    const first = { ...state, sessions: ['ses_1', 'ses_2'].map(narrowed) }
    const one = follower([first, later], { now: () => now })
    await one.warm()
    expect(one.size()).toBe(2)
    now += 961_000
    give({ ...state, cursor: '2-2', reset: false, sessions: [narrowed('ses_3')] })
    await expect.poll(one.size).toBe(1)
    one.close()
  })
})
