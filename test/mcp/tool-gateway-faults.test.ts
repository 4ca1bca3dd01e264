import type { IncomingMessage, ServerResponse } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createVault } from '../../src/vault.ts'
import { connectMcp } from '../support/live-calls.ts'
import { type LiveServer, type Mcp, serveLend, type ToolAnswer } from '../support/live-server.ts'
import { startUpstream, type Upstream } from './support/upstream.ts'

/** Tool servers that are slow, gone or lying: a clear error, in bounded time and size, and never more access. */
const TIMEOUT_MILLIS = 1500
const MAX_BYTES = 20_000
const SECRET = 'upstream-s3cret'
const KEY = { kid: 'test', key: Buffer.alloc(32, 7).toString('base64url') }

let lend: LiveServer
let upstream: Upstream
let mcp: Mcp
let admin: string

beforeAll(async () => {
  upstream = await startUpstream()
  lend = await serveLend({
    toolGateway: { timeoutMillis: TIMEOUT_MILLIS, maxBytes: MAX_BYTES },
    vault: createVault([KEY]),
  })
  admin = await lend.userToken('adam')
  await lend.rows(`delete from tool_server where name = 'mail'`)
  await lend.api(admin, 'POST', '/admin/tool-servers', {
    name: 'mail',
    title: 'Mail',
    url: upstream.url,
    private_network: true,
    credential_header: 'x-api-key',
    credential: SECRET,
  })
  const started = await lend.start('maya')
  await lend.lend('maya', started.access_token, [
    { permission: 'email:send', resource: 'domain/customer.example' },
  ])
  mcp = await connectMcp(`${lend.publicUrl}/t/acme/tools/mail/mcp`, started.access_token)
})
afterEach(() => {
  upstream.reset()
  expect(lend.bugs).toEqual([])
})
afterAll(async () => {
  await mcp.close()
  await lend.close()
  await upstream.close()
})

const send = () => mcp.raw('send_email', { to: 'jo@customer.example', subject: 's', body: 'b' })
const said = (answer: ToolAnswer) => JSON.parse(answer.content[0]?.text ?? 'null')
const json = (res: ServerResponse, body: unknown, status = 200) =>
  void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
const event = (body: unknown) => `event: message\ndata: ${JSON.stringify(body)}\n\n`

type Misdeed = (message: { id: number; method: string }, res: ServerResponse) => void
/** Misbehaves on one method; everything else is answered as it should be. */
const on = (method: string, misdeed: Misdeed) => (body: string, res: ServerResponse) => {
  const message = body === '' ? null : JSON.parse(body)
  if (message?.method !== method) return false
  misdeed(message, res)
  return true
}

const result = { content: [{ type: 'text', text: 'sent' }] }
const FAULTS: readonly (readonly [string, string, Misdeed])[] = [
  ['never answers', 'upstream_slow', () => {}],
  [
    'answers a byte now and then',
    'upstream_slow',
    (_, res) => {
      res.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => res.write(' '), 100)
      res.on('close', () => clearInterval(timer))
    },
  ],
  [
    'holds its stream open',
    'upstream_slow',
    (message, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(
        event({
          jsonrpc: '2.0',
          method: 'notifications/message',
          params: { level: 'info', data: message.id },
        }),
      )
    },
  ],
  ['accepts a call and says no more', 'upstream_slow', (_, res) => void res.writeHead(202).end()],
  ['breaks off', 'upstream_unreachable', (_, res) => void res.socket?.destroy()],
  ['is overloaded', 'upstream_unreachable', (_, res) => json(res, { error: 'busy' }, 503)],
  ['refuses our credential', 'upstream_refused', (_, res) => json(res, { error: 'no' }, 401)],
  ['forbids', 'upstream_refused', (_, res) => json(res, { error: 'no' }, 403)],
  ['is not found', 'upstream_bad_answer', (_, res) => json(res, {}, 404)],
  [
    'redirects',
    'upstream_redirects',
    (_, res) => void res.writeHead(307, { location: 'http://169.254.169.254/latest' }).end(),
  ],
  [
    'is huge',
    'upstream_too_large',
    (message, res) =>
      json(res, {
        jsonrpc: '2.0',
        id: message.id,
        result: { content: [{ type: 'text', text: 'x'.repeat(MAX_BYTES) }] },
      }),
  ],
  [
    'is a huge stream',
    'upstream_too_large',
    (message, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.end(`: ${'x'.repeat(MAX_BYTES)}\n\n${event({ jsonrpc: '2.0', id: message.id, result })}`)
    },
  ],
  [
    'is a page',
    'upstream_bad_answer',
    (_, res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<html>'),
  ],
  [
    'is not JSON',
    'upstream_bad_answer',
    (_, res) => void res.writeHead(200, { 'content-type': 'application/json' }).end('{"jsonrpc"'),
  ],
  ['is no JSON-RPC', 'upstream_bad_answer', (_, res) => json(res, { hello: 'there' })],
  [
    'is nested too deep',
    'upstream_bad_answer',
    (message, res) =>
      void res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(
          `{"jsonrpc":"2.0","id":${message.id},"result":${'['.repeat(9000)}${']'.repeat(9000)}}`,
        ),
  ],
  [
    'answers another request',
    'upstream_bad_answer',
    (message, res) => json(res, { jsonrpc: '2.0', id: message.id + 1000, result }),
  ],
  [
    'answers another request in a stream',
    'upstream_bad_answer',
    (message, res) =>
      void res
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(event({ jsonrpc: '2.0', id: message.id + 1000, result })),
  ],
  [
    'has a result of another shape',
    'upstream_bad_answer',
    (message, res) => json(res, { jsonrpc: '2.0', id: message.id, result: { content: 'sent' } }),
  ],
  [
    'echoes our credential',
    'upstream_bad_answer',
    (message, res) =>
      json(res, {
        jsonrpc: '2.0',
        id: message.id,
        result: { content: [{ type: 'text', text: `key ${SECRET}` }] },
      }),
  ],
  [
    'is an error of its own',
    'upstream_error',
    (message, res) =>
      json(res, {
        jsonrpc: '2.0',
        id: message.id,
        error: { code: -32602, message: 'no such mailbox' },
      }),
  ],
]

describe('a tool server', () => {
  test.each(FAULTS)('that %s to a call is a tool error', async (_, code, misdeed) => {
    upstream.fault = on('tools/call', misdeed)
    const before = performance.now()
    const answer = await send()
    expect(performance.now() - before).toBeLessThan(TIMEOUT_MILLIS + 2500)
    expect(answer.isError).toBe(true)
    expect(said(answer)).toMatchObject({ code, message: expect.any(String) })
    expect(answer.content[0]?.text).not.toContain(SECRET)
    upstream.fault = null
    expect((await send()).isError).toBeUndefined()
  })

  test.each(FAULTS)('that %s to the handshake is a tool error', async (_, code, misdeed) => {
    upstream.fault = on('initialize', misdeed)
    const answer = await send()
    expect(answer.isError).toBe(true)
    expect(said(answer).code).toMatch(/^upstream_/)
    if (code !== 'upstream_error') expect(upstream.calls).toEqual([])
  })

  test.each(FAULTS.filter(([name]) => !/shape/.test(name)))(
    'that %s to a list is a protocol error',
    async (_, _code, misdeed) => {
      upstream.fault = on('tools/list', misdeed)
      const error = await mcp.client.listTools().then(
        () => null,
        (thrown: Error) => thrown,
      )
      expect(error?.message).toMatch(/^MCP error -32603: .*tool server/i)
      expect(error?.message).not.toContain(SECRET)
    },
  )

  test('that answers well in a stream is answered for', async () => {
    upstream.fault = on(
      'tools/call',
      (message, res) =>
        void res
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end(event({ jsonrpc: '2.0', id: message.id, result })),
    )
    expect(await send()).toMatchObject({ content: [{ type: 'text', text: 'sent' }] })
  })

  test('that reports a failure of its tool is passed on as it is', async () => {
    upstream.answer = () => ({ content: [{ type: 'text', text: 'mailbox full' }], isError: true })
    expect(await send()).toMatchObject({ isError: true, content: [{ text: 'mailbox full' }] })
  })

  test('that names a tool twice is believed neither', async () => {
    upstream.tools = [...upstream.tools, ...upstream.tools.slice(0, 1)]
    await expect(mcp.client.listTools()).rejects.toThrow('as the protocol asks')
  })

  test('whose pages never end is given up', async () => {
    upstream.fault = on('tools/list', (message, res) =>
      json(res, { jsonrpc: '2.0', id: message.id, result: { tools: [], nextCursor: 'again' } }),
    )
    await expect(mcp.client.listTools()).rejects.toThrow('as the protocol asks')
  })

  test('whose list changes opens nothing: what may be called is the catalog’s to say', async () => {
    const [first] = upstream.tools
    const renamed = ['Send_email', 'send_email2', 'iam.request_access', 'delete_all']
    upstream.tools = renamed.map((name) => ({ ...first, name }) as (typeof upstream.tools)[number])
    expect((await mcp.client.listTools()).tools).toEqual([])
    for (const name of renamed)
      await expect(mcp.raw(name, { to: 'jo@customer.example' })).rejects.toThrow('Unknown tool')
    upstream.tools = []
    expect((await mcp.client.listTools()).tools).toEqual([])
    expect(upstream.calls).toEqual([])
  })

  test('that is shown only what a model needs: no metadata of its own passes', async () => {
    const [first] = upstream.tools
    upstream.tools = [{ ...first, _meta: { hidden: 1 } } as (typeof upstream.tools)[number]]
    const [shown] = (await mcp.client.listTools()).tools
    expect(Object.keys(shown ?? {}).sort()).toEqual(['description', 'inputSchema', 'name', 'title'])
  })
})

describe('where a tool server may be', () => {
  const at = async (url: string, privateNetwork: boolean) => {
    await lend.rows('update tool_server set url = $1, private_network = $2 where name = $3', [
      url,
      privateNetwork,
      'mail',
    ])
    try {
      return said(await send()).code
    } finally {
      await lend.rows('update tool_server set url = $1, private_network = true where name = $2', [
        upstream.url,
        'mail',
      ])
    }
  }

  test('not in a private network, unless its row allows it', async () => {
    const local = upstream.url.replace('http:', 'https:')
    expect(await at(upstream.url, false)).toBe('upstream_not_allowed')
    expect(await at(local, false)).toBe('upstream_not_allowed')
    expect(await at(local.replace('127.0.0.1', 'localhost'), false)).toBe('upstream_not_allowed')
    expect(await at('https://169.254.169.254/mcp', false)).toBe('upstream_not_allowed')
    expect(upstream.seen).toEqual([])
  })

  test('nowhere: it is gone', async () => {
    expect(await at('http://127.0.0.1:9/mcp', true)).toBe('upstream_unreachable')
  })
})

test('a credential that was sealed with another key is an error, and nothing is sent without it', async () => {
  const other = createVault([{ kid: 'other', key: Buffer.alloc(32, 9).toString('base64url') }])
  const [row] = await lend.rows<{ sealed: string }>(
    `select sealed_credential as sealed from tool_server where name = 'mail'`,
  )
  await lend.rows(`update tool_server set sealed_credential = $1 where name = 'mail'`, [
    other.seal(SECRET, 'whatever'),
  ])
  expect(said(await send())).toMatchObject({
    code: 'unprocessable',
    message: expect.stringContaining('give it again'),
  })
  expect(upstream.seen).toEqual([])
  await lend.rows(`update tool_server set sealed_credential = $1 where name = 'mail'`, [
    row?.sealed ?? '',
  ])
  expect((await send()).isError).toBeUndefined()
  const keys = upstream.seen.map(
    ({ headers }: { headers: IncomingMessage['headers'] }) => headers['x-api-key'],
  )
  expect(new Set(keys)).toEqual(new Set([SECRET]))
})

test('a caller that hangs up is no bug, and its call is on record', async () => {
  upstream.fault = on('tools/call', () => {})
  const stop = new AbortController()
  const call = mcp.client.callTool(
    { name: 'send_email', arguments: { to: 'jo@customer.example', subject: 's', body: 'b' } },
    undefined,
    { signal: stop.signal },
  )
  setTimeout(() => stop.abort(), 300)
  await expect(call).rejects.toThrow()
})
