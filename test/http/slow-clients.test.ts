import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { basic, type Credentials, type LiveServer, serveLend } from '../support/live-server.ts'

/** Clients that are slow, large or silent, on real sockets: each is bounded, and the others do not notice. */
const BOUNDS = {
  headersMillis: 1_000,
  requestMillis: 2_000,
  idleMillis: 2_000,
  lookMillis: 100,
}
let lend: LiveServer
let agent: Credentials
let point: Credentials
const open: Socket[] = []

beforeAll(async () => {
  lend = await serveLend({ jobs: false, bounds: BOUNDS })
  agent = await lend.agent()
  point = await lend.enforcementPoint()
})
afterEach(() => {
  for (const socket of open.splice(0)) socket.destroy()
})
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

type Raw = {
  readonly socket: Socket
  readonly text: () => string
  /** Resolves when the server has closed its side. */
  readonly closed: Promise<void>
}

function raw(): Promise<Raw> {
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(lend.origin).port) })
  open.push(socket)
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  const closed = new Promise<void>((done) => socket.once('close', () => done()))
  socket.on('error', () => {})
  return new Promise((resolve) =>
    socket.once('connect', () => resolve({ socket, text: () => text, closed })),
  )
}

const host = () => `Host: ${new URL(lend.origin).host}\r\n`
const statusOf = (text: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
/** The JSON of an answer, with whatever framing is around it. */
const bodyOf = (text: string) =>
  JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1))

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 15_000
  while (!(await what())) {
    if (performance.now() > end) throw new Error('it never came about')
    await new Promise((done) => setTimeout(done, 20))
  }
}

describe('slow', () => {
  test('300 connections that send a header a second do not stop others, and are cut', async () => {
    const slow = await Promise.all(Array.from({ length: 300 }, raw))
    for (const { socket } of slow) socket.write(`GET /livez HTTP/1.1\r\n${host()}`)
    const dribble = setInterval(() => {
      for (const { socket } of slow) if (socket.writable) socket.write('X-A: b\r\n')
    }, 200)
    const began = performance.now()
    expect((await lend.request('/livez')).status).toBe(200)
    const started = await lend.start('maya')
    expect(started.session_id).toMatch(/^ses_/)
    expect(performance.now() - began).toBeLessThan(10_000)
    await Promise.all(slow.map(({ closed }) => closed))
    clearInterval(dribble)
    expect(new Set(slow.map(({ text }) => statusOf(text())))).toEqual(new Set([408]))
  })

  test.each([
    ['the token endpoint', () => '/t/acme/oauth/token', 'application/x-www-form-urlencoded'],
    ['MCP', () => '/t/acme/mcp', 'application/json'],
    ['the People API', () => '/t/acme/api/sessions', 'application/json'],
    ['data checks', () => '/t/acme/enforce/data', 'application/json'],
  ])('a body that never ends, at %s', async (_, path, type) => {
    const bearer = path().includes('/mcp')
      ? (await lend.start('maya')).access_token
      : await lend.userToken('maya')
    const authorization = path().includes('enforce')
      ? basic(point)
      : path().includes('oauth')
        ? basic(agent)
        : `Bearer ${bearer}`
    const one = await raw()
    one.socket.write(
      `POST ${path()} HTTP/1.1\r\n${host()}Authorization: ${authorization}\r\nContent-Type: ${type}\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n`,
    )
    const dribble = setInterval(() => one.socket.writable && one.socket.write('1\r\na\r\n'), 100)
    await one.closed
    clearInterval(dribble)
    expect(statusOf(one.text())).toBe(408)
  })
})

describe('large', () => {
  test('headers: 431, and the connection ends', async () => {
    const one = await raw()
    one.socket.write(`GET /livez HTTP/1.1\r\n${host()}X-A: ${'a'.repeat(20_000)}\r\n\r\n`)
    await one.closed
    expect(statusOf(one.text())).toBe(431)
  })

  const LARGE: readonly (readonly [string, string, () => Promise<string>, string, object])[] = [
    [
      'token endpoint',
      '/t/acme/oauth/token',
      async () => basic(agent),
      'application/x-www-form-urlencoded',
      { error: 'invalid_request', error_reason: 'body_too_large' },
    ],
    [
      'MCP',
      '/t/acme/mcp',
      async () => `Bearer ${(await lend.start('maya')).access_token}`,
      'application/json',
      { jsonrpc: '2.0', id: null },
    ],
    [
      'People API',
      '/t/acme/api/sessions',
      async () => `Bearer ${await lend.userToken('maya')}`,
      'application/json',
      { code: 'body_too_large', status: 413 },
    ],
    [
      'AuthZEN',
      '/t/acme/access/v1/evaluation',
      async () => basic(point),
      'application/json',
      { code: 'body_too_large', status: 413 },
    ],
    [
      'call reports',
      '/t/acme/enforce/calls',
      async () => basic(point),
      'application/json',
      { code: 'body_too_large', status: 413 },
    ],
  ]
  test.each(LARGE)('%s: 413 in its own words, whatever length was said', async (...of) => {
    const [, path, credential, type, body] = of
    const authorization = await credential()
    const head = `POST ${path} HTTP/1.1\r\n${host()}Authorization: ${authorization}\r\nContent-Type: ${type}\r\nAccept: application/json, text/event-stream\r\n`
    const declared = await raw()
    declared.socket.write(`${head}Content-Length: ${50 * 1024 * 1024}\r\n\r\n{`)
    await until(() => declared.text().includes('}'))
    expect([statusOf(declared.text()), bodyOf(declared.text())]).toMatchObject([413, body])
    const chunked = await raw()
    chunked.socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`)
    const chunk = `10000\r\n${'a'.repeat(0x10000)}\r\n`
    const more = () => chunked.text() === '' && chunked.socket.writable
    while (more()) await new Promise((done) => chunked.socket.write(chunk, done))
    await until(() => chunked.text().includes('}'))
    expect([statusOf(chunked.text()), bodyOf(chunked.text())]).toMatchObject([413, body])
  })
})

describe('silent', () => {
  const stream = (authorization: string) =>
    `GET /t/acme/api/events HTTP/1.1\r\n${host()}Authorization: ${authorization}\r\n\r\n`
  const READS = 100
  const eventsFor = async (login: string) =>
    lend.rows(
      `insert into activity (id, tenant_id, chain, seq, at, type, user_id, data, prev_hash, hash)
       select 'act_' || replace(gen_random_uuid()::text, '-', ''), $1, $1, 1000000 + n, now(),
         'rule.created', $2, jsonb_build_object('said', repeat('x', 2000)), repeat('0', 64),
         encode(sha256(n::text::bytea), 'hex')
       from generate_series(1, $3::int) n`,
      [await lend.tenantId(), await lend.userId(login), READS * 200],
    )

  test('a reader that never reads is cut, and only so much is read for it', async () => {
    const { alone } = lend.ctx.db
    const { sql } = alone
    let readings = 0
    const counting: typeof sql = async (text, ...values) => {
      const rows = await sql<never>(text, ...values)
      if (rows.length > 0 && text.join('').includes('from activity a')) readings++
      return rows
    }
    Object.assign(alone, { sql: counting })
    const authorization = `Bearer ${await lend.userToken('maya')}`
    const one = await raw()
    one.socket.write(stream(authorization))
    await until(() => one.text().includes('event: ready'))
    one.socket.pause()
    await eventsFor('maya')
    lend.ctx.notify.kick()
    // Its place among the streams of the person is free again once it is cut.
    await until(async () => (await places(authorization)) === 10)
    Object.assign(alone, { sql })
    expect(readings).toBeGreaterThan(0)
    // What the sockets' own buffers hold, and not all there is.
    expect(readings).toBeLessThan(READS * 0.6)
  }, 60_000)

  /** How many more streams the person may open now. */
  async function places(authorization: string): Promise<number> {
    const tried = await Promise.all(Array.from({ length: 12 }, raw))
    for (const { socket } of tried) socket.write(stream(authorization))
    await until(() => tried.every(({ text }) => text().includes('\r\n\r\n')))
    const opened = tried.filter(({ text }) => statusOf(text()) === 200)
    for (const { socket } of tried) socket.destroy()
    return opened.length
  }

  test('too many streams of one person: 429, and another person’s opens', async () => {
    const authorization = `Bearer ${await lend.userToken('omar')}`
    const many = await Promise.all(Array.from({ length: 12 }, raw))
    for (const { socket } of many) socket.write(stream(authorization))
    await until(() => many.every(({ text }) => text().includes('\r\n\r\n')))
    const refused = many.filter(({ text }) => statusOf(text()) === 429)
    expect(refused).toHaveLength(2)
    const text = refused[0]?.text() ?? ''
    expect(text).toMatch(/\r\nretry-after: 5\r\n/i)
    expect(bodyOf(text)).toMatchObject({ code: 'limit_reached', limit: 'eventStreams' })
    const other = await raw()
    other.socket.write(stream(`Bearer ${await lend.userToken('adam')}`))
    await until(() => statusOf(other.text()) === 200)
  })
})
