import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { Lend } from './support/lend.ts'
import {
  ALLOW_ONCE,
  card,
  chatOf,
  press,
  seen,
  signedIn,
  startSession,
  type Window,
} from './support/person.ts'

/**
 * With a provider's key set the brain is that provider's model, through its own library. Nothing here reaches the internet, so
 * the provider is a server of the test's that speaks its streaming protocol: it asks for one tool, reads the result, and talks.
 */
type Said = { readonly key: string | undefined; readonly text: string }

const said: Said[] = []
let provider: Server
let lend: Lend
let browser: Browser
let maya: Window

const event = (type: string, more: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
const message = (blocks: readonly string[], stop: string): string =>
  [
    event('message_start', {
      message: {
        ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'some-model', content: [] },
        ...{ stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } },
      },
    }),
    ...blocks,
    event('message_delta', {
      delta: { stop_reason: stop, stop_sequence: null },
      usage: { output_tokens: 1 },
    }),
    event('message_stop'),
  ].join('')
const block = (content: object, delta: object): string =>
  event('content_block_start', { index: 0, content_block: content }) +
  event('content_block_delta', { index: 0, delta }) +
  event('content_block_stop', { index: 0 })

const ASKS = message(
  [
    block(
      { type: 'tool_use', id: 'toolu_1', name: 'iam_request_access', input: {} },
      {
        type: 'input_json_delta',
        partial_json: JSON.stringify({
          items: [{ permission: 'accounts:read' }],
          reason: 'To look at the accounts',
          wait_seconds: 40,
        }),
      },
    ),
  ],
  'tool_use',
)
const TALKS = message(
  [block({ type: 'text', text: '' }, { type: 'text_delta', text: 'I may read the accounts now.' })],
  'end_turn',
)

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  provider = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    said.push({ key: req.headers['x-api-key']?.toString(), text })
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.end(text.includes('tool_result') ? TALKS : ASKS)
  })
  await new Promise<void>((done) => provider.listen(0, '127.0.0.1', done))
  const { port } = provider.address() as AddressInfo
  ;[lend, browser] = await Promise.all([
    Lend.start({
      ...{ LEND_DATA: 'memory', ANTHROPIC_API_KEY: 'key-of-the-test' },
      ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}/v1`,
    }),
    openBrowser(),
  ])
  maya = await signedIn(browser, lend)
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
  provider?.close()
})
afterEach(() => {
  expect(maya.watch.problems).toEqual([])
})

it('a real model is asked with its key, asks through the same tools, goes on with the answer, and sees no token (I18)', async () => {
  const { page } = maya
  await startSession(lend, page, { task: 'Look at my accounts' })
  await press(card(page, '1 thing'), ALLOW_ONCE)
  await seen(chatOf(page).getByText('I may read the accounts now.'))
  const [first, second] = said
  expect(said.map((one) => one.key)).toEqual(['key-of-the-test', 'key-of-the-test'])
  expect(first?.text).toContain('Look at my accounts')
  expect(first?.text).toContain('iam_request_access')
  expect(second?.text).toContain('allowed_by_user')
  for (const { text } of said) {
    expect(text).not.toMatch(/eyJ[A-Za-z0-9_-]{10,}/)
    expect(text).not.toMatch(/refresh_token|access_token|client_secret/)
  }
})
