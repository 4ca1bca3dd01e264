import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { type AppSession, endAll, Lend } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import { eventually, gone, press, seen, signedIn, textOf, type Window } from './support/person.ts'

/** UX 3.3, U15: several requests answered on one sheet; what is sensitive never is (B15). */

let lend: Lend
let browser: Browser
let window: Window
let page: Page
let sessions: readonly AppSession[]

showFailures(() => ({ browser, lend }))

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }
const MAIL = { permission: 'email:send', resource: 'domain/customer.example' }
const PRICING = { permission: 'contracts.fields:pricing' }

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  const app = await lend.secondApp()
  sessions = [await app.start({ task: 'First' }), await app.start({ task: 'Second' })]
  const [first, second] = sessions
  await first?.ask({ items: [READ, ROWS], reason: 'To list the accounts.' })
  await first?.ask({ items: [MAIL, PRICING], reason: 'To write about the price.' })
  await second?.ask({ items: [READ], reason: 'To count the accounts.' })
  await second?.ask({ items: [MAIL], reason: 'To send one email.' })
  window = await signedIn(browser, lend, { at: '/approvals' })
  page = window.page
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

const sheet = (): Locator => page.getByRole('dialog', { name: 'All that waits for you' })
const rowOf = (who: string): Locator => sheet().locator('tbody').filter({ hasText: who })
const DENY = 'Deny'
const ALLOW = 'Allow once…'

describe('the sheet for several requests', () => {
  stepByStep()

  it('lists everything that waits: who, what, risk, why and how long', async () => {
    await press(page.locator('body'), 'Answer several')
    await eventually(() => sheet().locator('tr[data-permission]').count(), 6)
    const text = await textOf(rowOf('To write about the price.'))
    expect(text).toContain('Renewal assistant Renewal briefs “To write about the price.”')
    expect(text).toMatch(/Send email to customers domain\/customer\.example High risk/)
    expect(text).toMatch(/Contract pricing High risk Sensitive/)
  })

  it('B15 what is sensitive, and what was asked with it, has no box but leads to its card', async () => {
    const sensitive = rowOf('To write about the price.')
    expect(await sensitive.getByRole('checkbox').count()).toBe(0)
    await seen(sensitive.getByRole('link', { name: 'Review' }))
    await sheet().getByRole('checkbox', { name: 'Choose all that are not sensitive' }).check()
    await seen(sheet().getByText('Chosen: 4 items for 2 agents.'))
  })

  it('looks well in both themes and on a phone, and axe finds nothing', async () => {
    for (const theme of THEMES)
      for (const width of [1280, 360]) {
        await page.emulateMedia({ colorScheme: theme })
        await page.setViewportSize({ width, height: 900 })
        await picture(page, `batch-${theme}-${width}`)
        expect(await findingsOf(page), `${theme} ${width}`).toEqual([])
        expect(await wideIn(page), `${theme} ${width}`).toEqual([])
      }
    await page.emulateMedia({ colorScheme: 'light' })
    await page.setViewportSize({ width: 1360, height: 900 })
  })

  it('U1 is offered by the pending bar of any session too, on a phone as well', async () => {
    await page.setViewportSize({ width: 360, height: 740 })
    await page.goto(lend.at(`/sessions/${sessions[0]?.id}`))
    const bar = page.getByRole('region', { name: 'Waiting for your answer' })
    await seen(bar.getByText('2 requests waiting', { exact: true }))
    await seen(bar.getByText('2 requests waiting in other sessions'))
    await picture(page, 'batch-bar-360')
    expect(await wideIn(page)).toEqual([])
    await press(bar, 'Answer several')
    await eventually(() => sheet().locator('tr[data-permission]').count(), 6)
    await page.setViewportSize({ width: 1360, height: 900 })
    await page.goto(lend.at('/approvals'))
    await press(page.locator('body'), 'Answer several')
  })

  it('U5 nothing is chosen to begin with, and pressing then sends nothing', async () => {
    await press(sheet(), 'Close')
    await gone(sheet())
    await press(page.locator('body'), 'Answer several')
    await seen(sheet().getByText('Nothing is chosen.'))
    for (const name of [DENY, ALLOW]) {
      const button = sheet().getByRole('button', { name, exact: true })
      expect(await button.getAttribute('aria-disabled')).toBe('true')
      await button.click({ force: true })
    }
    expect(await sheet().locator('tbody[data-status="pending"]').count()).toBe(4)
  })

  it('allowing says first how much for how many, then each row says what became of it', async () => {
    await rowOf('To list the accounts.').getByRole('checkbox').check()
    await rowOf('To count the accounts.').getByRole('checkbox').check()
    await press(sheet(), ALLOW)
    await seen(
      sheet().getByText('You are allowing 3 items for 2 agents, each in its own session only.'),
    )
    expect(await sheet().locator('tbody[data-status="pending"]').count()).toBe(4)
    await press(sheet(), 'Allow 3 items')
    await eventually(() => sheet().getByText('Allowed by you, this session').count(), 3)
    expect(await sheet().locator('tbody[data-status="settled"]').count()).toBe(2)
    await seen(sheet().getByText('Nothing is chosen.'))
  })

  it('B31 denying takes one press; B14 one that was withdrawn meanwhile says so, and is no error', async () => {
    await rowOf('To send one email.').getByRole('checkbox').check()
    await page.route('**/decision', async (route) => {
      await sessions[1]?.tool('iam.end_session', {}, z.unknown())
      await route.continue()
    })
    await press(sheet(), DENY)
    await seen(rowOf('To send one email.').getByText('Withdrawn'))
    expect(await sheet().getByRole('alert').count()).toBe(0)
    await page.unroute('**/decision')
  })

  it('its Review leads to the card of the sensitive one', async () => {
    await sheet().getByRole('link', { name: 'Review' }).click()
    await page.waitForURL(/\/approvals\/req_/)
    await gone(sheet())
    await seen(page.getByRole('article').getByText('Contract pricing'))
    await endAll(lend, 'maya')
  })

  it('no page had a script error or anything that its policy had to stop', () => {
    expect(window.watch.problems).toEqual([])
  })
})
