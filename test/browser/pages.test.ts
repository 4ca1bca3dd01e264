import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { rules as rulesShape } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { endAll, Lend, type SecondApp } from './support/lend.ts'
import {
  ALLOW_ONCE,
  allowAlways,
  card,
  DENY,
  eventually,
  gone,
  heldCount,
  openWindow,
  press,
  seen,
  settledCards,
  signedIn,
  signIn,
  textOf,
  type Window,
  waitingIn,
} from './support/person.ts'

/** Approvals, one approval by its address, rules, my agents, and what is on every page. */

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
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})
afterEach(() => {
  expect(window.watch.problems).toEqual([])
})

const storedRules = async () =>
  (await (await lend.as('maya')).get('/rules', rulesShape)).items
    .map((one) => `${one.effect} ${one.permission} ${one.template}`)
    .toSorted()

describe('what waits', () => {
  afterEach(() => endAll(lend, 'maya'))

  it('B04, U2 the tab’s title and the badge count what waits, on every page, and go down again', async () => {
    await page.goto(lend.at('/rules'))
    await seen(page.getByText('Live', { exact: true }))
    expect(await waitingIn(page)).toBe(0)
    const [one, two] = [await app.start(), await app.start()]
    await one.ask({ items: [READ] })
    await eventually(() => waitingIn(page), 1)
    await two.ask({ items: [READ] })
    await eventually(() => waitingIn(page), 2)
    const badge = page.getByRole('link', { name: /^Approvals/ })
    await eventually(() => textOf(badge), 'Approvals 2 2 requests waiting')
    await badge.click()
    await press(card(page).first(), DENY)
    await eventually(() => waitingIn(page), 1)
    await press(card(page).first(), ALLOW_ONCE)
    await eventually(() => waitingIn(page), 0)
    await eventually(() => textOf(badge), 'Approvals')
  })

  it('approvals are listed oldest first, each is answered there, and its result stays readable', async () => {
    const [one, two] = [await app.start(), await app.start()]
    await one.ask({ items: [READ], reason: 'The first of two.' })
    await two.ask({ items: [READ], reason: 'The second of two.' })
    await page.goto(lend.at('/approvals'))
    await eventually(() => card(page).count(), 2)
    const quotes = await page.getByRole('blockquote').allTextContents()
    expect(quotes).toEqual(['The first of two.', 'The second of two.'])
    await press(card(page).first(), DENY)
    await eventually(() => card(page).count(), 1)
    await seen(settledCards(page).getByText('you denied it'))
    expect(await page.getByRole('blockquote').allTextContents()).toEqual(['The second of two.'])
    await page.reload()
    await eventually(() => card(page).count(), 1)
    expect(await settledCards(page).count()).toBe(0)
  })

  it('U17, B17 the address that the agent was given leads through the sign-in to that one card', async () => {
    const session = await app.start()
    const asked = await session.ask({ items: [READ] })
    const address = new URL(asked.review_url ?? '')
    expect(address.origin).toBe(lend.url)
    const phone = await openWindow(browser, { viewport: { width: 390, height: 800 } })
    await signIn(lend, phone.page, { at: address.pathname.replace('/t/acme', '') })
    await seen(phone.page.getByRole('heading', { name: 'Renewal assistant needs your answer' }))
    await press(card(phone.page, '1 thing'), ALLOW_ONCE)
    await seen(phone.page.getByText('You can close this page.'))
    // Later the same address tells how it ended, rather than nothing.
    await phone.page.reload()
    await seen(phone.page.getByText('Allowed by you, this session'))
    await phone.page.goto(lend.at('/approvals/req_01a229bd633e7762bd4c6da3a0629ec4'))
    await seen(phone.page.getByText('There is no such request'))
    expect(phone.watch.problems).toEqual([])
    await phone.context.close()
  })

  it('what waits in another session is a line of its own in this one, and leads there', async () => {
    const [here, there] = [await app.start(), await app.start()]
    await page.goto(lend.at(`/sessions/${here.id}`))
    await seen(page.getByText('Live', { exact: true }))
    await there.ask({ items: [READ] })
    const bar = page.getByRole('region', { name: 'Waiting for your answer' })
    await seen(bar.getByText('1 request waiting in another session'))
    await bar.getByRole('link', { name: 'Go there' }).click()
    await page.waitForURL(new RegExp(there.id))
    await seen(card(page, '1 thing'))
  })

  it('answers item by item: each its own, and the server’s result for each is shown', async () => {
    const session = await app.start()
    await session.ask({
      items: [READ, ROWS, { permission: 'email:send', resource: 'domain/customer.example' }],
    })
    await page.goto(lend.at(`/sessions/${session.id}`))
    const asks = card(page, '3 things')
    await press(asks, 'Choose per item')
    const answer = (title: string, choice: string) =>
      asks
        .getByRole('group', { name: `Your answer for ${title}` })
        .getByText(choice)
        .click()
    await answer('Accounts API · Read', 'Allow once')
    await answer('Accounts in my region', 'Always')
    await seen(asks.getByText('Choose for every item.'))
    const send = asks.getByRole('button', { name: 'Send answers' })
    expect(await send.getAttribute('aria-disabled')).toBe('true')
    await answer('Send email to customers', 'Deny')
    await send.click()
    const done = settledCards(page).first()
    await seen(done.getByText('you allowed 2 of 3'))
    await seen(done.getByText('Allowed by you, and a rule saved'))
    const outcomes = await done.locator('.outcome-line').allInnerTexts()
    expect(outcomes.map((one) => one.replace(/\s+|(?=domain)/g, ' ').replace(/ +/g, ' '))).toEqual([
      'Accounts API · Read Allowed by you, this session Why?',
      'Accounts in my region Allowed by you, and a rule saved Why?',
      'Send email to customers domain/customer.example Denied by you Why?',
    ])
    expect(await storedRules()).toEqual(['allow accounts.rows:my_region renewal-briefs'])
    await eventually(() => heldCount(page), 2)
  })
})

describe('rules', () => {
  stepByStep()
  afterAll(() => endAll(lend, 'maya'))

  it('U8, B09 a rule made by Always is listed: its answer, thing, template, age and origin', async () => {
    const session = await app.start()
    await session.ask({ items: [READ] })
    await page.goto(lend.at(`/sessions/${session.id}`))
    await allowAlways(card(page, '1 thing'))
    await settledCards(page).getByRole('link', { name: 'See rules' }).click()
    await seen(page.getByText('They never hold access.'))
    const row = page.getByRole('row').filter({ hasText: 'Accounts API · Read' })
    await seen(row)
    const text = await textOf(row)
    expect(text).toContain('Allow')
    expect(text).toContain('accounts:read')
    expect(text).toContain('renewal-briefs')
    expect(text).toContain('Active')
    expect(text).toMatch(/\d{4}/)
    await row.getByRole('link', { name: 'from this request' }).click()
    await seen(page.getByText('Allowed by you, and a rule saved'))
  })

  it('U8, B09 Delete takes it away at once, and Undo brings the same rule back', async () => {
    await page.goto(lend.at('/rules'))
    const before = await storedRules()
    expect(before).toContain('allow accounts:read renewal-briefs')
    const row = page.getByRole('row').filter({ hasText: 'Accounts API · Read' })
    await press(row, 'Delete the rule for Accounts API · Read')
    await seen(page.getByText('Rule deleted: Accounts API · Read. You will be asked again.'))
    await gone(row)
    expect(await storedRules()).not.toContain('allow accounts:read renewal-briefs')
    await page.getByRole('button', { name: 'Undo', exact: true }).click()
    await seen(page.getByText('The rule is back.'))
    await seen(row)
    expect(await storedRules()).toEqual(before)
  })

  it('I10 a deny rule made by hand refuses without a card; a sensitive item cannot be always allowed', async () => {
    await page.goto(lend.at('/rules'))
    await press(page.getByRole('main'), 'New rule')
    const form = page.getByRole('form', { name: 'New rule' })
    await form.getByLabel('Answer').selectOption({ label: 'Deny without asking' })
    await form.getByLabel('Permission').selectOption({ label: 'Contract pricing' })
    expect(await form.getByRole('option', { name: 'Allow without asking' }).isDisabled()).toBe(true)
    // Nothing that can never be lent is offered.
    expect(await form.getByRole('option', { name: /^Billing/ }).count()).toBe(0)
    await press(form, 'Save rule')
    await seen(page.getByText('Rule saved: Contract pricing.'))
    expect(await storedRules()).toContain('deny contracts.fields:pricing renewal-briefs')
    const session = await app.start()
    const asked = await session.ask({ items: [{ permission: 'contracts.fields:pricing' }] })
    expect(asked.items[0]).toMatchObject({ outcome: 'refused', reason: 'deny_rule' })
    await page.goto(lend.at(`/sessions/${session.id}`))
    await seen(settledCards(page).getByText('Refused by your rule'))
    expect(await waitingIn(page)).toBe(0)
  })

  it('two tabs show the same rules without a reload', async () => {
    const second = await window.context.newPage()
    await second.goto(lend.at('/rules'))
    const row = second.getByRole('row').filter({ hasText: 'Contract pricing' })
    await seen(row)
    await page.goto(lend.at('/rules'))
    await press(page.getByRole('main'), 'Delete the rule for Contract pricing')
    await gone(row)
    await second.close()
  })
})

describe('my agents', () => {
  afterEach(() => endAll(lend, 'maya'))

  it('lists every live session with what it holds; ending one ends that one and its subtree alone', async () => {
    const [one, two] = [
      await app.start({ task: 'The first job' }),
      await app.start({ task: 'The second job' }),
    ]
    for (const session of [one, two]) {
      await session.ask({ items: [ROWS] })
      await page.goto(lend.at(`/sessions/${session.id}`))
      if ((await card(page).count()) > 0) await press(card(page), ALLOW_ONCE)
      await eventually(() => heldCount(page), 1)
    }
    await page.goto(lend.at('/agents'))
    const first = page.locator(`[data-session="${one.id}"]`)
    const second = page.locator(`[data-session="${two.id}"]`)
    await seen(first.getByText('Accounts in my region'))
    await seen(second.getByText('Accounts in my region'))
    await press(first, 'End session')
    const dialog = page.getByRole('dialog')
    await seen(dialog.getByText('It gives back 1 permission'))
    await press(dialog, 'End session')
    await gone(first)
    await seen(second)
    expect(await app.introspect(one.token().access_token)).toBe(false)
    expect(await one.refused()).toBe('invalid_grant')
    expect(await app.introspect(two.token().access_token)).toBe(true)
  })

  it('keeping it ends nothing, and ending all ends every one', async () => {
    const sessions = [await app.start(), await app.start()]
    await page.goto(lend.at('/agents'))
    await press(page.getByRole('main'), 'End all sessions')
    await press(page.getByRole('dialog'), 'Keep it')
    await gone(page.getByRole('dialog'))
    for (const one of sessions) expect(await one.refused()).toBe(null)
    await press(page.getByRole('main'), 'End all sessions')
    await press(page.getByRole('dialog'), 'End all sessions')
    await seen(page.getByText('No agent works for you now'))
    for (const one of sessions) expect(await one.refused()).toBe('invalid_grant')
  })
})
