import { afterEach, beforeEach, expect, test } from 'vitest'
import { fail, ok } from '../../src/fault.ts'
import { createPeople, type Json, type People } from '../support/people.ts'
import type { Login } from '../support/world-seed.ts'

/** A person's events: in commit order, none lost, none of anyone else's. */
let people: People
const open: AbortController[] = []
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  for (const one of open.splice(0)) one.abort()
  expect(people.bugs).toEqual([])
  await people.world.close()
})

type Event = { readonly id: string; readonly event: string; readonly data: Json }

function parsed(block: string): Event | null {
  const field = (name: string) =>
    block
      .split('\n')
      .filter((line) => line.startsWith(`${name}: `))
      .map((line) => line.slice(name.length + 2))
      .join('\n')
  return block.startsWith(':')
    ? null
    : { id: field('id'), event: field('event'), data: JSON.parse(field('data')) }
}

/** A client that reads one event at a time and leaves when it likes. */
async function listen(as: Login, how: { after?: string; query?: string } = {}) {
  const abort = new AbortController()
  open.push(abort)
  const response = await people.raw(as, 'GET', `/events${how.query ?? ''}`, {
    signal: abort.signal,
    ...(how.after === undefined ? {} : { headers: { 'Last-Event-ID': how.after } }),
  })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  const next = async (): Promise<Event | null> => {
    for (;;) {
      const end = text.indexOf('\n\n')
      if (end !== -1) {
        const block = text.slice(0, end)
        text = text.slice(end + 2)
        const event = parsed(block)
        if (event !== null) return event
        continue
      }
      const chunk = await reader?.read()
      if (chunk === undefined || chunk.done) return null
      text += chunk.value
    }
  }
  return {
    status: response.status,
    headers: response.headers,
    next,
    take: async (n: number) => {
      const events: Event[] = []
      for (let i = 0; i < n; i++) {
        const event = await next()
        if (event !== null) events.push(event)
      }
      return events
    },
    leave: async () => {
      await reader?.cancel()
      abort.abort()
    },
  }
}

const READ = { permission: 'accounts:read' }

test('starts with ready, then request, answer, grant, session and rule as they happen', async () => {
  const stream = await listen('maya')
  expect(stream.headers.get('Content-Type')).toContain('text/event-stream')
  expect(stream.headers.get('Cache-Control')).toBe('no-store')
  const ready = await stream.next()
  expect(ready?.event).toBe('ready')
  expect(ready?.id).toMatch(/^\d+-0$/)
  const session = await people.world.start('maya', { mode: 'auto' })
  await people.world.ask(session, [READ])
  await people.call('maya', 'POST', '/rules', {
    body: { template: 'renewal-briefs', permission: 'accounts:read', effect: 'deny' },
  })
  const events = await stream.take(6)
  expect(events.map((e) => [e.event, e.data.type])).toEqual([
    ['session', 'session.started'],
    ['request', 'access.requested'],
    ['answer', 'access.decided'],
    ['grant', 'grant.created'],
    // One commit: its sessions' chains, then the tenant's.
    ['grant', 'grant.ended'],
    ['rule', 'rule.created'],
  ])
  expect(events[3]?.data).toMatchObject({
    at: '2026-11-30T09:00:00.000Z',
    session_id: session,
    root_session_id: session,
    agent_id: 'agt_briefs',
    template: 'renewal-briefs@3',
    permission: 'accounts:read',
    source: 'mode',
  })
})

test('after a place of another server, from before a restore, goes on from now', async () => {
  const stream = await listen('maya', { after: '9000000000000000000-1' })
  const ready = await stream.next()
  expect(ready?.event).toBe('ready')
  expect(ready?.id).toMatch(/^\d{1,12}-0$/)
  const session = await people.world.start('maya')
  const [started] = await stream.take(1)
  expect(started?.data).toMatchObject({ type: 'session.started', session_id: session })
})

test('goes on after the last event that was seen: none lost, none twice', async () => {
  const first = await listen('maya')
  const ready = await first.next()
  const session = await people.world.start('maya')
  const [started] = await first.take(1)
  await first.leave()
  await people.world.ask(session, [READ])
  await people.call('maya', 'POST', `/sessions/${session}/end`)
  const whole = (await (await listen('maya', { after: ready?.id ?? '' })).take(5)).slice(1)
  expect(whole.map((e) => e.data.type)).toEqual([
    'session.started',
    'access.requested',
    'access.decided',
    'session.ended',
  ])
  for (const how of [{ after: started?.id ?? '' }, { query: `?last_event_id=${started?.id}` }]) {
    const rest = await (await listen('maya', how)).take(4)
    expect(rest.map((e) => e.id)).toEqual([started?.id, ...whole.slice(1).map((e) => e.id)])
  }
})

test('more than one read’s worth comes whole and in order', async () => {
  const stream = await listen('maya')
  const ready = await stream.next()
  const session = await people.world.start('maya', { mode: 'auto' })
  const { rows } = people.world
  // Past what one read takes; the chain is not what is tested here.
  await rows(
    `insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id, data,
       prev_hash, hash)
     select 'act_' || i, 'ten_acme', $1, 1000 + i, now(), 'access.requested', 'agt_briefs', 'usr_maya', $1, $1,
       jsonb_build_object('i', i), '', '' from generate_series(1, 450) i`,
    [session],
  )
  const events = (await (await listen('maya', { after: ready?.id ?? '' })).take(452)).slice(2)
  expect(events.map((e) => e.data.i)).toEqual(Array.from({ length: 450 }, (_, i) => i + 1))
})

test('another user’s and another tenant’s events are not there (I17)', async () => {
  const stream = await listen('omar')
  await stream.next()
  await people.world.start('maya')
  await people.world.start('gus')
  const own = await people.world.start('omar')
  expect((await stream.next())?.data).toMatchObject({ type: 'session.started', session_id: own })
})

test.each(['x', '1', '-1-2', '1-2-3', '99999999999999999999-1', '1-9223372036854775808'])(
  'an id that is of no event is 400: %s',
  async (id) => {
    const answer = await people.call('maya', 'GET', `/events?last_event_id=${id}`)
    expect([answer.status, (answer.body.errors as Json[])[0]?.path]).toEqual([400, 'last_event_id'])
  },
)

test('nobody listens without a token', async () => {
  expect((await people.call(null, 'GET', '/events')).status).toBe(401)
})

test('an eleventh stream of one person is 429; one that leaves makes room', async () => {
  const streams = []
  for (let i = 0; i < 10; i++) {
    const stream = await listen('maya')
    await stream.next()
    streams.push(stream)
  }
  const refused = await people.call('maya', 'GET', '/events')
  expect([refused.status, refused.body.code, refused.body.limit]).toEqual([
    429,
    'limit_reached',
    'eventStreams',
  ])
  expect((await listen('omar')).status).toBe(200)
  await streams[0]?.leave()
  await expect.poll(async () => (await listen('maya')).status).toBe(200)
})

test('ends when the token that opened it runs out', async () => {
  const people2 = people
  people = await createPeople({
    verifyUser: async () =>
      ok({ ...people2.world.asUser('maya'), expiresAt: people.world.clock.now() / 1000 + 60 }),
  })
  const stream = await listen('maya')
  await stream.next()
  people.world.clock.advance(61)
  people.world.ctx.notify.kick()
  expect(await stream.next()).toBeNull()
  await people2.world.close()
})

test('is kept open, and ends when its person may no longer come in', async () => {
  await people.world.close()
  let welcome = true
  people = await createPeople({
    heartbeatMillis: 0,
    verifyUser: async () => (welcome ? ok(people.world.asUser('maya')) : fail('user_disabled')),
  })
  const stream = await listen('maya')
  await stream.next()
  const session = await people.world.start('maya')
  people.world.ctx.notify.kick()
  expect((await stream.next())?.data.session_id).toBe(session)
  welcome = false
  people.world.ctx.notify.kick()
  expect(await stream.next()).toBeNull()
})

test('ends when the server stops', async () => {
  const stopping = new AbortController()
  await people.world.close()
  people = await createPeople({ stopping: stopping.signal })
  const stream = await listen('maya')
  await stream.next()
  stopping.abort()
  expect(await stream.next()).toBeNull()
})
