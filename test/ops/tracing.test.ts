import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { withRead } from '../../src/db/tx.ts'
import { createLog } from '../../src/log.ts'
import { createTracing, type Tracing } from '../../src/tracing.ts'
import { ask, lentSession } from '../gateway/support/proxy.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'

/** What a collector is told over OTLP/HTTP: a request, its transactions and statements in one trace, and nothing of anybody's. */
type Attribute = {
  readonly key: string
  readonly value: { stringValue?: string; intValue?: number }
}
type Told = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: readonly Attribute[]
  readonly status: { readonly code?: number }
  readonly links?: readonly { readonly traceId: string }[]
}
type Export = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly Told[] }[]
  }[]
}

let collector: Server
let tracing: Tracing
let lend: LiveServer
let raw = ''
const told: Told[] = []
const resources: Attribute[] = []

beforeAll(async () => {
  collector = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      expect(req.url).toBe('/v1/traces')
      const text = Buffer.concat(chunks).toString()
      raw += text
      const { resourceSpans }: Export = JSON.parse(text)
      for (const { resource, scopeSpans } of resourceSpans) {
        resources.push(...resource.attributes)
        for (const { spans } of scopeSpans) told.push(...spans)
      }
      res.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((done) => collector.listen(0, '127.0.0.1', done))
  const { port } = collector.address() as AddressInfo
  tracing = createTracing(`http://127.0.0.1:${port}`, 'test-eu')
  lend = await serveLend({ jobs: false, trace: tracing })
})
beforeEach(() => {
  told.length = 0
})
afterAll(async () => {
  await lend.close()
  await tracing.stop()
  collector.closeAllConnections()
  collector.close()
  expect(lend.bugs).toEqual([])
})

async function until<T>(what: () => T | undefined): Promise<T> {
  const end = performance.now() + 15_000
  for (;;) {
    const found = what()
    if (found !== undefined) return found
    if (performance.now() > end) throw new Error('the collector was never told')
    await new Promise((done) => setTimeout(done, 20))
  }
}
const named = (name: string, traceId?: string) =>
  until(() => told.find((s) => s.name === name && (traceId ?? s.traceId) === s.traceId))
const said = (span: Told, key: string) => {
  const value = span.attributes.find((one) => one.key === key)?.value
  return value?.stringValue ?? value?.intValue
}
const traceparent = (traceId: string) => `00-${traceId}-00f067aa0ba902b7-01`
const newTrace = () => crypto.randomUUID().replaceAll('-', '')

test('from the request through the transaction to the statement, as part of the caller’s trace', async () => {
  const traceId = newTrace()
  const { refresh_token } = await lend.start('maya')
  const { client_id, client_secret } = await lend.agent()
  const answer = await lend.request('/t/acme/oauth/token', {
    method: 'POST',
    headers: { traceparent: traceparent(traceId) },
    body: new URLSearchParams({
      ...{ grant_type: 'refresh_token', refresh_token, client_id, client_secret },
    }),
  })
  expect(answer.status).toBe(200)
  const request = await named('POST token', traceId)
  expect(request.parentSpanId).toBe('00f067aa0ba902b7')
  expect(said(request, 'http.response.status_code')).toBe(200)
  const tx = await until(() =>
    told.find((s) => s.name.startsWith('tx ') && s.parentSpanId === request.spanId),
  )
  const statement = await until(() => told.find((s) => s.parentSpanId === tx.spanId))
  expect([tx.traceId, statement.traceId]).toEqual([traceId, traceId])
  expect(statement.name).toMatch(/^sql (select|with|update|insert)$/)
  expect(said(statement, 'db.query.text')).toMatch(/\$1/)
  const names = Object.fromEntries(resources.map(({ key, value }) => [key, value.stringValue]))
  expect(names).toMatchObject({
    'service.name': 'lend',
    'deployment.environment.name': 'test-eu',
  })
})

test('a statement that Drizzle builds is a span like any other, in its transaction, without a value', async () => {
  const traceId = newTrace()
  const answer = await lend.request(
    '/t/acme/api/activity/export?format=ndjson&agent=agt_canary_51c2',
    {
      headers: {
        traceparent: traceparent(traceId),
        authorization: `Bearer ${await lend.userToken('cleo')}`,
      },
    },
  )
  expect(answer.status).toBe(200)
  const tx = await named('tx export_activity', traceId)
  const of = await until(() => told.find((s) => s.parentSpanId === tx.spanId))
  expect(of).toMatchObject({ name: 'sql select', traceId })
  expect(said(of, 'db.system.name')).toBe('postgresql')
  expect(said(of, 'db.query.text')).toMatch(/^select .+ from "activity" .*"agent_id" = \$2/)
  expect(raw).not.toContain('agt_canary_51c2')
})

test('a statement that Drizzle builds outside a transaction is one too, and says no value when it fails', async () => {
  const sent = tracing.span('outside', () =>
    withRead(lend.ctx.db, 'outside', (tx) => tx.orm.execute(sql`select ${'canary-9b02'}::int`)),
  )
  await expect(sent).rejects.toThrow('canary-9b02')
  const { spanId } = await named('outside')
  const failed = await until(() => told.find((s) => s.parentSpanId === spanId))
  expect([failed.name, failed.status.code]).toEqual(['sql select', 2])
  expect(said(failed, 'db.query.text')).toBe('select $1::int')
  expect(raw).not.toContain('canary-9b02')
})

test('a traceparent that is none begins a new trace', async () => {
  await lend.request('/livez', { headers: { traceparent: 'x' } })
  const span = await named('GET health')
  expect(span.parentSpanId ?? '').toBe('')
  expect(span.traceId).toMatch(/^[0-9a-f]{32}$/)
})

test('log lines name the trace and the span that they were written in, and nothing outside one', async () => {
  let text = ''
  const log = createLog('info', { write: (line) => (text += line) }, () => tracing.ids() ?? {})
  const traceId = newTrace()
  await tracing.served('test', traceparent(traceId), async () => log.info('inside'))
  log.info('outside')
  const [inside, outside] = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(inside).toMatchObject({ trace_id: traceId, span_id: (await named('test')).spanId })
  expect(outside).not.toHaveProperty('trace_id')
})

test('AUTH_DECISION names the caller’s trace, or the one that begins here', async () => {
  const { token } = await lentSession(lend)
  await lend.gateway.caughtUp()
  const traceId = newTrace()
  const target = '/demo/accounts/accounts'
  await ask(lend, { target, token, raw: ['traceparent', traceparent(traceId)] })
  await ask(lend, { target, token })
  await lend.gateway.flush()
  const lines = lend.lines.slice(-2).map((line) => JSON.parse(line).trace_id)
  expect(lines[0]).toBe(traceId)
  expect(lines[1]).toMatch(/^[0-9a-f]{32}$/)
  await named('forward-auth nginx', traceId)
  await named('forward-auth nginx', lines[1])
})

test('a tool server is told a trace of its own, linked from the caller’s', async () => {
  const traceId = newTrace()
  let sent = ''
  await tracing.served('caller', traceparent(traceId), () =>
    tracing.outgoing('call tool', async (headers) => {
      sent = headers.traceparent ?? ''
    }),
  )
  const own = await named('call tool')
  expect(sent).toBe(`00-${own.traceId}-${own.spanId}-01`)
  expect(own.traceId).not.toBe(traceId)
  expect(own.links?.map((link) => link.traceId)).toEqual([traceId])
})

test('what fails is marked by its kind, never by its words', async () => {
  const failing = tracing.span('fails', () => Promise.reject(new TypeError('canary-7f3a')))
  await expect(failing).rejects.toThrow('canary')
  const span = await named('fails')
  expect(span.status.code).toBe(2)
  expect(said(span, 'error.type')).toBe('TypeError')
  expect(raw).not.toContain('canary-7f3a')
})

test('I18: no token, secret, person or value is in any of it', async () => {
  const { access_token, refresh_token, session_id } = await lend.start('maya')
  const mcp = await lend.mcp(access_token)
  await mcp.call('iam.my_access')
  await mcp.close()
  await lend.api(await lend.userToken('maya'), 'GET', '/sessions?limit=1')
  await named('POST mcp')
  await named('GET people')
  const { client_secret } = await lend.agent()
  for (const secret of [access_token, refresh_token, client_secret, session_id, 'maya', 'eyJ'])
    expect(raw).not.toContain(secret)
})

describe('a collector', () => {
  test('that is away costs the spans and nothing else', async () => {
    const away = createTracing('http://127.0.0.1:9', 'test')
    expect(await away.span('lost', async () => 7)).toBe(7)
    const began = performance.now()
    await away.stop()
    expect(performance.now() - began).toBeLessThan(8_000)
  })
})
