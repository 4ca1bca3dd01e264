import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { endAll, Lend } from './support/lend.ts'
import {
  ALLOW_ONCE,
  card,
  chatOf,
  DENY,
  eventually,
  heldCount,
  paneOf,
  press,
  seen,
  settledCards,
  signedIn,
  startSession,
  TASK,
  type Window,
} from './support/person.ts'

/** Giving an agent a task, talking to it, stopping it; and what happens to a session that its app does not take up. */

const sessionsShape = z.looseObject({
  items: z.array(z.looseObject({ id: z.string(), status: z.string() })),
})

let lend: Lend
let browser: Browser
let window: Window
let page: Page

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  window = await signedIn(browser, lend)
  page = window.page
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})
afterEach(() => {
  expect(window.watch.problems).toEqual([])
})

describe('starting and talking', () => {
  afterEach(() => endAll(lend, 'maya'))

  it('the task that was started is not left behind in the message box', async () => {
    await startSession(lend, page)
    await page.getByRole('link', { name: 'New session' }).click()
    const box = page.getByRole('textbox', { name: 'Task' })
    await seen(box)
    expect(await box.inputValue()).toBe('')
  })

  it('a task that could not be started is kept, and says why', async () => {
    await page.goto(lend.at('/sessions'))
    await page.getByRole('textbox', { name: 'Task' }).fill(TASK)
    await page.route('**/t/acme/api/sessions', (route) =>
      route.request().method() === 'POST' ? route.abort() : route.continue(),
    )
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await seen(page.getByText('Not started.'))
    expect(await page.getByRole('textbox', { name: 'Task' }).inputValue()).toBe(TASK)
    await page.unroute('**/t/acme/api/sessions')
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.waitForURL(/\/sessions\/ses_/)
    await seen(chatOf(page))
    // Tried twice, begun once.
    const { items } = await (await lend.as('maya')).get('/sessions', sessionsShape)
    expect(items.filter((one) => one.status === 'active')).toHaveLength(1)
  })

  const live = async () =>
    (await (await lend.as('maya')).get('/sessions', sessionsShape)).items.filter(
      (one) => one.status === 'active',
    )
  const start = async () => {
    await page.goto(lend.at('/sessions'))
    await page.getByRole('textbox', { name: 'Task' }).fill(TASK)
    await page.getByRole('button', { name: 'Start', exact: true }).click()
  }
  const RUNS = '**/app/t/acme/api/runs'

  it('a session that the agent’s app refuses is ended again, and the page says so', async () => {
    const body = { code: 'refused', title: 'No', status: 409, detail: 'The app is full.' }
    await page.route(RUNS, (route) => route.fulfill({ status: 409, json: body }))
    await start()
    await seen(page.getByText('Not started. The agent did not take it up'))
    await seen(page.getByText('so the session was ended again. Nothing was lent.'))
    await seen(page.getByText('The app is full.'))
    await page.unroute(RUNS)
    expect(await live()).toEqual([])
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await seen(card(page))
    expect(await live()).toHaveLength(1)
  })

  it('nor does one stay behind when the app’s own sign-in has run out: it is said, and the task waits behind the sign-in', async () => {
    await page.goto(lend.at('/sessions'))
    await page.getByRole('textbox', { name: 'Task' }).fill(TASK)
    await window.context.clearCookies({ name: 'lend_app_acme' })
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await seen(page.getByText('Not started: the agent’s app had signed you out.'))
    await seen(page.getByText('The session was ended again, and your task is kept.'))
    expect(await live()).toEqual([])
    await page.getByRole('link', { name: 'Sign in', exact: true }).click()
    await seen(page.getByRole('textbox', { name: 'Task' }))
    expect(await page.getByRole('textbox', { name: 'Task' }).inputValue()).toBe(TASK)
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await seen(card(page))
    expect(await live()).toHaveLength(1)
  })

  it('one whose start got no answer is handed over again, not made twice', async () => {
    let answer = false
    await page.route(RUNS, async (route) => {
      // It arrives, and only its answer is lost.
      if (!answer) await route.fetch()
      answer = true
      await route.abort()
    })
    await start()
    await seen(page.getByText('Not started.'))
    await page.unroute(RUNS)
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await seen(card(page))
    expect(await live()).toHaveLength(1)
  })

  it('one that nobody has taken up says so, and can be handed over from its own page', async () => {
    await page.route(RUNS, (route) => route.abort())
    await start()
    await seen(page.getByText('Not started.'))
    await page.unroute(RUNS)
    const [left] = await live()
    await page.goto(lend.at(`/sessions/${left?.id}`))
    await seen(page.getByText('The agent has not taken this session up'))
    await press(page.getByRole('main'), 'Hand it over')
    await seen(card(page))
    expect(await live()).toHaveLength(1)
    // The task is still in the box of the page that it was not started from.
    await page.goto(lend.at('/sessions'))
    await page.getByRole('textbox', { name: 'Task' }).fill('')
  })

  const stateOf = () => page.locator('header.chat-head')
  const say = async (text: string) => {
    await page.getByRole('textbox', { name: 'Message to the agent' }).fill(text)
    await page.keyboard.press('Enter')
  }

  it('Stop stops the agent and not the session, and it stays stopped when its question is answered', async () => {
    await startSession(lend, page)
    await seen(card(page))
    await press(page.getByRole('main'), 'Stop')
    await seen(page.getByText(/^Agent stopped\. The session goes on/))
    await seen(stateOf().getByText('Stopped'))
    await seen(paneOf(page).getByText('Live', { exact: true }))
    await press(card(page), DENY)
    await seen(settledCards(page).getByText('you denied it'))
    await page.reload()
    await seen(stateOf().getByText('Stopped'))
    expect(
      await chatOf(page)
        .getByText(/^I could not/)
        .count(),
    ).toBe(0)
  })

  it('what is said to an agent that has just been stopped is done', async () => {
    await startSession(lend, page)
    await seen(card(page))
    await press(page.getByRole('main'), 'Stop')
    await seen(stateOf().getByText('Stopped'))
    await say('Please end it.')
    await seen(chatOf(page).getByText('Please end it.'))
    // It is at work again, so the answer that it waits for takes it on to what was said.
    await press(card(page), DENY)
    await seen(chatOf(page).getByText(/Ended by the agent/))
  })

  it('what is said while the agent is still speaking is done too', async () => {
    const id = await startSession(lend, page)
    await seen(card(page))
    // Sent with the first words of the agent's last answer, which take a while to come.
    await page.evaluate(`(() => {
      const send = () => fetch('/app/t/acme/api/runs/${id}/messages', { method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ text: 'What prices do they pay?' }) })
      new MutationObserver((_, observer) => {
        if (!document.body.textContent.includes('I could not')) return
        observer.disconnect()
        void send()
      }).observe(document.body, { childList: true, subtree: true, characterData: true }) })()`)
    await press(card(page), DENY)
    await seen(chatOf(page).getByText('What prices do they pay?'))
    await seen(card(page, '1 thing').filter({ hasText: 'Contract pricing' }))
  })

  it('asking for prices asks once more, sensitive, and the word end ends the session with everything given back', async () => {
    await startSession(lend, page)
    await press(card(page).first(), DENY)
    await seen(chatOf(page).getByText(/^I could not prepare the briefs\./))
    await seen(stateOf().getByText('Idle'))
    await say('What prices do they pay?')
    const asks = card(page, '1 thing').filter({ hasText: 'Contract pricing' })
    await press(asks, ALLOW_ONCE)
    await press(asks, 'Allow once')
    await seen(chatOf(page).getByText('I may look at prices for this session now.'))
    await seen(stateOf().getByText('Idle'))
    await eventually(() => paneOf(page).locator('li[data-permission]').count(), 1)
    await say('Thank you, end it.')
    await seen(chatOf(page).getByText(/Ended by the agent/))
    await eventually(() => heldCount(page), 0)
  })
})
