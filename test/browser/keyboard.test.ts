import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { accessRequest, accessRequests } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { type AppSession, endAll, Lend, type SecondApp } from './support/lend.ts'
import {
  ALLOW_ONCE,
  ALWAYS,
  answerButton,
  card,
  chatOf,
  DENY,
  eventually,
  gone,
  heldCount,
  nameOf,
  openWindow,
  paneOf,
  seen,
  sessionIn,
  settledCards,
  TASK,
  type Window,
  waitingIn,
} from './support/person.ts'

/** Nothing here uses a mouse, but where it says so. */

let lend: Lend
let browser: Browser
let app: SecondApp

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  app = await lend.secondApp()
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

const TABS_MAX = 80
const isFocused = (what: Locator): Promise<boolean> => what.evaluate((one) => one.matches(':focus'))

/** Goes on with Tab until it is there, as a person does who has only keys. */
async function tabTo(page: Page, what: Locator): Promise<void> {
  await seen(what)
  for (let i = 0; i < TABS_MAX; i++) {
    await page.keyboard.press('Tab')
    if (await isFocused(what)) return
  }
  throw new Error(`Tab does not lead to ${what}`)
}

const enter = async (page: Page, what: Locator): Promise<void> => {
  await tabTo(page, what)
  await page.keyboard.press('Enter')
}

const armed = (button: Locator): Promise<void> =>
  eventually(() => button.getAttribute('aria-disabled'), 'false')

async function statusOf(session: string, login = 'maya'): Promise<readonly string[]> {
  const person = await lend.as(login)
  const { items } = await person.get(`/access-requests?session_id=${session}`, accessRequests)
  return items.map((one) => one.status)
}

describe('journey 2 with keys alone (B26)', () => {
  stepByStep()

  let window: Window
  let page: Page

  it('signing in and starting a session', async () => {
    window = await openWindow(browser)
    page = window.page
    await page.goto(lend.at('/sessions'))
    await enter(page, page.getByRole('link', { name: 'Sign in', exact: true }))
    await enter(page, page.getByRole('button', { name: nameOf('maya') }))
    await tabTo(page, page.getByRole('textbox', { name: 'Task' }))
    await page.keyboard.type(TASK)
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/sessions\/ses_/)
    await seen(card(page, '3 things'))
  })

  it('U18, B18 a card is told to screen readers once, with the key that leads to it', async () => {
    const told = page.locator('[data-announcer="assertive"]')
    await eventually(
      () => told.textContent(),
      'Renewal assistant asks for 3 things. Press Alt+A to review.',
    )
    expect(await told.getAttribute('aria-live')).toBe('assertive')
  })

  it('U3 a fresh card takes the focus from nobody', async () => {
    expect(await isFocused(card(page).getByRole('heading').first())).toBe(false)
    expect(await page.evaluate('document.activeElement.closest("article[data-request]")')).toBe(
      null,
    )
  })

  it('Alt+A goes to the heading of the card, Esc back to the message box, and neither decides', async () => {
    await page.keyboard.press('Alt+a')
    const heading = card(page, '3 things').getByRole('heading').first()
    await eventually(() => isFocused(heading), true)
    await page.keyboard.press('Escape')
    const composer = page.getByRole('textbox', { name: 'Message to the agent' })
    await eventually(() => isFocused(composer), true)
    expect(await statusOf(sessionIn(page))).toEqual(['pending'])
  })

  it('2 opens the rule to be saved, and Enter on its button saves it', async () => {
    await page.keyboard.press('Alt+a')
    await armed(answerButton(card(page, '3 things'), ALWAYS))
    await page.keyboard.press('2')
    const title = page.getByRole('heading', { name: 'These 3 rules will be saved' })
    await seen(title)
    expect(await isFocused(title)).toBe(true)
    expect(await statusOf(sessionIn(page))).toEqual(['pending'])
    const save = page.getByRole('button', { name: 'Save rule and allow' })
    await armed(save)
    await enter(page, save)
    await eventually(() => heldCount(page), 3)
  })

  it('after the answer the focus is at the result, not lost', async () => {
    const result = settledCards(page).getByRole('heading', { name: /you allowed it/ })
    await eventually(() => isFocused(result.first()), true)
  })

  it('1 allows the drafter’s request once', async () => {
    const asks = card(page, '1 thing').filter({ hasText: 'Email templates · Write' })
    await seen(asks)
    await page.keyboard.press('Alt+a')
    await armed(answerButton(asks, ALLOW_ONCE))
    await page.keyboard.press('1')
    await seen(paneOf(page).locator('li[data-permission="email-templates:write"]'))
  })

  it('2 does nothing on a sensitive item, and 3 denies it', async () => {
    const asks = card(page, '1 thing').filter({ hasText: 'Contract pricing' })
    await seen(asks)
    await page.keyboard.press('Alt+a')
    await armed(answerButton(asks, DENY))
    await page.keyboard.press('2')
    expect(await page.getByRole('heading', { name: /will be saved/ }).count()).toBe(0)
    expect(await asks.count()).toBe(1)
    await page.keyboard.press('3')
    await seen(chatOf(page).getByText('The renewal briefs are ready.'))
  })

  it('ending the session, its confirmation included', async () => {
    await enter(page, paneOf(page).getByRole('button', { name: 'End session', exact: true }))
    const dialog = page.getByRole('dialog')
    await seen(dialog)
    // Nothing that ends anything has the first focus.
    const confirm = dialog.getByRole('button', { name: 'End session' })
    expect(await isFocused(confirm)).toBe(false)
    await enter(page, confirm)
    await eventually(() => heldCount(page), 0)
    await window.context.close()
  })
})

// As omar, who has saved no rule.
describe('what is typed or pressed too early decides nothing', () => {
  let window: Window
  let page: Page
  let session: AppSession

  /** A session of another app with one request that waits, on a page whose clock can be stopped. */
  async function begin(of: { readonly stopped: boolean; readonly permission?: string }) {
    await page.clock.resume()
    session = await app.start({ login: 'omar' })
    await page.goto(lend.at(`/sessions/${session.id}`))
    await seen(paneOf(page).getByText('The agent holds nothing.'))
    await seen(page.getByText('Live', { exact: true }))
    if (of.stopped) await page.clock.pauseAt((await page.evaluate<number>('Date.now()')) + 1_000)
    await session.ask({ items: [{ permission: of.permission ?? 'accounts:read' }] })
    const asks = card(page, '1 thing')
    if (of.stopped) await eventually(() => ticksUntilSeen(asks), true)
    else await seen(asks)
    return asks
  }
  // The page gathers events for a moment: the stopped clock has to go on a little until the card is there.
  const ticksUntilSeen = async (what: Locator): Promise<boolean> => {
    if (await what.isVisible()) return true
    await page.clock.runFor(10)
    return what.isVisible()
  }

  beforeAll(async () => {
    window = await openWindow(browser)
    page = window.page
    await page.clock.install()
    await page.goto(lend.at('/sessions'))
    await page.getByRole('link', { name: 'Sign in', exact: true }).click()
    await page.getByRole('button', { name: nameOf('omar') }).click()
    await seen(page.getByRole('link', { name: 'Lend, sessions' }))
  })
  afterAll(() => window?.context.close())
  // What is left waiting would be the oldest for the next test.
  afterEach(() => endAll(lend, 'omar'))

  const pending = () => statusOf(session.id, 'omar')

  it('B06, U4 a tap within 500 ms decides nothing; after it the same tap does', async () => {
    const asks = await begin({ stopped: true })
    const allow = answerButton(asks, ALLOW_ONCE)
    for (const name of [ALLOW_ONCE, DENY, ALWAYS]) {
      expect(await answerButton(asks, name).getAttribute('aria-disabled')).toBe('true')
      await answerButton(asks, name).click({ force: true })
    }
    await page.clock.runFor(400)
    expect(await allow.getAttribute('aria-disabled')).toBe('true')
    await allow.click({ force: true })
    expect(await pending()).toEqual(['pending'])
    await page.clock.runFor(150)
    expect(await allow.getAttribute('aria-disabled')).toBe('false')
    await page.clock.resume()
    await allow.click()
    await eventually(pending, ['settled'])
  })

  it('U3 typing holds the card back for as long as it goes on, at most three seconds', async () => {
    const asks = await begin({ stopped: true })
    const allow = answerButton(asks, ALLOW_ONCE)
    await page.locator('main').focus()
    for (let typed = 0; typed < 2_400; typed += 400) {
      await page.keyboard.press('x')
      await page.clock.runFor(400)
      expect(await allow.getAttribute('aria-disabled')).toBe('true')
    }
    // From here on keys no longer hold it back.
    for (let typed = 0; typed < 800; typed += 400) {
      await page.keyboard.press('x')
      await page.clock.runFor(400)
    }
    expect(await allow.getAttribute('aria-disabled')).toBe('false')
    await page.clock.resume()
    expect(await pending()).toEqual(['pending'])
  })

  it('the second step arms anew, so that a double press does not fall through to it', async () => {
    const asks = await begin({ stopped: true })
    await page.clock.runFor(600)
    await answerButton(asks, ALWAYS).click()
    await page.clock.runFor(20)
    const save = asks.getByRole('button', { name: 'Save rule and allow' })
    expect(await save.getAttribute('aria-disabled')).toBe('true')
    await save.click({ force: true })
    expect(await pending()).toEqual(['pending'])
    await page.clock.runFor(600)
    expect(await save.getAttribute('aria-disabled')).toBe('false')
    await page.clock.resume()
  })

  it('B05, U5 Enter and Space on a fresh card decide nothing: no button has the focus', async () => {
    const asks = await begin({ stopped: false })
    await armed(answerButton(asks, ALLOW_ONCE))
    await page.keyboard.press('Enter')
    await page.keyboard.press('Alt+a')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Space')
    const inCard = asks.locator('button:focus, input:focus')
    expect(await inCard.count()).toBe(0)
    expect(await pending()).toEqual(['pending'])
  })

  it('B05, U3 typing 1, 2, 3 and Enter in the message box decides nothing', async () => {
    const started = page.getByRole('textbox', { name: 'Task' })
    await page.goto(lend.at('/sessions'))
    await started.fill(TASK)
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/sessions\/ses_/)
    const id = sessionIn(page)
    const asks = card(page, '2 things')
    const composer = page.getByRole('textbox', { name: 'Message to the agent' })
    await composer.focus()
    await seen(asks)
    expect(await isFocused(composer)).toBe(true)
    await armed(answerButton(asks, ALLOW_ONCE))
    await page.keyboard.type('1')
    await page.keyboard.press('Shift+Enter')
    await page.keyboard.type('2 3 yes')
    await page.keyboard.press('Enter')
    await eventually(() => composer.inputValue(), '')
    await seen(chatOf(page).getByText('2 3 yes'))
    expect(await statusOf(id, 'omar')).toEqual(['pending'])
  })

  it('U3 keys count only in the card that has the focus, and never with Ctrl, Alt or held down', async () => {
    const asks = await begin({ stopped: false })
    await armed(answerButton(asks, ALLOW_ONCE))
    await page.locator('main').focus()
    for (const key of ['1', '2', '3']) await page.keyboard.press(key)
    await page.keyboard.press('Alt+a')
    for (const key of ['Control+1', 'Alt+3', 'Meta+1']) await page.keyboard.press(key)
    expect(await pending()).toEqual(['pending'])
    await page.keyboard.down('Shift')
    await page.keyboard.up('Shift')
    const held = { key: '1', bubbles: true, cancelable: true, repeat: true }
    await asks.getByRole('heading').first().dispatchEvent('keydown', held)
    expect(await pending()).toEqual(['pending'])
    await page.keyboard.press('1')
    await eventually(pending, ['settled'])
  })

  it('digits typed into the note of a denial are part of the note', async () => {
    const asks = await begin({ stopped: false })
    await asks.getByRole('button', { name: 'Deny with a note…' }).click()
    await asks.getByRole('textbox', { name: /^Note to the agent/ }).fill('')
    await page.keyboard.type('1 or 2, not 3: d i ?')
    expect(await pending()).toEqual(['pending'])
    const deny = asks.getByRole('button', { name: 'Deny', exact: true })
    await armed(deny)
    await deny.click()
    await eventually(pending, ['settled'])
    const omar = await lend.as('omar')
    const [request] = (await omar.get(`/access-requests?session_id=${session.id}`, accessRequests))
      .items
    const whole = await omar.get(`/access-requests/${request?.id}`, accessRequest)
    expect(whole.note).toBe('1 or 2, not 3: d i ?')
  })

  it('D shows details, I the answers item by item, ? the keys; none of them decides', async () => {
    session = await app.start({ login: 'omar' })
    await session.ask({
      items: [{ permission: 'accounts:read' }, { permission: 'accounts.rows:my_region' }],
    })
    await page.goto(lend.at(`/sessions/${session.id}`))
    const asks = card(page, '2 things')
    await seen(asks)
    await page.keyboard.press('Alt+a')
    await page.keyboard.press('d')
    await seen(asks.getByText('At the API gateway, on every call'))
    await page.keyboard.press('Shift+?')
    await seen(asks.getByText('Keys in this card:'))
    await page.keyboard.press('i')
    await seen(asks.getByRole('group', { name: 'Your answer for Accounts API · Read' }))
    expect(await asks.locator('input:checked').count()).toBe(0)
    expect(await pending()).toEqual(['pending'])
  })

  it('Alt+A on another screen leads to the card that has waited longest', async () => {
    const [first, second] = [await app.start({ login: 'omar' }), await app.start({ login: 'omar' })]
    const asked = await first.ask({ items: [{ permission: 'accounts:read' }] })
    await second.ask({ items: [{ permission: 'accounts:read' }] })
    await page.goto(lend.at('/rules'))
    await seen(page.getByRole('heading', { name: 'Rules' }))
    await eventually(() => waitingIn(page), 2)
    await seen(page.getByText('Live', { exact: true }))
    await page.keyboard.press('Alt+a')
    await page.waitForURL(new RegExp(first.id))
    const focused = page.locator('article[data-status="pending"] h3:focus')
    await seen(focused)
    expect(await focused.getAttribute('id')).toBe(`card-${asked.request_id}`)
    await gone(page.getByRole('heading', { name: 'Rules' }))
  })

  it('no page had a script error or anything that its policy had to stop', () => {
    expect(window.watch.problems).toEqual([])
  })
})
