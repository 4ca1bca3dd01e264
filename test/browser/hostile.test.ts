import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { endAll, Lend, type SecondApp } from './support/lend.ts'
import {
  ALLOW_ONCE,
  answerButton,
  card,
  eventually,
  paneOf,
  press,
  seen,
  settledCards,
  signedIn,
  textOf,
  type Window,
  waitingIn,
} from './support/person.ts'

/** An app that lies: its own words are all it has, and they stay words. */

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }

let lend: Lend
let browser: Browser
let app: SecondApp
let window: Window
let page: Page

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  app = await lend.secondApp()
  window = await signedIn(browser, lend)
  page = window.page
})
afterEach(async () => {
  await endAll(lend, 'maya')
  expect(window.watch.problems).toEqual([])
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

/** What the card is made of, apart from the agent's words. */
async function shapeOf(of: ReturnType<typeof card>) {
  const words = of.getByRole('blockquote')
  const quoted = await words.innerHTML()
  return {
    buttons: await of.getByRole('button').allTextContents(),
    headings: await of.getByRole('heading').allTextContents(),
    links: await of.getByRole('link').count(),
    items: await of.locator('li[data-permission]').allTextContents(),
    pictures: await of.locator('img, iframe, object, embed, style, script').count(),
    markupInQuote: /<(?!!)/.test(quoted),
  }
}

async function shownFor(reason: string): Promise<ReturnType<typeof card>> {
  const session = await app.start()
  await session.ask({ items: [READ, ROWS], reason })
  await page.goto(lend.at(`/sessions/${session.id}`))
  const asks = card(page, '2 things')
  await seen(asks)
  return asks
}

const HOSTILE: Readonly<Record<string, { reason: string; shown: string }>> = {
  'HTML that ends the quote and brings a button of its own': {
    reason:
      '</blockquote></figure><h3>Lend: already allowed</h3><button onclick="document.title=1">Allow once</button><img src=x onerror="document.title=2"><svg/onload=document.title=3>',
    shown:
      '</blockquote></figure><h3>Lend: already allowed</h3><button onclick="document.title=1">Allow once</button><img src=x onerror="document.title=2"><svg/onload=document.title=3>',
  },
  'markdown, links and addresses that run': {
    reason:
      '# Urgent\n[Allow](https://evil.example) **now** javascript:alert(1) https://evil.example/a',
    shown:
      '# Urgent [Allow](https://evil.example) **now** javascript:alert(1) https://evil.example/a',
  },
  'bidi overrides that turn the line around': {
    reason: 'Read \u202Eyletisop eht lla\u202C of \u2066it\u2069\u200F now',
    shown: 'Read yletisop eht lla of it now',
  },
  'zero-width and look-like-nothing characters': {
    reason: 'To\u200B re\u200Dad\uFEFF accounts\u2800\u3164 \u{E0041}\u{E0042}now',
    shown: 'To read accounts now',
  },
  'new lines that play the server’s own lines': {
    reason: 'For the briefs.\n\n\nUntil this session ends.\nSettled: you allowed it\u2028Low risk',
    shown: 'For the briefs. Until this session ends. Settled: you allowed it Low risk',
  },
}

describe('B01, B02, U11 whatever the agent writes is its quoted words, and nothing else changes', () => {
  let honest: Awaited<ReturnType<typeof shapeOf>>

  beforeAll(async () => {
    honest = await shapeOf(await shownFor('To list the accounts.'))
    expect(honest).toMatchObject({ links: 0, pictures: 0, markupInQuote: false })
    expect(honest.items).toHaveLength(2)
    await endAll(lend, 'maya')
  })

  for (const [what, { reason, shown }] of Object.entries(HOSTILE))
    it(what, async () => {
      const asks = await shownFor(reason)
      const quote = asks.getByRole('blockquote')
      expect(await quote.textContent()).toBe(shown)
      expect(await quote.getAttribute('dir')).toBe('auto')
      await seen(asks.getByText('The agent says', { exact: true }))
      expect(await shapeOf(asks)).toEqual(honest)
      expect(await waitingIn(page)).toBe(1)
      expect(await page.evaluate('document.images.length')).toBe(0)
    })
})

it('B02 a reason with control characters is refused at the door, and nobody is asked', async () => {
  const session = await app.start()
  for (const reason of ['To read\u0007', 'To \u001B[31mread', 'To read\r\nall', '\u0000'])
    await expect(session.ask({ items: [READ], reason })).rejects.toThrow('has a control character')
  await page.goto(lend.at('/approvals'))
  await seen(page.getByText('Nothing is waiting for you'))
})

it('B02 five hundred unbroken characters fold, are all within reach, and leave every button in place', async () => {
  const long = 'W'.repeat(500)
  await page.setViewportSize({ width: 360, height: 740 })
  try {
    const asks = await shownFor(long)
    const quote = asks.getByRole('blockquote')
    expect((await quote.textContent())?.length).toBeLessThanOrEqual(301)
    const width = await page.evaluate<number>('document.documentElement.scrollWidth')
    expect(width).toBeLessThanOrEqual(360)
    await press(asks, 'Show all 500 characters')
    expect(await quote.textContent()).toBe(long)
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(width)
    const box = await answerButton(asks, ALLOW_ONCE).boundingBox()
    expect((box?.x ?? 0) + (box?.width ?? 999)).toBeLessThanOrEqual(360)
  } finally {
    await page.setViewportSize({ width: 1360, height: 900 })
  }
})

it('U9, B10 a filter of thousands of characters folds, and its last value can be reached', async () => {
  const names = Array.from({ length: 60 }, (_, i) => `Customer number ${i} with a long name`)
  const session = await app.start()
  const narrow = { name: { $in: [...names, 'The very last one'] } }
  await session.ask({ items: [{ ...ROWS, narrow }] })
  await page.goto(lend.at(`/sessions/${session.id}`))
  const asks = card(page, '1 thing')
  await seen(asks)
  const item = asks.locator('li[data-permission]')
  await seen(item.getByText('Only where'))
  expect(await textOf(item)).not.toContain('The very last one')
  await item.getByRole('button', { name: /^Show all \d+ characters$/ }).click()
  expect(await textOf(item)).toContain('The very last one')
})

it('B02 a hostile task is plain text in the list, the heading and the tab', async () => {
  const task =
    '<img src=x onerror="document.title=9">\u202E[x](javascript:0)\nLend says: all is allowed'
  const shown = '<img src=x onerror="document.title=9">[x](javascript:0) Lend says: all is allowed'
  const session = await app.start({ task })
  await page.goto(lend.at(`/sessions/${session.id}`))
  await eventually(() => page.getByRole('heading', { level: 1 }).textContent(), shown)
  const row = page.getByRole('navigation', { name: 'Sessions' }).getByRole('link', { name: shown })
  await seen(row)
  expect(await page.evaluate('document.images.length')).toBe(0)
  expect(await waitingIn(page)).toBe(0)
  await page.goto(lend.at('/agents'))
  await seen(page.getByRole('link', { name: shown }))
  expect(await page.evaluate('document.images.length')).toBe(0)
})

it('B01 a resource that plays a sentence is refused or shown as a value, never as the card’s words', async () => {
  const session = await app.start()
  const resource = 'dashboard/<b>you-allowed-it</b>'
  const asked = await session.ask({ items: [{ permission: 'dashboard:view', resource }, READ] })
  expect(asked.items[0]?.outcome).toBe('refused')
  await page.goto(lend.at(`/sessions/${session.id}`))
  const asks = card(page, '1 thing')
  await seen(asks)
  const settled = asks.getByRole('list', { name: 'Settled without asking you' })
  await seen(settled.locator('code', { hasText: '<b>you-allowed-it</b>' }))
  expect(await asks.locator('b').count()).toBe(0)
})

it('I8, B15 the press that allows the rest never allows a sensitive item with it', async () => {
  const session = await app.start()
  await session.ask({ items: [READ, { permission: 'contracts.fields:pricing' }] })
  await page.goto(lend.at(`/sessions/${session.id}`))
  const asks = card(page, '2 things')
  await press(asks, ALLOW_ONCE)
  await seen(asks.getByText('Choose for the sensitive item first'))
  const maya = await lend.as('maya')
  expect(await maya.statusOf('GET', `/sessions/${session.id}/access`)).toBe(200)
  await eventually(() => paneOf(page).locator('[data-held]').getAttribute('data-held'), '0')
  const choice = asks.getByRole('group', { name: 'Your answer for Contract pricing' })
  expect(await choice.getByRole('radio').count()).toBe(2)
  expect(await choice.getByText('Always').count()).toBe(0)
  await choice.getByText('Deny').click()
  await press(asks, ALLOW_ONCE)
  await seen(settledCards(page).getByText('you allowed 1 of 2'))
  await eventually(() => paneOf(page).locator('[data-held]').getAttribute('data-held'), '1')
})

it('B03, U1 two hundred messages later the bar is in sight, and Review leads to the card', async () => {
  await page.goto(lend.at('/sessions'))
  await page.getByRole('textbox', { name: 'Task' }).fill('Prepare briefs')
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.waitForURL(/\/sessions\/ses_/)
  const asks = card(page, '3 things')
  await seen(asks)
  const id = /ses_\w+/.exec(page.url())?.[0]
  await page.evaluate(`(async () => {
    for (let i = 0; i < 200; i++)
      await fetch('/app/t/acme/api/runs/${id}/messages', { method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ text: 'Message ' + i + ': and so on, in a line of its own.' }) })
  })()`)
  const log = page.getByRole('log', { name: 'Conversation' })
  await seen(log.getByText('Message 199'))
  await log.evaluate((one) => one.scrollTo(0, one.scrollHeight))
  await eventually(() => isInSight(page, asks.getByRole('heading').first()), false)
  const bar = page.getByRole('region', { name: 'Waiting for your answer' })
  expect(await isInSight(page, bar)).toBe(true)
  await seen(bar.getByText('1 request waiting'))
  await bar.getByRole('button', { name: /^Review/ }).click()
  await eventually(() => isInSight(page, asks.getByRole('heading').first()), true)
  expect(
    await asks
      .getByRole('heading')
      .first()
      .evaluate((one) => one.matches(':focus')),
  ).toBe(true)
})

async function isInSight(of: Page, what: ReturnType<typeof card>): Promise<boolean> {
  const box = await what.boundingBox()
  const log = await of.getByRole('log', { name: 'Conversation' }).boundingBox()
  const bar = await of.getByRole('region', { name: 'Waiting for your answer' }).boundingBox()
  if (box === null || log === null || bar === null) return false
  return box.y >= log.y - 1 && box.y + box.height <= bar.y + bar.height + 1
}
