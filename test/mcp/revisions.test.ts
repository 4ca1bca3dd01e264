import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HEADERS, messageOf, type Raw, raw, rpc, type Served, served } from './support/serve.ts'

let here: Served
beforeAll(async () => {
  here = await served({ keepAliveMs: 25 })
})
afterAll(() => here.close())

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
}
const modern = (
  method: string,
  params: Record<string, unknown> = {},
  headers: Record<string, string | undefined> = {},
): Promise<Raw> => {
  const all: Record<string, string | undefined> = {
    ...HEADERS,
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...(typeof params.name === 'string' ? { 'mcp-name': params.name } : {}),
    ...headers,
  }
  const sent = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
  return raw(here, { headers: sent, body: rpc(method, { _meta: META, ...params }) })
}
const older = (method: string, params: object, revision: string): Promise<Raw> =>
  raw(here, {
    headers: { ...HEADERS, 'mcp-protocol-version': revision },
    body: rpc(method, params),
  })
const ASK = { items: [{ permission: 'email:send' }], reason: 'Because', wait_seconds: 1 }

describe('2026-07-28 on the wire', () => {
  it('discovers without a handshake', async () => {
    const answer = await modern('server/discover')
    expect(answer.status).toBe(200)
    expect(messageOf(answer).result).toMatchObject({
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      instructions: expect.stringContaining('You hold nothing when you start'),
      resultType: 'complete',
    })
  })

  it('lists with what a client needs to keep the list', async () => {
    const { result } = messageOf(await modern('tools/list'))
    expect(result).toMatchObject({ ttlMs: 300_000, cacheScope: 'public', resultType: 'complete' })
    expect(result?.tools).toHaveLength(7)
  })

  it.each([
    ['another method', { 'mcp-method': 'tools/call' }],
    ['no method', { 'mcp-method': undefined }],
    ['another revision', { 'mcp-protocol-version': '2025-11-25' }],
    ['no revision', { 'mcp-protocol-version': undefined }],
  ])('refuses headers that name %s', async (_, headers) => {
    const answer = await modern('tools/list', {}, headers)
    expect(answer.status).toBe(400)
    expect(messageOf(answer)).toMatchObject({ id: 1, error: { code: -32020 } })
  })

  it.each([
    ['another tool', { 'mcp-name': 'iam.my_access' }],
    ['the same tool in its other spelling', { 'mcp-name': 'iam_explain' }],
    ['no tool', { 'mcp-name': undefined }],
  ])('refuses a call whose header names %s', async (_, headers) => {
    const calls = here.backend.seen.length
    const args = { name: 'iam.explain', arguments: { permission: 'a:b' } }
    const answer = await modern('tools/call', args, headers)
    expect(answer.status).toBe(400)
    expect(messageOf(answer).error?.code).toBe(-32020)
    expect(here.backend.seen).toHaveLength(calls)
  })

  it('refuses a revision it does not speak, naming those it does', async () => {
    const _meta = { ...META, 'io.modelcontextprotocol/protocolVersion': '2030-01-01' }
    const answer = await modern('tools/list', { _meta }, { 'mcp-protocol-version': '2030-01-01' })
    expect(answer.status).toBe(400)
    expect(messageOf(answer).error).toMatchObject({
      code: -32022,
      data: { supported: ['2026-07-28'], requested: '2030-01-01' },
    })
  })

  it('knows no method but its own', async () => {
    for (const method of ['resources/list', 'prompts/list', 'ping', 'initialize', 'no/such']) {
      const answer = await modern(method)
      expect(answer.status, method).toBe(404)
      expect(messageOf(answer).error?.code, method).toBe(-32601)
    }
  })

  it('holds no stream open for changes that never come', async () => {
    const answer = await modern('subscriptions/listen', {
      notifications: { toolsListChanged: true },
    })
    expect(messageOf(answer).error).toBeDefined()
  })

  it('answers a plain call as JSON', async () => {
    const args = { name: 'iam.my_access', arguments: {} }
    const answer = await modern('tools/call', args)
    expect(answer.headers['content-type']).toBe('application/json')
    expect(messageOf(answer).result).toMatchObject({ structuredContent: { mode: 'auto' } })
  })
})

describe('older revisions on the wire', () => {
  it.each(['2025-06-18', '2025-11-25'])('greets %s with itself and no session', async (version) => {
    const hello = {
      protocolVersion: version,
      capabilities: {},
      clientInfo: { name: 'a', version: '1' },
    }
    const answer = await raw(here, { body: rpc('initialize', hello) })
    expect(messageOf(answer).result).toMatchObject({
      protocolVersion: version,
      serverInfo: { name: 'lend' },
    })
    expect(answer.headers['mcp-session-id']).toBeUndefined()
  })

  it('offers its newest older revision to a client that asks for one it has not', async () => {
    const hello = {
      protocolVersion: '2024-11-05',
      capabilities: {},
      clientInfo: { name: 'a', version: '1' },
    }
    const answer = await raw(here, { body: rpc('initialize', hello) })
    expect(messageOf(answer).result).toMatchObject({ protocolVersion: '2025-11-25' })
    expect((await older('tools/list', {}, '2024-11-05')).status).toBe(400)
  })

  it('takes the notification that follows a handshake', async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })
    const answer = await raw(here, { body })
    expect(answer.status).toBe(202)
    expect(answer.body).toBe('')
    expect(answer.headers['cache-control']).toBe('no-store')
  })

  it('refuses a client that accepts only one of the two answers', async () => {
    for (const accept of [undefined, 'application/json', 'text/event-stream']) {
      const { accept: _, ...rest } = HEADERS
      const headers = accept === undefined ? rest : { ...rest, accept }
      expect((await raw(here, { headers })).status).toBe(406)
    }
  })
})

describe('both eras on one route', () => {
  it('serves them side by side, each in its own form', async () => {
    const [old, now] = await Promise.all([
      older('tools/list', {}, '2025-06-18'),
      modern('tools/list'),
    ])
    expect(messageOf(old).result).not.toHaveProperty('resultType')
    expect(messageOf(now).result).toHaveProperty('resultType')
    expect(messageOf(old).result?.tools).toEqual(messageOf(now).result?.tools)
  })

  it('keeps a wait alive, with no progress asked for', async () => {
    for (const answer of [
      await older('tools/call', { name: 'iam_request_access', arguments: ASK }, '2025-11-25'),
      await modern('tools/call', { name: 'iam_request_access', arguments: ASK }),
    ]) {
      expect(answer.headers['content-type']).toBe('text/event-stream')
      expect(answer.headers['cache-control']).toBe('no-store')
      expect(answer.body.match(/^: keepalive$/gm)?.length).toBeGreaterThan(5)
      expect(answer.body).not.toContain('notifications/progress')
      expect(messageOf(answer).result).toMatchObject({
        structuredContent: { items: [{ outcome: 'pending' }] },
      })
    }
  })

  it('sends progress under the token it was given, before the result', async () => {
    for (const progressToken of ['mine', 0]) {
      const call = { name: 'iam.request_access', arguments: ASK }
      for (const answer of [
        await older('tools/call', { ...call, _meta: { progressToken } }, '2025-06-18'),
        await modern('tools/call', { ...call, _meta: { ...META, progressToken } }),
      ]) {
        const events = answer.body.split('\n').filter((line) => line.startsWith('data: '))
        const messages = events.map((line) => JSON.parse(line.slice('data: '.length)))
        const progress = messages.filter((one) => one.method === 'notifications/progress')
        expect(progress.length).toBeGreaterThan(5)
        expect(progress[0].params).toEqual({
          progressToken,
          progress: expect.any(Number),
          message: 'Waiting for the user',
        })
        expect(messages.findIndex((one) => 'result' in one)).toBe(messages.length - 1)
      }
    }
  })
})
