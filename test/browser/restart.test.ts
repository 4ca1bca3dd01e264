import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { accessRequests } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { Lend } from './support/lend.ts'
import {
  ALLOW_ONCE,
  card,
  chatOf,
  DENY,
  eventually,
  gone,
  heldIn,
  press,
  seen,
  sessionIn,
  settledCards,
  signedIn,
  startSession,
  type Window,
} from './support/person.ts'

/** The server stops and starts again in the middle of a question, under a page that stays open. */

let lend: Lend
let browser: Browser
let window: Window
let page: Page
let data: string

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), 'lend-browser-'))
  ;[lend, browser] = await Promise.all([Lend.start({ LEND_DATA: data }), openBrowser()])
  window = await signedIn(browser, lend)
  page = window.page
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
  rmSync(data, { recursive: true, force: true })
})

const requests = async () => {
  const maya = await lend.as('maya')
  const { items } = await maya.get(`/access-requests?session_id=${sessionIn(page)}`, accessRequests)
  return items.map((one) => `${one.id} ${one.status}`)
}

describe('a restart in the middle of a question', () => {
  stepByStep()
  let before: readonly string[]

  it('the page says that the line is away, and keeps what it shows', async () => {
    await startSession(lend, page)
    await seen(card(page, '3 things'))
    await page.getByRole('textbox', { name: 'Message to the agent' }).fill('half a sentence')
    before = await requests()
    expect(before).toEqual([expect.stringMatching(/pending$/)])
    expect(await lend.stop()).toBe(0)
    await seen(page.getByText('Live updates paused, reconnecting'))
    await seen(card(page, '3 things'))
  })

  it('I19 an answer given while the server is down is not taken, and the card says that', async () => {
    await press(card(page, '3 things'), ALLOW_ONCE)
    const asks = card(page, '3 things')
    await seen(asks.getByText('Your answer was not taken.'))
    await seen(asks.getByText('sending it again does it once at most'))
    expect(await settledCards(page).count()).toBe(0)
  })

  it('when it is back the page goes on by itself: same question, same words being written', async () => {
    await lend.startAgain()
    await gone(page.getByText('Live updates paused, reconnecting'))
    await seen(page.getByText('Live', { exact: true }))
    await seen(card(page, '3 things'))
    expect(await requests()).toEqual(before)
    expect(await page.getByRole('textbox', { name: 'Message to the agent' }).inputValue()).toBe(
      'half a sentence',
    )
    expect(await chatOf(page).getByText('I start with no access.').count()).toBe(1)
  })

  it('nobody has to sign in again, and a reload shows the same', async () => {
    await page.reload()
    await seen(card(page, '3 things'))
    expect(await chatOf(page).getByText('I start with no access.').count()).toBe(1)
    expect(await requests()).toEqual(before)
  })

  it('the answer works and the agent goes on from where it was', async () => {
    await press(card(page, '3 things'), ALLOW_ONCE)
    await eventually(
      () => heldIn(page),
      ['accounts.rows:my_region', 'accounts:read', 'dashboard:view'],
    )
    await seen(card(page, '1 thing').filter({ hasText: 'Email templates · Write' }))
    await seen(chatOf(page).getByText(/^I found \d+ renewals in the next 90 days/))
  })

  it('a second restart, now with the subagent asking, loses nothing either', async () => {
    const templates = card(page, '1 thing').filter({ hasText: 'Email templates · Write' })
    expect(await lend.stop()).toBe(0)
    await lend.startAgain()
    await gone(page.getByText('Live updates paused, reconnecting'))
    await press(templates, ALLOW_ONCE)
    const pricing = card(page, '1 thing').filter({ hasText: 'Contract pricing' })
    await seen(pricing)
    await press(pricing, DENY)
    await seen(chatOf(page).getByText('The renewal briefs are ready.'))
    await seen(chatOf(page).getByText(/One draft is saved as a template\./))
    // It began one subagent, not one more after each start.
    expect(
      await chatOf(page)
        .getByText(/^I found \d+ renewals/)
        .count(),
    ).toBe(1)
    await seen(page.locator('header.chat-head').getByText('Idle'))
  })

  it('no page had a script error or anything that its policy had to stop', () => {
    expect(window.watch.problems).toEqual([])
  })
})

describe('with the server down', () => {
  const main = () => page.getByRole('main')
  const down = () => main().getByText('The server cannot be reached')

  it('what was loaded stays, under a banner; what was not says that it cannot be reached, and comes by itself', async () => {
    await page.goto(lend.at('/sessions'))
    await seen(page.getByRole('textbox', { name: 'Task' }))
    expect(await lend.stop()).toBe(0)
    await seen(page.getByText('Live updates paused, reconnecting'))
    await page.getByRole('link', { name: 'Approvals', exact: true }).click()
    await seen(page.getByRole('heading', { name: 'Approvals' }).or(down()))
    await page.getByRole('link', { name: 'Rules', exact: true }).click()
    await seen(down())
    await seen(main().getByText('Nothing is lost; try again.'))
    await press(main(), 'Try again')
    await seen(down())
    await lend.startAgain()
    await gone(page.getByText('Live updates paused, reconnecting'))
    await seen(main().getByText('No rules'))
    await gone(down())
  })

  it('a part of the page that cannot be fetched says so in its place, and trying again fetches it', async () => {
    const part = '**/assets/rules-*.js'
    await page.route(part, (route) => route.abort())
    await page.goto(lend.at('/rules'))
    await seen(down())
    await seen(page.getByRole('navigation', { name: 'Main' }))
    await page.getByRole('link', { name: 'Approvals', exact: true }).click()
    await seen(page.getByText('Nothing is waiting for you'))
    await page.getByRole('link', { name: 'Rules', exact: true }).click()
    await seen(down())
    await page.unroute(part)
    await press(main(), 'Try again')
    await seen(main().getByText('No rules'))
  })
})
